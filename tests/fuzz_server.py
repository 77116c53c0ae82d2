"""Fuzz the server against its own OpenAPI document.

A longer run than the test's: `python -m tests.fuzz_server --minutes 5 --seed 1`.
"""

import argparse
import asyncio
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import hypothesis
import schemathesis
import uvicorn
from graphs import chain
from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tenxgraph.core.graph import interrupt
from tenxgraph.core.state import AgentState
from tenxgraph.server import create_app
from tenxgraph.storage.checkpointer import InMemoryCheckpointer
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import HashEmbedding

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
THREADS = ["t", "other", "a thread", "ü"]
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
TYPES = ["text", "image_url", "input_audio", "file", "input_text", "audio", "tool_call", "data"]
NAMES = ["text", "image_url", "url", "input_audio", "data", "format", "file", "file_data", "detail"]
PARTS = st.builds(
    lambda kind, rest: {**rest, **kind},
    st.fixed_dictionaries({}, optional={"type": st.sampled_from(TYPES) | ANYTHING}),
    st.dictionaries(
        st.sampled_from(NAMES),
        ANYTHING | st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=3),
        max_size=4,
    ),
)
MESSAGES = st.lists(
    st.text()
    | st.builds(
        lambda content, rest: {"content": content, **rest},
        st.text() | st.lists(PARTS, max_size=4),
        st.fixed_dictionaries({}, optional={"message_id": st.text() | st.sampled_from(THREADS)}),
    ),
    max_size=4,
)


@dataclass
class Report:
    """What a run of the fuzzer has seen."""

    seed: int
    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        statuses = ", ".join(f"{status}: {n}" for status, n in sorted(self.statuses.items()))
        total = self.statuses.total()
        return f"seed {self.seed}: {total} requests ({statuses}), {len(self.failures)} failures"


class Odd(AgentState):
    count: int = 0
    odd: Any = None


def reply(state: AgentState) -> str:
    """Answer, or ask where the last message has a question mark."""
    text = state.context[-1].text() if state.context else ""
    return str(interrupt({"asked": text})) if "?" in text else f"You said: {text}"


@contextmanager
def served() -> Iterator[str]:
    """The address of a server in a thread of its own."""
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    store = InMemoryStore(HashEmbedding())
    app = create_app(chain(reply, state=Odd, checkpointer=checkpointer, store=store))
    config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def fuzz(seconds: float, seed: int) -> Report:
    """Send requests that the document describes, and odd ones, until the time is over."""
    report, numbers = Report(seed), random.Random(seed)
    end = time.monotonic() + seconds
    with served() as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        found: Any = schema.get_all_operations()
        operations = [one.ok() for one in found]
        while time.monotonic() < end and not report.failures:
            for operation in operations:
                _fuzz_operation(operation, report, numbers.randrange(2**32), end)
    return report


def _fuzz_operation(operation: Any, report: Report, seed: int, end: float) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=20,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @hypothesis.given(case=operation.as_strategy(), data=st.data())
    def send(case: Any, data: st.DataObject) -> None:
        _without_timeout(case)
        _make_likely(case, data)
        if time.monotonic() > end or report.failures:
            return
        response = case.call()
        report.statuses[response.status_code] += 1
        try:
            case.validate_response(response, checks=CHECKS)
        except schemathesis.errors.SchemathesisError as error:
            report.failures.append(f"{case.method} {case.path}: {error}")
        except BaseExceptionGroup as errors:
            report.failures.append(f"{case.method} {case.path}: {errors.exceptions}")

    send()


def _without_timeout(case: Any) -> None:
    """Drop `node_timeout`: a node that takes longer than the client allows is a 500 by right."""
    config = case.body.get("config") if isinstance(case.body, dict) else None
    if isinstance(config, dict):
        config.pop("node_timeout", None)


def _make_likely(case: Any, data: st.DataObject) -> None:
    """Name threads that exist, and send messages with parts, every other time."""
    if not data.draw(st.booleans()):
        return
    if "thread_id" in (case.path_parameters or {}):
        case.path_parameters["thread_id"] = data.draw(st.sampled_from(THREADS))
    if isinstance(case.body, dict) and case.path.startswith("/v1/graph/"):
        if case.path.endswith("/stop"):
            case.body["thread_id"] = data.draw(st.sampled_from(THREADS))
            return
        config = case.body.setdefault("config", {})
        if isinstance(config, dict):
            config["thread_id"] = data.draw(st.sampled_from(THREADS))
        case.body["messages"] = data.draw(MESSAGES)
        # Fields of the state are refused in most requests: a run would hardly ever begin.
        case.body.pop("state", None)
        case.body.pop("resume", None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(2**32) if options.seed is None else options.seed
    report = fuzz(options.minutes * 60, seed)
    print(report)
    for failure in report.failures:
        print(failure)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
