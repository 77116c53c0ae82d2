"""Ids on their way to Mem0 and back."""

import pytest
from hostile import VALUES
from hypothesis import given
from hypothesis import strategies as st

from tenxgraph.storage.store.mem0_ids import escaped_id, original_id


@given(st.text(min_size=1), st.booleans())
def test_an_escaped_id_is_turned_back(value: str, spaces: bool) -> None:
    assert original_id(escaped_id(value, spaces=spaces)) == value


@pytest.mark.parametrize("spaces", [True, False])
def test_no_two_ids_are_escaped_alike(spaces: bool) -> None:
    twice = [escaped_id(value, spaces=spaces) for value in VALUES]
    escaped = {escaped_id(value, spaces=spaces) for value in [*VALUES, *twice]}
    assert len(escaped) == len({*VALUES, *twice})
    assert "*" not in escaped


@pytest.mark.parametrize(
    "value",
    ["alice", "a@example.com", "o'brien", "auth0|64f", "user:42", "b0a7-4c", "名前", "a/b", "100%"],
)
def test_an_ordinary_id_stays_as_it_is(value: str) -> None:
    assert escaped_id(value) == value


def test_spaces_are_escaped_where_mem0_trims_them() -> None:
    assert escaped_id("my shop", spaces=True) == "my shop"
    assert escaped_id("my shop") != "my shop"


@pytest.mark.parametrize(
    "held", [f"tenxgraph-id-{rest}" for rest in ("", "zz", "2A", "2 a", "ff", "2")]
)
def test_what_no_escaping_made_is_an_id_of_its_own(held: str) -> None:
    assert original_id(held) == held
