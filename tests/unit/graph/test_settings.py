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


def test_a_policy_says_whose_run_it_is() -> None:
    own = Settings.of({"user_id": "victim", "authz": {"user_id": "mallory", "scope": "owner"}})
    assert own.config["user_id"] == "mallory"


@pytest.mark.parametrize(
    "limit",
    [{"lease_timeout": float("inf")}, {"node_timeout": float("nan")}, {"recursion_limit": 0.5}],
)
def test_numbers_that_are_none_are_refused(limit: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        Settings.of(limit)
