"""A hit is never served to a user who does not own the thread."""

from collections.abc import AsyncIterator
from typing import Any

import caches
import pytest
from servers import RedisServer
from turns import KEY, Cached, cached, said, texts_in, turn

from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.cache import RedisCache
from tenxgraph.storage.checkpointer import (
    CachedCheckpointer,
    InMemoryCheckpointer,
    ThreadInfo,
    ThreadOwnershipError,
)

ADA = {"thread_id": "t1", "user_id": "ada"}
BOB = {"thread_id": "t1", "user_id": "bob"}
ADMIN = {"thread_id": "t1", "user_id": "root", "authz": {"user_id": "root", "scope": "none"}}
BY_OWNER = {"thread_id": "t1", "authz": {"user_id": "bob", "scope": "owner"}}

redis = caches.redis
checkpointer = caches.checkpointer


@pytest.fixture
async def shared(redis: Any, redis_server: RedisServer) -> AsyncIterator[Cached]:
    durable = InMemoryCheckpointer[Any](enforce_user_isolation=False)
    made: Cached = CachedCheckpointer(durable, RedisCache(redis_server.url()))
    yield made
    await made.aclose()


async def test_knowing_the_id_is_not_enough(checkpointer: Cached, redis: Any) -> None:
    await turn(checkpointer, "secret", ADA)
    assert await texts_in(checkpointer, BOB) is None
    with pytest.raises(ThreadOwnershipError):
        await checkpointer.aput_state(dict(BOB), AgentState())
    assert await checkpointer.aclean_thread(dict(BOB)) is False
    assert await texts_in(checkpointer, ADA) == said("secret")
    assert redis.get("state_cache:t1:bob") is None


@pytest.mark.parametrize("missing", [{"user_id": "ada"}, {"thread_id": "t1"}, {}])
async def test_a_config_without_an_id_is_refused(
    checkpointer: Cached, missing: dict[str, Any]
) -> None:
    for call in (checkpointer.aget_state_cache, checkpointer.aget_state):
        with pytest.raises(ValueError, match="has no"):
            await call(dict(missing))
    with pytest.raises(ValueError, match="has no"):
        await checkpointer.aput_state_cache(dict(missing), AgentState())


async def test_an_entry_put_under_a_foreign_key_is_not_served(
    checkpointer: Cached, redis: Any
) -> None:
    await turn(checkpointer, "secret", ADA)
    redis.rename(KEY, "state_cache:t1:bob")
    assert await texts_in(checkpointer, BOB) is None


async def test_deleted_and_made_anew_by_someone_else(checkpointer: Cached, redis: Any) -> None:
    await turn(checkpointer, "ada's", ADA)
    await checkpointer.aclean_thread(dict(ADA))
    await turn(checkpointer, "bob's", BOB)
    assert await texts_in(checkpointer, ADA) is None
    assert await texts_in(checkpointer, BOB) == said("bob's")


async def test_deleted_by_an_admin_and_made_anew_by_someone_else(
    checkpointer: Cached, redis: Any
) -> None:
    await turn(checkpointer, "ada's", ADA)
    assert await texts_in(checkpointer, ADMIN) == said("ada's")
    await checkpointer.aclean_thread(dict(ADMIN))
    assert redis.get(KEY) is None
    assert await texts_in(checkpointer, ADA) is None
    await turn(checkpointer, "bob's", BOB)
    assert await texts_in(checkpointer, ADA) is None
    assert await texts_in(checkpointer, ADMIN) == said("bob's")


async def test_what_an_admin_writes_the_owner_reads(checkpointer: Cached, redis: Any) -> None:
    await turn(checkpointer, "a", ADA)
    await turn(checkpointer, "b", ADMIN)
    assert redis.keys("state_cache:*") == [KEY.encode()]
    before = checkpointer.cache_stats.hits
    assert await texts_in(checkpointer, ADA) == said("a", "b")
    assert checkpointer.cache_stats.hits == before + 1


async def test_after_the_owner_changed_in_the_database(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    """Behind our back: who must never be wrong about that has every hit checked."""
    await turn(checkpointer, "a", ADA)
    checked = cached(redis_server.url(), checkpointer, verify_cached_version=True)
    checkpointer.durable._backend._threads["t1"].row["user_id"] = "bob"  # type: ignore[attr-defined]
    assert await texts_in(checked, ADA) is None
    assert redis.get(KEY) is None, "and what was there is gone"
    assert await texts_in(checkpointer, ADA) is None
    assert await texts_in(checkpointer, BOB) == said("a")
    await checked.aclose()


async def test_a_record_of_another_owner_drops_the_entry(checkpointer: Cached, redis: Any) -> None:
    await turn(checkpointer, "a", ADA)
    await checkpointer.aput_thread(dict(ADA), ThreadInfo(thread_id="t1", thread_name="renamed"))
    assert redis.get(KEY), "a name is in no entry"
    await checkpointer.aput_thread(dict(ADA), ThreadInfo(thread_id="t1", user_id="bob"))
    assert redis.get(KEY) is None
    assert await texts_in(checkpointer, ADA) == said("a")


async def test_an_entry_left_of_a_thread_that_is_now_anothers_goes_with_the_first_write(
    checkpointer: Cached, redis: Any
) -> None:
    await turn(checkpointer, "a", ADA)
    config = dict(ADA)
    state = await checkpointer.aget_state_cache(config)
    assert state is not None
    await checkpointer.durable.aclean_thread(dict(ADA))
    await checkpointer.durable.aput_state(dict(BOB), AgentState())
    with pytest.raises(ThreadOwnershipError):
        await checkpointer.aput_checkpoint(config, state)
    assert redis.get(KEY) is None
    assert await checkpointer.aget_state_cache(config) is None
    assert await checkpointer.aget_state(config) is None


async def test_without_isolation_all_users_see_one_entry(shared: Cached, redis: Any) -> None:
    await turn(shared, "a", ADA)
    assert redis.keys("*") == [b"state_cache:t1:*"]
    await turn(shared, "b", BOB)
    await turn(shared, "c", {"thread_id": "t1"})
    assert redis.keys("*") == [b"state_cache:t1:*"]
    assert await texts_in(shared, ADA) == said("a", "b", "c")
    assert shared.cache_stats.hits == 3


async def test_a_policy_of_ownership_where_isolation_is_off(shared: Cached, redis: Any) -> None:
    await shared.aput_state(dict(ADA), AgentState(context=[Message.text_message("secret")]))
    assert await texts_in(shared, ADA) == ["secret"]
    assert await texts_in(shared, BY_OWNER) is None
    assert await texts_in(shared, {**BY_OWNER, "authz": {"user_id": "ada", "scope": "owner"}}) == [
        "secret"
    ]
    assert await texts_in(shared, ADA) == ["secret"]
