"""Any sequence of changes to a context against a model of lists and dicts.

What must hold: the newest state is what was written, every older version stays exactly as it was
but for what was deleted, and each message is listed once, at its first place, as last written.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from backends import Checkpointer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threads import config, present

from tenxgraph.core.exceptions import StaleStateError
from tenxgraph.core.state import AgentState, Message
from tenxgraph.storage.checkpointer import InMemoryCheckpointer, SqliteCheckpointer

Said = tuple[str, str]
"""A message's id and text."""

KEPT = 6


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[Checkpointer]:
    made: Checkpointer = (
        InMemoryCheckpointer(state_history_limit=KEPT)
        if request.param == "memory"
        else SqliteCheckpointer(":memory:", state_history_limit=KEPT)
    )
    made.setup()
    yield made
    made.close()


def said(messages: list[Message]) -> list[Said]:
    return [(one.message_id, one.text()) for one in messages]


class Conversation:
    """A thread, and what should be in it."""

    def __init__(self, checkpointer: Checkpointer) -> None:
        self.checkpointer = checkpointer
        self.config = config(uuid4().hex)
        self.numbers = count()
        self.state = AgentState()
        self.version = 0
        self.live: dict[str, str] = {}
        self.snapshots: dict[int, list[Said]] = {}

    def new(self) -> Message:
        number = next(self.numbers)
        return Message.text_message(f"text {number}", message_id=f"m{number}")

    def edited(self, one: Message) -> Message:
        return Message.text_message(f"text {next(self.numbers)}", message_id=one.message_id)

    def pick(self, index: int) -> int:
        return index % len(self.state.context)

    def write(self, context: list[Message], fresh: list[Message]) -> None:
        """Write a state; `fresh` are those of its messages that were not read from the thread."""
        self.state.context = context
        self.checkpointer.put_state(self.config, self.state)
        for one in fresh:
            self.live[one.message_id] = one.text()
        self.version += 1
        self.snapshots[self.version] = said(context)
        self.snapshots.pop(self.version - KEPT, None)

    def append(self, index: int) -> None:
        new = [self.new() for _ in range(1 + index % 3)]
        self.write([*self.state.context, *new], new)

    def insert(self, index: int) -> None:
        context, new = list(self.state.context), self.new()
        context.insert(index % (len(context) + 1), new)
        self.write(context, [new])

    def edit(self, index: int) -> None:
        context = list(self.state.context)
        new = self.edited(context[self.pick(index)])
        context[self.pick(index)] = new
        self.write(context, [new])

    def edit_trim_and_append(self, index: int) -> None:
        edited = self.edited(self.state.context[self.pick(index)])
        new = self.new()
        self.write([edited, *self.state.context[self.pick(index) + 1 :], new], [edited, new])

    def trim(self, index: int) -> None:
        self.write(self.state.context[self.pick(index) :], [])

    def drop(self, index: int) -> None:
        context = list(self.state.context)
        del context[self.pick(index)]
        self.write(context, [])

    def turn(self, index: int) -> None:
        at = self.pick(index)
        self.write(self.state.context[at:] + self.state.context[:at], [])

    def reverse(self, _index: int) -> None:
        self.write(self.state.context[::-1], [])

    def repeat(self, index: int) -> None:
        self.write([*self.state.context, self.state.context[self.pick(index)]], [])

    def build_anew(self, _index: int) -> None:
        """What a client does that sends the whole history with each turn."""
        context = [
            Message.text_message(one.text(), message_id=one.message_id)
            for one in self.state.context
        ]
        self.write(context, context)

    def go_back(self, index: int) -> None:
        version = list(self.snapshots)[index % len(self.snapshots)]
        old = present(self.checkpointer.get_state(self.config, version))
        assert said(old.context) == self.snapshots[version]
        self.state = old
        self.write(list(old.context), [])

    def put_beside(self, index: int) -> None:
        new = [self.new() for _ in range(1 + index % 2)]
        self.checkpointer.put_messages(self.config, [*new, *self.state.context])
        for one in [*new, *self.state.context]:
            self.live[one.message_id] = one.text()

    def edit_beside(self, index: int) -> None:
        edited = self.edited(self.state.context[self.pick(index)])
        self.checkpointer.put_messages(self.config, [edited])
        self.live[edited.message_id] = edited.text()

    def delete(self, index: int) -> None:
        gone = self.state.context[self.pick(index)].message_id
        assert self.checkpointer.delete_message(self.config, gone) is (gone in self.live)
        self.live.pop(gone, None)
        for version, snapshot in self.snapshots.items():
            self.snapshots[version] = [one for one in snapshot if one[0] != gone]
        self.read()

    def clear(self, _index: int) -> None:
        self.checkpointer.clear_state(self.config)
        self.version += 1
        self.snapshots.clear()
        self.read()

    def lose_a_race(self, _index: int) -> None:
        late = {**self.config, "_checkpoint_version": self.version + 1}
        with pytest.raises(StaleStateError):
            self.checkpointer.put_state(late, AgentState(context=[self.new()]))

    def read(self, _index: int = 0) -> None:
        self.state = self.checkpointer.get_state(self.config) or AgentState()

    def check(self) -> None:
        newest = self.checkpointer.get_state(config(self.config["thread_id"]))
        expected = self.snapshots.get(self.version)
        assert (None if newest is None else said(newest.context)) == expected
        for version, snapshot in self.snapshots.items():
            old = present(self.checkpointer.get_state(self.config, version))
            assert said(old.context) == snapshot
        assert [one.version for one in self.checkpointer.list_states(self.config)] == [
            *reversed(self.snapshots)
        ]
        assert said(self.checkpointer.list_messages(self.config)) == list(self.live.items())


ON_ANYTHING = ("append", "insert", "read", "put_beside", "lose_a_race")
ON_A_CONTEXT = (
    "edit", "edit_trim_and_append", "trim", "drop", "turn", "reverse", "repeat", "build_anew",
    "go_back", "edit_beside", "delete", "clear",
)  # fmt: skip
steps = st.lists(
    st.tuples(st.sampled_from(ON_ANYTHING + ON_A_CONTEXT), st.integers(0, 20)), max_size=25
)


@given(steps=steps)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_thread_is_what_the_model_says(store: Any, steps: list[tuple[str, int]]) -> None:
    conversation = Conversation(store)
    for step, index in [("append", 2), *steps]:
        if step in ON_ANYTHING or conversation.state.context:
            getattr(conversation, step)(index)
    conversation.check()
