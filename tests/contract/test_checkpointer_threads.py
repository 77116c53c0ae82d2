"""Thread records: made by a write or by hand, found by name and metadata, deleted with all data."""

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from backends import Checkpointer
from threads import config, message, present, state, texts

from tenxgraph.storage.checkpointer import Page, ThreadInfo, ToolExecution

CALLER = {"user_id": "u"}


def ids(page: Page[ThreadInfo]) -> list[str]:
    return [one.thread_id for one in page]


async def put(checkpointer: Checkpointer, thread_id: str, **fields: Any) -> None:
    info = ThreadInfo(thread_id=thread_id, **fields)
    await checkpointer.aput_thread(config(thread_id), info)


async def found(checkpointer: Checkpointer, **how: Any) -> list[str]:
    return sorted(ids(await checkpointer.alist_threads(CALLER, **how)))


async def test_a_write_makes_the_thread(checkpointer: Checkpointer) -> None:
    before = datetime.now(UTC)
    mine = config(thread_name="trip to Rome", thread_meta={"tenant": "acme"})
    await checkpointer.aput_state(mine, state("hi"))
    thread = await checkpointer.aget_thread(config())
    assert thread is not None
    assert (thread.thread_id, thread.user_id) == ("t", "u")
    assert (thread.thread_name, thread.metadata) == ("trip to Rome", {"tenant": "acme"})
    assert before <= thread.created_at == thread.updated_at <= datetime.now(UTC)


async def test_a_thread_without_a_name_has_none(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("hi"))
    thread = await checkpointer.aget_thread(config())
    assert thread is not None
    assert thread.thread_name is None
    assert thread.metadata == {}


async def test_a_thread_that_is_there_keeps_its_name(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(thread_name="first", thread_meta={"a": 1}), state("hi"))
    await checkpointer.aput_state(config(thread_name="second", thread_meta={"b": 2}), state("hi"))
    thread = await checkpointer.aget_thread(config())
    assert thread is not None
    assert (thread.thread_name, thread.metadata) == ("first", {"a": 1})


async def test_a_missing_thread_is_none(checkpointer: Checkpointer) -> None:
    assert await checkpointer.aget_thread(config("nowhere")) is None


async def test_a_record_can_be_put_before_anything_else(checkpointer: Checkpointer) -> None:
    await put(checkpointer, "t", thread_name="trip", metadata={"a": 1})
    thread = await checkpointer.aget_thread(config())
    assert thread is not None
    assert (thread.thread_name, thread.metadata, thread.user_id) == ("trip", {"a": 1}, "u")
    assert await checkpointer.aget_state(config()) is None


async def test_a_record_changes_only_what_it_gives(checkpointer: Checkpointer) -> None:
    await put(checkpointer, "t", thread_name="trip", metadata={"a": 1})
    await put(checkpointer, "t", thread_name="journey")
    await put(checkpointer, "t")
    thread = await checkpointer.aget_thread(config())
    assert thread is not None
    assert (thread.thread_name, thread.metadata) == ("journey", {"a": 1})
    await put(checkpointer, "t", metadata={})
    assert present(await checkpointer.aget_thread(config())).metadata == {}


async def test_a_record_of_another_thread_is_refused(checkpointer: Checkpointer) -> None:
    with pytest.raises(ValueError, match="names thread 't', the record 'other'"):
        await checkpointer.aput_thread(config(), ThreadInfo(thread_id="other"))


async def test_the_owner_is_who_writes_not_who_the_record_names(
    checkpointer: Checkpointer,
) -> None:
    await put(checkpointer, "t", user_id="somebody else")
    assert present(await checkpointer.aget_thread(config())).user_id == "u"


