"""Long-term memory inside an agent: wired by itself, and promised writes that are kept."""

import asyncio
import contextlib
import copy
import itertools
import json
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import programs
import pytest
from graphs import chain, config, said

from tenxgraph.core.exceptions import NodeError, StoreError
from tenxgraph.core.graph import Agent, StateGraph, ToolNode, interrupt
from tenxgraph.core.graph.tools import Tool
from tenxgraph.core.state import AgentState, Message, ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.prebuilt.tools import memory_tool, user_memory_tool
from tenxgraph.storage.checkpointer import (
    BaseCheckpointer,
    InMemoryCheckpointer,
    SqliteCheckpointer,
    ToolExecution,
)
from tenxgraph.storage.store import (
    AgentMemoryConfig,
    InMemoryStore,
    MemoryConfig,
    UserMemoryConfig,
    create_local_qdrant_store,
)
from tenxgraph.storage.store.memory_scope import MemoryScope
from tenxgraph.storage.store.pending_write import PendingWrite
from tenxgraph.testing import HashEmbedding, ScriptedModel

USER = {"user_id": "u"}


def call(name: str, /, **args: Any) -> ToolCall:
    return ToolCall(id="c", name=name, args=args)


class Gate(HashEmbedding):
    """An embedding that waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        await asyncio.to_thread(self.open.wait, 10)
        return await super().aembed_batch(texts)


def store() -> InMemoryStore:
    return InMemoryStore(HashEmbedding())


async def promised(checkpointer: BaseCheckpointer[Any], thread_id: str = "t") -> list[str]:
    """What has become of the writes that were promised on a thread."""
    rows = await checkpointer.alist_tool_results(config(thread_id))
    return [row.status for row in rows if row.message_id.startswith("promise:")]


async def answered(checkpointer: BaseCheckpointer[Any]) -> list[str]:
    """What has become of the tool calls themselves."""
    rows = await checkpointer.alist_tool_results(config())
    return [row.status for row in rows if not row.message_id.startswith("promise:")]


async def test_memory_tool_is_given_the_graphs_store_and_the_runs_user() -> None:
    kept = store()
    model = ScriptedModel(
        [
            call("memory_tool", action="store", content="likes tea", memory_key="drink"),
            "Noted.",
            call("memory_tool", query="tea"),
            "Tea.",
        ]
    )
    app = ReactAgent(model, [memory_tool]).compile(store=kept)
    first = await app.ainvoke("I like tea", config("a"))
    assert json.loads(first["messages"][1].text()) == {"status": "scheduled", "action": "store"}
    second = await app.ainvoke("What do I drink?", config("b"))
    (found,) = json.loads(second["messages"][1].text())
    assert found["content"] == "likes tea"
    (memory,) = await kept.aget_all(USER)
    asked = first["messages"][0]
    assert (memory.thread_id, memory.message_id) == ("a", asked.message_id)
    assert await promised(app.checkpointer, "a") == ["finished"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"action": "store", "content": "likes tea", "memory_id": None, "query": None}, None),
        ({"action": None, "query": "tea", "limit": None}, None),
        ({"query": ["tea"]}, "query"),
        ({"query": "tea", "limit": "many"}, "limit"),
        ({"query": "tea", "metadata": "x"}, "metadata"),
        ({"query": "tea", "user": "bob"}, "user"),
        ("{no json", "no JSON object"),
    ],
)
async def test_what_a_model_gets_wrong_is_answered_in_json(args: Any, told: str | None) -> None:
    if isinstance(args, str):
        asked = ToolCall.from_arguments(id="c", name="memory_tool", arguments=args)
    else:
        asked = call("memory_tool", **args)
    app = ReactAgent(ScriptedModel([asked, "ok"]), [memory_tool]).compile(store=store())
    result = await app.ainvoke("go", config())
    answer = json.loads(result["messages"][1].text())
    if told is None:
        assert answer in ([], {"status": "scheduled", "action": "store"})
    else:
        assert list(answer) == ["error"]
        assert told in answer["error"]


async def test_postload_registers_the_tools_and_tells_the_model_of_them() -> None:
    kept = store()
    await kept.astore({"agent_id": "v2"}, "returns are free", "semantic", "policies")
    memory = MemoryConfig(
        store=kept,
        user_memory=UserMemoryConfig(memory_type="semantic", category="profile", limit=10),
        agent_memory=AgentMemoryConfig(enabled=True, agent_id="v2"),
    )
    model = ScriptedModel(
        [
            [
                call("user_memory_tool", action="remember", text="has a dog"),
                call("agent_memory_tool", query="returns"),
            ],
            "ok",
        ]
    )
    app = ReactAgent(model, memory=memory, system_prompt="Be kind.").compile()
    result = await app.ainvoke("I have a dog", config())
    names = [one["function"]["name"] for one in model.requests[0].tools]
    assert names == ["user_memory_tool", "agent_memory_tool"]
    (system,) = [one.text() for one in model.requests[0].messages if one.role == "system"]
    assert system.startswith("Be kind.\n\n")
    assert "user_memory_tool" in system
    assert "returns are free" in result["messages"][2].text()
    (memory_of_user,) = await kept.aget_all(USER)
    assert (memory_of_user.category, memory_of_user.memory_type) == ("profile", "semantic")


async def test_the_store_is_the_scopes_then_the_memorys_then_the_graphs() -> None:
    scopes, memorys, graphs = store(), store(), store()
    remember = call("user_memory_tool", action="remember", text="x y z")
    for settings, expected in (
        (MemoryConfig(store=memorys, user_memory=UserMemoryConfig(store=scopes)), scopes),
        (MemoryConfig(store=memorys), memorys),
        (MemoryConfig(), graphs),
    ):
        app = ReactAgent(ScriptedModel([remember, "ok"]), memory=settings).compile(store=graphs)
        await app.ainvoke("go", config())
        assert len(await expected.aget_all(USER)) == 1


async def test_preload_puts_what_fits_into_the_prompt_and_registers_no_tool() -> None:
    kept = store()
    await kept.astore(USER, "likes tea")
    model = ScriptedModel(["Tea?"])
    app = ReactAgent(model, memory=MemoryConfig(retrieval_mode="preload")).compile(store=kept)
    await app.ainvoke("What tea do I like?", config())
    (request,) = model.requests
    assert request.tools == []
    assert "- likes tea" in request.messages[0].text()


async def test_no_retrieval_does_neither() -> None:
    model = ScriptedModel(["Hello."])
    app = ReactAgent(model, memory=MemoryConfig(retrieval_mode="no_retrieval")).compile()
    await app.ainvoke("hi", config())
    assert said(model.requests[0].messages) == ["user: hi"]


async def test_an_agents_memory_tools_join_the_tool_node_it_is_given() -> None:
    kept = store()
    tools = ToolNode([memory_tool])
    model = ScriptedModel([call("user_memory_tool", text="x"), "ok"])
    agent = Agent(model, tools, memory=MemoryConfig(store=kept))
    graph = StateGraph().add_node("model", agent).add_node("tools", tools)
    graph.set_entry_point("model").add_edge("model", "tools")
    result = await graph.compile().ainvoke("go", config())
    assert said(result["messages"])[-1] == "tool: []"
    assert [one.name for one in tools.tools] == ["memory_tool", "user_memory_tool"]


async def test_the_end_of_a_run_waits_for_what_it_promised() -> None:
    gate = Gate()
    kept = InMemoryStore(gate)
    model = ScriptedModel([call("memory_tool", action="store", content="x"), "ok"])
    app = ReactAgent(model, [memory_tool]).compile(store=kept)
    told = asyncio.Event()

    async def listen() -> None:
        async for chunk in app.astream("go", config()):
            if chunk.type == "update" and chunk.node == "model" and len(model.requests) == 2:
                told.set()

    running = asyncio.create_task(listen())
    await told.wait()
    assert await answered(app.checkpointer) == ["finished"]
    assert await promised(app.checkpointer) == ["scheduled"]
    assert not running.done(), "the answer is out, and the run waits for the write"
    recovering = asyncio.create_task(app.arecover(config()))
    await asyncio.sleep(0.05)
    gate.open.set()
    assert await recovering == 0, "it is on its way already"
    await running
    assert await promised(app.checkpointer) == ["finished"]
    assert len(await kept.aget_all(USER)) == 1


async def test_closing_lands_what_was_too_slow_for_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tenxgraph.core.graph.promises._DEADLINE", 0.01)
    gate = Gate()
    kept = InMemoryStore(gate)
    path = str(tmp_path / "threads.db")
    checkpointer: SqliteCheckpointer[AgentState] = SqliteCheckpointer(path)
    await checkpointer.asetup()
    model = ScriptedModel([call("memory_tool", action="store", content="x"), "ok"])
    app = ReactAgent(model, [memory_tool]).compile(checkpointer, store=kept)
    await app.ainvoke("go", config())
    assert kept.writes.stats.landed == 0
    gate.open.set()
    await app.aclose()
    assert len(await kept.aget_all(USER)) == 1
    async with SqliteCheckpointer[AgentState](path) as again:
        assert await promised(again) == ["finished"]


class Watched(InMemoryStore):
    """Knows how often it was closed, and may fail at it."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__(HashEmbedding())
        self.closed = 0
        self._fails = fails

    async def _aclose(self) -> None:
        self.closed += 1
        if self._fails:
            raise StoreError("Gone.")
        await super()._aclose()


