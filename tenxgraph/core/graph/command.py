"""Command: a node's answer that says both what changes and where to go."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenxgraph._other_names import refuse_other_keywords
from tenxgraph.core.graph.node import as_name

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

    if not TYPE_CHECKING:

        def __new__(cls, *_args, **fields):
            """Refuse what other libraries have here."""
            refuse_other_keywords("Command", fields.keys() - cls.__slots__, known="Command")
            return object.__new__(cls)

    def __post_init__(self) -> None:
        """Take a name of a subclass of `str`, or an enum of texts, as its text."""
        object.__setattr__(self, "goto", as_name(self.goto))
