"""Each message is stored once, in order, and found again."""

import asyncio
from typing import Any

from backends import Checkpointer
from threads import config, message, present, state, texts

from tenxgraph.core.state import AgentState, Message, TokenUsages, ToolCall
from tenxgraph.storage.checkpointer import Page


def said(page: Page[Message]) -> list[str]:
    return [one.text() for one in page]


def edited(one: Message, text: str) -> Message:
    return Message.text_message(text, message_id=one.message_id)


async def test_messages_of_the_context_are_stored_with_the_state(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.aput_state(config(), state("a", "b"))
    assert said(await checkpointer.alist_messages(config())) == ["a", "b"]


async def test_a_message_comes_back_equal(checkpointer: Checkpointer) -> None:
    sent = [
        Message.assistant(
            "on it",
            [ToolCall(id="c1", name="book", args={"seats": 2})],
            usages=TokenUsages(prompt_tokens=3, completion_tokens=4, total_tokens=7),
        ),
        Message.tool_message({"ok": True}, "c1", name="book"),
        Message.tool_message("no id"),
        Message(role="user", raw={}, reasoning=""),
    ]
    await checkpointer.aput_messages(config(), sent)
    assert await checkpointer.alist_messages(config()) == sent
    assert await checkpointer.aget_message(config(), sent[0].message_id) == sent[0]


async def test_messages_already_stored_are_not_stored_again(checkpointer: Checkpointer) -> None:
    mine = config()
    for length in range(1, 6):
        await checkpointer.aput_state(mine, state(*"abcde"[:length]))
    assert said(await checkpointer.alist_messages(config())) == list("abcde")


async def test_messages_beside_the_context_are_stored_too(checkpointer: Checkpointer) -> None:
    a, b, c = map(message, "abc")
    await checkpointer.aput_checkpoint(config(), AgentState(context=[a, c]), [a, b, c])
    assert said(await checkpointer.alist_messages(config())) == ["a", "b", "c"]
    assert texts(await checkpointer.aget_state(config())) == ["a", "c"]


async def test_a_message_listed_twice_is_stored_once(checkpointer: Checkpointer) -> None:
    a, b = map(message, "ab")
    await checkpointer.aput_checkpoint(config(), AgentState(context=[a, b]), [b, b, a, a, b])
    assert sorted(said(await checkpointer.alist_messages(config()))) == ["a", "b"]
    assert texts(await checkpointer.aget_state(config())) == ["a", "b"]


async def test_a_repeated_text_is_another_message(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_messages(config(), [Message.text_message("yes") for _ in range(2)])
    await checkpointer.aput_messages(config(), [Message.text_message("yes")])
    assert said(await checkpointer.alist_messages(config())) == ["yes"] * 3


async def test_a_history_built_anew_with_each_turn_is_stored_once(
    checkpointer: Checkpointer,
) -> None:
    for length in range(1, 6):
        history = [message(text) for text in "abcde"[:length]]
        await checkpointer.aput_state(config(), AgentState(context=history))
    assert said(await checkpointer.alist_messages(config())) == list("abcde")


async def test_messages_in_the_context_may_be_put_again(checkpointer: Checkpointer) -> None:
    mine = config()
    kept = await checkpointer.aput_state(mine, state("a", "b"))
    await checkpointer.aput_messages(mine, [*kept.context, message("c")])
    await checkpointer.aput_checkpoint(mine, kept, [*kept.context, message("d")])
    assert said(await checkpointer.alist_messages(config())) == ["a", "b", "c", "d"]


async def test_messages_put_first_can_join_the_context_later(checkpointer: Checkpointer) -> None:
    mine, note = config(), message("note")
    await checkpointer.aput_messages(mine, [message("before"), note])
    await checkpointer.aput_state(mine, AgentState(context=[message("new"), note]))
    assert texts(await checkpointer.aget_state(config())) == ["new", "note"]
    assert said(await checkpointer.alist_messages(config())) == ["before", "note", "new"]


async def test_put_messages_makes_the_thread(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_messages(config(thread_name="trip"), [message("a")])
    thread = await checkpointer.aget_thread(config())
    assert thread is not None
    assert (thread.thread_name, thread.user_id) == ("trip", "u")


async def test_putting_no_messages_does_nothing(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_messages(config(), [])
    assert await checkpointer.aget_thread(config()) is None


async def test_metadata_is_added_to_each_message(checkpointer: Checkpointer) -> None:
    tagged = Message(role="user", message_id="a", metadata={"own": 1, "both": "own"})
    await checkpointer.aput_messages(config(), [tagged, message("b")], {"both": "all"})
    a, b = await checkpointer.alist_messages(config())
    assert a.metadata == {"own": 1, "both": "all"}
    assert b.metadata == {"both": "all"}
    assert tagged.metadata == {"own": 1, "both": "own"}


async def test_an_edited_message_takes_the_place_of_the_first(
    checkpointer: Checkpointer,
) -> None:
    a, b, c = map(message, "abc")
    await checkpointer.aput_messages(config(), [a, b, c])
    await checkpointer.aput_messages(config(), [edited(b, "B")])
    assert said(await checkpointer.alist_messages(config())) == ["a", "B", "c"]
    assert present(await checkpointer.aget_message(config(), "b")).text() == "B"


async def test_a_message_edited_twice_in_one_write_ends_as_the_last(
    checkpointer: Checkpointer,
) -> None:
    b = message("b")
    sent = [message("a"), b, edited(b, "B"), message("c"), edited(b, "BB")]
    await checkpointer.aput_messages(config(), sent)
    assert said(await checkpointer.alist_messages(config())) == ["a", "BB", "c"]


async def test_an_edit_and_its_original_in_one_context_are_both_read(
    checkpointer: Checkpointer,
) -> None:
    b = message("b")
    await checkpointer.aput_state(config(), AgentState(context=[b, message("x"), edited(b, "B")]))
    assert texts(await checkpointer.aget_state(config())) == ["b", "x", "B"]
    assert said(await checkpointer.alist_messages(config())) == ["B", "x"]


async def test_a_snapshot_keeps_the_message_as_it_was(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a", "b"))
    read = present(await checkpointer.aget_state(mine))
    read.context = [read.context[0], edited(read.context[1], "B")]
    await checkpointer.aput_state(mine, read)
    assert texts(await checkpointer.aget_state(config())) == ["a", "B"]
    assert texts(await checkpointer.aget_state(config(), version=1)) == ["a", "b"]
    assert said(await checkpointer.alist_messages(config())) == ["a", "B"]


async def test_edit_trim_and_append_in_one_write(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state(*"abcd"))
    read = present(await checkpointer.aget_state(mine))
    _, b, _, d = read.context
    read.context = [edited(d, "D"), b, message("e")]
    await checkpointer.aput_state(mine, read)
    assert texts(await checkpointer.aget_state(config())) == ["D", "b", "e"]
    assert texts(await checkpointer.aget_state(config(), version=1)) == list("abcd")
    assert said(await checkpointer.alist_messages(config())) == ["a", "b", "c", "D", "e"]


async def test_a_missing_message_is_none_and_false(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_messages(config(), [message("a")])
    for mine in (config(), config("nowhere")):
        assert await checkpointer.aget_message(mine, "nothing") is None
        assert await checkpointer.adelete_message(mine, "nothing") is False


async def test_a_deleted_message_is_gone_in_all_its_revisions(
    checkpointer: Checkpointer,
) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a", "b", "c"))
    await checkpointer.aput_messages(mine, [Message.text_message("B", message_id="b")])
    assert await checkpointer.adelete_message(config(), "b") is True
    assert await checkpointer.adelete_message(config(), "b") is False
    assert await checkpointer.aget_message(config(), "b") is None
    assert said(await checkpointer.alist_messages(config())) == ["a", "c"]
    assert texts(await checkpointer.aget_state(config(), version=1)) == ["a", "c"]
    assert texts(await checkpointer.aget_state(config())) == ["a", "c"]


async def test_a_run_that_goes_on_does_not_bring_a_deleted_message_back(
    checkpointer: Checkpointer,
) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a", "secret"))
    running = present(await checkpointer.aget_state(mine))
    await checkpointer.adelete_message(config(), "secret")
    running.context.append(message("b"))
    await checkpointer.aput_state(mine, running)
    assert texts(await checkpointer.aget_state(config())) == ["a", "b"]
    assert said(await checkpointer.alist_messages(config())) == ["a", "b"]


async def test_a_deleted_message_can_be_written_anew(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a", "b"))
    await checkpointer.adelete_message(mine, "a")
    await checkpointer.aput_state(mine, state("b", "a"))
    assert texts(await checkpointer.aget_state(config())) == ["b", "a"]
    assert said(await checkpointer.alist_messages(config())) == ["b", "a"]


async def test_messages_written_in_one_instant_keep_their_order(
    checkpointer: Checkpointer,
) -> None:
    numbers = [str(i) for i in range(500)]
    await checkpointer.aput_messages(config(), [message(text) for text in numbers])
    assert said(await checkpointer.alist_messages(config())) == numbers
    assert said(await checkpointer.alist_messages(config(), last=3)) == numbers[-3:]


async def test_the_first_messages_of_many_writers_are_all_kept(
    checkpointer: Checkpointer,
) -> None:
    numbers = [str(i) for i in range(25)]
    await asyncio.gather(*(checkpointer.aput_messages(config(), [message(t)]) for t in numbers))
    assert sorted(said(await checkpointer.alist_messages(config()))) == sorted(numbers)


async def test_pages_stay_steady_while_messages_arrive(checkpointer: Checkpointer) -> None:
    numbers = [str(i) for i in range(30)]
    await checkpointer.aput_messages(config(), [message(text) for text in numbers[:25]])
    first = await checkpointer.alist_messages(config(), limit=10)
    await checkpointer.aput_messages(config(), [message(text) for text in numbers[25:]])
    await checkpointer.adelete_message(config(), "3")
    second = await checkpointer.alist_messages(config(), limit=10, after=first.cursor)
    rest = await checkpointer.alist_messages(config(), after=second.cursor)
    assert said(first) + said(second) + said(rest) == numbers
    assert await checkpointer.alist_messages(config(), after=rest.cursor) == []


async def test_limits_and_offsets(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_messages(config(), [message(text) for text in "abcde"])

    async def page(**how: Any) -> str:
        return "".join(said(await checkpointer.alist_messages(config(), **how)))

    assert await page(offset=1, limit=2) == "bc"
    assert await page(offset=4) == "e"
    assert await page(offset=9) == ""
    assert await page(limit=0) == ""
    assert await page(limit=99) == "abcde"
    assert await page(last=2) == "de"
    assert await page(last=0) == ""
    assert await page(last=99) == "abcde"


async def test_an_empty_page_has_no_cursor(checkpointer: Checkpointer) -> None:
    assert (await checkpointer.alist_messages(config())).cursor is None
    await checkpointer.aput_messages(config(), [message("a")])
    assert (await checkpointer.alist_messages(config(), limit=0)).cursor is None
    assert (await checkpointer.alist_messages(config(), last=0)).cursor is None


async def test_the_last_messages_do_not_begin_with_a_result_without_its_call(
    checkpointer: Checkpointer,
) -> None:
    calls = [ToolCall(id=i, name="f") for i in ("1", "2")]
    conversation = [
        message("question"),
        Message.assistant("calling", calls),
        Message.tool_message("first", "1"),
        Message.tool_message("second", "2"),
        Message.assistant("answer"),
    ]
    await checkpointer.aput_messages(config(), conversation)
    newest = await checkpointer.alist_messages(config(), last=2)
    assert said(newest) == ["calling", "first", "second", "answer"]


async def test_results_without_any_call_are_still_listed(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_messages(config(), [Message.tool_message(t) for t in ("1", "2")])
    assert said(await checkpointer.alist_messages(config(), last=1)) == ["1", "2"]


SEARCHES = {
    "Rome": ["To Rome", "rome again"],
    "100%": ["100% sure"],
    "%": ["100% sure"],
    "_": ["snake_case"],
    "ÄRGER": ["viel Ärger"],
    "\\": ["back\\slash"],
    "'": ["it's"],
    "\x00": ["nul\x00"],
    "user": [],
    "text": [],
}


async def test_search_looks_at_the_text_alone(checkpointer: Checkpointer) -> None:
    spoken = [
        *("To Rome", "rome again", "100% sure", "1000 sure", "snake_case", "snakeXcase"),
        *("viel Ärger", "back\\slash", "it's", "nul\x00"),
    ]
    await checkpointer.aput_messages(config(), [Message.text_message(one) for one in spoken])
    for wanted, expected in SEARCHES.items():
        assert said(await checkpointer.alist_messages(config(), search=wanted)) == expected, wanted


async def test_search_goes_with_limit_offset_cursor_and_last(checkpointer: Checkpointer) -> None:
    spoken = [f"{'odd' if i % 2 else 'even'} {i}" for i in range(10)]
    await checkpointer.aput_messages(config(), [message(text) for text in spoken])
    page = await checkpointer.alist_messages(config(), search="odd", offset=1, limit=2)
    assert said(page) == ["odd 3", "odd 5"]
    rest = await checkpointer.alist_messages(config(), search="odd", after=page.cursor)
    assert said(rest) == ["odd 7", "odd 9"]
    assert said(await checkpointer.alist_messages(config(), search="odd", last=1)) == ["odd 9"]
    assert said(await checkpointer.alist_messages(config(), search="odd", limit=0)) == []
    assert said(await checkpointer.alist_messages(config(), search="")) == spoken


async def test_the_same_message_id_may_be_used_in_two_threads(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.aput_messages(config("a"), [Message.text_message("A", message_id="m")])
    await checkpointer.aput_messages(config("b"), [Message.text_message("B", message_id="m")])
    await checkpointer.adelete_message(config("a"), "m")
    assert present(await checkpointer.aget_message(config("b"), "m")).text() == "B"


async def test_messages_outlive_the_versions_they_came_with(checkpointer: Checkpointer) -> None:
    mine = config()
    for i in range(25):
        await checkpointer.aput_state(mine, state(str(i)))
    assert len(await checkpointer.alist_states(config())) == 20
    assert said(await checkpointer.alist_messages(config())) == [str(i) for i in range(25)]


async def test_several_messages_are_found_by_their_ids(checkpointer: Checkpointer) -> None:
    sent = [message(text) for text in ("a", "b", "c")]
    await checkpointer.aput_messages(config(), sent)
    await checkpointer.aput_messages(config(), [edited(sent[1], "edited")])
    await checkpointer.aput_messages(config("other"), [message("d")])
    found = await checkpointer.aget_messages(config(), ["c", "nowhere", "b", "d", "c"])
    assert {one.message_id: one.text() for one in found} == {"b": "edited", "c": "c"}
    assert await checkpointer.aget_messages(config(), []) == []
    assert await checkpointer.aget_messages(config(user_id="stranger"), ["a", "b"]) == []
    await checkpointer.adelete_message(config(), "a")
    assert await checkpointer.aget_messages(config(), ["a"]) == []
