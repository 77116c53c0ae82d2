"""Streams of servers that deviate from OpenAI's protocol, through the real client."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from graphs import config
from provider_streams import DEVIATIONS, HELLO, STOP, Deviation, delta, piece, pieces, text, usage

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.openai_model import OpenAIModel
from tenxgraph.core.state import Message, TokenUsages
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import OpenAIServer, VerbatimAnswer, VerbatimStream

HI = [Message.text_message("hi")]


# A client costs a quarter of a second, so that all tests share two.
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Asked:
    """A server, and the models that ask it."""

    def __init__(self, server: OpenAIServer) -> None:
        self.server = server
        self.models: dict[str, OpenAIModel] = {}

    async def __call__(
        self, answer: Any, *, stream: bool = True, **options: Any
    ) -> tuple[Message, list[str]]:
        """The message that comes of an answer, and the words that were told on the way."""
        self.server.add_answers(answer)
        tokens: list[str] = []
        key = f"{stream} {options}"
        if key not in self.models:
            self.models[key] = self.model(stream=stream, **options)
        return await self.models[key].answer(HI, [], tokens.append), tokens

    def model(self, **options: Any) -> OpenAIModel:
        """A model that asks the server."""
        return OpenAIModel("m", base_url=self.server.base_url, api_key="k", **options)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asked() -> AsyncIterator[Asked]:
    with OpenAIServer() as server:
        asked = Asked(server)
        yield asked
        for model in asked.models.values():
            await model.aclose()


def same(message: Message) -> dict[str, Any]:
    """What two messages have in common that say the same."""
    return message.model_dump(exclude={"message_id", "timestamp"})


def whole(message: Any, finish_reason: Any = "stop", usage: Any = None) -> VerbatimAnswer:
    """An answer that is no stream."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return VerbatimAnswer({"id": "1", "model": "m", "choices": [choice], "usage": usage})


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda one: one.name)
async def test_deviating_stream_gives_the_answer_that_it_means(
    asked: Asked, deviation: Deviation
) -> None:
    message, tokens = await asked(VerbatimStream(deviation.chunks))
    answer = whole(deviation.message, deviation.finish_reason, deviation.usage)
    expected, _ = await asked(answer, stream=False)
    assert same(message) == same(expected)
    said = deviation.message["content"]
    words = said if isinstance(said, str) else "".join(part.get("text", "") for part in said or ())
    assert "".join(tokens) == words
    assert all(text.isprintable() for text in tokens), "no half of a character is told"
    counts = TokenUsages(**deviation.usage) if deviation.usage else None
    assert message.usages == counts
    assert message.metadata["finish_reason"] == deviation.finish_reason


WHOLE: list[dict[str, Any]] = [
    {"content": "Hello", "refusal": None, "annotations": [], "function_call": None},
    {"content": None, "refusal": "I cannot."},
    {"content": ""},
    {"content": "Hi", "reasoning": "Hm.", "reasoning_details": [{"type": "x", "index": 0}]},
    {"content": None, "audio": {"id": "a", "data": "AA==", "transcript": "hi", "expires_at": 1}},
    {"content": "See.", "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
    {"content": [{"type": "text", "text": "one part"}]},
    {"content": None, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
    {"content": "x", "vendor": {"trace": ["a", "a"], "score": 0.5, "flag": False}},
]


@pytest.mark.parametrize("message", WHOLE, ids=json.dumps)
async def test_stream_and_whole_answer_give_equal_messages(
    asked: Asked, message: dict[str, Any]
) -> None:
    calls = [{"index": 0, **one} for one in message.get("tool_calls", ())]
    said = message | ({"tool_calls": calls} if calls else {})
    in_one, _ = await asked(VerbatimStream([delta(role="assistant", **said), STOP]))
    in_parts = [delta(**{key: value}) for key, value in said.items()]
    in_many, _ = await asked(VerbatimStream([*in_parts, STOP]))
    expected, _ = await asked(whole({"role": "assistant", **message}), stream=False)
    assert same(in_one) == same(in_many) == same(expected)


ERROR = {"code": 502, "message": "Upstream died", "metadata": {"provider_name": "Nvidia"}}


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([HELLO[0], {"error": ERROR, "choices": []}], "Upstream died; code 502; Nvidia"),
        ([HELLO[0], {"choices": [{"index": 0, "delta": {}, "error": ERROR}]}], "Upstream died"),
        ([HELLO[0], {"error": "overloaded"}], "overloaded|error occurred"),
        ([delta("error")], "failed while it answered .`error`"),
        ([*HELLO, delta("insufficient_system_resource")], "insufficient_system_resource"),
        ([delta("content_filter", content="")], "withheld by the content filter"),
        ([delta("length", reasoning_content="Hm"), usage(completion_tokens=9)], "after 9 tokens"),
        ([delta("length", content=None)], "before its first word"),
    ],
)
async def test_failed_answer_is_no_answer(asked: Asked, events: list[Any], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        await asked(VerbatimStream(events))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": ERROR}, "Upstream died; code 502; Nvidia"),
        ({"choices": None}, "gave no answer"),
        ({"choices": []}, "gave no answer"),
        ({"choices": [{"index": 0, "message": None}]}, "gave no answer"),
        ("sorry", "gave no answer"),
        (None, "gave no answer"),
        (
            {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]},
            "withheld",
        ),
        ({"choices": [{"message": {}, "finish_reason": "length"}]}, "before its first word"),
        ({"choices": [{"message": {"content": "x"}, "error": ERROR}]}, "Upstream died"),
    ],
)
async def test_failed_whole_answer_is_no_answer(asked: Asked, body: Any, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        await asked(VerbatimAnswer(body), stream=False)


@pytest.mark.parametrize("is_done", [True, False])
async def test_stream_without_an_end_is_refused_with_the_remedy(
    asked: Asked, is_done: bool
) -> None:
    with pytest.raises(GraphError, match=r"broke off.*`stream=False`"):
        await asked(VerbatimStream(HELLO, is_done))


async def test_answer_that_was_cut_after_words_is_kept_as_cut(asked: Asked) -> None:
    for reason in ("length", "content_filter"):
        message, _ = await asked(VerbatimStream([*HELLO, delta(reason)]))
        assert (message.text(), message.metadata["finish_reason"]) == ("Hello", reason)


async def test_of_several_choices_the_one_of_index_zero_counts(asked: Asked) -> None:
    def choices(*said: tuple[int, str]) -> dict[str, Any]:
        return {"choices": [{"index": i, "delta": {"content": text}} for i, text in said]}

    events = [choices((1, "No")), choices((1, "!"), (0, "Yes")), choices((0, "!")), STOP]
    message, tokens = await asked(VerbatimStream(events), n=2)
    assert (message.text(), tokens) == ("Yes!", ["Yes", "!"])
    both = [{"index": i, "message": text(word)} for i, word in ((1, "No"), (0, "Yes"))]
    message, _ = await asked(VerbatimAnswer({"choices": both}), stream=False, n=2)
    assert message.text() == "Yes"


async def test_parallel_calls_in_pieces_that_alternate(asked: Asked) -> None:
    events = [
        pieces(piece("", "f", index=0, id="a"), piece('{"y"', "g", index=1, id="b")),
        pieces(piece(": 2}", index=1), piece('{"x": 1}', index=0)),
        delta("tool_calls"),
    ]
    message, _ = await asked(VerbatimStream(events))
    assert [(one.id, one.name, dict(one.args)) for one in message.tool_calls] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"y": 2}),
    ]


