"""What is no config, id, message or number is a clear error, before anything is written."""

from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import pytest
from backends import Backend, Checkpointer
from pydantic import ValidationError
from threads import config, message, present, state, texts

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import ThreadInfo, ToolExecution

Call = Callable[[Checkpointer, Any], Awaitable[Any]]

EXECUTION = ToolExecution(message_id="m", position=0, tool_name="f", status="started")


async def exported(checkpointer: Checkpointer, mine: Any) -> list[str]:
    return [line async for line in checkpointer.aexport_thread(mine)]


CALLS: dict[str, Call] = {
    "put_state": lambda c, mine: c.aput_state(mine, state("a")),
    "put_checkpoint": lambda c, mine: c.aput_checkpoint(mine, state("a")),
    "get_state": lambda c, mine: c.aget_state(mine),
    "clear_state": lambda c, mine: c.aclear_state(mine),
    "put_state_cache": lambda c, mine: c.aput_state_cache(mine, state("a")),
    "get_state_cache": lambda c, mine: c.aget_state_cache(mine),
    "put_messages": lambda c, mine: c.aput_messages(mine, [message("a")]),
    "get_message": lambda c, mine: c.aget_message(mine, "a"),
    "list_messages": lambda c, mine: c.alist_messages(mine),
    "delete_message": lambda c, mine: c.adelete_message(mine, "a"),
    "put_thread": lambda c, mine: c.aput_thread(mine, ThreadInfo(thread_id="t")),
    "get_thread": lambda c, mine: c.aget_thread(mine),
    "clean_thread": lambda c, mine: c.aclean_thread(mine),
    "list_states": lambda c, mine: c.alist_states(mine),
    "fork_thread": lambda c, mine: c.afork_thread(mine, "fork"),
    "export_thread": exported,
    "request_stop": lambda c, mine: c.arequest_stop(mine),
    "is_stop_requested": lambda c, mine: c.ais_stop_requested(mine),
    "clear_stop_request": lambda c, mine: c.aclear_stop_request(mine),
    "get_tool_result": lambda c, mine: c.aget_tool_result(mine, "m", 0),
    "list_tool_results": lambda c, mine: c.alist_tool_results(mine),
    "put_tool_result": lambda c, mine: c.aput_tool_result(mine, EXECUTION),
}
NO_IDS: list[Any] = [
    None, "", "   ", "x" * 256, "x" * 4096, "nul\x00", "\ud800", 1.5, True, b"t", ["t"], {}, object,
]  # fmt: skip


async def test_every_call_wants_a_thread_and_a_user(checkpointer: Checkpointer) -> None:
    for call in CALLS.values():
        with pytest.raises(ValueError, match="thread_id"):
            await call(checkpointer, {"user_id": "u"})
        with pytest.raises(ValueError, match="user_id"):
            await call(checkpointer, {"thread_id": "t"})
    with pytest.raises(ValueError, match="user_id"):
        await checkpointer.alist_threads({"thread_id": "t"})


async def test_what_is_no_id_is_refused_alike_by_every_call(checkpointer: Checkpointer) -> None:
    for call in CALLS.values():
        for bad in NO_IDS:
            with pytest.raises(ValueError, match="thread_id"):
                await call(checkpointer, config(bad))
            with pytest.raises(ValueError, match="user_id"):
                await call(checkpointer, {"thread_id": "t", "user_id": bad})
    assert await checkpointer.alist_threads({"user_id": "u"}) == []


async def test_ids_of_any_other_kind_are_told_apart(checkpointer: Checkpointer) -> None:
    ids = [
        "x" * 255, "日" * 255, "a:b", "a/b", "a%b", "a_b", "*", "'; DROP TABLE threads; --", "é",
        "e\u0301", " t", "t ", "T", "t", "\n", "\u200b", "..", "null", "\ue000", "-1", "0",
    ]  # fmt: skip
    ids.remove("\n")  # blank
    for one in ids:
        await checkpointer.aput_state(config(one), state(one))
    for one in ids:
        assert texts(await checkpointer.aget_state(config(one))) == [one]
    assert len(await checkpointer.alist_threads({"user_id": "u"})) == len(ids)


async def test_a_number_is_the_thread_of_its_digits(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(5), state("a"))  # type: ignore[arg-type]
    assert texts(await checkpointer.aget_state(config("5"))) == ["a"]


async def test_a_version_in_the_config_that_is_none_is_refused(
    checkpointer: Checkpointer,
) -> None:
    bad: Any
    for bad in ("1", -1, 1.0, True, [1]):
        with pytest.raises(ValueError, match="_checkpoint_version"):
            await checkpointer.aput_state(config(_checkpoint_version=bad), state("a"))
    for bad in ("x", 5, b""):
        with pytest.raises(ValueError, match="_checkpoint_generation"):
            await checkpointer.aput_state(config(_checkpoint_generation=bad), state("a"))
    assert await checkpointer.aget_thread(config()) is None


async def test_numbers_that_are_none_are_refused(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("a"))
    user = {"user_id": "u"}
    for bad in (-1, "5", 1.0, True, "1; DROP TABLE threads", 2**63, [1]):
        calls: dict[str, Awaitable[Any]] = {
            "limit": checkpointer.alist_messages(config(), limit=bad),  # type: ignore[arg-type]
            "offset": checkpointer.alist_messages(config(), offset=bad),  # type: ignore[arg-type]
            "last": checkpointer.alist_messages(config(), last=bad),  # type: ignore[arg-type]
            "limit ": checkpointer.alist_threads(user, limit=bad),  # type: ignore[arg-type]
            "offset ": checkpointer.alist_threads(user, offset=bad),  # type: ignore[arg-type]
            "limit  ": checkpointer.alist_states(config(), limit=bad),  # type: ignore[arg-type]
            "before": checkpointer.alist_states(config(), before=bad),  # type: ignore[arg-type]
            "version": checkpointer.aget_state(config(), version=bad),  # type: ignore[arg-type]
        }
        for name, call in calls.items():
            with pytest.raises(ValueError, match=f"`{name.strip()}`"):
                await call


