"""A person approves what an agent is about to do, in another process than the one that asked.

Run it: python examples/human_approval.py. It needs no service and no key.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from tenxgraph.core.exceptions import PendingInterruptError
from tenxgraph.core.graph import interrupt
from tenxgraph.core.state import ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.checkpointer import SqliteCheckpointer
from tenxgraph.testing import ScriptedModel

CONFIG = {"thread_id": "booking-1", "user_id": "ada"}
CALLS = [
    ToolCall(id="a", name="book", args={"flight": "SK 683", "price": 90}),
    ToolCall(id="b", name="book", args={"flight": "LH 829", "price": 900}),
]


def book(flight: str, price: int) -> str:
    """Book a flight; expensive ones only after somebody has agreed."""
    if price > 100:
        answer = interrupt({"question": f"Book {flight} for {price}?"})
        if answer != "yes":
            return f"{flight} was not booked: {answer}"
    print(f"  (booked {flight})")
    return f"{flight} is booked"


def model(messages: Any, _tools: Any) -> Any:
    """Book both flights, then tell how it went."""
    told = [message.text() for message in messages if message.role == "tool"]
    return "; ".join(told) if told else CALLS


def agent(path: Path) -> Any:
    """The agent, as every process makes it."""
    return ReactAgent(ScriptedModel(model), [book]).compile(SqliteCheckpointer(path))


def main(path: Path) -> None:
    """Ask in one agent, answer in another that shares only the file."""
    first = agent(path)
    first.checkpointer.setup()
    paused = first.invoke("Two flights, please.", CONFIG)
    (question,) = paused["interrupts"]
    print(f"asked: {question.value['question']} (id {question.id})")
    try:
        first.invoke("Hello?", CONFIG)
    except PendingInterruptError as error:
        print(f"a message instead: {type(error).__name__}")
    first.close()
    second = agent(path)
    result = second.invoke({"resume": {question.id: "yes"}}, CONFIG)
    print(f"agent: {result['messages'][-1].text()}")
    second.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "threads.db")
