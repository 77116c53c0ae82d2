"""Ids, names and texts that are operators of an engine: to every checkpointer they are names."""

import unicodedata
from typing import Any

import pytest
from backends import Backend, Checkpointer
from hostile import VALUES
from ownership import EXECUTION, READS, REMOVALS, WRITES, alices_thread, everything_of, exported, of
from threads import message, present, state, texts

from tenxgraph.core.exceptions import StorageError, ThreadOwnershipError
from tenxgraph.storage.checkpointer import ThreadInfo

SAMPLE = VALUES[::4]
"""Enough where a value costs many calls."""


async def test_a_hostile_user_has_their_own_threads_and_no_others(
    checkpointer: Checkpointer,
) -> None:
    await alices_thread(checkpointer)
    before = await everything_of(checkpointer, "alice")
    for number, user in enumerate(VALUES):
        own = of(user, f"own {number}", thread_name="own")
        await checkpointer.aput_state(own, state(user))
        assert texts(await checkpointer.aget_state(of(user, f"own {number}"))) == [user]
        page = await checkpointer.alist_threads({"user_id": user})
        assert [one.thread_id for one in page] == [f"own {number}"], user
        assert await checkpointer.alist_threads({"user_id": user}, search="secret") == []
        assert await checkpointer.aget_state(of(user)) is None
        assert await checkpointer.aget_state_cache(of(user)) is None
        assert not await checkpointer.aclean_thread(of(user))
    assert [one.thread_id for one in await checkpointer.alist_threads({"user_id": "alice"})] == [
        "t"
    ]
    for number, user in enumerate(VALUES):
        assert await checkpointer.aclean_thread(of(user, f"own {number}"))
    assert await everything_of(checkpointer, "alice") == before


async def test_no_call_of_a_hostile_user_reaches_a_thread(checkpointer: Checkpointer) -> None:
    await alices_thread(checkpointer)
    await checkpointer.arequest_stop(of("alice"))
    before = await everything_of(checkpointer, "alice")
    for user in SAMPLE:
        for name, read in READS.items():
            assert not await read(checkpointer, of(user)), (user, name)
        for write in WRITES.values():
            with pytest.raises(ThreadOwnershipError):
                await write(checkpointer, of(user))
        for name, remove in REMOVALS.items():
            assert not await remove(checkpointer, of(user)), (user, name)
        for call in (checkpointer.afork_thread(of(user), "copy"), exported(checkpointer, of(user))):
            with pytest.raises(StorageError) as raised:
                await call
            assert raised.value.code == "not_found"
    assert await everything_of(checkpointer, "alice") == before


async def test_hostile_thread_ids_are_threads_of_their_own(checkpointer: Checkpointer) -> None:
    for thread in VALUES:
        await checkpointer.aput_state(of("u", thread), state(thread))
        await checkpointer.aput_tool_result(of("u", thread), EXECUTION)
    for thread in VALUES:
        mine = of("u", thread)
        assert texts(await checkpointer.aget_state(mine)) == [thread]
        assert len(await checkpointer.alist_tool_results(mine)) == 1
        assert present(await checkpointer.aget_thread(mine)).thread_id == thread
    page = await checkpointer.alist_threads({"user_id": "u"}, limit=1000)
    assert {one.thread_id for one in page} == set(VALUES)
    for thread in VALUES[::2]:
        assert await checkpointer.aclean_thread(of("u", thread))
    page = await checkpointer.alist_threads({"user_id": "u"}, limit=1000)
    assert {one.thread_id for one in page} == set(VALUES[1::2])
    for thread in VALUES[1::2]:
        assert texts(await checkpointer.aget_state(of("u", thread))) == [thread]


