"""Ids as Mem0 can hold them: escaped where Mem0 or its database would read an operator."""

import re

__all__ = ["escaped_id", "original_id"]

# Without a mark, a user whose id looks like an escaped one could read somebody else's memories.
# Hexadecimal digits have no case that a database could fold.
_PREFIX = "tenxgraph-id-"
# `*` matches every value in Mem0, and some of its databases put ids between quotes or braces.
_OPERATORS = re.compile(r'[*"\\{}\[\]]')
# Mem0 trims the ids of users and agents, and refuses those with a space inside.
_OPERATORS_AND_SPACE = re.compile(rf"{_OPERATORS.pattern}|\s")


def escaped_id(value: str, *, spaces: bool = False) -> str:
    """Return the id as it is sent to Mem0; ordinary ids stay as they are.

    Args:
        value: the id.
        spaces: True where Mem0 keeps white space, as it does in metadata.
    """
    unfit = _OPERATORS if spaces else _OPERATORS_AND_SPACE
    if unfit.search(value) or value.startswith(_PREFIX):
        return _PREFIX + value.encode().hex()
    return value


def original_id(held: str) -> str:
    """Return the id of which `escaped_id` made the text."""
    if not held.startswith(_PREFIX):
        return held
    try:
        original = bytes.fromhex(held.removeprefix(_PREFIX)).decode()
    except ValueError:
        return held  # stored by Mem0 itself, under an id that only looks like an escaped one
    return original if original and _PREFIX + original.encode().hex() == held else held