async def test_a_message_cursor_that_is_none_is_refused(checkpointer: Checkpointer) -> None:
    for bad in ("", "x", "-1", "1.0", "٣", "9" * 30, 5, "1 OR 1=1", "9" * 5000):
        with pytest.raises(ValueError, match=r"after|digits"):
            await checkpointer.alist_messages(config(), after=bad)  # type: ignore[arg-type]


async def test_arguments_that_would_be_ignored_are_refused(checkpointer: Checkpointer) -> None:
    for more in ({"after": "1"}, {"offset": 1}, {"limit": 5}):
        with pytest.raises(ValueError, match="`last` cannot be combined"):
            await checkpointer.alist_messages(config(), last=1, **more)


async def test_text_that_is_none_is_refused(checkpointer: Checkpointer) -> None:
    for bad in (5, ["a"], b"a", object()):
        with pytest.raises(ValueError, match="search"):
            await checkpointer.alist_messages(config(), search=bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="search"):
            await checkpointer.alist_threads(config(), search=bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="message_id"):
            await checkpointer.aget_message(config(), bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="message_id"):
            await checkpointer.adelete_message(config(), bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="thread_name"):
            await checkpointer.aput_state(config(thread_name=bad), state("a"))


async def test_odd_message_ids_that_are_not_there_are_simply_not_there(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.aput_state(config(), state("a"))
    for odd in ("", "\x00", "\ud800", "x" * 10_000, "' OR 1=1 --", "%"):
        assert await checkpointer.aget_message(config(), odd) is None
        assert await checkpointer.adelete_message(config(), odd) is False
        assert await checkpointer.aget_tool_result(config(), odd, 0) is None


async def test_a_tool_call_at_no_place_is_refused(checkpointer: Checkpointer) -> None:
    for bad in (-1, "0", True, 2**63):
        with pytest.raises(ValueError, match="position"):
            await checkpointer.aget_tool_result(config(), "m", bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="message_id"):
        await checkpointer.aget_tool_result(config(), 5, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="status"):
        await checkpointer.alist_tool_results(config(), status=5)  # type: ignore[arg-type]


class Annotated(Message):
    note: str = ""


async def test_what_is_no_message_is_refused(checkpointer: Checkpointer) -> None:
    spoilt = state("a")
    for bad in ("hello", None, {"role": "user"}, Annotated(role="user", note="lost")):
        with pytest.raises(SerializationError, match=r"messages\[1\]"):
            await checkpointer.aput_messages(config(), [message("a"), bad])  # type: ignore[list-item]
        with pytest.raises(SerializationError, match=r"messages\[0\]"):
            await checkpointer.aput_checkpoint(config(), state("a"), [bad])  # type: ignore[list-item]
        spoilt.context[0:] = [message("a"), bad]  # type: ignore[list-item]
        with pytest.raises(SerializationError, match=r"state\.context\[1\]"):
            await checkpointer.aput_state(config(), spoilt)
    assert await checkpointer.aget_thread(config()) is None


async def test_metadata_that_is_no_dict_is_refused(checkpointer: Checkpointer) -> None:
    for bad in ("text", [1], 5):
        with pytest.raises(ValueError, match="metadata"):
            await checkpointer.aput_checkpoint(config(), state("a"), metadata=bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="metadata"):
            await checkpointer.aput_messages(config(), [message("a")], bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="thread_meta"):
            await checkpointer.aput_state(config(thread_meta=bad), state("a"))
    assert await checkpointer.aget_thread(config()) is None


async def test_metadata_that_is_not_plain_comes_back(checkpointer: Checkpointer) -> None:
    odd: dict[Any, Any] = {1: "int", (1, 2): date(2024, 1, 2), "$t": {"v": 1}}
    await checkpointer.aput_checkpoint(config(thread_meta=odd), state("a"), metadata=odd)
    assert present(await checkpointer.aget_thread(config())).metadata == odd
    assert (await checkpointer.alist_states(config()))[0].meta == odd


def test_messages_that_no_backend_could_keep_cannot_be_made() -> None:
    circular: list[Any] = []
    circular.append(circular)
    unfit: tuple[dict[str, Any], ...] = (
        {"message_id": ""},
        {"message_id": "x" * 256},
        {"message_id": "nul\x00"},
        {"metadata": {"a": circular}},
        {"raw": circular},
    )
    for bad in unfit:
        with pytest.raises(ValidationError):
            Message(**{"role": "user", **bad})


async def test_history_limits_that_are_none_are_refused(backend: Backend) -> None:
    for bad in (0, -1, "20", 1.5, True, None):
        with pytest.raises(ValueError, match="state_history_limit"):
            backend.open(state_history_limit=bad)


async def test_a_context_of_the_wrong_kind_cannot_be_set(checkpointer: Checkpointer) -> None:
    with pytest.raises(ValidationError):
        AgentState(context="hello")
    with pytest.raises(ValidationError):
        state("a").context = None  # type: ignore[assignment]
