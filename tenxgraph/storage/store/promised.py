"""What becomes of a promised write: it is carried out, or taken back."""

from datetime import datetime
from typing import TYPE_CHECKING

from tenxgraph.storage.store.memory_scope import MemoryScope, Provenance
from tenxgraph.storage.store.new_record import changed, new_record
from tenxgraph.storage.store.pending_write import MissingMemoryError, PendingWrite
from tenxgraph.storage.store.records import MemorySearchResult

if TYPE_CHECKING:
    from tenxgraph.storage.store.base import BaseStore

__all__ = ["carry_out", "take_back"]


async def carry_out(store: "BaseStore", write: PendingWrite) -> None:
    """Do what was promised, unless the memory has been changed since.

    Raises:
        MissingMemoryError: there is no such memory to update. To delete none is fine.
    """
    scope, asked_at = MemoryScope.of(write.config), datetime.fromisoformat(write.asked_at)
    if write.action == "store":
        record = new_record(scope, Provenance.of(write.config), write.memory(), asked_at)
        await store._asave(scope, [record], write.write_mode, keep_newer=True)
        return
    if write.action == "delete":
        old = await store._aone(scope, str(write.memory_id))
        if old is not None and old.updated_at <= asked_at:
            await store._aremove(scope, [old.id])
        return

    def revise(old: MemorySearchResult) -> MemorySearchResult | None:
        if old.updated_at > asked_at:
            return None
        return changed(old, write.content, write.metadata, write.write_mode, asked_at)

    if not await store._arevise(scope, str(write.memory_id), write.content, revise):
        raise MissingMemoryError(f"There is no memory {write.memory_id!r}.")


async def take_back(store: "BaseStore", write: PendingWrite) -> None:
    """Remove what a promised write has written, since it was forgotten on its way."""
    scope, asked_at = MemoryScope.of(write.config), datetime.fromisoformat(write.asked_at)
    if write.action == "delete":
        return
    if write.action == "update":
        found = await store._aone(scope, str(write.memory_id))
    else:
        record = new_record(scope, Provenance.of(write.config), write.memory(), asked_at)
        found = await store._awritten(scope, record)
    # What somebody has written since is not the promise's.
    if found is not None and found.updated_at == asked_at:
        await store._aremove(scope, [found.id])
