"""Authorization: what a caller may do, and whose threads count for it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tenxgraph.server.auth import User
from tenxgraph.server.references import lookup
from tenxgraph.server.settings import SettingsError

__all__ = ["Action", "Authorization", "Caller", "Reach", "allow_all", "authorization", "ownership"]

Action = Literal[
    "graph:read",
    "graph:run",
    "graph:stop",
    "threads:read",
    "threads:write",
    "threads:delete",
    "store:read",
    "store:write",
    "store:delete",
]
"""What is asked for."""

Reach = Literal["owner", "none"]
"""`"owner"`: only the caller's own threads are there. `"none"`: all threads are everybody's."""


class Authorization(Protocol):
    """Decides about a request: a function, or an object with `__call__`; sync or async."""

    def __call__(
        self, user: User, action: Action, resource_id: str | None, /
    ) -> Reach | Literal[False] | Awaitable[Reach | Literal[False]]:
        """How far the caller reaches, or `False`, which is answered with 403.

        A sync one may block: it is called in a thread.

        Args:
            user: who calls.
            action: what for.
            resource_id: the id of the thread or memory that it is about; `None` where it is about
                many, or about a thread that does not have an id yet.
        """


async def ownership(_user: User, _action: Action, _resource_id: str | None) -> Reach:
    """Each user has threads of their own."""
    return "owner"


async def allow_all(_user: User, _action: Action, _resource_id: str | None) -> Reach:
    """All threads are shared: for one tenant. Memories stay each user's own."""
    return "none"


_NAMED: dict[str, Callable[..., Any]] = {"ownership": ownership, "allow_all": allow_all}


def authorization(named: str | Callable[..., Any]) -> Callable[..., Any]:
    """The authorization that settings name.

    Raises:
        SettingsError: it is not there, or cannot be called.
    """
    if isinstance(named, str):
        policy = _NAMED.get(named) or lookup(named, "authorization")
    else:
        policy = named
    policy = policy() if isinstance(policy, type) else policy
    if not callable(policy):
        message = f"`authorization`: {named!r} is {type(policy).__name__}, which cannot be called."
        raise SettingsError(message)
    checked: Callable[..., Any] = policy
    return checked


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and how far that reaches: what a client never says itself."""

    user_id: str
    reach: Reach
    claims: Mapping[str, Any] = field(default_factory=dict)

    def config(self, thread_id: str | None = None) -> dict[str, Any]:
        """The config of a call on the caller's behalf."""
        config: dict[str, Any] = {
            "user_id": self.user_id,
            "authz": {"user_id": self.user_id, "scope": self.reach},
        }
        if self.claims:
            config["authz"]["claims"] = dict(self.claims)
        return config if thread_id is None else {**config, "thread_id": thread_id}
