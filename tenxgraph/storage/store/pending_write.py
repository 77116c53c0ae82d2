"""A write that was promised, and where promises are kept that outlive the process."""

import hashlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store.memory_scope import MemoryScope
from tenxgraph.storage.store.records import NewMemory, WriteMode, moment

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
        asked_at: when it was promised, in ISO 8601. A memory that has been changed since then is
            left as it is.
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
    asked_at: str = field(default_factory=lambda: moment().isoformat())

    def as_json(self) -> dict[str, Any]:
        """The write as a dict of JSON values; `PendingWrite(**data)` reads it back."""
        return asdict(self)

    @property
    def scope(self) -> MemoryScope:
        """Whose memory it is."""
        return MemoryScope.of(self.config)

    @property
    def ordered(self) -> bool:
        """Whether it names a memory, so that its place among the scope's writes matters."""
        return self.action != "store" or self.memory_key is not None

    def __str__(self) -> str:
        named = {"memory_key": self.memory_key, "memory_id": self.memory_id, **self.config}
        told = [f"{name}={value!r}" for name, value in named.items() if value is not None]
        # What it says is private; which of several it was should be possible to find out.
        digest = hashlib.sha256(self.content.encode()).hexdigest()[:12]
        return " ".join([self.action, *told, f"sha256={digest}", f"asked_at={self.asked_at}"])

    def memory(self) -> NewMemory:
        """What is to be kept, for `store`."""
        return NewMemory(
            content=self.content,
            memory_type=self.memory_type,
            category=self.category,
            metadata=self.metadata,
            memory_key=self.memory_key,
            idempotency_key=self.idempotency_key,
        )


class KeptWrite(Protocol):
    """A promised write that is written down. The methods may be called from any event loop."""

    write: PendingWrite
    """What is carried out."""

    is_new: bool
    """Whether it was not kept before. What was has landed, or is carried out by whoever kept it."""

    async def landed(self) -> bool:
        """The store has it: the write need not be carried out again.

        `False`: it was taken back meanwhile, and what it has written is to be removed.
        """

    async def refused(self, reason: str) -> None:
        """The store will never take it: the write must not be carried out again."""


class PendingLog(Protocol):
    """Where promised writes are kept so that a killed process does not take them along."""

    async def keep(self, write: PendingWrite, store: "BaseStore") -> KeptWrite | None:
        """Keep the write durably; called before it is answered that it is scheduled.

        What is kept may have got an idempotency key. `None`: this log does not know the store, so
        that nobody could carry the write out later.
        """
