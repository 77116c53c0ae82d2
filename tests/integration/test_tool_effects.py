"""A tool that has ended: whatever it left is recorded once, and the tool does not run again."""

import asyncio
import enum
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from backends import Backend, Checkpointer, on_postgres, on_redis
from graphs import also_behind_redis, config, on_durable, said
from servers.proxy import TcpProxy
from servers.redis import RedisServer

from tenxgraph.core.exceptions import (
    SerializationError,
    StorageError,
    TenxGraphError,
    TransientStorageError,
)
from tenxgraph.core.graph import CompiledGraph, tool, worker_threads
from tenxgraph.core.state import Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.checkpointer import SqliteCheckpointer
from tenxgraph.storage.records import ToolExecution


class Colour(enum.StrEnum):
    RED = "red"


class Mute:
    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class MuteError(Exception):
    def __str__(self) -> str:
        raise MemoryError


def calling(name: str, **args: Any) -> Callable[[list[Message], Any], Any]:
    """A model that calls one tool, and is content with whatever it says."""

    def model(messages: list[Message], _tools: Any) -> Any:
        if any(one.role == "tool" for one in messages):
            [one.to_openai() for one in messages]
            return "done"
        return ToolCall(id="c", name=name, args=args)

    return model


def calling_async(name: str) -> Callable[[list[Message], Any], Any]:
    """The same, without a worker thread."""
    model = calling(name)

    async def answer(messages: list[Message], tools: Any) -> Any:
        return model(messages, tools)

    return answer


def deep() -> Any:
    value: Any = "end"
    for _ in range(5_000):
        value = {"a": value}
    return value


RESULTS: dict[str, Callable[[], Any]] = {
    "float64": lambda: np.float64(0.87),
    "enum": lambda: {"colour": Colour.RED},
    "array": lambda: np.zeros((2, 2)),
    "deep": deep,
    "mute": Mute,
    "huge": lambda: 10**5000,
    "surrogate": lambda: {"name": "\ud800\x00"},
}


@also_behind_redis
@pytest.mark.parametrize("kind", RESULTS)
async def test_any_result_is_recorded_and_told_once(checkpointer: Checkpointer, kind: str) -> None:
    effects: list[str] = []

    def work() -> Any:
        effects.append(kind)
        return RESULTS[kind]()

    app = ReactAgent(calling("work"), [work]).compile(checkpointer)
    result = await app.ainvoke("go", config())
    assert (effects, said(result["messages"])[-1]) == ([kind], "assistant: done")
    (row,) = await checkpointer.alist_tool_results(config())
    assert row.status == "finished"


async def no_end() -> Any:
    number = 0
    while True:
        yield number
        number += 1


def breaks_off() -> Iterator[int]:
    yield 1
    raise OSError("no money")


async def cancels_itself() -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


def mute() -> None:
    raise MuteError


def two_values() -> Iterator[int]:
    yield 1
    yield 2


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (cancels_itself, "CancelledError: "),
        (mute, "MuteError: A value of type MuteError, which cannot be told."),
        (breaks_off, "OSError: no money"),
        (no_end, "no_end gave more than 10000 values."),
        (two_values, "[1, 2]"),
    ],
)
async def test_a_tool_that_fails_in_an_odd_way_is_told_and_the_run_goes_on(
    function: Callable[..., Any], told: str
) -> None:
    app = ReactAgent(calling(function.__name__), [function]).compile()
    result = await app.ainvoke("go", config())
    assert said(result["messages"])[1:] == [f"tool: {told}", "assistant: done"]


async def test_an_error_whose_own_form_fails_is_told_in_words() -> None:
    def work() -> None:
        raise ValueError("no seat")

    def as_error(_words: str) -> Any:
        raise OSError

    work.as_error = as_error  # type: ignore[attr-defined]
    app = ReactAgent(calling("work"), [work]).compile()
    result = await app.ainvoke("go", config())
    assert said(result["messages"])[1] == "tool: ValueError: no seat"