async def test_metadata_of_any_type_comes_back(checkpointer: Checkpointer) -> None:
    metadata = {
        "when": datetime(2024, 5, 1, tzinfo=UTC),
        "nul\x00": ["a\x00b", "\ue000", "\ud800"],
        "numbers": [2**70, 1e300, -0.0, 1.0, 5],
        "$t": "datetime",
        "none": None,
    }
    await put(checkpointer, "t", metadata=metadata)
    read = present(await checkpointer.aget_thread(config())).metadata
    assert read == metadata
    assert repr(sorted(read.items())) == repr(sorted(metadata.items()))


async def test_names_of_any_characters_and_length_come_back(checkpointer: Checkpointer) -> None:
    names = ["nul\x00nul", "\ue000", "\ud800 alone", "n" * 100_000, "", "Ünïcödé 🧳"]
    for i, name in enumerate(names):
        await put(checkpointer, str(i), thread_name=name)
    for i, name in enumerate(names):
        assert present(await checkpointer.aget_thread(config(str(i)))).thread_name == name


async def test_the_thread_changed_last_is_listed_first(checkpointer: Checkpointer) -> None:
    for name in "abc":
        await checkpointer.aput_state(config(name), state("hi"))
    await checkpointer.aput_messages(config("a"), [message("more")])
    assert ids(await checkpointer.alist_threads(CALLER)) == ["a", "c", "b"]
    await checkpointer.aput_state(config("b"), state("more"))
    assert ids(await checkpointer.alist_threads(CALLER)) == ["b", "a", "c"]


async def test_reading_does_not_move_a_thread(checkpointer: Checkpointer) -> None:
    for name in "ab":
        await checkpointer.aput_state(config(name), state("hi"))
    await checkpointer.aget_state(config("a"))
    await checkpointer.alist_messages(config("a"))
    assert ids(await checkpointer.alist_threads(CALLER)) == ["b", "a"]


async def test_pages_of_threads_cover_all_of_them_once(checkpointer: Checkpointer) -> None:
    for i in range(25):
        await put(checkpointer, f"t{i:02}")
    seen: list[str] = []
    cursor = None
    while page := await checkpointer.alist_threads(CALLER, limit=7, cursor=cursor):
        seen += ids(page)
        cursor = page.cursor
    assert seen == [f"t{i:02}" for i in reversed(range(25))]


async def test_a_page_is_steady_while_threads_are_made(checkpointer: Checkpointer) -> None:
    for name in "abcd":
        await put(checkpointer, name)
    first = await checkpointer.alist_threads(CALLER, limit=2)
    await put(checkpointer, "new")
    rest = await checkpointer.alist_threads(CALLER, cursor=first.cursor)
    assert ids(first) + ids(rest) == ["d", "c", "b", "a"]


async def test_limits_and_offsets_of_threads(checkpointer: Checkpointer) -> None:
    for name in "abcd":
        await put(checkpointer, name)

    async def page(**how: Any) -> str:
        return "".join(ids(await checkpointer.alist_threads(CALLER, **how)))

    assert await page(offset=1, limit=2) == "cb"
    assert await page(offset=3) == "a"
    assert await page(limit=0) == ""
    assert await page(offset=9) == ""
    assert (await checkpointer.alist_threads(CALLER, limit=0)).cursor is None


NAMES = ["To Rome", "rome again", "100% sure", "1000 sure", "snake_case", "snakeXcase", "nul\x00"]
NAME_SEARCHES = {
    "rome": ["To Rome", "rome again"],
    "100%": ["100% sure"],
    "_": ["snake_case"],
    "%": ["100% sure"],
    "\x00": ["nul\x00"],
    "\ud800": [],
    "' OR 1=1 --": [],
}


async def test_threads_are_found_by_name(checkpointer: Checkpointer) -> None:
    for i, name in enumerate(NAMES):
        await put(checkpointer, str(i), thread_name=name)
    await put(checkpointer, "unnamed")
    for wanted, expected in NAME_SEARCHES.items():
        page = await checkpointer.alist_threads(CALLER, search=wanted)
        assert sorted(one.thread_name or "" for one in page) == sorted(expected), wanted


