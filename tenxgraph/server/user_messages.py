"""User messages: build the messages of a request, without blocking the event loop."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from tenxgraph.core.state import Message
from tenxgraph.server.problems import BadInputError
from tenxgraph.server.wire import UserMessage

__all__ = ["build_messages"]

# Building so many messages and parts takes about a millisecond. More is built in a worker thread,
# so that the event loop goes on answering other requests.
_FEW = 20

# The Responses API spells its parts in another way than the chat format that is stored here.
_REMEDIES = {
    "input_text": '{"type": "text", "text": "..."}',
    "output_text": '{"type": "text", "text": "..."}',
    "input_image": '{"type": "image_url", "image_url": {"url": "..."}}',
    "input_file": '{"type": "file", "file": {"file_id": "..."}}',
}


async def build_messages(messages: Sequence[UserMessage]) -> list[Message]:
    """Build the messages of a request.

    Raises:
        BadInputError: one of them is not in OpenAI's chat format; names its place.
    """
    parts = sum(len(one.content) for one in messages if isinstance(one.content, list))
    if len(messages) + parts <= _FEW:
        return _build(messages)
    return await run_in_threadpool(_build, messages)


def _build(messages: Sequence[UserMessage]) -> list[Message]:
    return [_message(one, f"body.messages.{place}") for place, one in enumerate(messages)]


def _message(message: UserMessage, place: str) -> Message:
    content = message.content
    for number, part in enumerate(content if isinstance(content, list) else ()):
        _refuse_other_spelling(part, f"{place}.content.{number}")
    given = {"role": message.role, "content": content}
    try:
        return Message.from_openai(given, message_id=message.message_id)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        words = "; ".join(one["msg"] for one in problems)
        raise BadInputError(f"{place}: {words}") from None
    except ValueError as error:
        raise BadInputError(f"{place}: {error}") from None


def _refuse_other_spelling(part: dict[str, Any], place: str) -> None:
    kind = part.get("type")
    remedy = _REMEDIES.get(kind) if isinstance(kind, str) else None
    if remedy is not None:
        raise BadInputError(
            f"{place}: {kind!r} is a part of the Responses API. Send the part of the chat "
            f"format: {remedy}."
        )
