"""What the memory tools do: search, and promise writes, answering in JSON text."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenxgraph.core.exceptions import StoreError, TransientStorageError
from tenxgraph.storage.store.base import BaseStore
from tenxgraph.storage.store.memory_scope import Config, MemoryScope, Provenance
from tenxgraph.storage.store.new_record import checked_key
from tenxgraph.storage.store.pending import FailedWrite
from tenxgraph.storage.store.pending_write import PENDING_LOG_KEY, PendingLog, PendingWrite
from tenxgraph.storage.store.records import MemorySearchResult, MemoryType

__all__ = [
    "Caller",
    "error_in_json",
    "in_json",
    "key_or_none",
    "search_memories",
    "wanted",
    "write_memory",
]

logger = logging.getLogger("tenxgraph.store")

_NO_STORE = "no memory store configured"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, through which store, and from where in the conversation."""

    store: BaseStore
    scope: MemoryScope
    provenance: Provenance
    idempotency_key: str | None = None
    log: PendingLog | None = None

    @classmethod
    def of(
        cls,
        scope: Callable[[], MemoryScope],
        config: Config | None,
        store: BaseStore | None,
        *,
        tool_call_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> "Caller":
        """Someone in a scope, which is looked up once it is clear that there is a store."""
        if store is None:
            raise ValueError(_NO_STORE)
        if not isinstance(store, BaseStore):
            raise ValueError(f"`store` must be a BaseStore, not {type(store).__name__}.")
        if config is not None and not isinstance(config, Mapping):
            raise ValueError(f"`config` must be a dict, not {type(config).__name__}.")
        told = dict(config or {})
        if tool_call_id is not None:
            told["tool_call_id"] = tool_call_id
        log = told.get(PENDING_LOG_KEY)
        return cls(store, scope(), Provenance.of(told), idempotency_key, log)

    def config(self) -> dict[str, Any]:
        """The config with which the store is asked: the scope, and where it was learnt."""
        learnt = {name: getattr(self.provenance, name) for name in Provenance.__slots__}
        return self.scope.owned() | {k: v for k, v in learnt.items() if v is not None}


async def in_json(work: Awaitable[Any]) -> str:
    """What the work returns as JSON text; a refusal or an outage as `{"error": ...}`."""
    try:
        result = await work
    except ValueError as error:
        return error_in_json(str(error))
    except (StoreError, TransientStorageError) as error:
        logger.warning("The long-term memory is unavailable.", exc_info=True)
        return error_in_json(f"memory unavailable: {error}")
    return json.dumps(result, ensure_ascii=False)


def error_in_json(told: str) -> str:
    """An error as every memory tool tells it."""
    return json.dumps({"error": told}, ensure_ascii=False)


def wanted(name: str, value: object, action: str | None = None) -> str:
    """The text, or `ValueError` if it is blank or no text."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is required" + (f" for {action}" if action else ""))
    return value


def key_or_none(memory_key: object) -> str | None:
    """The key without blanks around it; `None` if none is given, or `ValueError`."""
    if memory_key is None or (isinstance(memory_key, str) and not memory_key.strip()):
        return None
    return checked_key(memory_key).strip()


async def search_memories(
    caller: Caller,
    query: str,
    *,
    memory_type: str | None = None,
    category: str | None = None,
    limit: int,
    score_threshold: float | None = None,
) -> list[dict[str, Any]]:
    """Search after every promised write has landed; an unknown type is searched as any type."""
    config = caller.config()
    await caller.store.aflush(config)
    _report_failures(caller)
    known = MemoryType.known(memory_type)
    found = await caller.store.asearch(
        config,
        query,
        memory_type=known.value if known else None,
        category=category or None,
        limit=limit,
        score_threshold=score_threshold,
    )
    return [_as_answer(memory) for memory in found]


async def write_memory(caller: Caller, **write: Any) -> dict[str, str]:
    """Promise a write, whose arguments have been checked; return before it is carried out."""
    _report_failures(caller)
    promised = PendingWrite(config=caller.config(), idempotency_key=caller.idempotency_key, **write)
    await caller.store.writes.submit(promised, caller.log)
    return {"status": "scheduled", "action": promised.action}


def _as_answer(memory: MemorySearchResult) -> dict[str, Any]:
    return {
        "id": memory.id,
        "content": memory.content,
        "score": round(memory.score, 4),
        "memory_type": memory.memory_type,
        "metadata": memory.metadata,
    }


def _report_failures(caller: Caller) -> None:
    """Tell of broken promises instead of doing what was asked, so that it cannot be overlooked."""
    failures = caller.store.writes.take_failures(caller.scope)
    lost = [_told(failure) for failure in failures if not failure.kept]
    late = [_told(failure) for failure in failures if failure.kept]
    told = []
    if lost:
        told.append(
            f"{len(lost)} earlier memory write(s) failed and are not saved: {'; '.join(lost)}. "
            "Repeat them if they still matter."
        )
    if late:
        told.append(
            f"{len(late)} earlier memory write(s) are not saved yet: {'; '.join(late)}. They will "
            "be carried out later; do not repeat them."
        )
    if told:
        raise ValueError(" ".join([*told, "This call itself was not carried out: repeat it."]))


def _told(failure: FailedWrite) -> str:
    """A failure as the model is told of it: what it asked for, not how it is stored."""
    write = failure.write
    target = write.memory_key or write.memory_id or f"{write.content[:80]!r}"
    return f"{write.action} {target} ({failure.reason})"