async def test_case_does_not_count_in_any_alphabet(checkpointer: Checkpointer) -> None:
    await put(checkpointer, "t", thread_name="Viel ÄRGER in ОДЕССА")
    for wanted in ("ärger", "Ärger", "одесса", "VIEL"):
        assert await found(checkpointer, search=wanted) == ["t"], wanted


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"tenant": "acme"}, ["a", "b"]),
    ({"tenant": "acme", "plan": "pro"}, ["a"]),
    ({"tenant": "no-such"}, []),
    ({"nothing": 1}, []),
    ({"nothing": None}, []),
    ({"closed": None}, ["b"]),
    ({"closed": True}, ["a"]),
    ({"closed": 1}, []),
    ({"count": 1}, ["a", "b"]),
    ({"count": 1.0}, ["a", "b"]),
    ({"count": True}, []),
    ({"count": "1"}, []),
    ({"score": 0.5}, ["a"]),
    ({"big": 2**53 + 1}, ["a"]),
    ({"big": 2**53}, []),
    ({"nested": "x"}, []),
    ({}, ["a", "b", "c"]),
]


async def test_threads_are_found_by_metadata(checkpointer: Checkpointer) -> None:
    await put(
        checkpointer,
        "a",
        metadata={
            "tenant": "acme",
            "plan": "pro",
            "closed": True,
            "count": 1,
            "score": 0.5,
            "big": 2**53 + 1,
            "nested": {"nested": "x"},
        },
    )
    await put(checkpointer, "b", metadata={"tenant": "acme", "closed": None, "count": 1.0})
    await put(checkpointer, "c", metadata={"tenant": "other"})
    for wanted, expected in FILTERS:
        assert await found(checkpointer, filter=wanted) == expected, wanted


def as_int_and_float(number: float) -> list[int | float]:
    return [kind(number) for kind in (int, float) if kind(number) == number]


async def test_numbers_are_found_by_their_value_however_they_are_written(
    checkpointer: Checkpointer,
) -> None:
    numbers = [1e16, 1e-7, -2.5e-300, 1e300, float(2**70), 1.5, 2**53 + 1, 0]
    for number in numbers:
        for one in as_int_and_float(number):
            await put(checkpointer, f"{number} {type(one)}", metadata={"n": one})
    await put(checkpointer, "as text", metadata={"n": "1e16"})
    for number in numbers:
        expected = sorted(f"{number} {type(one)}" for one in as_int_and_float(number))
        for one in as_int_and_float(number):
            assert await found(checkpointer, filter={"n": one}) == expected
    await put(checkpointer, "minus", metadata={"n": -0.0})
    for zero in (0, 0.0, -0.0):
        assert len(await found(checkpointer, filter={"n": zero})) == 3


EVIL = ["x') OR 1=1 --", "a'; DROP TABLE threads; --", "$.a", "a.b", 'a"b', "user_id", "a%", "\\"]
STRANGE = ["", "nul\x00", "\ue000", "\ud800", "é", "日本", "\n", "[0]", "*"]


async def test_a_filter_key_is_only_ever_a_key(checkpointer: Checkpointer) -> None:
    await put(checkpointer, "without", metadata={"a": {"b": "v"}, "other": "v"})
    for i, key in enumerate(EVIL + STRANGE):
        assert await found(checkpointer, filter={key: "v"}) == [], key
        await put(checkpointer, f"with {i}", metadata={key: "v"})
        assert await found(checkpointer, filter={key: "v"}) == [f"with {i}"], key


async def test_a_filter_value_is_only_ever_a_value(checkpointer: Checkpointer) -> None:
    await put(checkpointer, "without", metadata={"k": {"k": "x"}})
    for i, value in enumerate(EVIL + STRANGE):
        assert await found(checkpointer, filter={"k": value}) == [], value
        await put(checkpointer, f"with {i}", metadata={"k": value})
        assert await found(checkpointer, filter={"k": value}) == [f"with {i}"], value


