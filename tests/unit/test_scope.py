"""A config says who asks, for which thread, from which version."""

from enum import IntEnum
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenxgraph.storage.scope import Scope, owner_of, remember

ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=255
).filter(str.strip)


def scope(config: dict[str, Any], *, isolate: bool = True) -> Scope:
    return Scope.of(config, isolate=isolate)


@given(ids, ids)
def test_any_text_of_reasonable_length_is_an_id(thread_id: str, user_id: str) -> None:
    made = scope({"thread_id": thread_id, "user_id": user_id})
    assert (made.thread_id, made.user_id) == (thread_id, user_id)


@given(st.integers())
def test_an_int_is_its_digits(number: int) -> None:
    assert scope({"thread_id": number, "user_id": "u"}).thread_id == str(number)


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "bad", [None, "", " \t", "x" * 256, "a\x00", "\udfff", True, 1.0, b"x", [], Number.ONE]
)
def test_anything_else_is_an_error_that_names_the_key(bad: Any) -> None:
    with pytest.raises(ValueError, match="`thread_id`"):
        scope({"thread_id": bad, "user_id": "u"})
    with pytest.raises(ValueError, match="`user_id`"):
        scope({"thread_id": "t", "user_id": bad})


def test_an_error_says_what_to_pass() -> None:
    with pytest.raises(ValueError, match=r"config=\{'thread_id': \.\.\.\}"):
        scope({"user_id": "u"})
    with pytest.raises(ValueError, match="300 characters long; 255 are allowed"):
        scope({"thread_id": "x" * 300, "user_id": "u"})


def test_without_isolation_a_user_is_not_needed() -> None:
    made = scope({"thread_id": "t"}, isolate=False)
    assert (made.user_id, made.isolated) == (None, False)
    with pytest.raises(ValueError, match="user_id"):
        scope({"thread_id": "t", "user_id": ""}, isolate=False)


def test_a_policy_decides() -> None:
    owner = {"thread_id": "t", "user_id": "u", "authz": {"user_id": "a", "scope": "owner"}}
    anyone = {"thread_id": "t", "user_id": "u", "authz": {"user_id": "a", "scope": "none"}}
    assert owner_of(owner, isolate=False) == ("a", True)
    assert owner_of(anyone, isolate=True) == ("a", False)
    assert owner_of({**owner, "authz": None}, isolate=True) == ("u", True)
    without_user = {**owner, "authz": {"scope": "owner"}}
    assert owner_of(without_user, isolate=False) == ("u", True)


def test_what_was_read_is_what_the_next_write_builds_on() -> None:
    config: dict[str, Any] = {"thread_id": "t", "user_id": "u"}
    assert scope(config).expected_version is None
    generation = uuid4()
    remember(config, 7, generation)
    made = scope(config)
    assert (made.expected_version, made.generation) == (7, generation)
    remember(config, 0, None)
    made = scope(config)
    assert (made.expected_version, made.generation) == (0, None)


def test_what_is_remembered_is_plain_json() -> None:
    config: dict[str, Any] = {"thread_id": "t"}
    remember(config, 7, UUID(int=5))
    assert {type(value) for value in config.values()} == {int, str}


def test_another_thread_has_not_been_read() -> None:
    config: dict[str, Any] = {"thread_id": "t", "user_id": "u"}
    remember(config, 7, uuid4())
    other = scope(config).of_thread("other")
    assert (other.thread_id, other.user_id) == ("other", "u")
    assert (other.expected_version, other.generation) == (None, None)
