"""Half a surrogate pair, which Python's text may hold and UTF-8 cannot."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenxgraph.core.state.unicode import joined_pairs, valid_text, valid_unicode

ANY_TEXT = st.text(st.characters() | st.sampled_from(["\ud83d", "\ude00", "\udc80"]))


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("plain", "plain"),
        ("é 日本 \U0001f600", "é 日本 \U0001f600"),
        ("half \ud83d", "half \ufffd"),
        ("\ude00 first", "\ufffd first"),
        ("\udc80\udc80", "\ufffd\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00 \ud83d", "\ufffd \ufffd"),
    ],
)
def test_half_a_pair_is_replaced_and_a_pair_joined(text: str, valid: str) -> None:
    assert valid_text(text) == valid


@given(ANY_TEXT)
def test_result_is_utf8_and_differs_only_in_surrogates(text: str) -> None:
    valid = valid_text(text)
    valid.encode()
    assert valid_text(valid) is valid
    assert valid == joined_pairs(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ({"\ud800": 1}, {"\ufffd": 1}),
        ({"a": ["\ud800", {"b": ("\ud800",)}]}, {"a": ["\ufffd", {"b": ("\ufffd",)}]}),
        (None, None),
        (5, 5),
    ],
)
def test_texts_inside_are_replaced(value: Any, valid: Any) -> None:
    assert valid_unicode(value) == valid


def test_value_without_any_is_returned_itself() -> None:
    value = {"a": ["b", {"c": ("d", 1, None)}], "e": {}}
    assert valid_unicode(value) is value