@pytest.mark.parametrize("mode", ["postload", "preload", "no_retrieval"])
async def test_closing_closes_every_store_that_was_given_once(mode: Any) -> None:
    graphs, memorys, users, agents, tools = (Watched() for _ in range(5))
    memory = MemoryConfig(
        store=memorys,
        retrieval_mode=mode,
        user_memory=UserMemoryConfig(store=users),
        agent_memory=AgentMemoryConfig(enabled=True, agent_id="a", store=agents),
    )
    tool = Tool(memory_tool, store=tools)
    app = ReactAgent(ScriptedModel(["ok"]), [tool], memory=memory).compile(store=graphs)
    # By the application, beside any run: what was promised through any of them lands.
    stores = (graphs, memorys, users, agents, tools)
    for one in stores:
        await memory_tool(action="store", content="x", config=USER, store=one)
    await app.aclose()
    assert [one.writes.stats.landed for one in stores] == [1] * 5
    assert [one.closed for one in stores] == [1] * 5


async def test_closing_goes_on_where_one_store_fails(tmp_path: Path) -> None:
    failing, other = Watched(fails=True), Watched()
    memory = MemoryConfig(user_memory=UserMemoryConfig(store=other))
    checkpointer: SqliteCheckpointer[AgentState] = SqliteCheckpointer(tmp_path / "threads.db")
    await checkpointer.asetup()
    closed: list[str] = []

    class Model(ScriptedModel):
        async def aclose(self) -> None:
            closed.append("model")

    async def close() -> None:
        closed.append("checkpointer")
        await SqliteCheckpointer.aclose(checkpointer)

    checkpointer.aclose = close  # type: ignore[method-assign]
    app = ReactAgent(Model(["ok"]), memory=memory).compile(checkpointer, store=failing)
    with pytest.raises(StoreError, match="Gone"):
        await app.aclose()
    assert other.closed == 1
    assert closed == ["model", "checkpointer"]


