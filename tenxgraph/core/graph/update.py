"""How what a node returns joins the state. The old state is left as it was."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state import AgentState, Message, add_messages
from tenxgraph.core.state.agent_state import StateT

__all__ = ["Joined", "as_messages", "join"]


# `messages` is what inputs and outputs call the context, so a node may call it that, too.
_CONTEXT_NAMES = ("context", "messages")


class Joined(NamedTuple):
    """A new state, and the messages that it has and the old one had not."""

    state: Any
    messages: list[Message]


def join(state: StateT, update: Any) -> Joined:
    """The state after an update.

    Args:
        state: as it was.
        update: a message, a string (the assistant's words), a list of these, a dict of state
            fields, a whole state, or `None`.

    Raises:
        GraphError: it is none of these, names a field that the state has not, or does not fit one.
    """
    if update is None:
        return Joined(state, [])
    if isinstance(update, AgentState):
        return _replaced(state, update)
    if isinstance(update, Mapping):
        return _with_fields(state, update)
    if isinstance(update, str | Message | list | tuple):
        return _with_messages(state, as_messages(update, role="assistant"))
    message = (
        f"{type(update).__name__} is no update: return a message, a string, a list of these, a "
        "dict of state fields, a state, a Command or None."
    )
    raise GraphError(message)


def as_messages(value: Any, role: Any) -> list[Message]:
    """Messages from one or several, strings and OpenAI dicts among them.

    Raises:
        GraphError: something in it is no message.
    """
    if isinstance(value, str | Message) or (isinstance(value, Mapping) and "role" in value):
        value = (value,)
    if not isinstance(value, Iterable):
        raise GraphError(f"{type(value).__name__} is no list of messages.")
    return [_as_message(one, role) for one in value]


def _as_message(value: Any, role: Any) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        return Message.text_message(value, role=role)
    if isinstance(value, Mapping) and "role" in value:
        return Message.from_openai(value)
    message = f"{type(value).__name__} is no message: use Message, a string or an OpenAI dict."
    raise GraphError(message)


def _with_messages(state: StateT, messages: list[Message]) -> Joined:
    context = add_messages(state.context, messages)
    # The context is known to be one of messages: checking thousands again costs, and says nothing.
    return Joined(state.model_copy(update={"context": context}), messages)


def _with_fields(state: StateT, fields: Mapping[str, Any]) -> Joined:
    declared = type(state).model_fields
    joined = state.model_copy()
    added: list[Message] = []
    for name, value in fields.items():
        if name in _CONTEXT_NAMES:
            joined, added = _with_messages(joined, as_messages(value, role="assistant"))
            continue
        if name not in declared:
            known = ", ".join(declared)
            raise GraphError(f"The state has no field {name!r}. It has: {known}.")
        reducer = _reducer(type(state), name)
        if reducer is not None:
            value = _reduced(reducer, name, getattr(joined, name), value)
        _assign(joined, name, value)
    return Joined(joined, added)


def _replaced(state: StateT, new: AgentState) -> Joined:
    if not isinstance(new, type(state)):
        raise GraphError(f"{type(new).__name__} is not the graph's {type(state).__name__}.")
    known = {message.message_id: message for message in state.context}
    added = [m for m in new.context if known.get(m.message_id) is not m]
    return Joined(new, added)


def _reducer(kind: type[AgentState], name: str) -> Callable[[Any, Any], Any] | None:
    """The function annotated on a field, which joins its old value and an update."""
    return next((note for note in kind.model_fields[name].metadata if callable(note)), None)


def _reduced(reducer: Callable[[Any, Any], Any], name: str, old: Any, update: Any) -> Any:
    try:
        return reducer(old, update)
    except Exception as error:  # a reducer is the user's own code, and may raise anything
        problem = f"{type(error).__name__}: {error}"
        raise GraphError(f"The reducer of `{name}` failed on {update!r}: {problem}") from error


def _assign(state: AgentState, name: str, value: Any) -> None:
    try:
        setattr(state, name, value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise GraphError(f"`{name}` cannot become {value!r}: {problem}") from error