REFUSED_FILTERS: list[Any] = [
    {"a": {"$nope": 1}},
    {"a": {"$gt; --": 1}},
    {"a": [1]},
    {"a": float("nan")},
    {"a": float("inf")},
    {"a": 10**400},
    {"a": b"x"},
    {1: "a"},
    "tenant",
    ["tenant"],
]


async def test_a_filter_that_is_no_comparison_with_a_plain_value_is_refused(
    checkpointer: Checkpointer,
) -> None:
    for wanted in REFUSED_FILTERS:
        with pytest.raises(ValueError, match="filter"):
            await checkpointer.alist_threads(CALLER, filter=wanted)


def cursor_of(place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


NOW = "2024-05-01T00:00:00+00:00"
FORGED: list[Any] = [
    "not a cursor!",
    base64.urlsafe_b64encode(b"{").decode(),
    cursor_of(5),
    cursor_of([NOW]),
    cursor_of([NOW, "t", "x"]),
    cursor_of(["yesterday", "t"]),
    cursor_of(["2024-05-01T00:00:00", "t"]),  # without a time zone
    cursor_of(["9999-12-31T23:59:59-14:00", "t"]),  # not in any year of UTC
    cursor_of([NOW, None]),
    cursor_of([NOW, ["t"]]),
    cursor_of([NOW, "t\x00"]),
    "é",
    "",
    5,
]


async def test_a_cursor_that_is_none_is_refused(checkpointer: Checkpointer) -> None:
    for cursor in FORGED:
        with pytest.raises(ValueError, match="cursor"):
            await checkpointer.alist_threads(CALLER, cursor=cursor)


async def test_a_cursor_in_another_zone_means_the_same_moment(
    checkpointer: Checkpointer,
) -> None:
    await put(checkpointer, "t")
    later = datetime.now(timezone(timedelta(hours=5))) + timedelta(hours=1)
    page = await checkpointer.alist_threads(CALLER, cursor=cursor_of([later.isoformat(), "t"]))
    assert ids(page) == ["t"]


async def test_deleting_a_thread_deletes_all_of_it(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("hi"))
    execution = ToolExecution(message_id="hi", position=0, tool_name="f", status="finished")
    await checkpointer.aput_tool_result(config(), execution)
    await checkpointer.arequest_stop(config())
    assert await checkpointer.aclean_thread(config()) is True

    async def nothing_is_there() -> None:
        assert await checkpointer.aget_state(config()) is None
        assert await checkpointer.aget_state(config(), version=1) is None
        assert await checkpointer.alist_states(config()) == []
        assert await checkpointer.alist_messages(config()) == []
        assert await checkpointer.aget_message(config(), "hi") is None
        assert await checkpointer.alist_tool_results(config()) == []
        assert await checkpointer.aget_tool_result(config(), "hi", 0) is None
        assert await checkpointer.ais_stop_requested(config()) is False

    assert await checkpointer.aget_thread(config()) is None
    await nothing_is_there()
    await put(checkpointer, "t")  # the id used anew finds nothing of what was there
    await nothing_is_there()


async def test_deleting_what_is_not_there_says_so(checkpointer: Checkpointer) -> None:
    assert await checkpointer.aclean_thread(config("nowhere")) is False


async def test_deleting_one_thread_leaves_the_others(checkpointer: Checkpointer) -> None:
    for name in ("t", "t2", "T", "t%"):
        await checkpointer.aput_state(config(name), state(name))
    await checkpointer.aclean_thread(config("t%"))
    assert await found(checkpointer) == ["T", "t", "t2"]
    assert texts(await checkpointer.aget_state(config("t"))) == ["t"]


async def test_a_thread_may_be_made_by_many_at_once(checkpointer: Checkpointer) -> None:
    await asyncio.gather(*(put(checkpointer, "t", thread_name=str(i)) for i in range(20)))
    assert await found(checkpointer) == ["t"]