async def test_the_end_of_a_run_waits_for_a_store_that_only_a_plain_tool_has() -> None:
    gate = Gate()
    kept = InMemoryStore(gate)

    async def note(config: Any, store: Any) -> str:
        """Note something."""
        return await memory_tool(action="store", content="x", config=config, store=store)

    threading.Timer(0.2, gate.open.set).start()
    model = ScriptedModel([call("note"), "ok"])
    await ReactAgent(model, [Tool(note, store=kept)]).compile().ainvoke("go", config())
    assert kept.writes.stats.landed == 1


async def test_a_write_that_the_store_refuses_is_not_tried_for_ever() -> None:
    kept = store()
    calls: list[Any] = [
        call("memory_tool", action="update", memory_id="no-such", content="x"),
        "ok",
        "ok",
    ]
    app = ReactAgent(ScriptedModel(calls), [memory_tool]).compile(store=kept)
    await app.ainvoke("go", config())
    assert await promised(app.checkpointer) == ["failed"]
    await app.ainvoke("again", config())
    assert kept.writes.stats.scheduled == 1


PROMISES_AND_DIES = """
    import asyncio, os, signal, sys
    from tenxgraph.core.graph import StateGraph
    from tenxgraph.core.state import ToolCall
    from tenxgraph.prebuilt.agent import ReactAgent
    from tenxgraph.prebuilt.tools import memory_tool
    from tenxgraph.storage.checkpointer import SqliteCheckpointer
    from tenxgraph.storage.store import InMemoryStore
    from tenxgraph.testing import HashEmbedding, ScriptedModel

    class Never(HashEmbedding):
        async def aembed_batch(self, texts):
            await asyncio.Event().wait()

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    async def note(config, store):
        assert "scheduled" in await memory_tool("store", content="likes tea", **locals())
        assert "scheduled" in await memory_tool("store", content="likes milk", **locals())
        return "noted"

    def sync_note(config, store):
        return asyncio.run(note(config, store))

    async def note_and_die(config, store):
        await note(config, store)
        die()

    def by_model(*tools, **args):
        calls = [ToolCall(id="c", name=one.__name__, args=args) for one in tools]
        return ReactAgent(ScriptedModel([calls, die]), tools)

    def by_nodes(*nodes):
        graph = StateGraph().set_entry_point(nodes[0].__name__)
        for one in nodes:
            graph.add_node(one.__name__, one)
        for one, following in zip(nodes, nodes[1:]):
            graph.add_edge(one.__name__, following.__name__)
        return graph

    graph = {
        "the model": lambda: by_model(memory_tool, action="store", content="likes tea"),
        "a tool": lambda: by_model(note),
        "a tool that dies": lambda: by_model(note_and_die),
        "a node": lambda: by_nodes(note, die),
        "a sync node": lambda: by_nodes(sync_note, die),
        "a node that dies": lambda: by_nodes(note_and_die),
    }[sys.argv[2]]()
    checkpointer = SqliteCheckpointer(sys.argv[1])
    checkpointer.setup()
    app = graph.compile(checkpointer, store=InMemoryStore(Never()))
    app.invoke("I like tea", {"thread_id": "t", "user_id": "u"})
"""


