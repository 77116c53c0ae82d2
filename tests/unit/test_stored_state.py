"""How a state lies in its row: text in, the same state out, or an error that says it is damaged."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threads import message, state, texts

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import AgentState
from tenxgraph.core.state.codec import to_text
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.storage.backend import Head, StateRow, StoredMessage
from tenxgraph.storage.stored_state import absolute, assemble, document, split

codec = StateCodec(AgentState)
numbers = st.integers(-(10**6), 10**6).filter(bool)
contexts = st.lists(st.lists(numbers, min_size=2, max_size=2), max_size=8)
fields = st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5)))


@given(contexts, fields)
def test_a_document_splits_into_what_it_was_made_of(
    context: list[list[int]], extra: dict[str, object]
) -> None:
    written = to_text(extra)
    assert split(document(written, context)) == (context, written)


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{}",
        "[]",
        '{"a":1,"context":[]}',
        '{"context":',
        '{"context":{}}',
        '{"context":[1]}',
        '{"context":[[1]]}',
        '{"context":[[1,2,3]]}',
        '{"context":[[0,1]]}',
        '{"context":[["1","2"]]}',
        '{"context":[[1.0,2.0]]}',
        '{"context":[[true,true]]}',
    ],
)
def test_a_damaged_document_is_a_clear_error(damaged: str) -> None:
    with pytest.raises(SerializationError, match="damaged"):
        split(damaged)


def test_negative_numbers_count_from_the_base() -> None:
    assert absolute([[1, 4], [-1, -3]], base_seq=4) == [[1, 7]]
    assert absolute([[-2, -2], [1, 1]], base_seq=10) == [[12, 12], [1, 1]]
    assert absolute([], base_seq=10) == []


def read(written: AgentState, ranges: list[list[int]], seqs: list[int]) -> AgentState:
    stored = [
        StoredMessage(seq, seq, codec.message_text(one))
        for seq, one in zip(seqs, written.context, strict=True)
    ]
    head = Head(1, uuid4(), False)
    row = StateRow(head, 1, "", 0)
    return assemble(codec, row, to_text(codec.state_fields(written)), ranges, stored)


def test_messages_come_in_the_order_of_the_context() -> None:
    written = state("a", "b", "c")
    assert texts(read(written, [[3, 3], [1, 2], [1, 1]], [1, 2, 3])) == ["c", "a", "b", "a"]


def test_a_message_that_is_gone_is_left_out() -> None:
    written = state("a", "c")
    assert texts(read(written, [[1, 3]], [1, 3])) == ["a", "c"]


def test_the_state_is_equal_to_the_one_written() -> None:
    written = AgentState(context=[message("a")], note={"at": datetime(2024, 1, 2, tzinfo=UTC)})
    assert read(written, [[1, 1]], [1]) == written
