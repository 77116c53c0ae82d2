"""A small server on this machine that speaks OpenAI's protocol, for tests without a network."""

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tenxgraph.testing.embedding import HashEmbedding
from tenxgraph.testing.openai_protocol import (
    Answer,
    ServerError,
    VerbatimAnswer,
    VerbatimStream,
    completion,
    completion_chunks,
    embeddings,
)
from tenxgraph.testing.provider_rules import broken_rules

__all__ = ["OpenAIServer", "RecordedRequest"]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as the server got it; header names are in lower case."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


class OpenAIServer:
    """Serves `/v1/chat/completions` from a list of answers, and `/v1/embeddings`.

        with OpenAIServer(["Hello!"]) as server:
            client = OpenAI(base_url=server.base_url, api_key="test")

    Streaming requests are streamed. A request beyond the last answer is refused with status 400
    and a message that says so, which no client repeats; so is a conversation that a provider would
    refuse.

    Args:
        answers: what the model says, one for each chat request, in order. An answer is a text; a
            dict with `content` and `tool_calls` (each a dict with `name`, `arguments` as a dict or
            as raw text, and an optional `id`); a `ServerError`; a `VerbatimAnswer` or
            `VerbatimStream`, which is sent as it is; or a function that gets the request's body and
            returns one of these.
        embedding_errors: refusals of embedding requests, given out before the first success.
        delay: seconds that every reply takes.

    Attributes:
        requests: all requests so far, as they came.
    """

    def __init__(
        self,
        answers: Iterable[Answer | Callable[[dict[str, Any]], Answer]] = (),
        *,
        embedding_errors: Iterable[ServerError] = (),
        delay: float = 0.0,
    ) -> None:
        self.requests: list[RecordedRequest] = []
        self.delay = delay
        self._answers = deque(answers)
        self._embedding_errors = deque(embedding_errors)
        self._lock = threading.Lock()
        self._server: _Listener | None = None

    @property
    def base_url(self) -> str:
        """What to give to the client as `base_url`."""
        if self._server is None:
            raise RuntimeError("The server is not running. Use it in a `with` statement.")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def add_answers(self, *answers: Answer | Callable[[dict[str, Any]], Answer]) -> None:
        """Let the model say more."""
        with self._lock:
            self._answers.extend(answers)

    def fail_embeddings(self, *errors: ServerError) -> None:
        """Refuse the next embedding requests, one for each error."""
        with self._lock:
            self._embedding_errors.extend(errors)

    def requests_to(self, path: str) -> list[RecordedRequest]:
        """The requests to one endpoint, such as `"/v1/embeddings"`."""
        return [request for request in self.requests if request.path == path]

    def start(self) -> Self:
        """Listen on a free port of this machine."""
        self._server = _Listener(self)
        serve = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        serve.start()
        return self

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def reply(self, request: RecordedRequest) -> Any:
        """Return what is sent back: a JSON value, or a `VerbatimStream`. Raises `ServerError`."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
        time.sleep(self.delay)
        if request.path == "/v1/embeddings":
            return self._embed(request.body)
        if request.path == "/v1/chat/completions":
            return self._chat(request.body, number)
        raise ServerError(404, f"There is nothing at {request.path}.")

    def _embed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            if self._embedding_errors:
                raise self._embedding_errors.popleft()
        return embeddings(body, HashEmbedding)

    def _chat(self, body: dict[str, Any], number: int) -> Any:
        problems = broken_rules(body.get("messages") or ())
        if problems:
            raise ServerError(400, f"Invalid messages: {'; '.join(problems)}.")
        with self._lock:
            if not self._answers:
                raise ServerError(400, "The script of this OpenAIServer has no more answers.")
            answer = self._answers.popleft()
        said = answer(body) if callable(answer) else answer
        if isinstance(said, ServerError):
            raise said
        if isinstance(said, VerbatimAnswer):
            return said.body
        if isinstance(said, VerbatimStream):
            return said
        whole = completion(said, body, number)
        if body.get("stream"):
            return VerbatimStream(completion_chunks(whole, body))
        return whole


class _Listener(ThreadingHTTPServer):
    """Listens, and knows whose replies to send."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, replies: OpenAIServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = replies


class _Handler(BaseHTTPRequestHandler):
    """Sends what the server replies."""

    protocol_version = "HTTP/1.1"
    server: _Listener

    def do_POST(self) -> None:
        """Answer one request."""
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            reply = self.server.replies.reply(RecordedRequest(self.path, body, headers))
        except ServerError as error:
            self._send(error.status, error.as_json(), error.headers)
            return
        if isinstance(reply, VerbatimStream):
            self._stream(reply)
        else:
            self._send(200, reply, {})

    def handle(self) -> None:
        """Serve a connection until it is closed, or the client goes away in the middle."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the requests are recorded."""

    def _send(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: VerbatimStream) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        events = list(map(_event, reply.events))
        for event in [*events, "data: [DONE]"] if reply.is_done else events:
            self.wfile.write(f"{event}\n\n".encode())
            self.wfile.flush()


def _event(event: Any) -> str:
    is_comment = isinstance(event, str) and event.startswith(":")
    return event if is_comment else f"data: {json.dumps(event)}"
