"""What a checkpointer hands out: thread records, snapshots of history, tool executions, pages."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from tenxgraph.core.state.blocks import Text

__all__ = ["Page", "StateSnapshot", "ThreadInfo", "ToolExecution", "ToolStatus"]

T = TypeVar("T")

ToolStatus = Literal["started", "scheduled", "finished", "failed"]


def utc_now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


class ThreadInfo(BaseModel):
    """The record of one thread."""

    thread_id: str
    thread_name: Text | None = None
    user_id: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: datetime = Field(default_factory=utc_now)
    updated_at: datetime = Field(default_factory=utc_now)


class StateSnapshot(BaseModel):
    """One kept version of a thread's state, without the state itself."""

    model_config = ConfigDict(frozen=True)

    thread_id: str
    version: int
    created_at: datetime
    meta: dict[str, Any]


class ToolExecution(BaseModel):
    """One tool call: asked by `message_id`, at `position` among its calls.

    Providers repeat and omit call ids, so `tool_call_id` alone identifies nothing.
    """

    message_id: str = Field(min_length=1, max_length=255)
    position: int = Field(ge=0, le=2**63 - 1)
    tool_call_id: Text | None = None
    tool_name: Text
    args_digest: str = ""
    status: ToolStatus
    result: Any = None
    created_at: AwareDatetime = Field(default_factory=utc_now)
    updated_at: AwareDatetime = Field(default_factory=utc_now)


class Page(list[T], Generic[T]):
    """A list, and the cursor with which the next call goes on behind its last item.

    `cursor` is opaque text; it is `None` where the page is empty.
    """

    def __init__(self, items: Iterable[T] = (), *, cursor: str | None = None) -> None:
        super().__init__(items)
        self.cursor = cursor
