"""Keys: as the documents have them for ordinary ids, unmistakable for all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from tenxgraph.storage.cache.key import checked_prefix, companion_key, entry_key

ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
prefixes = st.sampled_from(["", "prod:", "{prod}:", "a{b}c"])


def test_ordinary_ids_stand_there_as_they_are() -> None:
    assert entry_key("t1", "ada") == "state_cache:t1:ada"
    assert entry_key("7f3a-b_2.c/d e+é", "a@b.c") == "state_cache:7f3a-b_2.c/d e+é:a@b.c"
    assert entry_key("t1", None) == "state_cache:t1:*"
    assert entry_key("t1", "ada", "prod:") == "prod:state_cache:t1:ada"


def test_what_could_be_mistaken_is_encoded() -> None:
    assert entry_key("a:b", "*") == "state_cache:a%3Ab:%2A"
    assert entry_key("{a}%", "\n") == "state_cache:%7Ba%7D%25:%0A"


@given(ids, ids, ids, ids)
def test_no_two_pairs_share_a_key(thread: str, user: str, thread2: str, user2: str) -> None:
    same = (thread, user) == (thread2, user2)
    assert (entry_key(thread, user) == entry_key(thread2, user2)) is same
    assert entry_key(thread, user) != entry_key(thread2, None)


@given(ids, ids, prefixes)
def test_a_companion_is_in_the_same_slot(thread: str, user: str, prefix: str) -> None:
    key = entry_key(thread, user, prefix)
    companion = companion_key(key, "fence")
    assert companion != key
    assert key_slot(companion.encode()) == key_slot(key.encode())


@pytest.mark.parametrize("prefix", ["{", "}", "{}", "a}b{c", "{a}{b}", None, 1])
def test_a_prefix_that_would_part_them_is_refused(prefix: object) -> None:
    with pytest.raises(ValueError, match="cache_prefix"):
        checked_prefix(prefix)
