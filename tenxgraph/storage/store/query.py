"""What may be asked of a store: limits, thresholds and filters, checked before any I/O."""

from collections.abc import Mapping
from typing import Any

from tenxgraph.core.state.unicode import valid_text
from tenxgraph.storage.store.memory_scope import is_memory_id
from tenxgraph.storage.store.records import MemorySearchResult, MemoryType, checked_text

__all__ = [
    "FILTER_FIELDS",
    "MAX_LIMIT",
    "Where",
    "checked_cursor",
    "checked_limit",
    "checked_query",
    "checked_threshold",
    "conditions",
    "matches",
]

FILTER_FIELDS = ("memory_type", "category", "memory_key", "thread_id")
MAX_LIMIT = 1_000

Where = Mapping[str, list[str]]


def checked_limit(limit: object) -> int:
    """The limit, or `ValueError` if it is no number from 1 to `MAX_LIMIT`."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"`limit` must be a whole number from 1 to {MAX_LIMIT}, not {limit!r}.")
    return limit


def checked_cursor(cursor: object) -> None:
    """`ValueError` if it is no cursor: every page's is the id of a memory."""
    if cursor is not None and not is_memory_id(cursor):
        raise ValueError(f"`cursor` must be the `cursor` of an earlier page, not {cursor!r}.")


def checked_threshold(score_threshold: float | None) -> float:
    """The lowest score to return, or `ValueError` if no score could be compared with it."""
    if score_threshold is None:
        return 0.0
    if isinstance(score_threshold, bool) or not isinstance(score_threshold, int | float):
        raise ValueError(f"`score_threshold` must be a number, not {score_threshold!r}.")
    if not 0 <= score_threshold <= 1:
        raise ValueError(
            f"`score_threshold` must be from 0 to 1, where 1 is nearest, not {score_threshold}."
        )
    return float(score_threshold)


def checked_query(query: object) -> str:
    """Return what to look for, with U+FFFD for half a surrogate pair; `ValueError` if blank."""
    if not isinstance(query, str) or not query.strip():
        raise ValueError("`query` is blank: say what to look for.")
    return valid_text(query)


def conditions(
    memory_type: str | None, category: str | None, filters: Mapping[str, Any] | None
) -> dict[str, list[str]]:
    """The values that each field may have. Several fields must all fit.

    Raises:
        ValueError: a filter is on something that is no field, or has no value that could match.
    """
    asked: dict[str, Any] = {"memory_type": memory_type, "category": category}
    asked = {name: value for name, value in asked.items() if value is not None}
    known = MemoryType.known(memory_type)
    if known is not None:
        asked["memory_type"] = known.value  # as it was stored, whatever the case
    if filters is not None and not isinstance(filters, Mapping):
        raise ValueError(f"`filters` must be a dict, not {type(filters).__name__}.")
    for name, value in (filters or {}).items():
        if name not in FILTER_FIELDS:
            raise ValueError(
                f"`filters` names {name!r}. A search can be filtered by "
                f"{', '.join(FILTER_FIELDS)}; whose memories are searched is said by the config."
            )
        asked[name] = value
    return {name: _values(name, value) for name, value in asked.items()}


def matches(memory: MemorySearchResult, where: Where) -> bool:
    """Whether a memory has one of the wanted values in each field."""
    return all(getattr(memory, name) in values for name, values in where.items())


def _values(name: str, value: object) -> list[str]:
    values = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    if not values or not all(isinstance(item, str) and item for item in values):
        raise ValueError(f"`{name}` must be text or a list of texts to match, not {value!r}.")
    return [checked_text(str(item), name) for item in values]
