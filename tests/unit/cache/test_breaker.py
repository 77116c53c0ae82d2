"""A server that is away is left alone, and that is said once."""

import logging

import pytest

from tenxgraph.storage.cache.breaker import Breaker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("redis://host", clock)


def _fail(breaker: Breaker, times: int = 3) -> None:
    for _ in range(times):
        assert breaker.allows()
        breaker.failed("read", ConnectionError("refused"))


def test_it_opens_after_three_failures_in_a_row(breaker: Breaker) -> None:
    _fail(breaker, 2)
    breaker.succeeded("read")
    _fail(breaker, 2)
    assert breaker.allows()
    breaker.failed("read", ConnectionError())
    assert not breaker.allows()
    assert breaker.is_open


def test_half_open_one_call_at_a_time_and_more_and_more_seldom(
    breaker: Breaker, clock: Clock
) -> None:
    _fail(breaker)
    waits = []
    for _ in range(7):
        waits.append(breaker.wait())
        clock.now += breaker.wait()
        assert breaker.allows()
        assert not breaker.allows()
        breaker.failed("read", ConnectionError())
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_a_probe_that_succeeds_closes_it(breaker: Breaker, clock: Clock) -> None:
    _fail(breaker, 3)
    clock.now += 1
    assert breaker.allows()
    breaker.succeeded("read")
    assert all(breaker.allows() for _ in range(5))
    _fail(breaker, 3)
    assert breaker.wait() == 1, "the next outage begins with a short pause again"


def test_reads_that_succeed_do_not_hide_writes_that_fail(breaker: Breaker, clock: Clock) -> None:
    for _ in range(3):
        breaker.succeeded("read")
        breaker.failed("write", ConnectionError())
    assert not breaker.allows()
    clock.now += 1
    assert breaker.allows()
    breaker.succeeded("read")
    assert breaker.allows(), "the write is to be tried, too"
    breaker.failed("write", ConnectionError())
    assert not breaker.allows()


def test_one_line_for_an_outage_and_one_for_its_end(
    breaker: Breaker, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    _fail(breaker, 3)
    clock.now = 12.5
    breaker.allows()
    breaker.failed("write", TimeoutError())
    breaker.succeeded("read")
    breaker.succeeded("write")
    breaker.succeeded("write")
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("The cache at redis://host fails (ConnectionError: refused).")
    assert second == "The cache at redis://host is back, after 12.5 s."
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
