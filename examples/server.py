"""An agent over HTTP: a conversation, a stream, and a thread that only its owner sees.

It needs `pip install "tenxgraph[server]"`, and no network. In production the same is one command,
`tenxgraph serve`, with a `10xgraph.json`; see docs/server.md.
"""

import json
import tempfile
import threading
import time
import urllib.error
import urllib.request
from typing import Any

try:
    import uvicorn
except ImportError:
    raise SystemExit('This example needs a server: pip install "tenxgraph[server]"') from None

from tenxgraph.core.state import AgentState
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.server import create_app
from tenxgraph.storage.checkpointer import SqliteCheckpointer

PORT = 8711


def model(messages: list[Any], _tools: list[Any]) -> str:
    """A model without a network. `ReactAgent("gpt-4o-mini")` would ask OpenAI."""
    said = [one.text() for one in messages if one.role == "user"]
    return f"You have told me {len(said)} thing(s), first: {said[0]}"


def call(method: str, path: str, user: str, body: Any = None) -> str:
    """Send a request on behalf of a user, and return the answer as text."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json", "x-user": user},
    )
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
        return text


checkpointer: SqliteCheckpointer[AgentState] = SqliteCheckpointer(
    f"{tempfile.mkdtemp()}/threads.db"
)
checkpointer.setup()
app = create_app(
    ReactAgent(model).compile(checkpointer),
    auth=lambda request: request.headers.get("x-user"),  # as a proxy in front of it would tell
)
server = uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="warning"))
running = threading.Thread(target=server.run)
running.start()
while not server.started:
    if not running.is_alive():
        raise SystemExit(f"The server did not start. Is port {PORT} taken?")
    time.sleep(0.01)

turn = {"messages": "I have a dog.", "config": {"thread_id": "pets"}}
answer = json.loads(call("POST", "/v1/graph/invoke", "alice", turn))
print("agent:", answer["messages"][0]["content"][0]["text"])
turn = {"messages": "And a cat.", "config": {"thread_id": "pets"}}
events = call("POST", "/v1/graph/stream", "alice", turn).splitlines()
print("events:", ", ".join(line[7:] for line in events if line.startswith("event: ")))
messages = json.loads(call("GET", "/v1/threads/pets/messages", "alice"))["items"]
print("alice sees", len(messages), "messages")
try:
    call("GET", "/v1/threads/pets/messages", "bob")
except urllib.error.HTTPError as error:
    print("bob sees:", json.loads(error.read())["detail"])

server.should_exit = True
running.join()
