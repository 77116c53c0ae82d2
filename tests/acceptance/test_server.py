"""The command `tenxgraph`, as somebody who deploys it would use it."""

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import programs
import pytest
from served_command import command, served
from servers.redis import RedisServer

AGENT = """
import asyncio
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.prebuilt.tools import memory_tool
from tenxgraph.core.state import Message
from tenxgraph.storage.checkpointer import SqliteCheckpointer
from tenxgraph.storage.store import create_local_qdrant_store
from tenxgraph.testing import HashEmbedding


class Slow(HashEmbedding):
    model = "HashEmbedding"

    async def aembed_batch(self, texts):
        await asyncio.sleep(1)
        return await super().aembed_batch(texts)


async def model(messages, tools):
    asked = messages[-1].text()
    if messages[-1].role == "tool":
        return "Noted."
    if asked == "wait":
        await asyncio.sleep(60)
    if asked.startswith("I like"):
        args = {"action": "store", "content": asked}
        return Message.assistant(tool_calls=[ToolCall(id="c", name="memory_tool", args=args)])
    return f"You said: {asked}"


checkpointer = SqliteCheckpointer("./threads.db")
store = create_local_qdrant_store("./memory", Slow())
agent = ReactAgent(model, [memory_tool])
"""

SETTINGS = {
    "agent": "graph.agent:agent",
    "checkpointer": "graph.agent:checkpointer",
    "store": "graph.agent:store",
    "limits": {"recursion_limit": 9},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "agent.py").write_text(AGENT)
    (tmp_path / "10xgraph.json").write_text(json.dumps(SETTINGS))
    return tmp_path


def tenxgraph(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=programs.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def say(client: httpx.Client, text: str, thread_id: str = "t") -> Any:
    body = {"messages": text, "config": {"thread_id": thread_id}}
    answer = client.post("/v1/graph/invoke", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["messages"][-1]["content"][0]["text"]


def test_set_up_check_and_serve(folder: Path) -> None:
    checked = tenxgraph(folder, "check")
    assert checked.returncode == 0, checked.stderr
    assert "checkpointer: SqliteCheckpointer" in checked.stdout
    made = tenxgraph(folder, "setup")
    assert made.returncode == 0, made.stderr
    with served(folder) as (client, _):
        assert say(client, "hello") == "You said: hello"
        assert client.get("/v1/threads").json()["items"][0]["user_id"] == "anonymous"
    with served(folder) as (client, _):
        items = client.get("/v1/threads/t/messages").json()["items"]
        assert [one["role"] for one in items] == ["user", "assistant"]


def test_a_database_without_tables_is_not_served_and_says_what_to_do(folder: Path) -> None:
    refused = tenxgraph(folder, "serve")
    assert refused.returncode == 2
    assert "`tenxgraph setup`" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_sigterm_lands_what_was_promised_and_leaves_the_run_to_be_taken_up(folder: Path) -> None:
    tenxgraph(folder, "setup")
    with served(folder) as (client, process):
        assert say(client, "I like tea") == "Noted."
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert process.returncode in (0, -signal.SIGTERM)
    with served(folder) as (client, _):
        found = client.post("/v1/store/search", json={"query": "tea"}).json()
        assert [one["content"] for one in found] == ["I like tea"]


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("path", ["invoke", "stream"])
def test_sigterm_ends_a_run_that_goes_on_so_that_it_can_be_taken_up(
    folder: Path, path: str, workers: str
) -> None:
    (folder / "10xgraph.json").write_text(
        json.dumps({k: v for k, v in SETTINGS.items() if k != "store"})
    )
    tenxgraph(folder, "setup")
    body = {"messages": "wait", "config": {"thread_id": "t"}}
    with (
        served(folder, "--workers", workers, "--grace", "1") as (client, process),
        ThreadPoolExecutor() as pool,
    ):
        asking = pool.submit(client.post, f"/v1/graph/{path}", json=body)
        while client.get("/v1/threads/t/state").status_code == 404:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        asking.exception()
    with served(folder) as (client, _):
        state = client.get("/v1/threads/t/state").json()["state"]
        assert state["execution_meta"]["status"] == "stopped"
        assert say(client, "hello") == "You said: hello"


@pytest.mark.crash
def test_a_killed_server_is_taken_up_by_the_next_one(folder: Path) -> None:
    tenxgraph(folder, "setup")
    with served(folder) as (client, process):
        say(client, "I like milk", "m")
        body = {"messages": "wait", "config": {"thread_id": "t"}}
        with client.stream("POST", "/v1/graph/stream", json=body) as response:
            lines = response.iter_lines()  # dropped, it would close the stream
            assert "event: start" in next(lines)
            while client.get("/v1/threads/t/state").status_code == 404:
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
    with served(folder) as (client, _):
        state = client.get("/v1/threads/t/state").json()["state"]
        assert state["execution_meta"]["status"] == "running"
        assert client.post("/v1/graph/stop", json={"thread_id": "t"}).status_code == 200
        assert say(client, "and now?", "m") == "You said: and now?"
        found = client.post("/v1/store/search", json={"query": "milk"}).json()
        assert [one["content"] for one in found] == ["I like milk"]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_postgres_with_redis_in_front_is_served(
    tmp_path: Path, postgres_dsn: str, redis_server: RedisServer, workers: str
) -> None:
    source = AGENT.replace(
        'SqliteCheckpointer("./threads.db")',
        f"PgCheckpointer({postgres_dsn!r}, redis_url={redis_server.url()!r})",
    ).replace("import SqliteCheckpointer", "import PgCheckpointer")
    (tmp_path / "app.py").write_text(source)
    settings = {"agent": "app:agent", "checkpointer": "app:checkpointer"}
    (tmp_path / "10xgraph.json").write_text(json.dumps(settings))
    with served(tmp_path, "--workers", workers) as (client, _):
        for number in range(6):
            assert say(client, str(number)) == f"You said: {number}"
        assert len(client.get("/v1/threads/t/messages").json()["items"]) == 12


def test_a_database_in_memory_is_served_as_it_was_set_up(tmp_path: Path) -> None:
    source = AGENT.replace('"./threads.db"', '":memory:"') + "checkpointer.setup()\n"
    (tmp_path / "app.py").write_text(source + "graph = agent.compile(checkpointer)\n")
    with served(tmp_path, "app:graph") as (client, _):
        assert say(client, "hello") == "You said: hello"


def test_several_workers_serve_one_database(folder: Path) -> None:
    settings = {k: v for k, v in SETTINGS.items() if k != "store"}
    (folder / "10xgraph.json").write_text(json.dumps(settings))
    tenxgraph(folder, "setup")
    with served(folder, "--workers", "2") as (client, _):
        for number in range(20):
            assert say(client, str(number), f"t{number}") == f"You said: {number}"
        assert len(client.get("/v1/threads").json()["items"]) == 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "--config", "nowhere.json"], "nowhere.json"),
        (["check", "nowhere:graph"], "there is no module 'nowhere'"),
        (["check", "graph.agent:agent", "--config", "10xgraph.json"], "not both"),
        (["serve", "graph.agent:nothing"], "has no 'nothing'"),
        (["serve", "graph.agent:agent", "--workers", "2"], "Several workers need"),
        (["serve", "--workers", "2"], "2 workers cannot share a QdrantStore"),
        (["serve", "--workers", "0"], "must be from 1 to"),
        (["serve", "--port", "99999"], "must be from 0 to 65535"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder: Path, arguments: list[str], said: str) -> None:
    ended = tenxgraph(folder, *arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
