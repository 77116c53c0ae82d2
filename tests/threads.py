"""What the tests of the durable core put into threads, and look for in them."""

from typing import Any, TypeVar

from tenxgraph.core.state import AgentState, Message

Config = dict[str, Any]
T = TypeVar("T")


def config(thread_id: str = "t", **more: Any) -> Config:
    """A config of the one user there is."""
    return {"thread_id": thread_id, "user_id": "u", **more}


def message(text: str) -> Message:
    """A message that has its text as its id."""
    return Message.text_message(text, message_id=text)


def state(*texts: str) -> AgentState:
    """A state with a message of each text in its context."""
    return AgentState(context=[message(text) for text in texts])


def grown(before: AgentState | None, *texts: str) -> AgentState:
    """A state with messages of these texts added to its context."""
    context = [] if before is None else before.context
    return AgentState(context=[*context, *map(message, texts)])


def texts(of: AgentState | None) -> list[str]:
    """The texts of a state's context."""
    return [] if of is None else [one.text() for one in of.context]


def present(read: T | None) -> T:
    """What a read has found, where there must be something."""
    assert read is not None
    return read
