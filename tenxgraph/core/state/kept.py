"""What a JSON object says beyond the fields that were read from it, and the object from both.

`difference` keeps keys that the fields do not write, and values that they write in another way.
`merge` puts them back.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tenxgraph.core.state.frozen import thaw

__all__ = ["ABSENT", "difference", "merge"]

ABSENT = "(absent)"
"""Stands for a key that the fields write and the original does not have.

It is never a value of the original: text under these keys is what a field holds, or base64.
"""


def difference(original: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `original` says and `written`, made of the fields, does not."""
    kept: dict[str, Any] = {key: ABSENT for key in written if key not in original}
    for key, value in original.items():
        own = written.get(key)
        if isinstance(own, dict) and isinstance(value, Mapping):
            if inner := difference(value, own):
                kept[key] = inner
        elif key not in written or value != own:
            kept[key] = value
    return kept


def merge(
    written: Mapping[str, Any],
    kept: Mapping[str, Any],
    *,
    omit: Collection[str] = (),
    replace: bool = True,
) -> dict[str, Any]:
    """Return `written` with what was kept; without `replace`, only keys that are not in it.

    Keys in `omit` stay away, at every depth.
    """
    merged = dict(written)
    for key, value in kept.items():
        own = written.get(key)
        if key in omit:
            continue
        if isinstance(own, dict) and isinstance(value, dict):
            merged[key] = merge(own, value, omit=omit, replace=replace)
        elif key not in written:
            merged[key] = thaw(value)
        elif replace and value == ABSENT:
            del merged[key]
        elif replace:
            merged[key] = thaw(value)
    return merged
