"""CachedCheckpointer: any durable checkpointer, with Redis in front of it."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tenxgraph.core.exceptions import StaleStateError, ThreadOwnershipError
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.agent_state import stored_of
from tenxgraph.storage.cache.key import checked_prefix, entry_key
from tenxgraph.storage.cache.redis_cache import RedisCache
from tenxgraph.storage.cache.state_entries import StateEntries
from tenxgraph.storage.cache.stats import CacheStats
from tenxgraph.storage.checkpointer.base import Config
from tenxgraph.storage.checkpointer.durable import DurableCheckpointer
from tenxgraph.storage.checkpointer.wrapper import CheckpointerWrapper
from tenxgraph.storage.records import ThreadInfo, ToolExecution
from tenxgraph.storage.scope import GENERATION_KEY, VERSION_KEY, Scope, remember

__all__ = ["CachedCheckpointer"]

StateT = TypeVar("StateT", bound=AgentState)

# What a config's last look into the cache has shown, for the writes that build on it.
_SEEN = "_cache_seen"
# Whether that look was a miss, which the read of the database now follows.
_MISSED = "_cache_missed"
# Whether a write of this config was refused, so that its next read goes past the cache.
_REFUSED = "_cache_refused"


class CachedCheckpointer(CheckpointerWrapper[StateT]):
    """The newest state of each thread in Redis; all else, and the truth, in a checkpointer behind.

    Redis may be away, empty or out of date at any moment: that costs time, and nothing else. What
    may be read from it that is not the newest, and when, is told in `docs/cache.md`.

    Args:
        durable: where threads are kept. It is closed with this object.
        cache: the Redis.
        prefix: of all keys, to keep two deployments in one Redis apart.
        origin: the database's name, so that an entry of another one is not taken for ours.
        verify_cached_version: whether each entry's version is compared with the thread's before it
            is used. Costs a look-up by primary key per read, and makes every read the newest.
    """

    def __init__(
        self,
        durable: DurableCheckpointer[StateT],
        cache: RedisCache,
        *,
        prefix: str = "",
        origin: str = "",
        verify_cached_version: bool = False,
    ) -> None:
        super().__init__(durable)
        self._cache = cache
        self._prefix = checked_prefix(prefix)
        self._entries: StateEntries[StateT] = StateEntries(origin)
        self.verify_cached_version = verify_cached_version

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.durable!r}, {self._cache!r})"

    @property
    def cache_stats(self) -> CacheStats:
        """What the cache has done so far."""
        return self._cache.stats

    async def aget_state_cache(self, config: Config) -> StateT | None:
        scope = self.durable.scope(config)
        key = None if self._is_guest(scope) else await self._key(config, scope)
        if key is None or config.pop(_REFUSED, False):
            self._cache.stats.misses += 1
            return None
        found = await self._cache.get(key)
        config[_SEEN], config[_MISSED] = found.seen, True
        if found.value is None:
            self._cache.stats.misses += 1
            return None
        known = self._entries.read(key, found.value, self._owner(scope), self.durable.codec())
        if known is None or not await self._is_current(key, config, known):
            self._cache.stats.misses += 1
            return None
        del config[_MISSED]
        stored = stored_of(known)
        assert stored is not None, "an entry says what is stored"
        remember(config, stored.version, stored.generation)
        self._cache.stats.hits += 1
        return known

    async def aput_state_cache(self, config: Config, state: StateT) -> None:
        key = await self._key(config, self.durable.scope(config))
        if key is not None:
            await self._refresh(key, config, state)

    async def aget_state(self, config: Config, version: int | None = None) -> StateT | None:
        if version is not None:
            return await self.durable.aget_state(config, version)
        scope = self.durable.scope(config)
        key = await self._key(config, scope)
        if key is not None and not config.pop(_MISSED, False):
            config[_SEEN] = await self._cache.look(key)
        state = await self.durable.aget_state(config)
        config.pop(_REFUSED, None)
        if key is not None and state is not None:
            await self._refresh(key, config, state)
        elif key is not None and not str(config.get(_SEEN) or "/").endswith("/"):
            await self._cache.drop(key)  # of a thread that is no more
        return state

    async def aput_checkpoint(
        self,
        config: Config,
        state: StateT,
        messages: Sequence[Message] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> StateT:
        await self._look_first(config)
        async with self._dropping_if_refused(config):
            return await self.durable.aput_checkpoint(config, state, messages, metadata)

    async def aput_state(self, config: Config, state: StateT) -> StateT:
        state = await self.aput_checkpoint(config, state)
        await self.aput_state_cache(config, state)
        return state

    async def aclear_state(self, config: Config) -> None:
        await self.durable.aclear_state(config)
        await self._invalidate_state_cache(config)

    async def adelete_message(self, config: Config, message_id: str) -> bool:
        found = await self.durable.adelete_message(config, message_id)
        if found:
            await self._invalidate_state_cache(config)
        return found

    async def aclean_thread(self, config: Config) -> bool:
        key = await self._key(config, self.durable.scope(config))  # while there is an owner
        found = await self.durable.aclean_thread(config)
        if key is not None:
            await self._drop(key)
        config.pop(_SEEN, None)
        return found

    async def aput_thread(self, config: Config, info: ThreadInfo) -> None:
        async with self._dropping_if_refused(config):
            await self.durable.aput_thread(config, info)
        if info.user_id not in (None, self.durable.scope(config).user_id):
            await self._invalidate_state_cache(config)

    async def aput_messages(
        self,
        config: Config,
        messages: Sequence[Message],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        async with self._dropping_if_refused(config):
            await self.durable.aput_messages(config, messages, metadata)

    async def aput_tool_result(self, config: Config, execution: ToolExecution) -> None:
        async with self._dropping_if_refused(config):
            await self.durable.aput_tool_result(config, execution)

    async def afork_thread(
        self, config: Config, new_thread_id: str, version: int | None = None
    ) -> dict[str, Any]:
        forked = await self.durable.afork_thread(config, new_thread_id, version)
        forked.pop(_SEEN, None)
        await self._invalidate_state_cache(forked)  # of an earlier life of that id
        return forked

    async def aimport_thread(self, config: Config, lines: Iterable[str]) -> ThreadInfo:
        info = await self.durable.aimport_thread(config, lines)
        await self._invalidate_state_cache({**config, "thread_id": info.thread_id})
        return info

    async def aclose(self) -> None:
        try:
            await self._cache.close()
        finally:
            await self.durable.aclose()

    def _get_thread_key(self, thread_id: str, user_id: str | None) -> str:
        return entry_key(thread_id, user_id if self.enforce_user_isolation else None, self._prefix)

    async def _invalidate_state_cache(self, config: Config, floor: int | None = None) -> None:
        key = await self._key(config, self.durable.scope(config))
        if key is not None:
            await self._drop(key, floor)

    async def _drop(self, key: str, floor: int | None = None) -> None:
        self._entries.forget(key)
        await self._cache.drop(key, floor=floor)

    def _owner(self, scope: Scope) -> str | None:
        return scope.user_id if self.enforce_user_isolation else None

    def _is_guest(self, scope: Scope) -> bool:
        """Whether only the database can say if this caller may read the thread.

        A policy has switched isolation on for this call, or off: entries are kept by owner where
        it is on, and without one where it is off.
        """
        return scope.isolated != self.enforce_user_isolation

    async def _key(self, config: Config, scope: Scope) -> str | None:
        """The key of the thread's entry, under whatever policy it is asked for."""
        user_id = scope.user_id
        if self.enforce_user_isolation and not scope.isolated:
            info = await self.durable.aget_thread(config)
            if info is None or info.user_id is None:
                return None
            user_id = info.user_id
        return self._get_thread_key(scope.thread_id, user_id)

    async def _look_first(self, config: Config) -> None:
        """Let a write whose config has not read yet be told from one that began before a drop."""
        if _SEEN not in config:
            key = await self._key(config, self.durable.scope(config))
            config[_SEEN] = None if key is None else await self._cache.look(key)

    async def _refresh(self, key: str, config: Config, state: StateT) -> None:
        """Write what is stored of the state, if that is what the config is at."""
        stored = stored_of(state)
        if (
            stored is None
            or stored.version != config.get(VERSION_KEY)
            or str(stored.generation) != config.get(GENERATION_KEY)
        ):
            await self._drop(key)
            return
        if self._cache.is_away:
            self._cache.skip(key, stored.version)
            return
        owner = self._owner(self.durable.scope(config))
        value = self._entries.write(key, stored, owner, self.durable.codec(type(state)))
        if value is None:
            await self._drop(key, stored.version)
            return
        await self._cache.put(
            key,
            value,
            version=stored.version,
            life=stored.generation.hex,
            seen=config.get(_SEEN),
        )

    async def _is_current(self, key: str, config: Config, known: StateT) -> bool:
        """Whether the entry is the thread's newest state, where that is asked for or in doubt."""
        if not self.verify_cached_version and not self._cache.doubts(key):
            return True
        stored = stored_of(known)
        head = await self.durable.head(config)
        if stored is None or head is None:
            return False
        if (head.generation, head.version) != (stored.generation, stored.version):
            return False
        self._cache.vouch(key)
        return True

    @asynccontextmanager
    async def _dropping_if_refused(self, config: Config) -> AsyncIterator[None]:
        """Drop the entry if a write finds the thread not as it was read.

        What was read may have come from there, and the next read must not.
        """
        try:
            yield
        except StaleStateError as error:
            await self._invalidate_state_cache(config, error.current_version)
            self._refuse(config)
            raise
        except ThreadOwnershipError:
            await self._invalidate_state_cache(config)
            self._refuse(config)
            raise

    @staticmethod
    def _refuse(config: Config) -> None:
        config.pop(_SEEN, None)
        config[_REFUSED] = True
