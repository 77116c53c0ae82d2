"""Valid Unicode for other parties: Python's text may hold half a surrogate pair, UTF-8 cannot."""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["joined_pairs", "valid_text", "valid_unicode"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def valid_unicode(value: Any) -> Any:
    """Return the value with U+FFFD for each half of a surrogate pair, in all texts inside it.

    Dicts, lists and tuples are looked through. What needs no change is returned itself.
    """
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, Mapping):
        made = {valid_unicode(key): valid_unicode(item) for key, item in value.items()}
        same = all(
            a is b
            for pair in zip(made.items(), value.items(), strict=False)
            for a, b in zip(*pair, strict=True)
        )
        return value if same and len(made) == len(value) else made
    if isinstance(value, list | tuple):
        items = [valid_unicode(item) for item in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    return value


def valid_text(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair."""
    return text if _is_valid(text) else _SURROGATE.sub("\ufffd", joined_pairs(text))


def joined_pairs(text: str) -> str:
    """Return the text with both halves of a pair as the character that they stand for.

    A text that arrives in pieces may be cut between the halves.
    """
    if _is_valid(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _is_valid(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None
