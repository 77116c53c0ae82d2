"""What the run loop costs: nodes that return at once, against langgraph and against bare writes.

    python benchmarks/loop.py [--rounds 40]

Runs that are compared are taken in turn, and medians are told. Starts its own PostgreSQL, reached
over TCP on loopback; both databases make every write durable.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from figures import check, finish
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph as LangGraph
from servers import PostgresServer

from tenxgraph.core.graph import END, StateGraph
from tenxgraph.core.state import AgentState, ExecutionState, Message
from tenxgraph.storage import create_checkpointer
from tenxgraph.storage.checkpointer import BaseCheckpointer, InMemoryCheckpointer

IN_MEMORY, DURABLE = 1_000, 50


class Count(TypedDict):
    """The state of langgraph's graph: as much as ours changes in a node."""

    count: int


class Counted(AgentState):
    """The state of our graph."""

    count: int = 0


def ours(nodes: int, checkpointer: BaseCheckpointer[Any]) -> Callable[[], Awaitable[Any]]:
    """A run of so many nodes, each of which returns at once."""

    async def tick(state: Counted) -> dict[str, int]:
        return {"count": state.count + 1}

    graph = StateGraph(Counted).add_node("tick", tick).set_entry_point("tick")
    graph.add_conditional_edges("tick", lambda state: END if state.count >= nodes else "tick")
    app = graph.compile(checkpointer=checkpointer)

    async def run() -> None:
        thread = {"thread_id": uuid4().hex, "user_id": "u", "recursion_limit": nodes + 1}
        result = await app.ainvoke("go", thread)
        assert result["state"].count == nodes

    return run


def langgraphs(nodes: int) -> Callable[[], Awaitable[Any]]:
    """The same run of langgraph's."""

    async def tick(state: Count) -> Count:
        return {"count": state["count"] + 1}

    graph = LangGraph(Count)
    graph.add_node("tick", tick)
    graph.set_entry_point("tick")
    graph.add_conditional_edges(
        "tick", lambda state: "__end__" if state["count"] >= nodes else "tick"
    )
    app = graph.compile(checkpointer=InMemorySaver())

    async def run() -> None:
        thread: Any = {"configurable": {"thread_id": uuid4().hex}, "recursion_limit": nodes + 10}
        result = await app.ainvoke({"count": 0}, thread)
        assert result["count"] == nodes

    return run


def bare_writes(
    nodes: int, checkpointer: BaseCheckpointer[Any], rounds: int
) -> Callable[[], Awaitable[Any]]:
    """The durable writes of such a run, and nothing else: the states are there beforehand."""
    batches = [list(_states(nodes)) for _ in range(rounds)]

    async def run() -> None:
        config: dict[str, Any] = {"thread_id": uuid4().hex, "user_id": "u"}
        await checkpointer.aget_state(config)
        for state in batches.pop():
            await checkpointer.aput_checkpoint(config, state, [])

    return run


def _states(nodes: int) -> Iterator[Counted]:
    context = [Message.text_message("go")]
    for count in range(nodes + 1):
        meta = ExecutionState(current_node="tick", step=count, status="running", run_id="r" * 32)
        yield Counted(count=count, context=context, execution_meta=meta)


async def medians(
    runs: Mapping[str, Callable[[], Awaitable[Any]]], rounds: int
) -> dict[str, float]:
    """The median time of each run in milliseconds, taken in turn after one for warmth."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            await run()
            if turn:
                times[name].append(1_000 * (time.perf_counter() - started))
    return {name: statistics.median(taken) for name, taken in times.items()}


async def in_memory(rounds: int) -> None:
    figures = await medians(
        {"ours": ours(IN_MEMORY, InMemoryCheckpointer()), "langgraph": langgraphs(IN_MEMORY)},
        max(3, rounds // 8),
    )
    print(f"\n{IN_MEMORY:,} nodes in memory")
    for name, figure in figures.items():
        print(f"  {name:<10} {figure:8.1f} ms")
    check("ours / langgraph", figures["ours"] / figures["langgraph"], 0.5)


async def durable(name: str, dsn: str, rounds: int) -> None:
    async with create_checkpointer(dsn) as checkpointer:
        await checkpointer.asetup()
        runs = {
            "run": ours(DURABLE, checkpointer),
            "writes": bare_writes(DURABLE, checkpointer, rounds + 1),
        }
        figures = await medians(runs, rounds)
    print(f"\n{DURABLE:,} nodes on {name}")
    for what, figure in figures.items():
        each = figure / (DURABLE + 1)
        print(f"  {what:<10} {figure:8.1f} ms, {each:.3f} ms a write")
    check(f"{name}: run / its writes alone", figures["run"] / figures["writes"], 1.3)


async def main(rounds: int) -> None:
    """Take all figures."""
    await in_memory(rounds)
    with tempfile.TemporaryDirectory() as folder:
        await durable("SQLite", str(Path(folder) / "threads.db"), rounds)
    with PostgresServer() as server:
        await durable("PostgreSQL", server.create_database("loop"), rounds)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=40)
    asyncio.run(main(arguments.parse_args().rounds))
    finish()
