"""A write that was promised, and where promises are kept that outlive the process."""

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store.records import WriteMode
from tenxgraph.storage.store.scope import Scope

if TYPE_CHECKING:
    from tenxgraph.storage.store.base import BaseStore

__all__ = ["PENDING_LOG_KEY", "KeptWrite", "MissingMemoryError", "PendingLog", "PendingWrite"]

PENDING_LOG_KEY = "_pending_log"
"""Where the config of a node or tool says which `PendingLog` keeps what is promised in it."""


class MissingMemoryError(StoreError):
    """A background write was to change a memory that its scope does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWrite:
    """One write that was promised. Plain JSON values only, so that a log can keep it.

    Attributes:
        action: what is to be done.
        config: the scope, and where the memory was learnt.
        content: the text, for `store` and `update`.
        memory_type: for `store`.
        category: for `store`.
        metadata: for `store` and `update`.
        memory_key: for `store`.
        memory_id: for `update` and `delete`.
        write_mode: for `store` and `update`.
        idempotency_key: carrying the write out twice under one key makes one memory.
    """

    action: Literal["store", "update", "delete"]
    config: dict[str, Any]
    content: str = ""
    memory_type: str = "episodic"
    category: str = "general"
    metadata: dict[str, Any] = field(default_factory=dict)
    memory_key: str | None = None
    memory_id: str | None = None
    write_mode: WriteMode = "merge"
    idempotency_key: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The write as a dict of JSON values; `PendingWrite(**data)` reads it back."""
        return asdict(self)

    def under(self, key: str) -> "PendingWrite":
        """The same write, under this idempotency key if it has none of its own."""
        return self if self.idempotency_key is not None else replace(self, idempotency_key=key)

    @property
    def scope(self) -> Scope:
        """Whose memory it is."""
        return Scope.of(self.config)

    @property
    def ordered(self) -> bool:
        """Whether it names a memory, so that its place among the scope's writes matters."""
        return self.action != "store" or self.memory_key is not None

    def __str__(self) -> str:
        named = {"memory_key": self.memory_key, "memory_id": self.memory_id, **self.config}
        return " ".join([self.action, *(f"{k}={v!r}" for k, v in named.items() if v is not None)])

    async def apply(self, store: "BaseStore") -> None:
        """Carry it out. `MissingMemoryError`: no such memory to update; to delete none is fine."""
        if self.action == "delete":
            await store.adelete(self.config, str(self.memory_id))
        elif self.action == "update":
            updated = await store.aupdate(
                self.config, str(self.memory_id), self.content, self.metadata, self.write_mode
            )
            if not updated:
                raise MissingMemoryError(f"There is no memory {self.memory_id!r}.")
        else:
            await store.astore(
                self.config,
                self.content,
                self.memory_type,
                self.category,
                self.metadata,
                memory_key=self.memory_key,
                idempotency_key=self.idempotency_key,
                write_mode=self.write_mode,
            )


class KeptWrite(Protocol):
    """A promised write that is written down. The methods may be called from any event loop."""

    write: PendingWrite
    """What is carried out."""

    async def landed(self) -> None:
        """The store has it: the write need not be carried out again."""

    async def refused(self, reason: str) -> None:
        """The store will never take it: the write must not be carried out again."""


class PendingLog(Protocol):
    """Where promised writes are kept so that a killed process does not take them along."""

    async def keep(self, write: PendingWrite, store: "BaseStore") -> KeptWrite | None:
        """Keep the write durably; called before it is answered that it is scheduled.

        What is kept may have got an idempotency key. `None`: this log does not know the store, so
        that nobody could carry the write out later.
        """
