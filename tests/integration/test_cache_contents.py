"""What is found at a key: the state, or a miss that is healed. Never an error, never run."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import caches
import pytest
from pydantic import Field
from servers import RedisServer
from turns import IDS, KEY, Cached, cached, read, said, texts, texts_in, turn

from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.codec import Codec
from tenxgraph.storage.checkpointer import SerializationError

redis = caches.redis
checkpointer = caches.checkpointer


class Evil:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


Change = Callable[[bytes], bytes]

WRONG: dict[str, Change] = {
    "empty": lambda _: b"",
    "truncated": lambda value: value[: len(value) // 2],
    "cut by one": lambda value: value[:-1],
    "null": lambda _: b"null",
    "a list": lambda _: b"[1, 2]",
    "a number": lambda _: b"12",
    "no JSON": lambda _: b"\xff\xfe nothing",
    "no UTF-8 in a message": lambda value: value.replace(b"answered", b"answ\xffred"),
    "no UTF-8 in the head": lambda value: value.replace(b'"ada"', b'"\xff"'),
    "an older format": lambda value: value.replace(b'"format":1', b'"format":0'),
    "a newer format": lambda value: value.replace(b'"format":1', b'"format":2'),
    "another's": lambda value: value.replace(b'"ada"', b'"eve"'),
    "another thread's": lambda value: value.replace(b'"thread":"t1"', b'"thread":"t2"'),
    "of another database": lambda value: value.replace(b'"origin":""', b'"origin":"prod/public"'),
    "of a wrong life": lambda value: value.replace(b'"generation":"', b'"generation":"zz'),
    "without a life": lambda value: value.replace(b'"generation"', b'"generatjon"'),
    "without a version": lambda value: value.replace(b'"__checkpoint_version__":2,', b""),
    "version not first": lambda value: value.replace(b'{"__ch', b'{"a":1,"__ch'),
    "a version that is no number": lambda value: value.replace(b'n__":2', b'n__":"2"'),
    "a message too few": lambda value: value.replace(b'"refs":[[1,2]]', b'"refs":[[1,3]]'),
    "no ranges": lambda value: value.replace(b'"refs":[[1,2]]', b'"refs":[7]'),
    "a broken message": lambda value: value.replace(b'"role":"user"', b'"role":"king"'),
    "fields of no object": lambda value: value.replace(b'"fields":{', b'"fields":[{'),
    "a class that is not ours": lambda value: value.replace(
        b'"context_summary":null',
        b'"context_summary":{"$t":"object","c":"subprocess.Popen","v":{"args":["true"]}}',
    ),
    "only spec's fields": lambda _: b'{"__checkpoint_version__": 9, "context": []}',
}


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_content_is_a_miss_and_is_healed(
    checkpointer: Cached, redis: Any, wrong: str, known: bool
) -> None:
    await turn(checkpointer, "a")
    value = redis.get(KEY)
    changed = WRONG[wrong](value)
    assert changed != value
    redis.set(KEY, changed)
    if not known:
        checkpointer._entries.forget(KEY)
    before = checkpointer.cache_stats.misses
    assert await texts_in(checkpointer) == said("a")
    assert checkpointer.cache_stats.misses == before + 1
    assert redis.get(KEY) == value, "healed"
    assert redis.ttl(KEY) > 0
    await turn(checkpointer, "b")
    assert await texts_in(checkpointer) == said("a", "b")


@pytest.mark.parametrize("kind", ["list", "hash", "set", "stream"])
async def test_another_type_is_a_miss_and_is_healed(
    checkpointer: Cached, redis: Any, kind: str
) -> None:
    await turn(checkpointer, "a")
    value = redis.get(KEY)
    redis.delete(KEY)
    match kind:
        case "list":
            redis.rpush(KEY, "x")
        case "hash":
            redis.hset(KEY, "a", "b")
        case "set":
            redis.sadd(KEY, "a")
        case "stream":
            redis.xadd(KEY, {"a": "b"})
    assert await texts_in(checkpointer) == said("a")
    assert redis.get(KEY) == value
    assert checkpointer.cache_stats.errors == 0


async def test_a_fence_of_another_type_is_none(checkpointer: Cached, redis: Any) -> None:
    redis.rpush(f"{{{KEY}}}:fence", "x")
    await turn(checkpointer, "a")
    await checkpointer.aclean_thread(dict(IDS))
    await turn(checkpointer, "b")
    assert await texts_in(checkpointer) == said("b")


async def test_another_threads_entry_is_not_believed(checkpointer: Cached, redis: Any) -> None:
    await turn(checkpointer, "a")
    await turn(checkpointer, "mine", {"thread_id": "t2", "user_id": "eve"})
    redis.set(KEY, redis.get("state_cache:t2:eve"))
    assert await texts_in(checkpointer) == said("a")
    await turn(checkpointer, "other", {"thread_id": "t3", "user_id": "ada"})
    redis.set(KEY, redis.get("state_cache:t3:ada"))
    assert await texts_in(checkpointer) == said("a"), "not even one's own other thread"


async def test_a_pickle_is_not_opened(checkpointer: Cached, redis: Any, tmp_path: Path) -> None:
    trace = tmp_path / "pwned"
    await turn(checkpointer, "a")
    redis.set(KEY, pickle.dumps(Evil(trace)))
    assert await texts_in(checkpointer) == said("a")
    assert not trace.exists()


async def test_the_value_is_one_json_object_that_begins_with_the_version(
    checkpointer: Cached, redis: Any
) -> None:
    await turn(checkpointer, "a")
    value = redis.get(KEY)
    assert value.startswith(b'{"__checkpoint_version__":2,')
    document = json.loads(value)
    assert [one["content"][0]["text"] for one in document["context"]] == said("a")
    assert document["fields"]["execution_meta"]["status"] == "completed"
    assert document["owner"] == "ada"
    assert redis.ttl(KEY) == 86400


class Rich(AgentState):
    scores: dict[str, float] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    extra: Any = None


async def test_a_hit_is_what_the_database_holds_to_the_letter(
    checkpointer: Cached, redis: Any, redis_server: RedisServer
) -> None:
    checkpointer.bind_state_type(Rich)
    odd = 'line\nend, "},\n{" \x00 \ud800 \u2028 é 漢 🎈'
    state = Rich(
        context=[
            Message.text_message(odd),
            Message.tool_message({"a": odd, "n": 2**80}, "call-1"),
            Message.assistant(odd),
        ],
        scores={odd: 0.5},
        tags=("a", "b"),
        extra={"$t": "tuple", "v": [1, {2, 3}]},
    )
    config = dict(IDS)
    await checkpointer.aput_state(config, state)
    other = cached(redis_server.url(), checkpointer)
    other.bind_state_type(Rich)
    hot = await other.aget_state_cache(dict(IDS))
    cold = await other.durable.aget_state(dict(IDS))
    assert hot is not None
    assert cold is not None
    assert hot == cold == state
    assert [one._encoded for one in hot.context] == [one._encoded for one in cold.context]
    assert [one._stored for one in hot.context] == [one._stored for one in cold.context]
    assert other.cache_stats.hits == 1
    await other.aclose()


async def test_a_trimmed_and_reordered_context_is_hit_as_it_is(
    checkpointer: Cached, redis_server: RedisServer
) -> None:
    other = cached(redis_server.url(), checkpointer)
    state = AgentState(context=[Message.text_message(f"{i}") for i in range(6)])
    config = dict(IDS)
    await checkpointer.aput_state(config, state)
    for order in ([0, 1, 2, 3, 4, 5], [5, 0, 1], [0, 1, 4], [], [3], [3, 0, 1, 2]):
        kept = await checkpointer.durable.aget_state(config, 1)
        assert kept is not None
        state.context = [kept.context[i] for i in order]
        await checkpointer.aput_state(config, state)
        for reader in (checkpointer, other):
            hot = await reader.aget_state_cache(dict(IDS))
            assert texts(hot) == [f"{i}" for i in order]
    assert other.cache_stats.misses == 0
    await other.aclose()


async def test_what_is_known_is_neither_decoded_nor_shared_by_mistake(
    checkpointer: Cached,
) -> None:
    await turn(checkpointer, "a")
    state = await read(checkpointer, dict(IDS))
    again = await read(checkpointer, dict(IDS))
    assert state is not None
    assert again is not None
    assert again is not state
    assert all(one is other for one, other in zip(state.context, again.context, strict=True))
    again.context.append(Message.text_message("only mine"))
    assert await texts_in(checkpointer) == said("a"), "a run's own list is its own"


async def test_a_refresh_encodes_nothing(
    checkpointer: Cached, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dict(IDS)
    state = AgentState(context=[Message.text_message("a"), Message.assistant("b")])
    await checkpointer.aput_checkpoint(config, state)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it was encoded once already")

    monkeypatch.setattr(Codec, "fields", refuse)
    monkeypatch.setattr(Codec, "encode", refuse)
    await checkpointer.aput_state_cache(config, state)
    assert texts(await checkpointer.aget_state_cache(dict(IDS))) == ["a", "b"]


class Narrow(AgentState):
    must: int


async def test_what_fits_the_class_no_more_is_told_by_the_database(checkpointer: Cached) -> None:
    await turn(checkpointer, "a")
    checkpointer.bind_state_type(Narrow)
    assert await checkpointer.aget_state_cache(dict(IDS)) is None
    with pytest.raises(SerializationError, match="must"):
        await checkpointer.aget_state(dict(IDS))


AWKWARD = [
    *("a:b", "a", "a:", ":a", "b:c", "*", "%2A", "%", "%3A", "{a}", "a b", "a\n", "é", "e\u0301"),
    *("a[b]", "?", "\\", "漢", "t:*", "{", "}{"),
]


async def test_no_two_pairs_of_ids_share_an_entry(checkpointer: Cached, redis: Any) -> None:
    pairs = [(thread, user) for thread in AWKWARD for user in AWKWARD]
    written = {}
    for thread, user in pairs:
        ids = {"thread_id": f"{thread}", "user_id": user}
        key = checkpointer._get_thread_key(thread, user)
        assert key not in written
        written[key] = ids
    thread_of = {user: f"{user}/{i}" for i, user in enumerate(AWKWARD)}
    for user, thread in thread_of.items():
        await turn(checkpointer, user, {"thread_id": thread, "user_id": user})
    keys = set(redis.keys("*"))
    for user in ("*", "?", "a[b]", "{a}"):
        await checkpointer.aclean_thread({"thread_id": thread_of[user], "user_id": user})
        assert await texts_in(checkpointer, {"thread_id": thread_of[user], "user_id": user}) is None
    for user, thread in thread_of.items():
        if user not in ("*", "?", "a[b]", "{a}"):
            assert await texts_in(checkpointer, {"thread_id": thread, "user_id": user}) == said(
                user
            )
    assert len(keys) == len(AWKWARD)


async def test_a_prefix_keeps_deployments_apart(redis: Any, redis_server: RedisServer) -> None:
    dev = cached(redis_server.url(), prefix="dev:")
    prod = cached(redis_server.url(), prefix="{prod}:")
    await turn(dev, "dev")
    await turn(prod, "prod")
    assert redis.get(f"dev:{KEY}")
    assert redis.get(f"{{prod}}:{KEY}")
    assert await texts_in(dev) == said("dev")
    assert await texts_in(prod) == said("prod")
    await dev.aclean_thread(dict(IDS))
    assert await texts_in(prod) == said("prod")
    assert all(key.startswith((b"dev:", b"{prod}:", b"{dev:")) for key in redis.keys("*"))
    await dev.aclose()
    await prod.aclose()


async def test_two_databases_in_one_redis_do_not_read_each_other(
    redis: Any, redis_server: RedisServer
) -> None:
    one = cached(redis_server.url(), origin=f"one-{uuid4().hex}/public")
    two = cached(redis_server.url(), origin=f"two-{uuid4().hex}/public")
    await turn(one, "one")
    assert await texts_in(two) is None
    await turn(two, "two")
    assert await texts_in(one) == said("one")
    assert await texts_in(two) == said("two")
    await one.aclose()
    await two.aclose()