async def note_again(config: Any, store: Any) -> str:
    """Note what you like, as the program that was killed did."""
    for content in ("likes tea", "likes milk"):
        reply = await memory_tool("store", content=content, config=config, store=store)
        assert "scheduled" in reply
    return "noted"


def nothing() -> None:
    """Do nothing."""


def once_more(who: str) -> StateGraph[AgentState] | ReactAgent[AgentState]:
    """The graph of the program that was killed, without what killed it."""
    if "node" not in who:
        named = Tool(note_again, name="note_and_die" if "dies" in who else "note")
        return ReactAgent(ScriptedModel(["Noted."]), [memory_tool, named])
    names = ["note_and_die"] if "dies" in who else ["sync_note" if "sync" in who else "note", "die"]
    graph = StateGraph().set_entry_point(names[0])
    for name in names:
        graph.add_node(name, nothing if name == "die" else note_again)
    return graph.add_edge(*names) if len(names) == 2 else graph


@pytest.mark.crash
@pytest.mark.parametrize("how", ["next run", "arecover"])
@pytest.mark.parametrize(
    "who",
    ["the model", "a tool", "a tool that dies", "a node", "a sync node", "a node that dies"],
)
async def test_what_a_killed_process_had_promised_is_kept(
    tmp_path: Path, who: str, how: str
) -> None:
    path = str(tmp_path / "threads.db")
    program = programs.start(PROMISES_AND_DIES, path, who)
    _, errors = program.communicate(timeout=30)
    assert program.returncode == -9, errors
    expected = ["likes tea"] if who == "the model" else ["likes tea", "likes milk"]
    kept = store()
    app = once_more(who).compile(SqliteCheckpointer(path), store=kept)
    async with app:
        assert await promised(app.checkpointer) == ["scheduled"] * len(expected)
        if how == "arecover":
            assert await app.arecover(config()) == len(expected)
            assert await app.arecover(config()) == 0
        else:
            # Under another id, too, what is run once more promises the same.
            await app.ainvoke(None, {**config(), "run_id": "another"})
        await kept.aflush()
        assert await promised(app.checkpointer) == ["finished"] * len(expected)
        memories = [memory.content for memory in await kept.aget_all(USER)]
        assert sorted(memories) == sorted(expected)


async def test_what_a_node_promises_differently_when_it_is_replayed_is_kept_too() -> None:
    kept = store()
    drinks = iter(["tea", "milk", "milk"])

    async def note(config: Any, store: Any) -> None:
        drink = next(drinks)
        await memory_tool("store", content=f"likes {drink}", config=config, store=store)
        if drink == "tea":
            raise RuntimeError("cut short")
        await memory_tool("store", content=f"likes {next(drinks)}", config=config, store=store)

    app = chain(note, store=kept)
    with pytest.raises(NodeError):
        await app.ainvoke("go", config())
    await app.ainvoke(None, config())
    memories = [memory.content for memory in await kept.aget_all(USER)]
    assert sorted(memories) == ["likes milk", "likes milk", "likes tea"]
    assert await promised(app.checkpointer) == ["finished"] * 3