class Refusal:
    """Lets the records of ends of calls fail, as often as it is told to."""

    def __init__(self, checkpointer: Checkpointer, times: float, error: Exception) -> None:
        self.left = times
        self.refused = 0
        put = checkpointer.aput_tool_result

        async def aput_tool_result(config: Any, execution: ToolExecution) -> None:
            if execution.status in ("finished", "failed") and self.left > 0:
                self.left -= 1
                self.refused += 1
                raise error
            await put(config, execution)

        checkpointer.aput_tool_result = aput_tool_result  # type: ignore[method-assign]


class Payment:
    """A payment that must not happen twice, and the agent that makes it."""

    def __init__(self) -> None:
        self.paid = 0
        self.failing = False

    async def pay(self) -> str:
        """Pay."""
        self.paid += 1
        if self.failing:
            raise ValueError("the shop is closed")
        return "paid"

    def agent(self, checkpointer: Checkpointer) -> CompiledGraph[Any]:
        return ReactAgent(calling("pay"), [tool(name="pay")(self.pay)]).compile(checkpointer)


PASSING = [TransientStorageError("away"), OSError("away")]


@also_behind_redis
@pytest.mark.parametrize("error", PASSING)
async def test_a_record_that_fails_once_is_written_and_the_run_goes_on(
    checkpointer: Checkpointer, error: Exception
) -> None:
    payment, refusal = Payment(), Refusal(checkpointer, 2, error)
    result = await payment.agent(checkpointer).ainvoke("go", config())
    assert said(result["messages"])[1:] == ["tool: paid", "assistant: done"]
    assert (payment.paid, refusal.refused) == (1, 2)


