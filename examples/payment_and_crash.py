"""A payment whose process is killed between paying and recording it, under each policy.

Run it: python examples/payment_and_crash.py. Every process here is a real one, and is killed with
SIGKILL right after the money has left.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tenxgraph.core.graph import tool
from tenxgraph.core.state import ToolCall
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage.checkpointer import SqliteCheckpointer
from tenxgraph.testing import ScriptedModel

CONFIG = {"thread_id": "order-7", "user_id": "ada"}
POLICIES: tuple[Any, ...] = ("rerun", "ask", "fail")


def agent(folder: Path, policy: Any, *, dies: bool) -> Any:
    """An agent that pays once, and says what it was told of it."""
    bank = folder / "bank.txt"

    @tool(on_unknown=policy)
    def pay(amount: int, idempotency_key: str) -> str:
        """Pay an amount."""
        with bank.open("a") as transfers:
            transfers.write(f"{amount} {idempotency_key}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {amount}"

    def model(messages: Any, _tools: Any) -> Any:
        if messages[-1].role == "tool":
            return f"The tool says: {messages[-1].text()}"
        return ToolCall(id="call_1", name="pay", args={"amount": 100})

    return ReactAgent(ScriptedModel(model), [pay]).compile(
        SqliteCheckpointer(folder / "threads.db")
    )


def show(policy: Any) -> None:
    """Pay, be killed, and go on in this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        worker = [sys.executable, __file__, policy, name]
        print(f"on_unknown={policy!r}: the worker ends with {subprocess.run(worker).returncode}")
        app = agent(folder, policy, dies=False)
        result = app.invoke(None, CONFIG)
        for question in result["interrupts"]:
            asked = question.value
            print(f"  somebody is asked about: {asked['unknown']} {asked['args']}")
            result = app.invoke({"resume": "paid 100, says the bank"}, CONFIG)
        print(f"  {result['messages'][-1].text()}")
        transfers = (folder / "bank.txt").read_text().splitlines()
        print(f"  transfers: {len(transfers)}, idempotency keys: {len(set(transfers))}")
        app.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        dying = agent(Path(sys.argv[2]), sys.argv[1], dies=True)
        dying.checkpointer.setup()
        dying.invoke("Pay 100.", CONFIG)
    else:
        for one in POLICIES:
            show(one)
