"""Fifty recorded conversations, through an agent whose process is killed three hundred times."""

from pathlib import Path

import programs
import pytest

# Forks once for every attempt, which costs a hundredth of starting an interpreter. A child goes on
# with the conversations where the last one was killed, and says when it begins; the parent kills
# it a random while later. Tools that only look are run again when their end is unknown, tools that
# change something are not.
REPLAY = r"""
import asyncio, json, logging, os, random, signal, sys, time
from collections import Counter
from pathlib import Path
from tenxgraph.core.graph import tool
from tenxgraph.core.graph.ledger import Asked
from tenxgraph.core.graph.tool_run import UNKNOWN
from tenxgraph.core.state import Message
from tenxgraph.prebuilt.agent import ReactAgent
from tenxgraph.storage import create_checkpointer
from tenxgraph.testing import ScriptedModel

conversations, folder, dsn, kills_wanted, seed, redis_url = sys.argv[1:]
options = {"redis_url": redis_url} if redis_url else {}
kills_wanted, rolls = int(kills_wanted), random.Random(int(seed))
LOOKS = ("get_", "list_", "search_", "calculate", "think")

class Recording:
    def __init__(self, name, messages):
        self.name = name
        self.messages = [m for m in map(Message.from_openai, messages) if m.role != "system"]
        self.users = [m for m in self.messages if m.role == "user"]
        self.answers = [m for m in self.messages if m.role == "assistant"]
        self.results = [m for m in self.messages if m.role == "tool"]
        self.tools = sorted({call.name for m in self.answers for call in m.tool_calls})

def note(file, text):
    # One write of an appending file is whole, or not there.
    number = os.open(f"{folder}/{file}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(number, f"{text}\n".encode())
    os.close(number)

def noted(file):
    path = Path(folder, file)
    return path.read_text().split() if path.exists() else []

class Reports(logging.Handler):
    def emit(self, record):
        if str(record.msg).startswith("Thread %r: it is unknown"):
            thread, position, message_id = record.args[:3]
            note("unknown", f"{thread}|{message_id}|{position}")

def make_tool(name, recording):
    async def run(idempotency_key, state, **args):
        note("effects", idempotency_key)
        await asyncio.sleep(0)
        return recording.results[sum(m.role == "tool" for m in state.context)].text()
    policy = "rerun" if name.startswith(LOOKS) else "fail"
    return tool(name=name, on_unknown=policy)(run)

def agent_for(recording, checkpointer):
    def say(messages, _tools):
        said = sum(m.role == "assistant" for m in messages)
        return recording.answers[said] if said < len(recording.answers) else "Goodbye."
    tools = [make_tool(name, recording) for name in recording.tools]
    return ReactAgent(ScriptedModel(say), tools, "Be kind.").compile(checkpointer)

async def replay(recording, thread, checkpointer):
    app = agent_for(recording, checkpointer)
    config = {"thread_id": thread, "user_id": "u", "recursion_limit": 200}
    state = await app.aget_state(config)
    if state is not None and state.execution_meta.status == "running":
        state = (await app.ainvoke(None, config))["state"]
    done = 0 if state is None else sum(m.role == "user" for m in state.context)
    for message in recording.users[done:]:
        await app.ainvoke(message, config)

async def work(number, recordings, ready):
    checkpointer = create_checkpointer(dsn, **options)
    finished = set(noted("finished"))
    os.write(ready, b"!")
    for recording in recordings:
        thread = f"{number}:{recording.name}"
        if thread not in finished:
            await replay(recording, thread, checkpointer)
            note("finished", thread)
    await checkpointer.aclose()

def child(number, recordings, ready):
    try:
        logging.getLogger("tenxgraph.graph").addHandler(Reports())
        asyncio.run(work(number, recordings, ready))
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

async def check(threads, recordings):
    effects, unknown = Counter(noted("effects")), Counter(noted("unknown"))
    checkpointer = create_checkpointer(dsn, **options)
    calls = 0
    for thread in threads:
        recording = recordings[thread.partition(":")[2]]
        state = await checkpointer.aget_state({"thread_id": thread, "user_id": "u"})
        told = [(m.role, m.text()) for m in state.context]
        wanted = [(m.role, m.text()) for m in recording.messages]
        for (role, text), (_, right) in zip(told, wanted):
            assert text == right or (role == "tool" and text == UNKNOWN), (thread, role, text)
        assert [r for r, _ in told[: len(wanted)]] == [r for r, _ in wanted], thread
        assert len(told) - len(wanted) in (0, 1), thread
        for m in state.context:
            for position, call in enumerate(m.tool_calls):
                calls += 1
                key = Asked(m.message_id, position, call).idempotency_key(thread)
                times = effects.pop(key, 0)
                reports = unknown[f"{thread}|{m.message_id}|{position}"]
                if not reports:
                    assert times == 1, (thread, call.name, times)
                elif call.name.startswith(LOOKS):
                    assert 1 <= times <= 1 + reports, (thread, call.name, times, reports)
                else:
                    assert times <= 1, (thread, call.name, times)
    assert not effects, "effects of calls that are in no thread"
    await checkpointer.aclose()
    return calls, len(unknown)

def main():
    lines = [json.loads(line) for line in Path(conversations).read_text().splitlines()]
    recordings = [Recording(one["conversation"], one["messages"]) for one in lines]
    create_checkpointer(dsn, **options)  # so that no child has to load what that needs
    pid = os.fork()
    if not pid:
        create_checkpointer(dsn, **options).setup()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    kills, rounds = 0, 0
    over = False
    while not over:
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            child(rounds, recordings, writer)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        if kills < kills_wanted:
            time.sleep(rolls.uniform(0, 0.06))
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
        else:
            assert status == 0, status
            rounds += 1
            over = kills == kills_wanted
    threads = noted("finished")
    assert len(threads) == len(recordings) * rounds == len(set(threads))
    calls, unknown = asyncio.run(check(threads, {one.name: one for one in recordings}))
    print(f"{kills} kills, {len(threads)} conversations, {calls} calls, {unknown} unknown")

main()
"""

# Python 3.12 warns of every fork of a process with threads; the caller has decided.
FLAGS = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")
DATA = programs.ROOT / "examples/data/airline_conversations.jsonl"


@pytest.fixture(params=["sqlite", "postgres", "postgres+redis"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A DSN, and the URL of the Redis in front of it or an empty text."""
    if request.param == "sqlite":
        return str(tmp_path / "threads.db"), ""
    dsn: str = request.getfixturevalue("empty_postgres")
    if request.param == "postgres":
        return dsn, ""
    return dsn, request.getfixturevalue("redis_server").url()


@pytest.mark.crash
def test_every_tool_call_of_every_conversation_takes_effect_exactly_once(
    servers: tuple[str, str], tmp_path: Path
) -> None:
    dsn, redis_url = servers
    kills = "100" if redis_url else "300"
    arguments = (str(DATA), str(tmp_path), dsn, kills, "7", redis_url)
    told = programs.run(REPLAY, *arguments, flags=FLAGS, timeout=300)
    print(told)
    assert told.startswith(f"{kills} kills, ")
