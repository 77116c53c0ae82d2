"""StreamedCalls: the tool calls of a streamed answer, whose pieces servers label in many ways."""

from collections.abc import Mapping
from typing import Any

from tenxgraph.core.graph.calls import is_json_object
from tenxgraph.core.graph.streamed_value import added, finished, json_text
from tenxgraph.core.state.unicode import joined_pairs

__all__ = ["StreamedCalls"]

_OWN_KEYS = ("id", "index", "function")


class StreamedCalls:
    """Puts the pieces of tool calls together.

    A piece belongs to the call of its index, unless another id says that it begins a further one.
    Without an index the id decides; without both, a piece continues the last call unless that is
    complete. Ids and names that are repeated count once.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def add(self, pieces: Any) -> None:
        """Take in the `tool_calls` of one chunk: a list, or a single piece."""
        of_this_chunk: list[_Call] = []
        for said in pieces if isinstance(pieces, list) else [pieces]:
            if isinstance(said, Mapping):
                piece = _Piece(said)
                call = self._call_of(piece, of_this_chunk)
                call.add(piece)
                of_this_chunk.append(call)

    def whole(self) -> list[dict[str, Any]]:
        """Return the calls as an answer that is no stream has them."""
        return [call.whole() for call in self._calls]

    def _call_of(self, piece: "_Piece", of_this_chunk: "list[_Call]") -> "_Call":
        call = self._labelled(piece)
        if call is None and not piece.id and not piece.name and self._calls:
            call = self._calls[-1]
        if call in of_this_chunk and piece.index is None and not piece.id:
            call = None  # pieces side by side belong to calls side by side
        if call is None or call.is_over_before(piece):
            call = _Call(piece.index, "" if call is None else call.name)
            self._calls.append(call)
        return call

    def _labelled(self, piece: "_Piece") -> "_Call | None":
        """Return the call that index and id of the piece point to."""
        same = [one for one in self._calls if piece.index is None or one.index == piece.index]
        last = same[-1] if same else None
        if not piece.id:
            return last
        for call in reversed(same):
            if call.id == piece.id:
                return call
        # An id may come after the name; without an index only if it comes alone.
        is_late = last is not None and not last.id and (piece.index is not None or not piece.name)
        return last if is_late else None


class _Piece:
    """A piece of a call, read without trust in its types."""

    def __init__(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        index, call_id, name = piece.get("index"), piece.get("id"), function.get("name")
        self.index = index if isinstance(index, int) and not isinstance(index, bool) else None
        self.id = "" if call_id is None else str(call_id)
        self.name = "" if name is None else str(name)
        self.arguments = json_text(function.get("arguments"))
        self.begins_object = self.arguments.lstrip().startswith("{")
        self.has_function = bool(function)
        self.rest = {key: value for key, value in piece.items() if key not in _OWN_KEYS}
        self.rest_of_function = {
            key: value for key, value in function.items() if key not in ("name", "arguments")
        }


class _Call:
    """One call, as far as it has come.

    Args:
        index: the index of its first piece.
        default_name: its name if no piece has one.
    """

    def __init__(self, index: int | None, default_name: str) -> None:
        self.index = index
        self.id = ""
        self._name = ""
        self._default_name = default_name
        self._arguments: list[str] = []
        self._rest: dict[str, Any] = {}
        self._rest_of_function: dict[str, Any] = {}
        self._has_function = False

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self._name or self._default_name

    def add(self, piece: _Piece) -> None:
        """Take in a piece."""
        self.id = self.id or piece.id
        self._add_name(piece.name)
        self._add_arguments(piece)
        self._has_function = self._has_function or piece.has_function
        added(self._rest, piece.rest, "")
        added(self._rest_of_function, piece.rest_of_function, "")

    def is_over_before(self, piece: _Piece) -> bool:
        """Return True if the piece must begin another call, as this one is complete.

        Nothing can follow a complete JSON object.
        """
        if not piece.begins_object:
            is_named = bool(piece.name) and not piece.id and piece.name != self._name
            return is_named and self._is_complete()
        if not self._is_complete() or piece.arguments == self._text():
            return False
        # `{}` may hold the place of the arguments that come now.
        return bool(piece.name) or self._text().strip() != "{}"

    def whole(self) -> dict[str, Any]:
        """Return the call as an answer that is no stream has it."""
        call = {"id": self.id, "type": "function", **finished(self._rest)}
        if self._has_function or call["type"] == "function":
            own = {"name": self.name, "arguments": joined_pairs(self._text())}
            call["function"] = own | finished(self._rest_of_function)
        return call

    def _add_name(self, name: str) -> None:
        # Most servers send a name once, some whole in every piece, and some in pieces.
        if name.startswith(self._name):
            self._name = name
        elif name and not self._arguments:
            self._name += name

    def _add_arguments(self, piece: _Piece) -> None:
        if piece.begins_object and self._is_complete():
            self._arguments = []  # they are sent again, or for the first time after `{}`
        if piece.arguments:
            self._arguments.append(piece.arguments)

    def _is_complete(self) -> bool:
        # The last character first: parsing after each piece would cost the square of the length.
        ends = bool(self._arguments) and self._arguments[-1].rstrip().endswith("}")
        return ends and is_json_object(self._text())

    def _text(self) -> str:
        return "".join(self._arguments)