@also_behind_redis
@pytest.mark.parametrize("goes_on", ["resume", "message"])
@pytest.mark.parametrize("error", [*PASSING, StorageError("read only"), RuntimeError("bug")])
async def test_a_record_that_fails_for_a_while_is_written_before_the_call_comes_up_again(
    checkpointer: Checkpointer, error: Exception, goes_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenxgraph.core.graph.ledger._PAUSES", (0, 0))
    payment, refusal = Payment(), Refusal(checkpointer, float("inf"), error)
    for _ in range(3):
        with pytest.raises((TenxGraphError, OSError)):
            await payment.agent(checkpointer).ainvoke(None if payment.paid else "go", config())
    (row,) = await checkpointer.alist_tool_results(config())
    assert (payment.paid, row.status) == (1, "started")
    refusal.left = 0
    given = None if goes_on == "resume" else "never mind"
    result = await payment.agent(checkpointer).ainvoke(given, config(values={"another": "config"}))
    assert "tool: paid" in said(result["state"])
    assert payment.paid == 1
    (row,) = await checkpointer.alist_tool_results(config())
    assert row.status == "finished"


@on_durable
async def test_a_failure_whose_record_fails_is_told_and_counts_as_failed(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenxgraph.core.graph.ledger._PAUSES", ())
    payment = Payment()
    payment.failing = True
    Refusal(checkpointer, 1, TransientStorageError("away"))
    with pytest.raises(TransientStorageError):
        await payment.agent(checkpointer).ainvoke("go", config())
    result = await payment.agent(checkpointer).ainvoke("never mind", config())
    assert "tool: ValueError: the shop is closed" in said(result["state"])


@also_behind_redis
async def test_a_result_that_the_database_refuses_is_told_as_that_and_the_tool_is_over(
    checkpointer: Checkpointer,
) -> None:
    payment = Payment()
    Refusal(checkpointer, 1, SerializationError("it has {too} many bytes"))
    result = await payment.agent(checkpointer).ainvoke("go", config())
    told = said(result["messages"])[1]
    assert told.startswith("tool: This call was carried out, but its result could not be stored: ")
    assert "it has {too} many bytes" in told
    (row,) = await checkpointer.alist_tool_results(config())
    assert (payment.paid, row.status) == (1, "finished")


@also_behind_redis
async def test_an_end_that_was_not_recorded_is_dropped_with_its_thread(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenxgraph.core.graph.ledger._PAUSES", ())
    checkpointer = backend.make()
    payment = Payment()
    refusal = Refusal(checkpointer, float("inf"), TransientStorageError("away"))

    def model(messages: list[Message], _tools: Any) -> Any:
        if messages[-1].role == "tool":
            return "done"
        return Message.assistant(tool_calls=[ToolCall(id="c", name="pay")], message_id="same")

    app = ReactAgent(model, [tool(name="pay")(payment.pay)]).compile(checkpointer)
    with pytest.raises(TransientStorageError):
        await app.ainvoke("go", config())
    refusal.left = 0
    await backend.make().aclean_thread(config())
    await app.ainvoke("go", config())
    assert payment.paid == 2, "the call of a new thread is another one"


@pytest.fixture(params=[False, True], ids=["postgres", "postgres+redis"])
async def far(
    request: pytest.FixtureRequest,
    postgres_dsn: str,
    redis_server: RedisServer,
) -> Any:
    """A checkpointer behind a proxy, and the proxy."""
    port = urlsplit(postgres_dsn).port
    assert port is not None
    with TcpProxy("127.0.0.1", port) as proxy:
        made = on_postgres(proxy.through(postgres_dsn))
        if request.param:
            made = on_redis(made, redis_server.url())
        yield made.make(), proxy
        await made.close()


async def test_a_connection_that_is_cut_while_the_tool_runs_costs_no_second_effect(
    far: tuple[Checkpointer, TcpProxy],
) -> None:
    checkpointer, proxy = far
    payment = Payment()

    async def pay() -> str:
        payment.paid += 1
        await asyncio.to_thread(proxy.cut)
        return "paid"

    app = ReactAgent(calling("pay"), [pay]).compile(checkpointer)
    result = await app.ainvoke("go", config())
    assert said(result["messages"])[1:] == ["tool: paid", "assistant: done"]
    assert payment.paid == 1


@on_durable
async def test_a_sync_tool_that_has_ended_when_it_is_cancelled_is_recorded(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects: list[str] = []
    called: list[Any] = []
    begun = asyncio.Event()
    submit = worker_threads._threads.submit

    def watched(call: Callable[[], Any]) -> Any:
        called.append(submit(call))
        begun.set()
        return called[-1]

    monkeypatch.setattr(worker_threads._threads, "submit", watched)

    def pay() -> str:
        effects.append("paid")
        return "paid"

    app = ReactAgent(calling_async("pay"), [pay]).compile(checkpointer)
    running = asyncio.create_task(app.ainvoke("go", config()))
    await begun.wait()
    called[0].result()  # keeps the loop from hearing of the end before it hears of the cancellation
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (row,) = await checkpointer.alist_tool_results(config())
    assert row.status == "finished"
    result = await app.ainvoke(None, config())
    assert said(result["messages"]) == ["tool: paid", "assistant: done"]
    assert effects == ["paid"]


async def test_a_database_that_another_program_has_locked_costs_no_second_effect(
    tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenxgraph.storage.sql.sqlite_engines._BUSY_TIMEOUT_MS", 50)
    monkeypatch.setattr("tenxgraph.core.graph.ledger._PAUSES", (0,))
    file = shutil.copy(sqlite_template, tmp_path / "threads.db")
    checkpointer: Checkpointer = SqliteCheckpointer(file)
    payment = Payment()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:

        async def pay() -> str:
            payment.paid += 1
            other.execute("BEGIN IMMEDIATE")
            return "paid"

        app = ReactAgent(calling("pay"), [pay]).compile(checkpointer)
        with pytest.raises(TransientStorageError):
            await app.ainvoke("go", config())
        other.execute("ROLLBACK")
        result = await app.ainvoke(None, config())
    assert "tool: paid" in said(result["state"])
    assert payment.paid == 1
    await checkpointer.aclose()
