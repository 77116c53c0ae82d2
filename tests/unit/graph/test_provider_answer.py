"""What servers send instead of what OpenAI would send."""

from typing import Any

import pytest
from provider_streams import DEVIATIONS

from tenxgraph.core.graph.provider_answer import usages_of
from tenxgraph.core.state import TokenUsages


@pytest.mark.parametrize("usage", [None, {}, [], "none", 7, {"prompt_tokens": None}, {"other": 1}])
def test_no_counts_are_no_usages(usage: Any) -> None:
    assert usages_of(usage) is None


@pytest.mark.parametrize(
    ("count", "read"),
    [
        (5, 5),
        (5.9, 5),
        ("5", 5),
        ("5.0", 5),
        (0, 0),
        (None, 0),
        (True, 0),
        (-5, 0),
        ("five", 0),
        (float("nan"), 0),
        (float("inf"), 0),
        ([5], 0),
        (10**400, 0),
    ],
)
def test_count_is_read_or_left_out(count: Any, read: int) -> None:
    details = {"reasoning_tokens": count}
    usage = {"prompt_tokens": 1, "completion_tokens": count, "completion_tokens_details": details}
    assert usages_of(usage) == TokenUsages(
        prompt_tokens=1, completion_tokens=read, total_tokens=1 + read, reasoning_tokens=read
    )


def test_details_of_another_form_are_left_out() -> None:
    odd: list[Any] = [None, [], "x", {"reasoning_tokens": {}}]
    for details in odd:
        assert usages_of({"prompt_tokens": 1, "completion_tokens_details": details}) == TokenUsages(
            prompt_tokens=1, total_tokens=1
        )


def test_every_deviation_names_who_has_reported_it() -> None:
    assert len(DEVIATIONS) > 40
    assert len({one.name for one in DEVIATIONS}) == len(DEVIATIONS)
    assert all(" #" in one.source or "docs." in one.source for one in DEVIATIONS)