async def test_a_second_run_remembers_the_same_once_more() -> None:
    kept = store()

    async def note(config: Any, store: Any) -> None:
        await user_memory_tool("remember", "missed a flight", config=config, store=store)

    app = chain(note, store=kept)
    await app.ainvoke("go", config())
    await app.ainvoke("go", config())
    assert len(await kept.aget_all(USER)) == 2


async def test_a_store_that_the_graph_does_not_know_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = store()

    async def note(config: Any) -> None:
        await memory_tool("store", content="likes tea", config=config, store=own)

    app = chain(note, store=store())
    await app.ainvoke("go", config())
    assert len(await own.aget_all(USER)) == 1
    assert await promised(app.checkpointer) == []
    assert "note of thread 't' promises a memory write through a store that" in caplog.text


async def test_a_write_promised_through_a_store_that_is_gone_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checkpointer: InMemoryCheckpointer[AgentState] = InMemoryCheckpointer()
    kept, graphs = store(), store()
    write = PendingWrite(action="store", config=USER, content="likes tea", idempotency_key="k")
    app = ReactAgent(ScriptedModel(["a"])).compile(checkpointer, store=graphs)
    await app.ainvoke("go", config())
    left = ToolExecution(
        message_id="promise:k",
        position=0,
        tool_name="memory_tool",
        status="scheduled",
        result={"store": "tools tool memory_tool", "promise": write.as_json()},
    )
    await checkpointer.aput_tool_result(config(), left)
    assert await app.arecover(config()) == 0
    assert "the store 'tools tool memory_tool', which this graph does not have" in caplog.text
    tools = [Tool(memory_tool, store=kept)]
    again = ReactAgent(ScriptedModel(["b"]), tools).compile(checkpointer, store=graphs)
    assert await again.arecover(config()) == 1
    assert len(await kept.aget_all(USER)) == 1
    assert await graphs.aget_all(USER) == []


PROMISES_AND_IS_TOLD_TO_END = """
    import asyncio, os, signal, sys
    from tenxgraph.core.state import ToolCall
    from tenxgraph.prebuilt.agent import ReactAgent
    from tenxgraph.prebuilt.tools import memory_tool
    from tenxgraph.storage.checkpointer import InMemoryCheckpointer, SqliteCheckpointer
    from tenxgraph.storage.store import create_local_qdrant_store, writer_thread
    from tenxgraph.testing import HashEmbedding, ScriptedModel

    folder, delay, durable = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "durable"
    writer_thread.flush_all.__defaults__ = (min(5.0, 100 / delay),)

    class Slow(HashEmbedding):
        model = "HashEmbedding"

        async def aembed_batch(self, texts):
            await asyncio.sleep(delay)
            return await super().aembed_batch(texts)

    def end(messages, tools):
        os.kill(os.getpid(), signal.SIGTERM)
        return "never heard"

    checkpointer = SqliteCheckpointer(folder + "/threads.db") if durable else InMemoryCheckpointer()
    checkpointer.setup()
    args = {"action": "store", "content": "likes tea"}
    model = ScriptedModel([ToolCall(id="c", name="memory_tool", args=args), end])
    store = create_local_qdrant_store(folder + "/memory", Slow())
    app = ReactAgent(model, [memory_tool]).compile(checkpointer, store=store)
    app.invoke("I like tea", {"thread_id": "t", "user_id": "u"})
"""


@pytest.mark.parametrize("checkpointer", ["none", "durable"])
@pytest.mark.parametrize("delay", [0.5, 1000])
async def test_sigterm_in_a_sync_run_lands_what_it_can_and_names_the_rest(
    tmp_path: Path, checkpointer: str, delay: float
) -> None:
    program = programs.start(PROMISES_AND_IS_TOLD_TO_END, str(tmp_path), str(delay), checkpointer)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGTERM, errors
    too_slow = delay > 1
    assert errors.count("before a promised memory is saved: store user_id='u'") == too_slow
    async with create_local_qdrant_store(tmp_path / "memory", HashEmbedding()) as kept:
        contents = [memory.content for memory in await kept.aget_all(USER)]
        assert contents == ([] if too_slow else ["likes tea"])
        if checkpointer == "durable":
            threads = SqliteCheckpointer[AgentState](tmp_path / "threads.db")
            app = ReactAgent(ScriptedModel([]), [memory_tool]).compile(threads, store=kept)
            assert await promised(threads) == ["scheduled" if too_slow else "finished"]
            assert await app.arecover(config()) == too_slow
            assert [memory.content for memory in await kept.aget_all(USER)] == ["likes tea"]
            await app.aclose()


