"""Scope: who asks, for which thread, from which version. What a config dict says, once checked."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Self
from uuid import UUID

from tenxgraph.storage.config_keys import check_keys, check_mapping

__all__ = [
    "GENERATION_KEY",
    "LEASE_KEY",
    "RUN_KEY",
    "STATE_TYPE_KEY",
    "VERSION_KEY",
    "Scope",
    "checked_id",
    "checked_object",
    "checked_text",
    "owner_of",
    "remember",
]

VERSION_KEY = "_checkpoint_version"
GENERATION_KEY = "_checkpoint_generation"
_THREAD_KEY = "_checkpoint_thread"
STATE_TYPE_KEY = "_state_type"
"""Where a graph says which class its states are read as: several may share a checkpointer."""
RUN_KEY = "_run"
"""Where the config of a node says which run it is of."""
LEASE_KEY = "_lease"
"""Where the run loop puts the lease that its writes ask for."""
_LONGEST_ID = 255


@dataclass(frozen=True, slots=True)
class Scope:
    """One call's thread and caller, checked before any I/O."""

    thread_id: str
    user_id: str | None
    isolated: bool
    """Whether the thread must belong to `user_id`."""
    expected_version: int | None = None
    """The version a write builds on; `None` appends to whatever is there."""
    generation: UUID | None = None
    """The life of the thread id that the caller has seen."""

    @classmethod
    def of(cls, config: Mapping[str, Any], *, isolate: bool) -> Self:
        """Read a config.

        Raises:
            ValueError: `thread_id`, or with isolation `user_id`, is missing or no id: a string of
                1 to 255 characters without NUL, or an int, which is taken as its decimal text. A
                key is a known one misspelt.
        """
        check_keys(config)
        user_id, isolated = owner_of(config, isolate=isolate)
        thread_id = checked_id(config, "thread_id")
        if config.get(_THREAD_KEY, thread_id) != thread_id:
            # What it remembers is of another thread: a copied config begins anew.
            config = {**config, VERSION_KEY: None, GENERATION_KEY: None}
        return cls(
            thread_id=thread_id,
            user_id=user_id,
            isolated=isolated,
            expected_version=_version(config.get(VERSION_KEY)),
            generation=_generation(config.get(GENERATION_KEY)),
        )

    def of_thread(self, thread_id: str) -> "Scope":
        """The same caller's view of another thread, not read yet."""
        return replace(self, thread_id=thread_id, expected_version=None, generation=None)


def owner_of(config: Mapping[str, Any], *, isolate: bool) -> tuple[str | None, bool]:
    """Who calls, and whether only the caller's own threads count.

    An authorization policy that a server put into `config["authz"]` decides both.
    """
    check_mapping(config)
    policy = config.get("authz")
    if policy is not None:
        config, isolate = _apply_policy(policy, config)
    if isolate:
        return checked_id(config, "user_id"), True
    return (None if config.get("user_id") is None else checked_id(config, "user_id")), False


def _apply_policy(policy: Any, config: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    scope = policy.get("scope") if isinstance(policy, Mapping) else None
    if scope not in ("owner", "none"):
        message = (
            '`config["authz"]` must be {"user_id": ..., "scope": "owner" | "none"}; '
            "it is set by the server, never by a client."
        )
        raise ValueError(message)
    user_id = policy.get("user_id", config.get("user_id"))
    return {**config, "user_id": user_id}, scope == "owner"


def checked_id(config: Mapping[str, Any], name: str) -> str:
    """The id under `name`, as text.

    Raises:
        ValueError: it is missing, or no id.
    """
    value = config.get(name)
    if value is None:
        message = f"The config has no `{name}`. Pass one: config={{{name!r}: ...}}."
        raise ValueError(message)
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str):
        message = f"`{name}` must be a string or an int, not {type(value).__name__}."
        raise ValueError(message)
    if not value.strip():
        message = f"`{name}` must not be empty or blank."
        raise ValueError(message)
    if len(value) > _LONGEST_ID:
        message = f"`{name}` is {len(value)} characters long; {_LONGEST_ID} are allowed."
        raise ValueError(message)
    if "\x00" in value or not _is_unicode(value):
        message = f"`{name}` must not contain NUL characters or lone surrogates."
        raise ValueError(message)
    return str(value)


def checked_object(name: str, value: Any) -> dict[Any, Any]:
    """What a caller says in a dict, as one.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, Mapping):
        message = f"`{name}` must be a dict, not {type(value).__name__}."
        raise ValueError(message)
    return dict(value)


def checked_text(name: str, value: Any) -> str:
    """What a caller says in a string.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str):
        message = f"`{name}` must be a string, not {type(value).__name__}."
        raise ValueError(message)
    return str(value)


def remember(config: MutableMapping[str, Any], version: int, generation: UUID | None) -> None:
    """Record in the config what was read or written, for the next write to build on."""
    config[_THREAD_KEY] = checked_id(config, "thread_id")
    config[VERSION_KEY] = version
    config[GENERATION_KEY] = None if generation is None else str(generation)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _version(value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    message = f"`{VERSION_KEY}` must be a version number (an int of 0 or more), not {value!r}."
    raise ValueError(message)


def _generation(value: Any) -> UUID | None:
    try:
        return None if value is None else UUID(value)
    except (ValueError, TypeError, AttributeError):
        message = f"`{GENERATION_KEY}` belongs to the library and was changed to {value!r}."
        raise ValueError(message) from None
