"""CachedCheckpointer: any durable checkpointer, with Redis in front of it."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tenxgraph.core.exceptions import StaleStateError, ThreadOwnershipError
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.agent_state import StateT, StoredState, stored_of
from tenxgraph.storage.cache.entry import Label
from tenxgraph.storage.cache.key import checked_prefix, entry_key
from tenxgraph.storage.cache.redis_cache import RedisCache
from tenxgraph.storage.cache.state_entries import StateEntries
from tenxgraph.storage.cache.stats import CacheStats
from tenxgraph.storage.checkpointer.base import Config
from tenxgraph.storage.checkpointer.durable import DurableCheckpointer
from tenxgraph.storage.checkpointer.wrapper import CheckpointerWrapper
from tenxgraph.storage.records import ThreadInfo, ToolExecution
from tenxgraph.storage.scope import GENERATION_KEY, VERSION_KEY, remember

__all__ = ["CachedCheckpointer"]


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
        self._origin = origin
        self._entries: StateEntries[StateT] = StateEntries()
        self.verify_cached_version = verify_cached_version

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.durable!r}, {self._cache!r})"

    @property
    def cache_stats(self) -> CacheStats:
        """What the cache has done so far."""
        return self._cache.stats

    async def aget_state_cache(self, config: Config) -> StateT | None:
        label = await self._label(config)
        state = None
        if label is not None and not config.pop(_REFUSED, False) and not self._is_guest(config):
            state = await self._read(label, config)
        if state is None:
            self._cache.stats.misses += 1
        else:
            self._cache.stats.hits += 1
        return state

    async def aput_state_cache(self, config: Config, state: StateT) -> None:
        stored = stored_of(state)
        label = await self._label(config)
        if label is not None:
            await self._refresh(label, config, stored, type(state))

    async def aget_state(self, config: Config, version: int | None = None) -> StateT | None:
        if version is not None:
            return await self.durable.aget_state(config, version)
        label = await self._label(config)
        if label is not None and not config.pop(_MISSED, False):
            config[_SEEN] = await self._cache.look(self._key(label))
        state = await self.durable.aget_state(config)
        config.pop(_REFUSED, None)
        if label is not None and state is not None and config.get(_SEEN) is None:
            # Redis has just let the look wait in vain, and would let this call wait once more.
            self._cache.skip(self._key(label), config[VERSION_KEY])
        elif label is not None and state is not None:
            await self._refresh(label, config, stored_of(state), type(state))
        elif label is not None and not str(config.get(_SEEN) or "/").endswith("/"):
            await self._drop(label)  # what is there is of a thread that is no more
        return state

    async def aput_checkpoint(
        self,
        config: Config,
        state: StateT,
        messages: Sequence[Message] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> StateT:
        put = self.durable.prepared(config, state, messages, metadata)
        await self._look_first(config)
        async with self._dropping_if_refused(config):
            return await self.durable.put_prepared(config, put)

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
        label = await self._label(config)  # while there is an owner to be found
        found = await self.durable.aclean_thread(config)
        if label is not None:
            await self._drop(label)
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
        label = await self._label(config)
        if label is not None:
            await self._drop(label, floor)

    def _key(self, label: Label) -> str:
        return self._get_thread_key(label.thread_id, label.owner)

    async def _label(self, config: Config) -> Label | None:
        """Which entry a config means: by owner where isolation is on, without one where it is off.

        A policy may have switched isolation off for this call alone: then the database says whose
        thread it is.
        """
        scope = self.durable.scope(config)
        owner = scope.user_id if self.enforce_user_isolation else None
        if self.enforce_user_isolation and not scope.isolated:
            info = await self.durable.aget_thread(config)
            if info is None or info.user_id is None:
                return None
            owner = info.user_id
        return Label(self._origin, scope.thread_id, owner)

    def _is_guest(self, config: Config) -> bool:
        """Whether a policy has switched isolation on for this call, where entries have no owner."""
        return not self.enforce_user_isolation and self.durable.scope(config).isolated

    async def _drop(self, label: Label, floor: int | None = None) -> None:
        key = self._key(label)
        self._entries.forget(key)
        await self._cache.drop(key, floor=floor)

    async def _look_first(self, config: Config) -> None:
        """Let a write whose config has not read yet be told from one that began before a drop."""
        config.pop(_MISSED, None)
        if _SEEN not in config:
            label = await self._label(config)
            config[_SEEN] = None if label is None else await self._cache.look(self._key(label))

    async def _read(self, label: Label, config: Config) -> StateT | None:
        key = self._key(label)
        found = await self._cache.get(key)
        config[_SEEN], config[_MISSED] = found.seen, True
        if found.value is None:
            return None
        state = self._entries.read(key, found.value, label, self.durable.codec_for(config))
        stored = None if state is None else stored_of(state)
        if stored is None or not await self._is_current(key, config, stored):
            return None
        del config[_MISSED]
        remember(config, stored.version, stored.generation)
        return state

    async def _refresh(
        self, label: Label, config: Config, stored: StoredState | None, kind: type[AgentState]
    ) -> None:
        """Write what is stored of a state, if that is what the config is at."""
        key = self._key(label)
        version = config.get(VERSION_KEY)
        at = (version, config.get(GENERATION_KEY))
        if stored is None or at != (stored.version, str(stored.generation)):
            await self._drop(label, version)
            return
        if self._cache.is_away:
            self._cache.skip(key, stored.version)
            return
        entry = self._entries.write(key, stored, label, self.durable.codec(kind))
        if entry is None:
            await self._drop(label, stored.version)
            return
        value, change = entry
        life, version, seen = stored.generation.hex, stored.version, config.get(_SEEN)
        await self._cache.put(key, value, version=version, life=life, seen=seen, change=change)

    async def _is_current(self, key: str, config: Config, stored: StoredState) -> bool:
        """Whether the entry is the thread's newest state, where that is asked for or in doubt."""
        if not self.verify_cached_version and not self._cache.doubts(key):
            return True
        head = await self.durable.head(config)
        if head is None or (head.generation, head.version) != (stored.generation, stored.version):
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