async def test_a_promise_made_twice_is_one_memory() -> None:
    kept = store()
    checkpointer: InMemoryCheckpointer[AgentState] = InMemoryCheckpointer()
    fails = [True]

    class CrashError(BaseException):
        """The process dies."""

    async def once() -> str:
        if fails:
            fails.pop()
            raise CrashError
        return "x"

    def script(messages: list[Message], _tools: Any) -> Any:
        if messages[-1].role == "tool":
            return "ok"
        return [call("memory_tool", action="store", content="likes tea"), call("once")]

    app = ReactAgent(ScriptedModel(script), [memory_tool, once]).compile(checkpointer, store=kept)
    for given in ("go", None):
        with contextlib.suppress(CrashError):
            await app.ainvoke(given, config())
    await kept.aflush()
    assert len(await kept.aget_all(USER)) == 1


async def test_a_promise_of_another_version_does_not_keep_the_thread_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checkpointer: InMemoryCheckpointer[AgentState] = InMemoryCheckpointer()
    app = ReactAgent(ScriptedModel(["a", "b"]), [memory_tool]).compile(checkpointer, store=store())
    await app.ainvoke("go", config())
    left = ToolExecution(
        message_id="m",
        position=0,
        tool_name="memory_tool",
        status="scheduled",
        result={"store": "graph", "promise": {"action": "teleport", "where": "Mars"}},
    )
    await checkpointer.aput_tool_result(config(), left)
    assert (await app.ainvoke("again", config()))["messages"][-1].text() == "b"
    assert "is not understood" in caplog.text


async def test_a_recovered_write_that_the_store_refuses_is_recorded_as_failed() -> None:
    checkpointer: InMemoryCheckpointer[AgentState] = InMemoryCheckpointer()
    kept = store()
    app = ReactAgent(ScriptedModel(["a", "b"]), [memory_tool]).compile(checkpointer, store=kept)
    await app.ainvoke("go", config())
    write = PendingWrite(action="update", config=USER, memory_id="no-such", content="x")
    left = ToolExecution(
        message_id="m",
        position=0,
        tool_name="memory_tool",
        status="scheduled",
        result={"store": "graph", "promise": write.as_json()},
    )
    await checkpointer.aput_tool_result(config(), left)
    assert await app.arecover(config()) == 1
    await kept.aflush()
    (row,) = await checkpointer.alist_tool_results(config())
    assert row.status == "failed"
    assert row.result == {"refused": "MissingMemoryError: There is no memory 'no-such'."}


class Away(InMemoryStore):
    """A store whose backend can be switched off."""

    def __init__(self) -> None:
        super().__init__(HashEmbedding())
        self.is_away = False

    async def _aupsert(self, *given: Any) -> None:
        if self.is_away:
            raise StoreError("Away.")
        await super()._aupsert(*given)


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenxgraph.storage.store.pending._RETRY_DELAYS", ())


def keeps(color: str) -> ToolCall:
    return call("memory_tool", action="store", content=color, memory_key="color")


@pytest.mark.usefixtures("no_retries")
async def test_an_old_promise_does_not_undo_a_newer_one() -> None:
    kept = Away()
    model = ScriptedModel([keeps("blue"), "ok", "ok", keeps("green"), "ok", "ok"])
    app = ReactAgent(model, [memory_tool]).compile(store=kept)
    kept.is_away = True
    await app.ainvoke("blue", config("a"))
    kept.is_away = False
    kept.writes.take_failures(MemoryScope.of(USER))  # as in another process
    await app.ainvoke("ok?", config("b"))
    await app.ainvoke("green", config("b"))
    assert await promised(app.checkpointer, "a") == ["scheduled"]
    assert await app.arecover(config("a")) == 1
    assert await promised(app.checkpointer, "a") == ["finished"]
    assert [memory.content for memory in await kept.aget_all(USER)] == ["green"]


