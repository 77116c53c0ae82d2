"""A whole thread out and in: exports, imports from elsewhere, forks."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from backends import Backend, Checkpointer
from threads import config, grown, message, present, state, texts

from tenxgraph.core.exceptions import SerializationError, StaleStateError, StorageError
from tenxgraph.core.state import AgentState, Message, ToolCall, UnknownBlock
from tenxgraph.storage.checkpointer import InMemoryCheckpointer, ThreadInfo, ToolExecution


async def fill(checkpointer: Checkpointer) -> None:
    """A thread with everything in it: edits, trims, metadata, tool results."""
    mine = config(thread_name="trip\x00 to Rome", thread_meta={"when": datetime(2024, 1, 2)})
    asked = Message.assistant("calling", [ToolCall(id="c1", name="f")], message_id="asked")
    first = AgentState(context=[message("a"), message("b"), asked], context_summary="s")
    await checkpointer.aput_checkpoint(mine, first, [message("aside")], {"node": "agent"})
    read = present(await checkpointer.aget_state(mine))
    read.context = [Message.text_message("B \ud800\x00", message_id="b"), message("c")]
    await checkpointer.aput_state(mine, read)
    for position, status in enumerate(("finished", "started")):
        execution = ToolExecution(
            message_id="asked",
            position=position,
            tool_call_id="c1",
            tool_name="f",
            status=status,
            result={"at": datetime(2024, 1, 2, tzinfo=UTC), "n": 2**70} if position == 0 else None,
        )
        await checkpointer.aput_tool_result(mine, execution)


async def exported(checkpointer: Checkpointer, thread_id: str = "t") -> list[str]:
    return [line async for line in checkpointer.aexport_thread(config(thread_id))]


async def contents(checkpointer: Checkpointer, thread_id: str = "t") -> dict[str, Any]:
    mine = config(thread_id)
    thread = await checkpointer.aget_thread(mine)
    states = await checkpointer.alist_states(mine)
    return {
        "thread": thread and thread.model_dump(exclude={"thread_id"}),
        "messages": list(await checkpointer.alist_messages(mine)),
        "snapshots": [one.model_dump(exclude={"thread_id"}) for one in states],
        "states": [await checkpointer.aget_state(mine, version=one.version) for one in states],
        "tools": await checkpointer.alist_tool_results(mine),
    }


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.update(role="narrator"),
        lambda data: data.pop("timestamp") and data.update(timestamp="yesterday"),
        lambda data: data.update(content=5),
        lambda data: data.update(tool_calls=[{"id": "c"}]),
    ],
)
async def test_an_import_of_a_message_that_could_not_be_read_is_refused(damage: Any) -> None:
    source = InMemoryCheckpointer[AgentState]()
    await fill(source)
    lines = [json.loads(line) for line in await exported(source)]
    place, line = next((i, one) for i, one in enumerate(lines) if one["kind"] == "message")
    damage(line["data"])
    other = InMemoryCheckpointer[AgentState]()
    with pytest.raises(SerializationError, match=f"Line {place + 1} is no line of an export"):
        await other.aimport_thread({"user_id": "u"}, [json.dumps(one) for one in lines])
    assert await other.alist_threads({"user_id": "u"}) == []


async def test_a_damaged_block_is_imported_as_one_that_is_unknown() -> None:
    source = InMemoryCheckpointer[AgentState]()
    await fill(source)
    lines = [json.loads(line) for line in await exported(source)]
    line = next(one for one in lines if one["kind"] == "message" and "content" in one["data"])
    line["data"]["content"] = [{"type": "error"}]
    other = InMemoryCheckpointer[AgentState]()
    await other.aimport_thread({"user_id": "u"}, [json.dumps(one) for one in lines])
    read = await other.aget_message(config(), line["message_id"])
    assert read is not None
    assert read.content == (UnknownBlock(type="error"),)


async def test_an_import_is_the_thread_that_was_exported(backend: Backend) -> None:
    source = backend.make()
    await fill(source)
    lines = await exported(source)
    other = InMemoryCheckpointer[AgentState]()
    await other.aimport_thread({"user_id": "u"}, lines)
    assert await contents(other) == await contents(source)
    await source.aimport_thread(config("copy"), await exported(other))
    assert await contents(source, "copy") == await contents(source)


async def test_an_export_is_lines_of_json_that_say_what_they_are(
    checkpointer: Checkpointer,
) -> None:
    await fill(checkpointer)
    kinds = [json.loads(line)["kind"] for line in await exported(checkpointer)]
    assert kinds == ["thread", *["message"] * 6, *["state"] * 2, *["tool_execution"] * 2]
    assert all("\n" not in line for line in await exported(checkpointer))


async def test_an_imported_thread_is_the_importers(checkpointer: Checkpointer) -> None:
    await fill(checkpointer)
    lines = await exported(checkpointer)
    theirs = {"user_id": "carol", "thread_id": "carols"}
    info = await checkpointer.aimport_thread(theirs, lines)
    assert (info.user_id, info.thread_id) == ("carol", "carols")
    assert await checkpointer.aget_state(config("carols")) is None


async def test_an_imported_thread_goes_on(checkpointer: Checkpointer) -> None:
    await fill(checkpointer)
    await checkpointer.aimport_thread(config("copy"), await exported(checkpointer))
    mine = config("copy")
    read = await checkpointer.aget_state(mine)
    assert mine["_checkpoint_version"] == 2
    await checkpointer.aput_state(mine, grown(read, "more"))
    assert texts(await checkpointer.aget_state(config("copy"))) == ["B \ud800\x00", "c", "more"]
    assert len(await checkpointer.alist_messages(config("copy"))) == 6
    assert len(await checkpointer.alist_messages(config())) == 5


async def test_a_run_on_a_thread_replaced_by_an_import_is_stale(
    checkpointer: Checkpointer,
) -> None:
    await fill(checkpointer)
    running = config()
    await checkpointer.aget_state(running)
    lines = await exported(checkpointer)
    await checkpointer.aclean_thread(config())
    await checkpointer.aimport_thread(config(), lines)
    with pytest.raises(StaleStateError):
        await checkpointer.aput_state(running, state("late"))


async def test_an_import_onto_a_thread_that_is_there_is_refused(
    checkpointer: Checkpointer,
) -> None:
    await fill(checkpointer)
    before = await contents(checkpointer)
    with pytest.raises(StorageError, match="already") as raised:
        await checkpointer.aimport_thread(config(), await exported(checkpointer))
    assert raised.value.code == "thread_exists"
    assert await contents(checkpointer) == before


async def test_a_thread_that_is_not_there_cannot_be_exported(checkpointer: Checkpointer) -> None:
    with pytest.raises(StorageError, match="no thread 'nowhere'") as raised:
        await exported(checkpointer, "nowhere")
    assert raised.value.code == "not_found"


async def test_blank_lines_and_sorted_keys_do_no_harm(checkpointer: Checkpointer) -> None:
    await fill(checkpointer)
    lines = [json.dumps(json.loads(one), sort_keys=True) for one in await exported(checkpointer)]
    await checkpointer.aimport_thread(config("copy"), "\n\n".join(lines).splitlines(True))
    assert await contents(checkpointer, "copy") == await contents(checkpointer)


def change(kind: str, **fields: Any) -> Callable[[list[str]], list[str]]:
    """Lines in which the first one of a kind says something else."""

    def changed(lines: list[str]) -> list[str]:
        documents = [json.loads(line) for line in lines]
        next(one for one in documents if one["kind"] == kind).update(fields)
        return [json.dumps(one) for one in documents]

    return changed


def without(kind: str, field: str) -> Callable[[list[str]], list[str]]:
    def changed(lines: list[str]) -> list[str]:
        documents = [json.loads(line) for line in lines]
        del next(one for one in documents if one["kind"] == kind)[field]
        return [json.dumps(one) for one in documents]

    return changed


BROKEN: dict[str, Callable[[list[str]], list[str]]] = {
    "nothing": lambda lines: [],
    "one text instead of lines": lambda lines: list(lines[0]),
    "no JSON": lambda lines: [lines[0], "{broken", *lines[1:]],
    "cut short": lambda lines: [*lines[:-1], lines[-1][:-10]],
    "its last line lost": lambda lines: lines[:-1],
    "half of it lost": lambda lines: lines[: len(lines) // 2],
    "a line lost in the middle": lambda lines: [*lines[:1], *lines[2:]],
    "JSON that is no object": lambda lines: [*lines, "[1]"],
    "an object of no kind": lambda lines: [*lines, "{}"],
    "an unknown kind": lambda lines: [*lines, '{"kind": "secret"}'],
    "no thread": lambda lines: lines[1:],
    "two threads": lambda lines: [lines[0], *lines],
    "every line twice": lambda lines: [lines[0], *lines[1:], *lines[1:]],
    "a newer format": change("thread", format=2),
    "a thread without a version": without("thread", "version"),
    "a version that is text": change("thread", version="2"),
    "a negative version": change("thread", version=-1),
    "metadata that is no object": change("thread", meta=[1]),
    "a time without a zone": change("thread", created_at="2024-01-01T00:00:00"),
    "a message without a number": without("message", "seq"),
    "a message number beyond 64 bits": change("message", seq=2**63),
    "a message without an id": without("message", "message_id"),
    "a message that is text": change("message", data="hello"),
    "two messages of one number": change("message", seq=2),
    "two messages of one id": change("message", message_id="b"),
    "a state without its data": without("state", "state_data"),
    "a state without a context": change("state", state_data={}),
    "a context that is no list": change("state", state_data={"context": "all"}),
    "a context out of bounds": change("state", state_data={"context": [[1, 10**15]]}),
    "two states of one version": change("state", version=2),
    "a write id that is none": change("state", write_id="x"),
    "a status that is none": change("tool_execution", status="lost"),
    "a negative position": change("tool_execution", position=-1),
}


async def test_what_is_no_export_is_refused_whole(checkpointer: Checkpointer) -> None:
    await fill(checkpointer)
    lines = await exported(checkpointer)
    for name, harm in BROKEN.items():
        with pytest.raises(SerializationError):
            await checkpointer.aimport_thread(config("copy"), harm(lines))
        assert await checkpointer.aget_thread(config("copy")) is None, name


async def test_an_export_that_was_cut_short_says_what_is_missing(
    checkpointer: Checkpointer,
) -> None:
    await fill(checkpointer)
    lines = await exported(checkpointer)
    with pytest.raises(SerializationError, match=r"not complete: it announces .* Nothing was"):
        await checkpointer.aimport_thread(config("copy"), lines[:-1])


async def test_columns_that_are_not_known_are_passed_over(checkpointer: Checkpointer) -> None:
    await fill(checkpointer)
    lines = change("message", more=1, thread_id="x")(await exported(checkpointer))
    lines = change("thread", user_id="mallory", more=1, last_seq=0, version=0)(lines)
    info = await checkpointer.aimport_thread(config("copy"), lines)
    assert info.user_id == "u"
    mine = config("copy")
    read = await checkpointer.aget_state(mine)
    await checkpointer.aput_state(mine, grown(read, "more"))
    assert mine["_checkpoint_version"] == 3


async def test_an_import_without_a_thread_id_keeps_its_own(checkpointer: Checkpointer) -> None:
    await fill(checkpointer)
    lines = await exported(checkpointer)
    await checkpointer.aclean_thread(config())
    assert (await checkpointer.aimport_thread({"user_id": "u"}, lines)).thread_id == "t"
    for bad in ("", "x" * 256, "nul\x00"):
        with pytest.raises(ValueError, match="thread_id"):
            await checkpointer.aimport_thread(
                {"user_id": "u"}, change("thread", thread_id=bad)(lines)
            )


async def test_a_fork_begins_with_the_state_and_its_messages(checkpointer: Checkpointer) -> None:
    mine = config()
    for length in (1, 2, 3):
        await checkpointer.aput_state(mine, state(*"abc"[:length]))
    await checkpointer.aput_messages(mine, [message("aside")])
    forked = await checkpointer.afork_thread(config(), "fork", version=2)
    assert forked["thread_id"] == "fork"
    assert texts(await checkpointer.aget_state(config("fork"))) == ["a", "b"]
    assert [m.text() for m in await checkpointer.alist_messages(config("fork"))] == ["a", "b"]
    [only] = await checkpointer.alist_states(config("fork"))
    assert (only.version, only.meta) == (1, {"forked_from": "t"})


async def test_a_fork_and_its_origin_go_their_own_ways(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a", "b"))
    forked = await checkpointer.afork_thread(mine, "fork")
    await checkpointer.aput_state(forked, grown(await checkpointer.aget_state(forked), "left"))
    await checkpointer.aput_state(mine, grown(await checkpointer.aget_state(mine), "right"))
    await checkpointer.adelete_message(config("fork"), "a")
    assert texts(await checkpointer.aget_state(config("fork"))) == ["b", "left"]
    assert texts(await checkpointer.aget_state(config())) == ["a", "b", "right"]
    await checkpointer.aclean_thread(config())
    assert texts(await checkpointer.aget_state(config("fork"))) == ["b", "left"]


async def test_a_fork_leaves_the_callers_config_alone(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("a"))
    mine = config(run_id="r")
    forked = await checkpointer.afork_thread(mine, "fork")
    assert mine == config(run_id="r")
    assert forked["run_id"] == "r"
    await checkpointer.aput_state(forked, state("a", "b"))


async def test_a_fork_of_an_old_version_has_the_messages_as_they_were(
    checkpointer: Checkpointer,
) -> None:
    await fill(checkpointer)
    await checkpointer.afork_thread(config(), "fork", version=1)
    assert texts(await checkpointer.aget_state(config("fork"))) == ["a", "b", "calling"]


async def test_a_fork_knows_what_became_of_its_tool_calls(checkpointer: Checkpointer) -> None:
    asked = Message.assistant("", [ToolCall(id="c", name="f")] * 4, message_id="asked")
    later = Message.assistant("", [ToolCall(id="c", name="f")], message_id="later")
    mine = config()
    written = await checkpointer.aput_state(mine, AgentState(context=[message("a"), asked]))
    written.context = [*written.context, later]
    await checkpointer.aput_state(mine, written)
    statuses = ("finished", "started", "failed", "scheduled")
    calls = [("asked", position) for position in range(4)] + [("later", 0), ("promise:1", 0)]
    for (message_id, position), status in zip(calls, (*statuses, *statuses[::3]), strict=True):
        execution = ToolExecution(
            message_id=message_id,
            position=position,
            tool_call_id="c",
            tool_name="f",
            args_digest="d",
            status=status,
            result={"at": datetime(2024, 1, 2, tzinfo=UTC), "n": position},
        )
        await checkpointer.aput_tool_result(mine, execution)
    known = await checkpointer.alist_tool_results(mine)
    forked = await checkpointer.afork_thread(config(), "fork", version=1)
    assert await checkpointer.alist_tool_results(forked) == known[:3], "a promise is not doubled"
    await checkpointer.afork_thread(config(), "newer")
    assert await checkpointer.alist_tool_results(config("newer")) == [*known[:3], known[4]]
    assert await checkpointer.alist_tool_results(mine) == known
    await checkpointer.aput_state(forked, grown(await checkpointer.aget_state(forked), "on"))
    await checkpointer.aclean_thread(config())
    assert len(await checkpointer.alist_tool_results(forked)) == 3


async def test_an_import_carries_out_nothing_that_was_promised_elsewhere(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.aput_state(config(), state("a"))
    for status in ("scheduled", "finished"):
        execution = ToolExecution(
            message_id=f"promise:{status}",
            position=0,
            tool_name="memory_tool",
            status=status,
            result={"store": "graph", "promise": {"config": {"user_id": "somebody else"}}},
        )
        await checkpointer.aput_tool_result(config(), execution)
    exported = [line async for line in checkpointer.aexport_thread(config())]
    await checkpointer.aimport_thread({**config("copy")}, exported)
    (row,) = await checkpointer.alist_tool_results(config("copy"))
    assert row.status == "finished"


async def test_a_fork_needs_a_state_and_a_free_id(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("a"))
    await checkpointer.aput_thread(config("record"), ThreadInfo(thread_id="record"))
    for origin, version in (("nowhere", None), ("record", None), ("t", 7)):
        with pytest.raises(StorageError) as raised:
            await checkpointer.afork_thread(config(origin), "fork", version)
        assert raised.value.code == "not_found"
    for taken in ("t", "record"):
        with pytest.raises(StorageError) as raised:
            await checkpointer.afork_thread(config(), taken)
        assert raised.value.code == "thread_exists"
    for bad in ("", " ", "x" * 256, None, 1.5, "nul\x00"):
        with pytest.raises(ValueError, match="thread_id"):
            await checkpointer.afork_thread(config(), bad)  # type: ignore[arg-type]
