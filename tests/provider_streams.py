"""Streams as servers really send them, each with a public report and the answer that it means."""

from dataclasses import dataclass, field
from typing import Any

STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
CALLED = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


@dataclass(frozen=True)
class Deviation:
    """One way to depart from OpenAI's protocol.

    Attributes:
        name: what the server does.
        source: who has reported it.
        chunks: what it streams.
        message: what it means, as a server would answer that does not stream.
        finish_reason: why the answer ended.
        usage: the token counts that can be read.
    """

    name: str
    source: str
    chunks: list[Any]
    message: dict[str, Any]
    finish_reason: str | None = "stop"
    usage: dict[str, Any] | None = field(default=None)


def delta(_finish_reason: Any = None, **said: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    choice = {"index": 0, "delta": said, "finish_reason": _finish_reason}
    return {"id": "1", "model": "m", "object": "chat.completion.chunk", "choices": [choice]}


def piece(arguments: Any, name: Any = None, **more: Any) -> dict[str, Any]:
    """A piece of a tool call."""
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {**more, "function": function}


def pieces(*calls: dict[str, Any], finish_reason: Any = None) -> dict[str, Any]:
    """A chunk with pieces of tool calls."""
    return delta(finish_reason, tool_calls=list(calls))


def call(call_id: str, name: str, arguments: str, **more: Any) -> dict[str, Any]:
    """A whole tool call."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function, **more}


def text(content: Any) -> dict[str, Any]:
    return {"content": content}


def calls(*whole: dict[str, Any]) -> dict[str, Any]:
    return {"content": None, "tool_calls": list(whole)}


HELLO = [delta(content="Hel"), delta(content="lo")]
TWO = calls(call("a", "get", '{"x":1}'), call("b", "get", '{"x":2}'))
ONE = calls(call("a", "get", '{"x":1}'))
COUNTS = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


def usage(**counts: Any) -> dict[str, Any]:
    """The last chunk, with token counts."""
    return {"id": "1", "model": "m", "choices": [], "usage": counts}


CONTENT = [
    Deviation(
        "a chunk is null",
        "NousResearch/hermes-agent #80822",
        [HELLO[0], None, HELLO[1], STOP],
        text("Hello"),
    ),
    Deviation(
        "`choices` is null",
        "pydantic/pydantic-ai #5165",
        [{"id": "1", "choices": None}, *HELLO, {"choices": None}, STOP],
        text("Hello"),
    ),
    Deviation(
        "`choices` is absent",
        "Mintplex-Labs/anything-llm #5112",
        [{"id": "1", "model": "m"}, *HELLO, STOP],
        text("Hello"),
    ),
    Deviation(
        "the first chunk has filter results and no choices",
        "pydantic/pydantic-ai #164",
        [
            {"choices": [], "model": "", "prompt_filter_results": [{"prompt_index": 0}]},
            *HELLO,
            STOP,
        ],
        text("Hello"),
    ),
    Deviation(
        "`delta` is null",
        "traceloop/openllmetry #853",
        [*HELLO, {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}],
        text("Hello"),
    ),
    Deviation(
        "`delta` is absent",
        "microsoft/essex-toolkit #387",
        [*HELLO, {"choices": [{"index": 0, "finish_reason": "stop"}]}],
        text("Hello"),
    ),
    Deviation(
        "`finish_reason` is empty until the end",
        "ollama/ollama #4357",
        [delta("", content="Hel"), delta("", content="lo"), STOP],
        text("Hello"),
    ),
    Deviation(
        "`finish_reason` is the text null",
        "PowerShell/AIShell #350",
        [delta("null", content="Hel"), delta("null", content="lo"), STOP],
        text("Hello"),
    ),
    Deviation(
        "the reason comes as `finishReason`",
        "jakobdylanc/llmcord #84",
        [*HELLO, {"choices": [{"index": 0, "delta": {}, "finishReason": "stop"}]}],
        text("Hello"),
    ),
    Deviation(
        "there is no finish reason, only the chunk with the counts",
        "anomalyco/opencode #43882",
        [*HELLO, usage(**COUNTS)],
        text("Hello"),
        finish_reason=None,
        usage=COUNTS,
    ),
    Deviation(
        "the last words come with the finish reason",
        "vllm-project/vllm #36944",
        [HELLO[0], delta("length", content="lo")],
        text("Hello"),
        finish_reason="length",
    ),
    Deviation(
        "words come after the finish reason",
        "RayBytes/ChatMock #114",
        [delta("length", content="Hel"), delta("stop", content="lo")],
        text("Hello"),
        finish_reason="length",
    ),
    Deviation(
        "the context window has another reason",
        "docs.rs/mistral-openapi-client (FinishReason)",
        [*HELLO, delta("model_length")],
        text("Hello"),
        finish_reason="length",
    ),
    Deviation(
        "the index of the choice counts the tokens",
        "huggingface/text-generation-inference #1648",
        [
            {"choices": [{"index": 1, "delta": {"content": "Hel"}}]},
            {"choices": [{"index": 2, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
        ],
        text("Hello"),
    ),
    Deviation(
        "role, names and other fields are null in every chunk",
        "sgl-project/sglang #3912",
        [
            delta("", role=None, content="Hel", tool_calls=None),
            delta("", role=None, content="lo", tool_calls=None, function_call=None, audio=None),
            STOP,
        ],
        text("Hello"),
    ),
    Deviation(
        "the content comes as parts, thinking first",
        "BerriAI/litellm #16272",
        [
            delta(content=""),
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Let "}]}]),
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "me."}]}]),
            delta(content=[{"type": "text", "text": "Hel"}]),
            delta(content="lo"),
            STOP,
        ],
        text(
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Let me."}]},
                {"type": "text", "text": "Hello"},
            ]
        ),
    ),
    Deviation(
        "a character is cut in half",
        "Kohaku-Lab/KohakuTerrarium #48",
        [delta(content="Hello \ud83d"), delta(content="\ude00"), STOP],
        text("Hello \U0001f600"),
    ),
    Deviation(
        "there are comments between the chunks",
        "openai/openai-go #227",
        [": OPENROUTER PROCESSING", HELLO[0], ": keep-alive", HELLO[1], STOP],
        text("Hello"),
    ),
]

REASONING = [
    Deviation(
        "thoughts come as `reasoning_content`",
        "sgl-project/sglang #9657",
        [
            delta(content=None, reasoning_content="Hm"),
            delta(content=None, reasoning_content="m."),
            *HELLO,
            STOP,
        ],
        text("Hello") | {"reasoning_content": "Hmm."},
    ),
    Deviation(
        "one signed block comes in pieces of one index",
        "agno-agi/agno #8794",
        [
            delta(reasoning_details=[{"type": "reasoning.text", "text": "Let", "index": 0}]),
            delta(reasoning_details=[{"type": "reasoning.text", "text": " me.", "index": 0}]),
            delta(reasoning_details=[{"type": "reasoning.text", "signature": "Et8", "index": 0}]),
            delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "x", "index": 1}]),
            *HELLO,
            STOP,
        ],
        text("Hello")
        | {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "Let me.", "index": 0, "signature": "Et8"},
                {"type": "reasoning.encrypted", "data": "x", "index": 1},
            ]
        },
    ),
    Deviation(
        "whole details have no index",
        "pailat/adk-llm-bridge #82",
        [
            delta(reasoning_details=[{"type": "reasoning.summary", "summary": "One."}]),
            delta(reasoning_details=[{"type": "reasoning.summary", "summary": "Two."}]),
            *HELLO,
            STOP,
        ],
        text("Hello")
        | {
            "reasoning_details": [
                {"type": "reasoning.summary", "summary": "One."},
                {"type": "reasoning.summary", "summary": "Two."},
            ]
        },
    ),
]

CALLS = [
    Deviation(
        "no index, each call whole",
        "openai/openai-python #2806",
        [pieces(piece('{"x":1}', "get", id="a"), piece('{"x":2}', "get", id="b")), CALLED],
        TWO,
        "tool_calls",
    ),
    Deviation(
        "no index, and later pieces have no id",
        "chatanywhere/GPT_API_free #254",
        [
            pieces(piece("", "get", id="a", type="function")),
            pieces(piece('{"x"')),
            pieces(piece(":1}")),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "every call has the index 0",
        "ollama/ollama #15457",
        [
            pieces(piece('{"x":1}', "get", id="a", index=0)),
            pieces(piece('{"x":2}', "get", id="b", index=0)),
            CALLED,
        ],
        TWO,
        "tool_calls",
    ),
    Deviation(
        "every call has the index 0, in pieces",
        "BerriAI/litellm #21331",
        [
            pieces(piece("", "get", id="a", index=0)),
            pieces(piece('{"x":1}', index=0)),
            pieces(piece("", "get", id="b", index=0)),
            pieces(piece('{"x"', index=0)),
            pieces(piece(":2}", index=0)),
            CALLED,
        ],
        TWO,
        "tool_calls",
    ),
    Deviation(
        "every call has the index 0, and pieces of the first come late",
        "google-deepmind/amplio #3",
        [
            pieces(piece('{"x"', "get", id="a", index=0)),
            pieces(piece('{"x"', "get", id="b", index=0)),
            pieces(piece(":1}", id="a", index=0)),
            pieces(piece(":2}", id="b", index=0)),
            CALLED,
        ],
        TWO,
        "tool_calls",
    ),
    Deviation(
        "the first index is 1",
        "BerriAI/litellm #11407",
        [
            delta(content="", tool_calls=[piece("", "get", id="a", index=1)]),
            pieces(piece('{"x":1}', index=1)),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "the id is in every piece",
        "JetBrains/koog #2052",
        [
            pieces(piece('{"x"', "get", id="a", index=0)),
            pieces(piece(":1}", id="a", index=0)),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "id and name are empty in later pieces",
        "anomalyco/opencode #37841",
        [
            pieces(piece("{", "get", id="a", index=0)),
            pieces(piece('"x":1', "", id="", index=0)),
            pieces(piece("}", "", id="", index=0)),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "id and name are null in later pieces",
        "sgl-project/sglang #35542",
        [
            pieces(piece("", "get", id="a", index=0)),
            pieces({"index": 0, "id": None, "function": {"name": None, "arguments": '{"x":1}'}}),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "the id comes after the name",
        "pipecat-ai/pipecat #4987",
        [
            pieces(piece("", "get", index=0)),
            pieces({"index": 0, "id": "a", "type": "function"}),
            pieces(piece('{"x":1}', index=0)),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "no id at all, and the name in every piece",
        "vllm-project/vllm #18412",
        [
            pieces(piece('{"', "get", index=0)),
            pieces(piece("x", "get", index=0)),
            pieces(piece('":1}', "get", index=0)),
            CALLED,
        ],
        calls(call("", "get", '{"x":1}')),
        "tool_calls",
    ),
    Deviation(
        "the whole name is in every piece",
        "NousResearch/hermes-agent #8259",
        [
            pieces(piece("", "get", id="a", index=0)),
            pieces(piece("", "get", id="a", index=0)),
            pieces(piece('{"x":1}', "get", id="a", index=0)),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "the name comes in pieces",
        "continuedev/continue #5849",
        [
            pieces(piece("", "edit_ex", id="a", index=0)),
            pieces(piece("", "isting_file", index=0)),
            pieces(piece("{}", index=0)),
            CALLED,
        ],
        calls(call("a", "edit_existing_file", "{}")),
        "tool_calls",
    ),
    Deviation(
        "an empty object comes before the arguments",
        "BerriAI/litellm #4537",
        [
            pieces(piece("{}", "get", id="a", index=0)),
            pieces(piece('{"x', index=0)),
            pieces(piece('":1}', index=0)),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "arguments that hold complete objects come in pieces",
        "ogx-ai/ogx #5462",
        [
            pieces({"index": 0, "id": "a", "function": {"name": "put", "arguments": None}}),
            pieces(piece('{"all":[{"x":1}', index=0)),
            pieces(piece(",", index=0)),
            pieces(piece('{"x":2}', index=0)),
            pieces(piece("]}", index=0)),
            CALLED,
        ],
        calls(call("a", "put", '{"all":[{"x":1},{"x":2}]}')),
        "tool_calls",
    ),
    Deviation(
        "complete arguments are sent again",
        "open-webui/open-webui #22235",
        [
            pieces(piece('{"x":1}', "get", id="a", index=0)),
            pieces(piece('{"x":1}', "get", id="a", index=0)),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "two calls have one index and one id",
        "open-webui/open-webui #22235",
        [
            pieces(piece('{"x":1}', "get", id="a", index=0)),
            pieces(piece('{"x":2}', index=0)),
            CALLED,
        ],
        calls(call("a", "get", '{"x":1}'), call("", "get", '{"x":2}')),
        "tool_calls",
    ),
    Deviation(
        "the arguments are an object",
        "NousResearch/hermes-agent #1114",
        [pieces(piece({"x": 1}, "get", id="a", index=0)), CALLED],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "the arguments are null",
        "open-webui/open-webui #24825",
        [pieces(piece(None, "get", id="a", index=0)), CALLED],
        calls(call("a", "get", "")),
        "tool_calls",
    ),
    Deviation(
        "the call comes with the finish reason",
        "jeremychone/rust-genai #199",
        [pieces(piece('{"x":1}', "get", id="a", index=0), finish_reason="tool_calls")],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "the reason is `stop` although tools are called",
        "BerriAI/litellm #35663",
        [pieces(piece('{"x":1}', "get", id="a", index=0)), STOP],
        ONE,
    ),
    Deviation(
        "there are empty calls",
        "BerriAI/litellm #17425",
        [
            pieces({}, {"index": 1, "id": None, "function": None}),
            pieces(piece('{"x":1}', "get", id="a", index=0)),
            CALLED,
        ],
        ONE,
        "tool_calls",
    ),
    Deviation(
        "a signature comes beside the function",
        "earendil-works/pi #6733",
        [
            pieces(
                piece(
                    '{"x":1}', "get", id="a", extra_content={"google": {"thought_signature": "S"}}
                )
            ),
            CALLED,
        ],
        calls(
            call("a", "get", '{"x":1}', extra_content={"google": {"thought_signature": "S"}}),
        ),
        "tool_calls",
    ),
    Deviation(
        "the call is a `function_call` of old",
        "simonw/llm #294",
        [
            delta(function_call={"name": "get", "arguments": ""}),
            delta(function_call={"arguments": '{"x"'}),
            delta(function_call={"arguments": ":1}"}),
            delta("function_call"),
        ],
        {"content": None, "function_call": {"name": "get", "arguments": '{"x":1}'}},
        "function_call",
    ),
]

COUNTED = [
    Deviation(
        "counts are null",
        "livekit/agents #6596",
        [*HELLO, STOP, usage(prompt_tokens=5, completion_tokens=None, total_tokens=None)],
        text("Hello"),
        usage={"prompt_tokens": 5, "total_tokens": 5},
    ),
    Deviation(
        "counts are absent until the last chunk",
        "vercel/ai #2763",
        [
            {**HELLO[0], "usage": {"prompt_tokens": 5, "total_tokens": 5}},
            HELLO[1],
            STOP,
            usage(**COUNTS),
        ],
        text("Hello"),
        usage=COUNTS,
    ),
    Deviation(
        "every chunk has the counts so far",
        "InsForge/InsForge #2015",
        [
            {**HELLO[0], "usage": {**COUNTS, "completion_tokens": 1, "total_tokens": 6}},
            {**HELLO[1], "usage": {**COUNTS, "completion_tokens": 3, "total_tokens": 8}},
            {**STOP, "usage": COUNTS},
        ],
        text("Hello"),
        usage=COUNTS,
    ),
    Deviation(
        "the chunk with the counts has a choice",
        "ARahim3/mlx-dspark #37",
        [*HELLO, STOP, {"choices": [{"index": 0, "delta": {}}], "usage": COUNTS}],
        text("Hello"),
        usage=COUNTS,
    ),
    Deviation(
        "counts are fractions, texts or negative, and details are null",
        "philschmid/easyllm #42",
        [
            *HELLO,
            STOP,
            usage(
                prompt_tokens=5.5,
                completion_tokens="7",
                total_tokens=-1,
                completion_tokens_details=None,
            ),
        ],
        text("Hello"),
        usage=COUNTS,
    ),
    Deviation(
        "`usage` is no object",
        "vercel/ai #2543",
        [*HELLO, {**STOP, "usage": "none"}],
        text("Hello"),
    ),
]

DEVIATIONS = [*CONTENT, *REASONING, *CALLS, *COUNTED]
