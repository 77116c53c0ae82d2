"""Nobody reads, writes or deletes what belongs to somebody else."""

import asyncio

import pytest
from backends import Backend, Checkpointer
from ownership import (
    READS,
    REMOVALS,
    WRITES,
    alices_thread,
    everything_of,
    exported,
    of,
)
from threads import present, state, texts

from tenxgraph.core.exceptions import StorageError, ThreadOwnershipError


async def test_another_users_thread_reads_like_one_that_is_not_there(
    checkpointer: Checkpointer,
) -> None:
    await alices_thread(checkpointer)
    await checkpointer.arequest_stop(of("alice"))
    for name, read in READS.items():
        foreign = await read(checkpointer, of("bob"))
        assert foreign == await read(checkpointer, of("bob", "nowhere")), name
        assert not foreign, name


async def test_another_users_thread_cannot_be_exported_or_forked(
    checkpointer: Checkpointer,
) -> None:
    await alices_thread(checkpointer)
    for call in (
        exported(checkpointer, of("bob")),
        checkpointer.afork_thread(of("bob"), "copy"),
    ):
        with pytest.raises(StorageError) as raised:
            await call
        assert raised.value.code == "not_found"
    assert await checkpointer.aget_thread(of("bob", "copy")) is None


async def test_a_write_to_another_users_thread_is_refused(checkpointer: Checkpointer) -> None:
    await alices_thread(checkpointer)
    before = await everything_of(checkpointer, "alice")
    for write in WRITES.values():
        with pytest.raises(ThreadOwnershipError, match="'t' belongs to another user"):
            await write(checkpointer, of("bob"))
    assert await everything_of(checkpointer, "alice") == before


async def test_a_recorded_version_does_not_open_another_users_thread(
    checkpointer: Checkpointer,
) -> None:
    await alices_thread(checkpointer)
    before = await everything_of(checkpointer, "alice")
    for write in WRITES.values():
        for version in (0, 1, 7):
            with pytest.raises(ThreadOwnershipError):
                await write(checkpointer, of("bob", _checkpoint_version=version))
    assert await everything_of(checkpointer, "alice") == before


async def test_what_is_another_users_cannot_be_removed(checkpointer: Checkpointer) -> None:
    await alices_thread(checkpointer)
    before = await everything_of(checkpointer, "alice")
    for name, remove in REMOVALS.items():
        assert not await remove(checkpointer, of("bob")), name
    assert await everything_of(checkpointer, "alice") == before


async def test_forking_or_importing_onto_another_users_thread_is_refused(
    checkpointer: Checkpointer,
) -> None:
    await alices_thread(checkpointer)
    await checkpointer.aput_state(of("bob", "bobs"), state("mine"))
    lines = await exported(checkpointer, of("bob", "bobs"))
    before = await everything_of(checkpointer, "alice")
    with pytest.raises(ThreadOwnershipError):
        await checkpointer.afork_thread(of("bob", "bobs"), "t")
    with pytest.raises(StorageError) as raised:
        await checkpointer.aimport_thread(of("bob"), lines)
    assert raised.value.code == "thread_exists"
    assert await everything_of(checkpointer, "alice") == before


async def test_each_user_lists_their_own_threads(checkpointer: Checkpointer) -> None:
    for user, thread in (("alice", "a"), ("bob", "b"), ("alice", "c")):
        await checkpointer.aput_state(of(user, thread), state("hi"))
    page = await checkpointer.alist_threads({"user_id": "alice"})
    assert [one.thread_id for one in page] == ["c", "a"]
    assert await checkpointer.alist_threads({"user_id": "carol"}) == []


async def test_no_filter_reaches_another_users_threads(checkpointer: Checkpointer) -> None:
    mine = of("alice", thread_meta={"user_id": "bob", "k": 1})
    await checkpointer.aput_state(mine, state("hi"))
    for wanted in ({"user_id": "bob"}, {"k": 1}, {"x') OR 1=1 --": 1}):
        assert await checkpointer.alist_threads({"user_id": "bob"}, filter=wanted) == []


