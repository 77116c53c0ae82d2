"""What Redis has not been told, and how long entries are doubted."""

from tenxgraph.storage.cache.owed import Doubts, OwedDrops


def test_of_two_drops_the_more_thorough_one_is_owed() -> None:
    owed = OwedDrops()
    owed.add("a", 3)
    owed.add("a", 5)
    owed.add("b", 7)
    owed.add("b", None)
    owed.add("b", 9)
    assert "a" in owed
    assert owed.get("a") == ("a", 5)
    assert owed.get("b") == ("b", None)
    assert owed.get("c") is None


def test_a_drop_pays_for_those_that_are_not_more_thorough() -> None:
    owed = OwedDrops()
    owed.add("a", 3)
    owed.add("b", None)
    owed.paid("a", 2)
    owed.paid("b", 9)
    assert owed.oldest() == ("a", 3)
    owed.paid("a", 3)
    assert owed.oldest() == ("b", None)
    owed.paid("b", None)
    assert owed.oldest() is None
    assert len(owed) == 0


def test_it_does_not_grow_without_end() -> None:
    owed = OwedDrops()
    for i in range(10_050):
        owed.add(f"{i}", None)
    assert len(owed) == 10_000
    assert "10049" in owed
    assert "0" not in owed


def test_entries_are_doubted_for_as_long_as_an_old_one_may_live() -> None:
    now = [0.0]
    doubts = Doubts(60, lambda: now[0])
    assert not doubts.about("a")
    doubts.raise_()
    assert doubts.about("a")
    doubts.clear("a")
    assert not doubts.about("a")
    assert doubts.about("b")
    now[0] = 30
    doubts.raise_()
    assert doubts.about("a")
    now[0] = 91
    assert not doubts.about("a")
    assert not doubts.about("b")
