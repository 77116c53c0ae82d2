"""What a run tells while it goes on: typed chunks, in the order in which things happen."""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tenxgraph.core.state import Interrupt, Message

__all__ = ["Chunk", "ChunkType", "Emit"]

ChunkType = Literal["token", "message", "update", "interrupt", "error", "end", "custom"]


class Chunk(BaseModel):
    """One thing that happened.

    `token`: a piece of a model's answer, in `text`. `message`: a message joined the context.
    `update`: a node has finished, and what it left is stored. `interrupt`: the run is paused and
    waits for answers to `interrupts`. `error`: the run failed, and this was the last chunk but
    the exception. `end`: the run is over. `custom`: what a node emitted, in `data`.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    type: ChunkType
    node: str = ""
    text: str = ""
    message: Message | None = None
    data: Any = None
    interrupts: tuple[Interrupt, ...] = ()


Emit = Callable[[Chunk], None]
"""Takes a chunk at once and never waits."""
