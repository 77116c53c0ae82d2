"""The server as a process: how it ends, what it logs, and that it answers while it refuses."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_command import command, served

from tenxgraph.cli import _parser
from tenxgraph.server.app import _CLOSING_SECONDS

APP = """
import asyncio, time
from tenxgraph.core.graph import StateGraph
from tenxgraph.storage.checkpointer import InMemoryCheckpointer


async def node(state):
    text = state.context[-1].text()
    if text == "wait":
        await asyncio.sleep(60)
    if text == "block":
        await asyncio.to_thread(time.sleep, 4)
    if text == "stubborn":
        for _ in range(60):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                pass
    if text == "fail":
        raise RuntimeError("no")
    return "done"


graph = StateGraph().add_node(node).set_entry_point("node").compile(InMemoryCheckpointer())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@contextmanager
def asked(client: httpx.Client, *asks: tuple[str, str]) -> Iterator[list["Future[Any]"]]:
    """Requests that go on: a path and a text each, on a thread of its own."""
    with ThreadPoolExecutor() as pool:
        going_on = []
        for number, (path, text) in enumerate(asks):
            body = {"messages": text, "config": {"thread_id": f"t{number}", "run_id": "r"}}
            going_on.append(pool.submit(client.post, f"/v1/graph/{path}", json=body))
            while client.get(f"/v1/threads/t{number}/state").status_code == 404:
                time.sleep(0.02)
        yield going_on


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_past_the_grace_answers_every_request(folder: Path, workers: str) -> None:
    asks = [("invoke", "wait"), ("stream", "wait")]
    arguments = ["app:graph"]
    if workers == "2":  # what several processes share is in a file
        source = APP.replace("InMemoryCheckpointer", "SqliteCheckpointer")
        source = source.replace("Checkpointer())", 'Checkpointer("threads.db"))')
        (folder / "app.py").write_text(f"{source}\ngraph.checkpointer.setup()\n")
        (folder / "10xgraph.json").write_text(json.dumps({"agent": "app:graph"}))
        arguments = ["--workers", "2"]
    with served(folder, *arguments, "--grace", "1") as (client, process):
        with asked(client, *asks) as (invoked, streamed):
            process.send_signal(signal.SIGTERM)
            answer, stream = invoked.result(), streamed.result()
            process.wait(60)
        output = process.communicate()[0]
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["code"] == "shutting_down"
    assert {name: answer.json()[name] for name in ("thread_id", "run_id")} == {
        "thread_id": "t0",
        "run_id": "r",
    }
    last = stream.text.strip().rpartition("event: ")[2].split("\n")
    assert last[0] == "end"
    assert json.loads(last[1].removeprefix("data: ")) == {
        "thread_id": "t1",
        "run_id": "r",
        "status": "stopped",
    }
    assert "Traceback" not in output


def test_a_run_that_ignores_its_end_is_answered_all_the_same(folder: Path) -> None:
    asks = [("invoke", "stubborn"), ("stream", "stubborn"), ("invoke", "block")]
    with (
        served(folder, "app:graph", "--grace", "0") as (client, process),
        asked(client, *asks) as going_on,
    ):
        process.send_signal(signal.SIGTERM)
        invoked, stream, blocked = (one.result() for one in going_on)
        process.wait(60)
    assert (invoked.status_code, blocked.status_code) == (503, 503)
    assert '"status":"stopped"' in stream.text.rpartition("event: end")[2]


def test_a_request_that_ends_within_the_grace_is_answered(folder: Path) -> None:
    with served(folder, "app:graph") as (client, process):
        with asked(client, ("invoke", "block"), ("stream", "block")) as going_on:
            process.send_signal(signal.SIGTERM)
            invoked, stream = (one.result() for one in going_on)
            process.wait(60)
        output = process.communicate()[0]
    assert invoked.json()["status"] == "completed"
    assert '"status":"completed"' in stream.text.rpartition("event: end")[2]
    assert "Traceback" not in output