async def test_when_two_users_race_for_an_id_one_gets_it(checkpointer: Checkpointer) -> None:
    results = await asyncio.gather(
        *(checkpointer.aput_state(of(f"user {i}"), state(str(i))) for i in range(10)),
        return_exceptions=True,
    )
    losers = [one for one in results if isinstance(one, BaseException)]
    assert len(losers) == 9
    assert {type(one) for one in losers} == {ThreadOwnershipError}


async def test_without_a_user_nothing_goes(checkpointer: Checkpointer) -> None:
    for call in [*READS.values(), *WRITES.values(), *REMOVALS.values()]:
        for user_id in (None, "", " ", "\t\n"):
            with pytest.raises(ValueError, match="user_id"):
                await call(checkpointer, of(user_id))
    with pytest.raises(ValueError, match="user_id"):
        await checkpointer.aget_state({"thread_id": "t"})


async def test_users_that_look_alike_are_not_the_same(checkpointer: Checkpointer) -> None:
    users = ["u", "U", "u ", "ü", "u\u0308", "%", "_", "*", "u'--"]
    for i, user in enumerate(users):
        await checkpointer.aput_state(of(user, f"t{i}"), state(str(i)))
    for i, user in enumerate(users):
        page = await checkpointer.alist_threads({"user_id": user})
        assert [one.thread_id for one in page] == [f"t{i}"]


async def test_a_number_is_the_user_of_its_digits(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(of(7), state("hi"))
    assert texts(await checkpointer.aget_state(of("7"))) == ["hi"]


async def test_isolation_off_shares_all_threads(backend: Backend) -> None:
    shared = backend.make(enforce_user_isolation=False)
    await shared.aput_state({"thread_id": "t"}, state("hi"))
    await shared.aput_state(of("bob"), state("hi", "from bob"))
    assert texts(await shared.aget_state(of("carol"))) == ["hi", "from bob"]
    assert [one.thread_id for one in await shared.alist_threads({})] == ["t"]
    assert await shared.aclean_thread({"thread_id": "t"})


async def test_isolation_off_still_notes_who_made_a_thread(backend: Backend) -> None:
    shared = backend.make(enforce_user_isolation=False)
    await shared.aput_state(of("bob"), state("hi"))
    await shared.aput_state({"thread_id": "nobodys"}, state("hi"))
    assert present(await shared.aget_thread({"thread_id": "t"})).user_id == "bob"
    assert present(await shared.aget_thread({"thread_id": "nobodys"})).user_id is None
    isolated = backend.make()
    assert texts(await isolated.aget_state(of("bob"))) == ["hi"]
    assert await isolated.aget_state(of("bob", "nobodys")) is None


async def test_a_policy_can_lift_isolation_for_a_call(checkpointer: Checkpointer) -> None:
    await alices_thread(checkpointer)
    admin = of("admin", authz={"user_id": "admin", "scope": "none"})
    assert texts(await checkpointer.aget_state(admin)) == ["secret"]
    assert [one.thread_id for one in await checkpointer.alist_threads(admin)] == ["t"]


async def test_a_policy_can_impose_isolation_on_a_call(backend: Backend) -> None:
    shared = backend.make(enforce_user_isolation=False)
    await shared.aput_state(of("alice"), state("secret"))
    bob = of("bob", authz={"user_id": "bob", "scope": "owner"})
    assert await shared.aget_state(bob) is None
    with pytest.raises(ThreadOwnershipError):
        await shared.aput_state(bob, state("mine"))


async def test_the_policy_says_who_the_user_is(checkpointer: Checkpointer) -> None:
    await alices_thread(checkpointer)
    claims_to_be_alice = of("alice", authz={"user_id": "bob", "scope": "owner"})
    assert await checkpointer.aget_state(claims_to_be_alice) is None
    nobody = of("alice", authz={"user_id": None, "scope": "owner"})
    with pytest.raises(ValueError, match="user_id"):
        await checkpointer.aget_state(nobody)


async def test_a_policy_that_says_nothing_is_refused(checkpointer: Checkpointer) -> None:
    policies = ["none", {}, {"scope": "all"}, {"user_id": "alice"}, [], {"scope": None}]
    for policy in policies:
        with pytest.raises(ValueError, match="authz"):
            await checkpointer.aget_state(of("alice", authz=policy))
