"""How a node's update joins the state: a reducer is annotated on the field it serves."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from tenxgraph.core.state.message import Message

__all__ = ["add_messages", "replace"]

T = TypeVar("T")


def add_messages(
    current: Sequence[Message], update: Message | str | Iterable[Message]
) -> list[Message]:
    """Append messages; one whose `message_id` is there already takes that one's place."""
    if isinstance(update, Message):
        update = (update,)
    elif isinstance(update, str):
        update = (Message.text_message(update),)
    joined = list(current)
    positions: dict[str, int] | None = None
    for message in update:
        if positions is None:
            positions = {known.message_id: i for i, known in enumerate(joined)}
        position = positions.get(message.message_id)
        if position is None:
            positions[message.message_id] = len(joined)
            joined.append(message)
        else:
            joined[position] = message
    return joined


def replace(_current: T, update: T) -> T:
    """Take the update as it is: what a field without a reducer does."""
    return update
