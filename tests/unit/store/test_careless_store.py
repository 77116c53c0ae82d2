"""A store of one's own whose database finds too much: the base class lets nothing of it through."""

from collections.abc import Sequence

from tenxgraph.storage.store import InMemoryStore, MemoryPage, MemorySearchResult
from tenxgraph.storage.store.memory_scope import MemoryScope
from tenxgraph.storage.store.query import Where
from tenxgraph.testing import HashEmbedding

ALICE = {"user_id": "alice"}
BOB = {"user_id": "bob"}


class CarelessStore(InMemoryStore):
    """Finds what everybody has, whatever is asked for."""

    def _everything(self) -> list[MemorySearchResult]:
        return sorted((record for record, _ in self._memories.values()), key=lambda one: one.id)

    async def _anearest(
        self, scope: MemoryScope, vector: list[float], where: Where, limit: int
    ) -> list[MemorySearchResult]:
        return self._everything()

    async def _apage(self, scope: MemoryScope, limit: int, cursor: str | None) -> MemoryPage:
        rest = [one for one in self._everything() if one.id > (cursor or "")]
        return MemoryPage(rest[:limit], rest[limit - 1].id if len(rest) > limit else None)

    async def _afetch(self, scope: MemoryScope, ids: Sequence[str]) -> list[MemorySearchResult]:
        return await super()._aload(list(ids))

    async def _akeyed(self, scope: MemoryScope, memory_key: str) -> MemorySearchResult | None:
        return self._everything()[0] if self._memories else None


async def filled() -> tuple[CarelessStore, str, str]:
    store = CarelessStore(HashEmbedding())
    alices = await store.astore(ALICE, "secret of alice", category="a")
    bobs = await store.astore(BOB, "secret of bob", category="b")
    for number in range(4):
        await store.astore({"agent_id": "sales"}, f"shared {number}", memory_key=f"k{number}")
    return store, alices, bobs


async def test_what_is_not_in_the_scope_is_not_shown() -> None:
    store, alices, bobs = await filled()
    assert [memory.id for memory in await store.aget_all(BOB)] == [bobs]
    assert [memory.id for memory in await store.asearch(BOB, "secret")] == [bobs]
    assert await store.asearch(BOB, "secret", category="a") == []
    assert await store.aget_by_key(BOB, "k0") is None
    assert await store.aget(BOB, alices) is None
    assert len(await store.asearch({"agent_id": "sales"}, "shared", limit=3)) == 3


async def test_what_is_not_in_the_scope_is_not_changed_or_deleted() -> None:
    store, alices, _ = await filled()
    assert not await store.aupdate(BOB, alices, "stolen")
    assert not await store.adelete(BOB, alices)
    assert await store.aforget_memory(BOB) == 1
    assert [memory.content for memory in await store.aget_all(ALICE)] == ["secret of alice"]
    assert len(await store.aget_all({"agent_id": "sales"})) == 4