def test_the_default_grace_and_the_closing_end_before_thirty_seconds() -> None:
    """Kubernetes kills after 30 seconds."""
    grace = _parser().parse_args(["serve", "app:graph"]).grace
    assert grace + _CLOSING_SECONDS < 30


def test_a_large_request_is_refused_while_others_are_answered(folder: Path) -> None:
    body = json.dumps({"messages": ["x"] * 200_000}, separators=(",", ":")).encode()
    headers = {"content-type": "application/json"}
    with served(folder, "app:graph") as (client, _), ThreadPoolExecutor() as pool:
        client.get("/ping")
        begun = time.monotonic()
        sent = pool.submit(client.post, "/v1/graph/invoke", content=body, headers=headers)
        slowest = 0.0
        while not sent.done():
            asked_at = time.monotonic()
            assert client.get("/ping").status_code == 200
            slowest = max(slowest, time.monotonic() - asked_at)
        refused = time.monotonic() - begun
        print(f"refused after {refused * 1000:.0f} ms, slowest ping {slowest * 1000:.0f} ms")
        assert sent.result().status_code == 422
        assert "request_limits.max_messages" in sent.result().json()["detail"]


def _records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def _log(folder: Path, *arguments: str) -> str:
    """What a server has logged after four requests."""
    body = {"messages": "hi", "config": {"thread_id": "t", "run_id": "r"}}
    with served(folder, "app:graph", *arguments) as (client, process):
        client.get("/v1/threads", params={"search": "secret"})
        client.post("/v1/graph/invoke", json=body, headers={"x-request-id": "req-1"})
        failing = {"messages": "fail", "config": {"thread_id": "f", "run_id": "q"}}
        client.post("/v1/graph/stream", json=failing, headers={"x-request-id": "req-2"})
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert "secret" not in output
    return str(output)


def test_records_in_json_have_time_level_and_ids(folder: Path) -> None:
    output = _log(folder, "--log-format", "json")
    records = _records(output)
    assert len(records) == len(output.splitlines()), "nothing else is written"
    for record in records:
        assert datetime.fromisoformat(record["time"]).tzinfo is not None
        assert record["level"] in ("INFO", "WARNING", "ERROR")
    access = {one.get("request_id"): one for one in records if one["logger"] == "tenxgraph.access"}
    invoked = access["req-1"]
    assert (invoked["method"], invoked["path"], invoked["status"]) == (
        "POST",
        "/v1/graph/invoke",
        200,
    )
    assert (invoked["thread_id"], invoked["run_id"]) == ("t", "r")
    (error,) = (one for one in records if one["level"] == "ERROR")
    assert (error["request_id"], error["thread_id"], error["run_id"]) == ("req-2", "f", "q")
    assert "RuntimeError: no" in error["exception"]


def test_records_in_text_have_time_level_and_ids(folder: Path) -> None:
    lines = _log(folder).splitlines()
    (invoked,) = (line for line in lines if "request_id=req-1" in line)
    time_, level, logger = invoked.split()[:3]
    assert datetime.fromisoformat(time_).tzinfo is not None
    assert (level, logger) == ("INFO", "tenxgraph.access")
    assert "thread_id=t run_id=r: POST /v1/graph/invoke 200" in invoked
    assert any("ERROR" in line and "request_id=req-2" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "levels", "has_access_log"),
    [
        (["--no-access-log"], {"INFO", "ERROR"}, False),
        (["--log-level", "warning"], {"ERROR"}, False),
        (["--log-level", "info"], {"INFO", "ERROR"}, True),
    ],
)
def test_the_log_is_as_quiet_as_it_is_told(
    folder: Path, arguments: list[str], levels: set[str], has_access_log: bool
) -> None:
    records = _records(_log(folder, "--log-format", "json", *arguments))
    assert {record["level"] for record in records} == levels
    assert any(one["logger"] == "tenxgraph.access" for one in records) == has_access_log


def test_an_unknown_level_is_refused(folder: Path) -> None:
    ended = subprocess.run(
        command("serve", "app:graph", "--log-level", "loud"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "--log-level" in ended.stderr