async def test_a_node_that_is_replayed_does_not_undo_what_was_changed_meanwhile() -> None:
    kept = store()

    async def node(config: Any, store: Any) -> str:
        await memory_tool("store", content="blue", memory_key="color", config=config, store=store)
        return str(interrupt("Go on?"))

    app = chain(node, store=kept)
    for meanwhile in ("changed", "forgotten"):
        thread = config(meanwhile)
        await app.ainvoke("go", thread)
        assert [memory.content for memory in await kept.aget_all(USER)] == ["blue"]
        if meanwhile == "changed":
            await kept.astore(USER, "green", memory_key="color")
        else:
            await kept.aforget_memory(USER)
        before = [memory.content for memory in await kept.aget_all(USER)]
        await app.ainvoke({"resume": "yes"}, thread)
        assert [memory.content for memory in await kept.aget_all(USER)] == before


@pytest.mark.usefixtures("no_retries")
async def test_forgetting_a_user_takes_back_what_was_promised_and_has_not_landed() -> None:
    kept = Away()
    script: list[Any] = [keeps("blue"), "ok", keeps("red"), "ok"]
    app = ReactAgent(ScriptedModel(script), [memory_tool]).compile(store=kept)
    kept.is_away = True
    await app.ainvoke("blue", config())
    await app.ainvoke("red", {"thread_id": "theirs", "user_id": "bob"})
    kept.is_away = False
    await kept.astore(USER, "has a dog")
    with pytest.raises(ValueError, match="user_id"):
        await app.aforget_memory({})
    with pytest.raises(ValueError, match="`agent_id`"):
        await app.aforget_memory({**USER, "agent_id": "sales"})
    assert await app.aforget_memory(USER) == 1
    assert await app.arecover(config()) == 0
    assert await kept.aget_all(USER) == []
    (row,) = await app.checkpointer.alist_tool_results(config(), "failed")
    assert row.result == {"refused": "forgotten"}, "and not what it said"
    assert await app.arecover({"thread_id": "theirs", "user_id": "bob"}) == 1


@pytest.mark.parametrize("order", ["one key", "delete, then store"])
async def test_calls_of_one_message_are_carried_out_as_they_were_asked(
    tmp_path: Path, order: str
) -> None:
    checkpointer: SqliteCheckpointer[AgentState] = SqliteCheckpointer(tmp_path / "threads.db")
    await checkpointer.asetup()
    for attempt in range(10):
        kept = store()
        first = await kept.astore(USER, "0", memory_key="color")
        if order == "one key":
            calls = [keeps(str(number)) for number in range(1, 5)]
        else:
            calls = [call("memory_tool", action="delete", memory_id=first), keeps("4")]
        app = ReactAgent(ScriptedModel([calls, "ok"]), [memory_tool]).compile(
            checkpointer, store=kept
        )
        await app.ainvoke("go", config(str(attempt)))
        assert [memory.content for memory in await kept.aget_all(USER)] == ["4"]
    await checkpointer.aclose()


async def test_every_store_that_the_graph_was_given_keeps_its_promises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, two, three = store(), store(), store()

    async def note(config: Any) -> None:
        await memory_tool("store", content="noted", config=config, store=three)

    remember = call("user_memory_tool", action="remember", text="x y z")
    graph = StateGraph()
    names = []
    for number, kept in enumerate((one, two)):
        agent = Agent(ScriptedModel([remember]), memory=MemoryConfig(store=kept))
        assert agent.tool_node is not None
        graph.add_node(f"model{number}", agent).add_node(f"tools{number}", agent.tool_node)
        names += [f"model{number}", f"tools{number}"]
    silent = MemoryConfig(store=three, retrieval_mode="no_retrieval")
    graph.add_node("silent", Agent(ScriptedModel(["hm"]), memory=silent)).add_node("note", note)
    names += ["silent", "note"]
    graph.set_entry_point(names[0])
    for source, target in itertools.pairwise(names):
        graph.add_edge(source, target)
    app = graph.compile()
    await app.ainvoke("go", config())
    rows = await app.checkpointer.alist_tool_results(config())
    asked = [row.tool_name for row in rows if row.message_id.startswith("promise:")]
    assert asked == ["user_memory_tool", "user_memory_tool", "note"]
    assert [len(await kept.aget_all(USER)) for kept in (one, two, three)] == [1, 1, 1]
    assert caplog.records == []


