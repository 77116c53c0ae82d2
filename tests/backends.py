"""The backends that one conformance suite runs over, as parameters of a fixture."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tenxgraph.storage.checkpointer import (
    BaseCheckpointer,
    InMemoryCheckpointer,
    PostgresCheckpointer,
    SqliteCheckpointer,
)

Checkpointer = BaseCheckpointer[Any]

DURABLE = ("memory", "sqlite", "sqlite-memory", "postgres")


@dataclass
class Backend:
    """One place where threads are kept, and how to open it, again or with other options."""

    name: str
    open: Callable[..., Checkpointer]
    dsn: str | None = None
    """How another process reaches it; `None` where none can."""
    opened: list[Checkpointer] = field(default_factory=list)

    def make(self, **options: Any) -> Checkpointer:
        """A checkpointer on this backend; every one of them sees the same threads."""
        checkpointer = self.open(**options)
        self.opened.append(checkpointer)
        return checkpointer

    async def close(self) -> None:
        for checkpointer in self.opened:
            await checkpointer.aclose()


def on_memory() -> Backend:
    return Backend("memory", _sharing(InMemoryCheckpointer))


def on_sqlite_memory() -> Backend:
    return Backend("sqlite-memory", _sharing(lambda **o: SqliteCheckpointer(":memory:", **o)))


def on_sqlite(path: str) -> Backend:
    return Backend("sqlite", lambda **o: SqliteCheckpointer(path, **o), path)


def on_postgres(dsn: str) -> Backend:
    return Backend("postgres", lambda **o: PostgresCheckpointer(dsn, **o), dsn)


def _sharing(make: Callable[..., Any]) -> Callable[..., Checkpointer]:
    """Let checkpointers that would each have threads of their own share the first one's."""
    first: list[Any] = []

    def make_sharing(**options: Any) -> Checkpointer:
        checkpointer = make(**options)
        if first:
            checkpointer._backend = first[0]
        else:
            first.append(checkpointer._backend)
        return checkpointer  # type: ignore[no-any-return]

    return make_sharing
