"""Configs of runs."""

import pytest

from tenxgraph.core.graph.settings import Settings


def test_another_librarys_nesting_is_not_taken_for_no_thread_at_all() -> None:
    with pytest.raises(ValueError, match="stand at the top"):
        Settings.of({"configurable": {"thread_id": "t"}})


def test_a_run_without_a_thread_gets_a_new_one() -> None:
    one, other = Settings.of(None), Settings.of({})
    assert one.config["thread_id"] != other.config["thread_id"]
    assert one.config["user_id"] == "anonymous"
