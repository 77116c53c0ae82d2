"""Command: a node's answer that says both what changes and where to go."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Command"]


@dataclass(frozen=True, slots=True)
class Command:
    """An update of the state, and the node that runs next instead of the one its edges name.

    Attributes:
        update: whatever a node may return, but a `Command`.
        goto: the name of a node, or `END`; `None` leaves the choice to the edges.
    """

    update: Any = None
    goto: str | None = None
