"""Edges: which node runs after which."""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.node import Node, as_name

__all__ = ["END", "START", "ConditionalEdge", "Edge"]

START: Final = "__start__"
END: Final = "__end__"


class Edge:
    """Always the same way on."""

    def __init__(self, target: str) -> None:
        self.target: str = as_name(target)

    @property
    def targets(self) -> Sequence[str] | None:
        """Where it may lead."""
        return (self.target,)

    async def next(self, _given: Mapping[str, Any]) -> str:
        """The node that runs next."""
        return self.target


class ConditionalEdge:
    """A way on that a function chooses: by the name of a node, or a key of `path_map`."""

    def __init__(
        self,
        source: str,
        condition: Callable[..., Any],
        path_map: Mapping[Any, str] | Sequence[str] | None,
    ) -> None:
        self._source = source
        self._condition = Node(f"condition after {source}", condition)
        """Called like a node, but in place: a thread for every choice would cost more than it."""
        if path_map is None or isinstance(path_map, Mapping):
            names = path_map
        else:
            names = {name: name for name in path_map}
        self._map: dict[Any, str] | None = (
            None
            if names is None
            else {as_name(choice): as_name(name) for choice, name in names.items()}
        )

    @property
    def targets(self) -> Sequence[str] | None:
        """Where it may lead; `None`: anywhere."""
        return None if self._map is None else tuple(self._map.values())

    async def next(self, given: Mapping[str, Any]) -> str:
        """The node that runs next.

        Raises:
            GraphError: the function chose what `path_map` has not, or no name at all.
        """
        choice = self._condition.function(**self._condition.arguments(given))
        if inspect.isawaitable(choice):
            choice = await choice
        choice = as_name(choice)
        if self._map is not None:
            if not isinstance(choice, Hashable) or choice not in self._map:
                known = ", ".join(map(repr, self._map))
                message = (
                    f"The condition after {self._source!r} chose {choice!r}, not one of {known}."
                )
                raise GraphError(message)
            return self._map[choice]
        if not isinstance(choice, str):
            message = f"The condition after {self._source!r} must name a node, not {choice!r}."
            raise GraphError(message)
        name: str = choice
        return name
