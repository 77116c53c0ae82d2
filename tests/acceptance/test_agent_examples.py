"""The examples of agents run as a newcomer would run them."""

import os
import subprocess
import sys

import programs


def run(name: str) -> list[str]:
    environment = {k: v for k, v in programs.environment().items() if k != "OPENAI_API_KEY"}
    done = subprocess.run(
        [sys.executable, os.fspath(programs.ROOT / "examples" / name)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_agent_remembers_across_conversations() -> None:
    output = run("react_agent.py")
    assert output[1] == "agent: I will remember your red tent."
    assert "Bought a red tent." in output[3]


def test_a_payment_that_was_cut_short_goes_as_its_policy_says() -> None:
    output = "\n".join(run("payment_and_crash.py"))
    rerun, ask, fail = output.split("on_unknown=")[1:]
    assert "ends with -9" in rerun
    assert "transfers: 2, idempotency keys: 1" in rerun
    assert "somebody is asked about: pay {'amount': 100}" in ask
    assert "The tool says: paid 100, says the bank" in ask
    assert "transfers: 1, idempotency keys: 1" in ask
    assert "It is unknown whether this call was carried out" in fail
    assert "transfers: 1, idempotency keys: 1" in fail


def test_a_person_approves_in_another_process() -> None:
    output = run("human_approval.py")
    assert output[0] == "  (booked SK 683)"
    assert output[1].startswith("asked: Book LH 829 for 900?")
    assert output[2:4] == ["a message instead: PendingInterruptError", "  (booked LH 829)"]
    assert output[4] == "agent: SK 683 is booked; LH 829 is booked"


def test_an_agent_is_served_to_its_owner_alone() -> None:
    assert run("server.py") == [
        "agent: You have told me 1 thing(s), first: I have a dog.",
        "events: start, token, message, update, end",
        "alice sees 4 messages",
        "bob sees: There is no such thread, or it is not yours.",
    ]


def test_two_workers_leave_one_whole_conversation() -> None:
    output = run("two_workers.py")
    assert any("won" in line for line in output)
    assert [line for line in output if "assistant" in line][
        -1
    ] == "  assistant: That was message 2."
