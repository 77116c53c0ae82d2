"""interrupt(): a node or tool stops, asks, and goes on with the answer, in whatever process."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state import Interrupt

__all__ = ["Asking", "Paused", "answers_to", "asking", "interrupt"]


class Paused(BaseException):
    """A node cannot go on without answers."""

    def __init__(self, interrupts: tuple[Interrupt, ...]) -> None:
        super().__init__(interrupts)
        self.interrupts = interrupts


class Asking:
    """The questions of one call of a node or tool, by their order in it, and the answers known."""

    def __init__(self, key: str, node: str, answers: Mapping[str, Any]) -> None:
        self._key = key
        self._node = node
        self._answers = answers
        self._asked = 0

    def within(self, part: str) -> "Asking":
        """The questions of one part of the call, which are counted for themselves."""
        return Asking(f"{self._key}:{part}", self._node, self._answers)

    def ask(self, value: Any, name: str | None = None) -> Any:
        """The answer to the next question, or to the one of a name; or `Paused`."""
        question = f"{self._key}:{self._asked if name is None else name}"
        if name is None:
            self._asked += 1
        if question in self._answers:
            return self._answers[question]
        raise Paused((Interrupt(id=question, node=self._node, value=value),))


asking: ContextVar[Asking | None] = ContextVar("asking", default=None)
"""The call that is going on in this context."""


def interrupt(value: Any = None) -> Any:
    """Pause the run until somebody answers, and return the answer.

    To be called inside a node or a tool. What was done before it in the same node is done again
    when the run goes on, except for tools that have finished.

    Args:
        value: what whoever answers is to see; anything that can be stored.

    Raises:
        GraphError: it was called outside of a run.
    """
    current = asking.get()
    if current is None:
        raise GraphError("`interrupt` can only be called inside a node or a tool of a run.")
    return current.ask(value)


def answers_to(interrupts: list[Interrupt], answer: Any) -> dict[str, Any]:
    """What a `resume` input answers, by the id of the question.

    Args:
        interrupts: the questions.
        answer: a dict by id, or the bare answer where there is one question.

    Raises:
        GraphError: there are several questions, and it does not say which it answers.
    """
    ids = {one.id for one in interrupts}
    if isinstance(answer, Mapping) and answer and set(answer) <= ids:
        return dict(answer)
    if len(ids) == 1:
        return dict.fromkeys(ids, answer)
    known = ", ".join(map(repr, sorted(ids)))
    message = f"The thread waits for several answers: pass {{id: answer}} for any of {known}."
    raise GraphError(message)
