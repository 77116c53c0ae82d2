"""Tools that return images: kept in the thread, and sent to the model in a way that it takes."""

from typing import Any

import pytest
from backends import Backend
from graphs import also_behind_redis, config

from tenxgraph.core.state import AudioBlock, DocumentBlock, ImageBlock, Message, TextBlock, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.testing import ScriptedModel

IMAGE = ImageBlock(data=b"\x89PNG\xff", media_type="image/png")
FILE = DocumentBlock(data=b"%PDF", media_type="application/pdf", name="a.pdf")
SOUND = AudioBlock(data=b"RIFF", media_type="audio/wav")

RESULTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "a message": (
        Message(role="user", content=(TextBlock(text="Look:"), IMAGE)),
        (TextBlock(text="Look:"), IMAGE),
    ),
    "a message of a tool's": (Message.tool_message([IMAGE]), (IMAGE,)),
    "blocks": ([TextBlock(text="Look:"), IMAGE, FILE], (TextBlock(text="Look:"), IMAGE, FILE)),
    "one block": (SOUND, (SOUND,)),
}


@also_behind_redis
@pytest.mark.parametrize(("returned", "kept"), RESULTS.values(), ids=RESULTS.keys())
async def test_an_image_of_a_tool_is_kept_and_reaches_the_model(
    backend: Backend, returned: Any, kept: tuple[Any, ...]
) -> None:
    def look() -> Any:
        """Look."""
        return returned

    model = ScriptedModel([ToolCall(id="c1", name="look"), "A cat.", "Still a cat."])
    app = ReactAgent(model, [look]).compile(checkpointer=backend.make())
    await app.ainvoke("What is it?", config())
    await app.ainvoke("And now?", config())
    for request in model.requests[1:]:
        _, _, result, shown, *_ = [one.to_openai() for one in request.messages]
        assert result["role"] == "tool"
        assert result["content"].count("[") == sum(not isinstance(b, TextBlock) for b in kept)
        assert shown["role"] == "user"
        assert shown["content"][0] == {"type": "text", "text": "From the result of c1:"}
        media = Message.from_openai({"role": "user", "content": shown["content"][1:]})
        assert media.content == tuple(b for b in kept if not isinstance(b, TextBlock))
    state = await backend.make().aget_state(config())
    assert state is not None
    assert [one.role for one in state.context] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert state.context[2].content == kept
    rows = await backend.make().alist_tool_results(config(), "finished")
    assert [tuple(row.result["output"]) for row in rows] == [kept]


async def test_text_of_a_tool_in_a_message_is_its_result() -> None:
    def look() -> Message:
        """Look."""
        return Message.text_message("A cat.")

    model = ScriptedModel([ToolCall(id="c1", name="look"), "done"])
    result = await ReactAgent(model, [look]).compile().ainvoke("go", config())
    assert [one.text() for one in result["messages"]] == ["", "A cat.", "done"]
    assert [one.role for one in model.requests[1].messages] == ["user", "assistant", "tool"]