async def test_named_keys_are_left_out_of_what_is_sent(asked: Asked) -> None:
    refused = Message.from_openai({"role": "assistant", "content": "x", "refusal": "no"})
    for omit in (("refusal",), "refusal", ()):
        asked.server.add_answers("ok")
        model = asked.model(omit=omit)
        await model.answer([*HI, refused], [], lambda _: None)
        await model.aclose()
        assert ("refusal" in asked.server.requests[-1].body["messages"][1]) is not bool(omit)
    with pytest.raises(GraphError, match="`omit` must not name 'content'"):
        OpenAIModel("m", omit=["content"])


async def test_agent_of_a_deviating_server_runs_its_tools(asked: Asked) -> None:
    def get(x: int) -> int:
        """Get a number.

        Args:
            x: Which.
        """
        return x + 1

    both = [piece('{"x":1}', "get", index=0, id=""), piece({"x": 2}, "get", index=0, id="")]
    asked.server.add_answers(VerbatimStream([*map(pieces, both), STOP]), "done")
    agent = ReactAgent("m", [get], base_url=asked.server.base_url, api_key="k")
    async with agent.compile() as app:
        result = await app.ainvoke("hi", config())
    assert [one.text() for one in result["messages"]] == ["", "2", "3", "done"]


COUNTS_FIRST = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 0}}


@pytest.mark.parametrize("sent", [HELLO[:1], [pieces(piece("", "pay"))], []], ids=str)
@pytest.mark.parametrize("is_done", [False, True])
async def test_counts_before_the_first_choice_end_no_answer(
    asked: Asked, sent: list[Any], is_done: bool
) -> None:
    with pytest.raises(GraphError, match="broke off"):
        await asked(VerbatimStream([COUNTS_FIRST, *sent], is_done=is_done))


@pytest.mark.parametrize("reason", ["abort", "timeout", "MALFORMED_FUNCTION_CALL", None])
@pytest.mark.parametrize("content", ["", None, [{"type": "text", "text": ""}]])
async def test_an_answer_that_ends_before_its_first_word_is_none(
    asked: Asked, reason: str | None, content: Any
) -> None:
    with pytest.raises(GraphError, match="before its first word"):
        await asked(whole({"content": content}, reason), stream=False)


@pytest.mark.parametrize("stream", [False, True])
async def test_what_json_cannot_hold_makes_no_later_turn_fail(asked: Asked, stream: bool) -> None:
    odd = {"content": "hi", "score": float("nan"), "details": [float("inf")]}
    answer = VerbatimStream([delta(**odd), STOP]) if stream else whole(odd)
    message, _ = await asked(answer, stream=stream)
    asked.server.add_answers("ok")
    model = asked.model()
    await model.answer([*HI, message, *HI], [], lambda _: None)
    await model.aclose()
    said = asked.server.requests[-1].body["messages"][1]
    assert (said["content"], said["score"], said["details"]) == ("hi", None, [None])
