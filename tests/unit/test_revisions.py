"""Which messages of a write are new, and how a context is spelled in numbers."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tenxgraph.storage.backend import MessageRow
from tenxgraph.storage.revisions import Live, append, plan_messages, resolve


def row(message_id: str, text: str = "", timestamp: str = "now") -> MessageRow:
    data = json.dumps({"message_id": message_id, "text": text, "timestamp": timestamp})
    return MessageRow(message_id, "user", None, data, None)


def live(seq: int, position: int, of: MessageRow) -> Live:
    return Live(seq, position, of.data)


def ranges_of(numbers: list[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for number in numbers:
        append(ranges, number, number)
    return ranges


def spelled_out(ranges: list[list[int]]) -> list[int]:
    return [
        number
        for first, last in ranges
        for number in (range(first, last + 1) if first > 0 else range(first, last - 1, -1))
    ]


def test_new_messages_get_the_next_numbers() -> None:
    plan = plan_messages([row("a"), row("b")], {}, last_seq=5)
    assert plan.seqs == [6, 7]
    assert [(one.seq, one.position, one.replaced_by) for one in plan.inserts] == [
        (6, 6, None),
        (7, 7, None),
    ]
    assert plan.superseded == {}


def test_a_message_sent_again_keeps_its_number_whenever_it_was_built() -> None:
    known = {"a": live(3, 3, row("a", "x", "yesterday"))}
    plan = plan_messages([row("a", "x", "today")], known, last_seq=5)
    assert plan == ([], {}, [3])


def test_an_edit_of_a_type_alone_is_an_edit() -> None:
    def rated(rating: object) -> MessageRow:
        return MessageRow("a", "user", None, json.dumps({"rating": rating}), None)

    known = {"a": live(3, 3, rated(1))}
    for rating in (1.0, True):
        assert plan_messages([rated(rating)], known, last_seq=5).seqs == [6]
    assert plan_messages([rated(1)], known, last_seq=5).seqs == [3]


def test_an_edited_message_is_a_new_row_at_the_old_place() -> None:
    plan = plan_messages([row("a", "new")], {"a": live(3, 2, row("a", "old"))}, last_seq=5)
    assert plan.seqs == [6]
    assert plan.superseded == {3: 6}
    assert plan.inserts[0].position == 2


def test_edits_within_one_write_follow_each_other() -> None:
    plan = plan_messages([row("a", "1"), row("a", "2"), row("a", "1")], {}, last_seq=0)
    assert plan.seqs == [1, 2, 3]
    assert [(one.position, one.replaced_by) for one in plan.inserts] == [(1, 2), (1, 3), (1, None)]
    assert plan.superseded == {}


def test_the_same_message_twice_in_one_write_is_one_row() -> None:
    plan = plan_messages([row("a"), row("b"), row("a")], {}, last_seq=0)
    assert plan.seqs == [1, 2, 1]
    assert len(plan.inserts) == 2


def test_new_messages_are_referred_to_by_negative_numbers() -> None:
    assert resolve([[1, 3], [-1, -2]], [8, 9]) == [[1, 3], [8, 9]]
    assert resolve([[-2, -2], [4, 4], [-1, -1]], [5, 3]) == [[3, 5]]


numbers = st.lists(st.integers(1, 12), max_size=30)


@given(numbers)
def test_ranges_spell_out_what_was_put_into_them(seqs: list[int]) -> None:
    assert spelled_out(ranges_of(seqs)) == seqs


@given(numbers)
def test_ranges_of_new_messages_too(seqs: list[int]) -> None:
    negative = [-seq for seq in seqs]
    assert spelled_out(ranges_of(negative)) == negative


@given(st.integers(1, 50), st.integers(1, 1000))
def test_a_run_is_one_range(first: int, length: int) -> None:
    assert ranges_of(list(range(first, first + length))) == [[first, first + length - 1]]


@given(st.lists(st.integers(-6, 12).filter(bool), max_size=30))
def test_old_and_new_may_be_mixed_in_any_order(references: list[int]) -> None:
    seqs = [20, 7, 21, 22, 3, 23]
    expected = [one if one > 0 else seqs[-one - 1] for one in references]
    assert spelled_out(resolve(ranges_of(references), seqs)) == expected


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=12))
def test_at_most_one_revision_of_a_message_is_live(writes: list[tuple[str, str]]) -> None:
    known = {"a": live(1, 1, row("a", "x"))}
    plan = plan_messages([row(*write) for write in writes], known, last_seq=1)
    rows = {1: ("a", plan.superseded.get(1))}
    rows |= {one.seq: (one.row.message_id, one.replaced_by) for one in plan.inserts}
    alive = [message_id for message_id, replaced_by in rows.values() if replaced_by is None]
    assert sorted(alive) == sorted({"a", *(name for name, _ in writes)})
    for (message_id, text), seq in zip(writes, plan.seqs, strict=True):
        written = next((one.row for one in plan.inserts if one.seq == seq), row("a", "x"))
        assert written == row(message_id, text)