async def test_a_graph_without_a_store_says_that_it_cannot_keep_a_promise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = store()

    async def note(config: Any) -> None:
        await memory_tool("store", content="x", config=config, store=own)

    app = chain(note)
    await app.ainvoke("go", config())
    assert "pass the store to `compile(store=)`" in caplog.text


async def test_a_tool_that_hands_its_key_on_may_write_more_than_once() -> None:
    kept = store()

    async def note(config: Any, store: Any, idempotency_key: str) -> str:
        """Note two things."""
        for content in ("one", "two"):
            await memory_tool(
                "store",
                content=content,
                config=config,
                store=store,
                idempotency_key=idempotency_key,
            )
        return "noted"

    async def dedupe(config: Any, store: Any) -> None:
        await memory_tool(
            "store", content="ticket", config=config, store=store, idempotency_key="ticket-7"
        )

    app = ReactAgent(ScriptedModel([call("note"), "ok"]), [note]).compile(store=kept)
    await app.ainvoke("go", config())
    assert len(await kept.aget_all(USER)) == 2
    own = chain(dedupe, store=kept)
    for _ in range(2):
        await own.ainvoke("go", config())
    assert len(await kept.aget_all(USER)) == 3, "a key of one's own holds across runs"


async def test_a_config_can_be_copied_deeply() -> None:
    kept = store()

    async def note(config: Any, store: Any) -> None:
        own = copy.deepcopy(config)
        await memory_tool("store", content="x", config=own, store=store)

    app = chain(note, store=kept)
    await app.ainvoke("go", config())
    assert await promised(app.checkpointer) == ["finished"]


async def test_a_run_that_fails_waits_for_what_it_promised_too() -> None:
    gate = Gate()
    kept = InMemoryStore(gate)

    async def note(config: Any, store: Any) -> None:
        await memory_tool("store", content="x", config=config, store=store)
        raise RuntimeError("afterwards")

    app = chain(note, store=kept)
    threading.Timer(0.2, gate.open.set).start()
    with pytest.raises(NodeError):
        await app.ainvoke("go", config())
    assert kept.writes.stats.landed == 1


async def test_a_thread_that_is_deleted_with_a_promise_pending_is_gone_quietly(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenxgraph.core.graph.promises._DEADLINE", 0.01)
    gate = Gate()
    kept = InMemoryStore(gate)
    app = ReactAgent(ScriptedModel([keeps("blue"), "ok"]), [memory_tool]).compile(store=kept)
    await app.ainvoke("go", config())
    assert await app.checkpointer.aclean_thread(config())
    gate.open.set()
    await kept.aflush()
    assert len(await kept.aget_all(USER)) == 1
    assert caplog.records == []


async def test_what_is_forgotten_on_its_way_in_another_process_is_removed_again() -> None:
    gate = Gate()
    here, there = InMemoryStore(gate), store()
    here._memories = there._memories  # one database, two processes
    checkpointer: InMemoryCheckpointer[AgentState] = InMemoryCheckpointer()
    model = ScriptedModel([call("memory_tool", action="store", content="secret"), "ok"])
    worker = ReactAgent(model, [memory_tool]).compile(checkpointer, store=here)
    other = ReactAgent(ScriptedModel([]), [memory_tool]).compile(checkpointer, store=there)
    running = asyncio.create_task(worker.ainvoke("go", config()))
    while await promised(checkpointer) != ["scheduled"]:  # noqa: ASYNC110 - as another process sees it
        await asyncio.sleep(0.01)
    await other.aforget_memory(USER)
    gate.open.set()
    await running
    await here.aflush()
    assert await there.aget_all(USER) == []
    assert await promised(checkpointer) == ["failed"]


@pytest.mark.usefixtures("no_retries")
async def test_a_node_that_is_replayed_does_not_promise_again_what_was_forgotten() -> None:
    kept = Away()

    async def node(config: Any, store: Any) -> str:
        await memory_tool("store", content="secret", config=config, store=store)
        return str(interrupt("Go on?"))

    app = chain(node, store=kept)
    kept.is_away = True
    await app.ainvoke("go", config())
    kept.is_away = False
    await app.aforget_memory(USER)
    await app.ainvoke({"resume": "yes"}, config())
    assert await kept.aget_all(USER) == []
