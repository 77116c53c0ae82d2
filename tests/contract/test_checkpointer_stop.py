"""A stop is asked for from anywhere, and seen by the run with its next write."""

from backends import Backend, Checkpointer
from threads import config, message, state


async def test_nobody_has_asked_at_first(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("hi"))
    assert await checkpointer.ais_stop_requested(config()) is False


async def test_a_stop_is_asked_for_and_forgotten(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("hi"))
    for _ in range(2):
        assert await checkpointer.arequest_stop(config()) is True
        assert await checkpointer.ais_stop_requested(config()) is True
    for _ in range(2):
        await checkpointer.aclear_stop_request(config())
        assert await checkpointer.ais_stop_requested(config()) is False


async def test_another_process_sees_it(backend: Backend) -> None:
    runner, stopper = backend.make(), backend.make()
    await runner.aput_state(config(), state("hi"))
    await stopper.arequest_stop(config())
    assert await runner.ais_stop_requested(config()) is True


async def test_a_stop_stays_until_it_is_cleared(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("a"))
    await checkpointer.arequest_stop(config())
    for text in "bc":
        await checkpointer.aput_state(mine, state(text))
        assert mine["_stop_requested"] is True
    await checkpointer.aput_messages(mine, [message("note")])
    await checkpointer.aclear_stop_request(config())
    await checkpointer.aput_state(mine, state("d"))
    assert mine["_stop_requested"] is False


async def test_a_thread_that_is_not_there_cannot_be_stopped(checkpointer: Checkpointer) -> None:
    assert await checkpointer.arequest_stop(config("nowhere")) is False
    assert await checkpointer.ais_stop_requested(config("nowhere")) is False
    await checkpointer.aclear_stop_request(config("nowhere"))
    assert await checkpointer.aget_thread(config("nowhere")) is None


async def test_a_stop_is_for_one_thread(checkpointer: Checkpointer) -> None:
    for name in "ab":
        await checkpointer.aput_state(config(name), state("hi"))
    await checkpointer.arequest_stop(config("a"))
    assert await checkpointer.ais_stop_requested(config("b")) is False
