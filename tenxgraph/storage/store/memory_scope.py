"""Whose memory it is: the part of a config that every operation of a store is bound to."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenxgraph.storage.config_keys import check_keys
from tenxgraph.storage.store.records import MemorySearchResult, checked_text

__all__ = [
    "Config",
    "MemoryScope",
    "Provenance",
    "checked_scope_id",
    "is_derived_id",
    "is_memory_id",
]

Config = Mapping[str, Any]

_MAX_LENGTH = 255
_DERIVED = 5
_ID_NAMESPACE = uuid.UUID("5f0f8a6e-3c55-4f6c-9d0a-8f6f1b7f2c11")


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """The user, agent and application a memory belongs to; at least one is named.

    A memory belongs to every scope it names, with one exception that keeps secrets: a memory that
    names a user is found only by that user, never by the agent or the application alone.
    """

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None

    @classmethod
    def of(cls, config: Config) -> "MemoryScope":
        """Read the scope from a config.

        Raises:
            ValueError: the config names no scope, or one of its keys holds no id. A key that holds
                `None` or blank text, or is misspelt, is refused: without it the scope would be
                wider than meant.
        """
        check_keys(config)
        named = [name for name in cls.__slots__ if name in config]
        if not named:
            raise ValueError(
                "The config names no one whose memory this is. Put a `user_id`, an `agent_id` or "
                "an `app_id` into it."
            )
        return cls(**{name: checked_scope_id(config[name], name) for name in named})

    @classmethod
    def of_user(cls, config: Config, user_id: str | None = None) -> "MemoryScope":
        """Return the scope of one user: the given one, or the config's.

        Raises:
            ValueError: neither is named, or what is named is no id.
        """
        if user_id is not None:
            return cls(user_id=checked_scope_id(user_id, "user_id"))
        if "user_id" not in config:
            raise ValueError("The config has no `user_id`, so it is unclear whose memory this is.")
        return cls(user_id=checked_scope_id(config["user_id"], "user_id"))

    @classmethod
    def of_shared(
        cls, config: Config, agent_id: str | None = None, app_id: str | None = None
    ) -> "MemoryScope":
        """Return the scope of an agent or application, and never of a user.

        Args:
            config: the run's config, which is asked if neither id is given.
            agent_id: the agent.
            app_id: the application.

        Raises:
            ValueError: nothing is named, or what is named is no id.
        """
        given = {"agent_id": agent_id, "app_id": app_id}
        named = {name: value for name, value in given.items() if value is not None}
        named = named or {name: config[name] for name in given if name in config}
        if not named:
            raise ValueError(
                "The agent memory has no scope. Give AgentMemoryConfig an `agent_id` or an "
                "`app_id`."
            )
        return cls.of(named)

    @classmethod
    def of_run(cls, config: Config) -> "MemoryScope":
        """Return the scope of the run's user, or of the agent or application if it has none."""
        scope = cls.of(config)
        return cls(user_id=scope.user_id) if scope.user_id else scope

    def fields(self) -> dict[str, str]:
        """What a stored memory must match to be in this scope; no user is the empty text."""
        named = {"agent_id": self.agent_id, "app_id": self.app_id}
        return {"user_id": self.user_id or "", **{k: v for k, v in named.items() if v}}

    def owned(self) -> dict[str, str]:
        """The ids that are named, as a config holds them."""
        ids = {"user_id": self.user_id, "agent_id": self.agent_id, "app_id": self.app_id}
        return {name: value for name, value in ids.items() if value}

    def holds(self, memory: MemorySearchResult) -> bool:
        """Whether the memory is one of this scope."""
        return all((getattr(memory, name) or "") == value for name, value in self.fields().items())

    def id_for(self, kind: str, key: str) -> str:
        """The one memory id that this key has in this scope, in every process."""
        name = json.dumps([self.user_id, self.agent_id, self.app_id, kind, key])
        return str(uuid.uuid5(_ID_NAMESPACE, name))


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a memory was learnt."""

    thread_id: str | None = None
    message_id: str | None = None
    tool_call_id: str | None = None

    @classmethod
    def of(cls, config: Config) -> "Provenance":
        """Read the provenance from a config; what is not there stays unknown.

        Raises:
            ValueError: a value is not valid Unicode.
        """
        named = {name: config[name] for name in cls.__slots__ if config.get(name) is not None}
        return cls(**{name: checked_text(str(value), name) for name, value in named.items()})


def is_memory_id(memory_id: object) -> bool:
    """Whether an id has the form stores give out; databases read other forms in their own way."""
    try:
        return isinstance(memory_id, str) and str(uuid.UUID(memory_id)) == memory_id
    except ValueError:
        return False


def is_derived_id(memory_id: str) -> bool:
    """Whether an id was made by `MemoryScope.id_for`, so that its memory may exist already."""
    return uuid.UUID(memory_id).version == _DERIVED


def checked_scope_id(value: object, name: str) -> str:
    """Return the id as text; an int is its decimal text.

    Raises:
        ValueError: it is `None`, blank, no text, too long, or not valid Unicode.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError(
            f"`{name}` is {value!r}, which is no id. Give it the id whose memory is meant, or "
            f"leave the key out."
        )
    if not isinstance(value, str) or len(value) > _MAX_LENGTH or "\x00" in value:
        raise ValueError(
            f"`{name}` must be text of 1 to {_MAX_LENGTH} characters without NUL, not {value!r}."
        )
    # Of an enum whose members are text, the value and not the member's name.
    return checked_text(str.__str__(value), name)