async def test_ids_that_would_run_together_in_a_key_stay_apart(backend: Backend) -> None:
    pairs = [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c:"), ("a%3A", "b"), ("{a}", "b"), ("a", "{b}")]
    pairs += [("*", "*"), ("?", "*"), ("a\n", "b"), ("a ", "b"), ("A", "b")]
    writer, reader = backend.make(), backend.make()
    for number, (thread, user) in enumerate(dict(pairs).items()):
        await writer.aput_state(of(user, thread), state(str(number)))
    for number, (thread, user) in enumerate(dict(pairs).items()):
        for _ in range(2):  # from the tables, then from a cache where there is one
            assert texts(await reader.aget_state(of(user, thread))) == [str(number)]


async def test_hostile_message_ids_name_one_message_each(checkpointer: Checkpointer) -> None:
    mine = of("u")
    await checkpointer.aput_state(mine, state(*VALUES))
    for number, value in enumerate(VALUES):
        assert present(await checkpointer.aget_message(mine, value)).text() == value
        await checkpointer.aput_tool_result(
            mine, EXECUTION.model_copy(update={"message_id": value, "position": number})
        )
    for number, value in enumerate(VALUES):
        found = present(await checkpointer.aget_tool_result(mine, value, number))
        assert (found.message_id, found.position) == (value, number)
    for value in SAMPLE:
        assert await checkpointer.adelete_message(mine, value)
        assert not await checkpointer.adelete_message(mine, value)
    kept = [value for value in VALUES if value not in SAMPLE]
    assert texts(await checkpointer.aget_state(mine)) == kept
    assert [one.text() for one in await checkpointer.alist_messages(mine)] == kept


async def test_a_hostile_message_id_of_ones_own_touches_no_other_thread(
    checkpointer: Checkpointer,
) -> None:
    await alices_thread(checkpointer)
    before = await everything_of(checkpointer, "alice")
    for user in ("*", "%", "' OR 1=1 --"):
        mine = of(user, f"of {user}")
        await checkpointer.aput_messages(mine, [message("secret"), message("own")])
        await checkpointer.aput_tool_result(mine, EXECUTION)
        assert await checkpointer.adelete_message(mine, "secret")
        assert [one.text() for one in await checkpointer.alist_messages(mine)] == ["own"]
    assert await everything_of(checkpointer, "alice") == before


async def test_a_search_takes_hostile_text_as_it_is(checkpointer: Checkpointer) -> None:
    mine = of("u")
    await checkpointer.aput_state(mine, state(*VALUES))
    for number, name in enumerate(VALUES):
        await checkpointer.aput_thread(
            of("u", f"named {number}"), ThreadInfo(thread_id=f"named {number}", thread_name=name)
        )
    for wanted in VALUES:
        found = await checkpointer.alist_messages(mine, search=wanted)
        fit = [value for value in VALUES if wanted.casefold() in value.casefold()]
        assert [one.text() for one in found] == fit, wanted
        if wanted.isascii():  # databases differ in what is the lower case of other letters
            fit = [value for value in VALUES if wanted.lower() in value.lower()]
            page = await checkpointer.alist_threads({"user_id": "u"}, search=wanted, limit=1000)
            assert sorted(str(one.thread_name) for one in page) == sorted(fit), wanted
        foreign = of("*", "t")
        assert await checkpointer.alist_messages(foreign, search=wanted) == []
        assert await checkpointer.alist_threads({"user_id": "*"}, search=wanted) == []


async def test_metadata_filters_compare_hostile_keys_and_values_as_they_are(
    checkpointer: Checkpointer,
) -> None:
    for number, value in enumerate(VALUES):
        meta = {"label": value, value: number}
        await checkpointer.aput_state(of("u", f"t {number}", thread_meta=meta), state("x"))
    await checkpointer.aput_state(of("alice", "a", thread_meta={"*": 0, "label": "*"}), state("x"))

    async def found(**filter: Any) -> list[str]:
        page = await checkpointer.alist_threads({"user_id": "u"}, limit=1000, **filter)
        return [one.thread_id for one in page]

    for number, value in enumerate(VALUES):
        assert await found(filter={"label": value}) == [f"t {number}"], value
        assert await found(filter={value: number}) == [f"t {number}"], value
        assert await found(filter={value: value}) == []
    for operator in ({"$ne": None}, ["*"], {"label": "*"}):
        with pytest.raises(ValueError, match="filter"):
            await checkpointer.alist_threads({"user_id": "u"}, filter={"label": operator})  # type: ignore[dict-item]


async def test_hostile_cursors_are_refused_and_those_of_others_show_ones_own(
    checkpointer: Checkpointer,
) -> None:
    for number in range(4):
        await checkpointer.aput_state(of("alice", f"a{number}"), state("1", "2", "3"))
    threads = (await checkpointer.alist_threads({"user_id": "alice"}, limit=2)).cursor
    messages = (await checkpointer.alist_messages(of("alice", "a0"), limit=2)).cursor
    for user in ("*", "%", '{"$ne": null}'):
        await checkpointer.aput_state(of(user, f"own {user}"), state("own"))
        for page in (
            await checkpointer.alist_threads({"user_id": user}, cursor=threads),
            await checkpointer.alist_threads({"user_id": user}, cursor=threads, search=""),
        ):
            assert {one.thread_id for one in page} <= {f"own {user}"}
        assert await checkpointer.alist_messages(of(user, "a0"), after=messages) == []
        rest = await checkpointer.alist_messages(of(user, f"own {user}"), after=messages)
        assert {one.text() for one in rest} <= {"own"}
    for value in VALUES:
        with pytest.raises(ValueError, match="cursor"):
            await checkpointer.alist_threads({"user_id": "alice"}, cursor=value)


async def test_forks_and_exports_keep_hostile_ids(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(of("u", "source"), state(*VALUES))
    for number, value in enumerate(SAMPLE):
        forked = await checkpointer.afork_thread(of("u", "source"), value)
        assert forked["thread_id"] == value
        assert texts(await checkpointer.aget_state(of("u", value))) == list(VALUES)
        lines = await exported(checkpointer, of("u", value))
        taken = await checkpointer.aimport_thread(of(value, f"import {number}"), lines)
        assert (taken.thread_id, taken.user_id) == (f"import {number}", value)
        assert texts(await checkpointer.aget_state(of(value, f"import {number}"))) == list(VALUES)
        assert await checkpointer.aget_state(of("u", f"import {number}")) is None


async def test_normal_forms_of_one_word_are_two_ids(checkpointer: Checkpointer) -> None:
    composed, apart = (unicodedata.normalize(form, "\u1e69\u00e9") for form in ("NFC", "NFD"))
    assert composed != apart
    for user in (composed, apart):
        await checkpointer.aput_state(of(user, f"of {user}"), state(user))
    for user in (composed, apart):
        page = await checkpointer.alist_threads({"user_id": user})
        assert [one.thread_id for one in page] == [f"of {user}"]
