"""One resource per event loop: when it is made, and which loop closes it."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from tenxgraph import _per_loop
from tenxgraph._per_loop import PerLoop
from tenxgraph._sync import run_sync


class Resource:
    """Knows the loops in which it was made and closed."""

    def __init__(self) -> None:
        self.made_in = asyncio.get_running_loop()
        self.closed_in: Future[asyncio.AbstractEventLoop] = Future()

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed_in.set_result(asyncio.get_running_loop())  # an error if it is done twice

    @property
    def is_closed_at_home(self) -> bool:
        return self.closed_in.done() and self.closed_in.result() is self.made_in


def per_loop() -> PerLoop[Resource]:
    return PerLoop(Resource, Resource.close)


@pytest.fixture
def elsewhere() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], Resource]) -> Resource:
    called: Future[Resource] = Future()
    loop.call_soon_threadsafe(lambda: called.set_result(function()))
    return called.result()


async def test_a_loop_has_one_resource_until_it_is_closed() -> None:
    resources = per_loop()
    first = resources.current()
    assert resources.current() is first
    await resources.aclose()
    assert first.is_closed_at_home
    assert resources.current() is not first
    await resources.aclose()


def test_the_end_of_a_loop_closes_its_resource() -> None:
    resources = per_loop()

    async def main() -> Resource:
        return resources.current()

    ended = [asyncio.run(main()) for _ in range(3)]
    assert all(resource.is_closed_at_home for resource in ended)
    assert len(set(map(id, ended))) == 3


async def test_a_loop_that_runs_elsewhere_closes_its_own(
    elsewhere: asyncio.AbstractEventLoop,
) -> None:
    resources = per_loop()
    there = call_in(elsewhere, resources.current)
    here = resources.current()
    await resources.aclose()
    assert here.is_closed_at_home
    assert there.is_closed_at_home


async def test_a_loop_blocked_by_the_sync_call_closes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_per_loop, "CLOSING_TIMEOUT", 3600.0)  # it is not even waited for
    resources = per_loop()
    here = resources.current()
    run_sync(resources.aclose)
    assert not here.closed_in.done()
    await asyncio.wrap_future(here.closed_in)
    assert here.is_closed_at_home


async def test_a_loop_blocked_by_anything_else_is_waited_for_only_so_long(
    elsewhere: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_per_loop, "CLOSING_TIMEOUT", 0.01)
    resources = per_loop()
    there = call_in(elsewhere, resources.current)
    go_on = threading.Event()
    elsewhere.call_soon_threadsafe(go_on.wait)
    await resources.aclose()
    assert not there.closed_in.done()
    go_on.set()
    await asyncio.wrap_future(there.closed_in)


async def test_a_resource_that_does_not_close_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_per_loop, "CLOSING_TIMEOUT", 0.01)

    async def never(_resource: object) -> None:
        await asyncio.Event().wait()

    resources = PerLoop(object, never)
    resources.current()
    await resources.aclose()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    assert "did not close in an orderly way: TimeoutError()" in caplog.text


async def test_an_owner_that_is_forgotten_has_its_resource_closed() -> None:
    resources = per_loop()
    resource = resources.current()
    del resources
    gc.collect()
    await asyncio.wrap_future(resource.closed_in)
    assert resource.is_closed_at_home


async def test_a_closing_that_is_cancelled_goes_on() -> None:
    resources = per_loop()
    resource = resources.current()
    closing = asyncio.ensure_future(resources.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wrap_future(resource.closed_in)
    assert closing.cancelled()


def test_an_end_that_comes_first_does_not_lose_the_closing() -> None:
    async def main() -> Resource:
        resources = per_loop()
        resource = resources.current()
        loop = asyncio.get_running_loop()
        del resources
        # Long enough for the closing to have begun, which `asyncio.run` then cancels.
        for _ in range(3):
            loop.call_soon(lambda: None)
            await asyncio.sleep(0)
        return resource

    assert asyncio.run(main()).is_closed_at_home


def test_a_loop_closed_by_hand_takes_its_resource_along() -> None:
    resources = per_loop()
    loop = asyncio.new_event_loop()

    async def use() -> weakref.ref[Resource]:
        return weakref.ref(resources.current())

    resource = loop.run_until_complete(use())
    loop.close()
    gc.collect()
    assert resource() is None
    asyncio.run(resources.aclose())
