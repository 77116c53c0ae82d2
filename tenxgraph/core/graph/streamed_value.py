"""Values that arrive in pieces: how the piece of a value is added to what has come before."""

import json
from collections.abc import Mapping
from typing import Any

from tenxgraph.core.state.unicode import joined_pairs

__all__ = ["StreamedText", "added", "finished", "json_text"]

# Texts that servers send piece by piece. Any other text is sent whole, and often repeated.
_IN_PIECES = frozenset(
    {
        "arguments",
        "content",
        "data",
        "input",
        "reasoning",
        "reasoning_content",
        "refusal",
        "summary",
        "text",
        "thinking",
        "transcript",
    }
)
# A list item of these types continues the item before it; of others, each item is whole.
_TYPES_IN_PIECES = frozenset({"reasoning", "text", "thinking"})


class StreamedText:
    """A text in pieces. Joining them at the end keeps the cost of a long text linear."""

    def __init__(self, *pieces: str) -> None:
        self._pieces = list(pieces)

    def add(self, piece: str) -> None:
        """Append a piece."""
        self._pieces.append(piece)

    def __str__(self) -> str:
        return joined_pairs("".join(self._pieces))


def added(known: Any, piece: Any, key: str) -> Any:
    """Return what is known of a value with a further piece of it.

    Texts that are sent in pieces are appended, objects are merged key by key, and lists item by
    item. Of anything else the last value that is not empty counts.

    Args:
        known: the value so far, or None. It may be changed.
        piece: what has come.
        key: the key that the value has in its object.
    """
    if piece is None:
        return known
    if isinstance(piece, str) and key in _IN_PIECES:
        return _text(known, piece)
    if isinstance(piece, Mapping):
        target = known if isinstance(known, dict) else {}
        for name, value in piece.items():
            target[name] = added(target.get(name), value, str(name))
        return target
    if isinstance(piece, list):
        return _list(known, piece)
    return known if piece == "" and known is not None else piece


def finished(value: Any) -> Any:
    """Return the value with its texts joined."""
    if isinstance(value, StreamedText):
        return str(value)
    if isinstance(value, dict):
        return {name: finished(item) for name, item in value.items()}
    if isinstance(value, list):
        return [finished(item) for item in value]
    return value


def json_text(arguments: Any) -> str:
    """Return a call's arguments as the JSON text that they should have been sent as."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return ""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _text(known: Any, piece: str) -> StreamedText:
    if isinstance(known, StreamedText):
        known.add(piece)
        return known
    return StreamedText(known, piece) if isinstance(known, str) else StreamedText(piece)


def _list(known: Any, items: list[Any]) -> list[Any]:
    target = known if isinstance(known, list) else []
    if items == target:
        return target  # some servers repeat the whole list in every chunk
    for item in items:
        place = _place(target, item)
        if place is not None:
            target[place] = added(target[place], item, "")
        else:
            target.append(added(None, item, ""))
    return target


def _place(known: list[Any], item: Any) -> int | None:
    """Return the place of the list item that this one continues, or None for a further one."""
    if not isinstance(item, Mapping):
        return None
    index, kind = item.get("index"), item.get("type")
    if index is not None:
        same = (
            place
            for place, one in enumerate(known)
            if isinstance(one, dict)
            and one.get("index") == index
            and (kind is None or one.get("type") in (None, kind))
        )
        return next(same, None)
    last = known[-1] if known else None
    if kind in _TYPES_IN_PIECES and isinstance(last, dict) and last.get("type") == kind:
        return len(known) - 1
    return None
