"""The rows of an export, checked: none may make a thread that cannot be read."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, StrictBool

from tenxgraph.core.exceptions import SerializationError, UnknownTypeError
from tenxgraph.core.state import AgentState
from tenxgraph.core.state.blocks import Text
from tenxgraph.core.state.codec import to_text
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.storage import stored_state
from tenxgraph.storage.backend import Archive
from tenxgraph.storage.records import ToolStatus

__all__ = ["check", "check_references", "read"]

_codec = StateCodec(AgentState)

_Number = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
_Ordinal = Annotated[int, Field(strict=True, ge=1, le=2**63 - 1)]
_MessageId = Annotated[str, Field(min_length=1, max_length=255)]
_Object = Annotated[dict[str, Any], AfterValidator(to_text)]
"""A JSON object in the line, its text in the row."""


def _message_text(document: dict[str, Any]) -> str:
    text = to_text(document)
    try:
        _codec.messages([text])
    except UnknownTypeError:
        pass  # the thread may be read by a process in which the type is registered
    except SerializationError as error:
        raise ValueError(str(error)) from error
    return text


def _state_text(document: dict[str, Any]) -> str:
    context = document.pop("context")
    return stored_state.document(to_text(document), context)


class _Thread(BaseModel):
    rows: dict[str, _Number]
    thread_id: str
    thread_name: Text | None = None
    meta: dict[str, Any]
    version: _Number
    last_seq: _Number
    stop_requested: StrictBool
    created_at: AwareDatetime
    updated_at: AwareDatetime


class _Message(BaseModel):
    seq: _Ordinal
    message_id: _MessageId
    role: str
    tool_call_id: Text | None = None
    data: Annotated[dict[str, Any], AfterValidator(_message_text)]
    replaced_by: _Ordinal | None = None
    position: _Ordinal
    total_tokens: Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)] | None = None
    created_at: AwareDatetime


class _State(BaseModel):
    version: _Ordinal
    state_data: Annotated[dict[str, Any], AfterValidator(_state_text)]
    base_seq: _Number
    meta: _Object
    write_id: UUID
    created_at: AwareDatetime


class _ToolExecution(BaseModel):
    message_id: _MessageId
    position: _Number
    tool_call_id: Text | None = None
    tool_name: Text
    args_digest: str
    status: ToolStatus
    result: Annotated[Any, AfterValidator(lambda v: None if v is None else to_text(v))] = None
    created_at: AwareDatetime
    updated_at: AwareDatetime


_ROWS: dict[str, type[BaseModel]] = {
    "thread": _Thread,
    "message": _Message,
    "state": _State,
    "tool_execution": _ToolExecution,
}


def read(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    """A row from its line. What belonged to the thread as it was, its owner say, is left out.

    Raises:
        KeyError: there is no such kind of row.
        ValueError: it is no row of that kind.
    """
    return dict(_ROWS[kind].model_validate(document))


def check(archive: Archive) -> None:
    """See that the rows fit each other, and make the counters of the thread fit them.

    Raises:
        SerializationError: a row is there twice, or a state refers to what cannot be there.
    """
    thread = archive.thread
    _once("message", (row["seq"] for row in archive.messages))
    live = [row["message_id"] for row in archive.messages if row["replaced_by"] is None]
    _once("message_id", live)
    _once("version", (row["version"] for row in archive.states))
    _once("tool execution", ((r["message_id"], r["position"]) for r in archive.tool_executions))
    thread["last_seq"] = max([thread["last_seq"], *(row["seq"] for row in archive.messages)])
    thread["version"] = max([thread["version"], *(row["version"] for row in archive.states)])
    for row in archive.states:
        check_references(row, thread["last_seq"])


def check_references(state: Mapping[str, Any], last_seq: int) -> None:
    """Raise `SerializationError` if a state refers to messages that its thread never had."""
    context, _ = stored_state.split(state["state_data"])
    for first, last in stored_state.absolute(context, state["base_seq"]):
        if not 0 < first <= last <= last_seq:
            message = (
                f"State {state['version']} refers to messages {first} to {last}; "
                f"the thread has {last_seq}."
            )
            raise SerializationError(message)


def _once(name: str, keys: Iterable[Any]) -> None:
    seen = set()
    for key in keys:
        if key in seen:
            message = f"The export has the {name} {key!r} twice."
            raise SerializationError(message)
        seen.add(key)
