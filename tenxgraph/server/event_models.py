"""Events of a stream, as the OpenAPI document describes them."""

from typing import Any

from pydantic import BaseModel

from tenxgraph.core.state import Interrupt, Message
from tenxgraph.server.problems import Problem

__all__ = ["EVENTS"]


class StartEvent(BaseModel):
    """The run begins."""

    thread_id: str
    run_id: str


class TokenEvent(BaseModel):
    """A piece of a model's answer."""

    node: str | None
    text: str


class MessageEvent(BaseModel):
    """The run has added a message; `node` is null where a request was repeated."""

    node: str | None
    message: Message


class UpdateEvent(BaseModel):
    """A node has ended, and the state was written."""

    node: str | None


class CustomEvent(BaseModel):
    """A value that a node has emitted."""

    node: str | None
    data: Any


class InterruptEvent(BaseModel):
    """The run pauses, and asks."""

    node: str | None
    interrupts: list[Interrupt]


class EndEvent(BaseModel):
    """The run has ended: `completed`, `interrupted` or `stopped`."""

    thread_id: str
    run_id: str
    status: str


EVENTS: dict[str, type[BaseModel]] = {
    "start": StartEvent,
    "token": TokenEvent,
    "message": MessageEvent,
    "update": UpdateEvent,
    "custom": CustomEvent,
    "interrupt": InterruptEvent,
    "end": EndEvent,
    "error": Problem,
}
"""The model of each event's data, by the event's name."""
