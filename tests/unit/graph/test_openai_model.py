"""Streams as servers send them: in pieces, with oddities, and sometimes not to the end."""

from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.openai_model import OpenAIModel, _Pieces
from tenxgraph.core.state import Message


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> Any:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return ChatCompletionChunk.model_validate(
        {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": choices,
            **more,
        }
    )


def put_together(*chunks: Any) -> tuple[Message, list[str]]:
    tokens: list[str] = []
    pieces = _Pieces(tokens.append)
    for one in chunks:
        pieces.add(one)
    return pieces.message(OpenAIModel("m")), tokens


def call_piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    call_id, name = more.get("id"), more.get("name")
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": call_id, "function": function}]}


def test_words_and_usage() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "total_tokens": 12,
        "completion_tokens_details": {"reasoning_tokens": 3},
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    message, tokens = put_together(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        chunk(None, usage=usage),
    )
    assert (message.text(), tokens) == ("Hello", ["Hel", "lo"])
    assert message.usages is not None
    assert message.usages.model_dump() == {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "total_tokens": 12,
        "reasoning_tokens": 3,
        "cached_tokens": 4,
    }
    assert message.metadata == {"model": "m", "finish_reason": "stop"}


def test_parallel_calls_in_pieces() -> None:
    message, _ = put_together(
        chunk(call_piece(0, "", id="a", name="f")),
        chunk(call_piece(1, '{"y"', id="b", name="g")),
        chunk(call_piece(0, '{"x": 1}')),
        chunk(call_piece(1, ": 2}")),
        chunk({}, "tool_calls"),
    )
    assert [(one.id, one.name, dict(one.args)) for one in message.tool_calls] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"y": 2}),
    ]
    assert message.content == ()


def test_servers_that_number_every_call_zero() -> None:
    message, _ = put_together(
        chunk(call_piece(0, "{}", id="a", name="f")),
        chunk(call_piece(0, '{"x": 1}', id="b", name="f")),
        chunk({}, "tool_calls"),
    )
    assert [(one.id, dict(one.args)) for one in message.tool_calls] == [("a", {}), ("b", {"x": 1})]


def test_refusals_and_thoughts_are_kept() -> None:
    message, _ = put_together(
        chunk({"reasoning_content": "Hm"}),
        chunk({"reasoning_content": "m."}),
        chunk({"refusal": "I can"}),
        chunk({"refusal": "not."}, "stop"),
    )
    assert message.reasoning == "Hmm."
    assert message.raw == {"refusal": "I cannot."}
    assert message.usages is None


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    with pytest.raises(GraphError, match=r"OpenAIModel\('m'\) broke off"):
        put_together(chunk({"content": "Half an"}))
