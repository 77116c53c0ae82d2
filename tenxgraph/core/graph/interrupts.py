"""interrupt(): a node or tool stops, asks, and goes on with the answer, in whatever process."""

import asyncio
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from tenxgraph.core.exceptions import GraphError, InputError
from tenxgraph.core.state import Interrupt

__all__ = [
    "Asking",
    "Paused",
    "answers_to",
    "asking",
    "check_known",
    "interrupt",
    "interrupt_id",
    "names_open",
    "new_token",
    "ungrouped",
]

_TOKEN_BYTES = 8
# What ids of interrupts look like: an answer by such an id is no bare answer to another one.
_TOKEN = re.compile(rf"[0-9a-f]{{{2 * _TOKEN_BYTES}}}:")
_ID = re.compile(rf"{_TOKEN.pattern}.+:\d+(:.+)?", re.DOTALL)  # a node's name may have line breaks
# Those of states without a token, which may be sent again long after.
_OLD_ID = re.compile(r".+:\d+:.+|(before|after):.+:\d+", re.DOTALL)


def new_token() -> str:
    """Return what makes the ids of one step's interrupts unlike those of every other step."""
    return secrets.token_hex(_TOKEN_BYTES)


def interrupt_id(token: str, *parts: str | int) -> str:
    """Return the id of an interrupt, or what the ids of one call's interrupts begin with.

    Args:
        token: the step's token; empty in a state of a version that had none.
        parts: what tells the interrupts of the step apart.
    """
    return ":".join(map(str, parts if not token else (token, *parts)))


class Paused(BaseException):
    """A node cannot go on without answers."""

    def __init__(self, interrupts: tuple[Interrupt, ...]) -> None:
        super().__init__(interrupts)
        self.interrupts = interrupts


def ungrouped(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What a group of errors comes to, if tasks have asked: one pause with all their questions.

    Beside errors the questions do not count, as they are asked again when the call is repeated:
    it comes to the error if there is one, else to the group of them.
    """
    questions, errors = group.split(Paused)
    if questions is None:
        return group
    if errors is None:
        return Paused(tuple(one for paused in _leaves(group) for one in paused.interrupts))
    several = list(_leaves(errors))
    return several[0] if len(several) == 1 else errors


def _leaves(error: BaseException) -> Iterator[Any]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


class Asking:
    """The questions of one call of a node or tool, and the answers known.

    The call's own questions are told apart by their order in it. Those of tasks that it has begun
    come in any order, and are told apart by what they ask.
    """

    def __init__(self, key: str, node: str, answers: Mapping[str, Any]) -> None:
        self._key = key
        self._node = node
        self._answers = answers
        self._task = _current_task()
        self._asked = Counter[str]()
        self._parts = Counter[str]()

    def within(self, position: int, digest: str) -> "Asking":
        """Return the questions of a tool call, which are counted for themselves.

        Another tool or other arguments are another call, in whatever order calls come up: an answer
        about one of them is none about the other. The same call that comes up again, as in a node
        that calls tools several times, is another one, too.

        Args:
            position: of the call in its message.
            digest: of what is called, with its arguments.
        """
        # A state of a version that had no token knows its questions by the position alone.
        part = f"{position}-{digest[:12]}" if _TOKEN.match(self._key) else str(position)
        times = self._parts[part]
        self._parts[part] += 1
        again = f"#{times}" if times else ""
        return Asking(f"{self._key}:{part}{again}", self._node, self._answers)

    def ask(self, value: Any, name: str | None = None) -> Any:
        """The answer to the next question, or to the one of a name; or `Paused`."""
        question = f"{self._key}:{self._next(value) if name is None else name}"
        if question in self._answers:
            return self._answers[question]
        raise Paused((Interrupt(id=question, node=self._node, value=value),))

    def _next(self, value: Any) -> str:
        own = _current_task() in (None, self._task)  # none in a thread, as of a sync function
        among = "" if own else f"{_digest(value)}:"
        number = self._asked[among]
        self._asked[among] += 1
        return f"{among}{number}"


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


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


def names_open(interrupts: list[Interrupt], answer: Any) -> bool:
    """Return True if an answer says by id which of the interrupts that wait it is to."""
    ids = {one.id for one in interrupts}
    return isinstance(answer, Mapping) and bool(answer) and set(answer) <= ids


def check_known(ids: Iterable[str], answer: Any) -> None:
    """Refuse an answer that names an interrupt which is none of these.

    Raises:
        InputError: it does; it is no bare answer to another one.
    """
    known = set(ids)
    named = _named(answer, known)
    if named and not isinstance(answer, Mapping):
        message = "Answers by id are one dict: {id: answer, ...}, not a list. Nothing was done."
        raise InputError(message)
    others = named - known
    if not others:
        return
    told = ", ".join(map(repr, sorted(others)))
    waiting = ", ".join(map(repr, sorted(known))) or "none"
    message = (
        f"The answer is to questions that do not wait ({told}). Nothing was done. There are: "
        f"{waiting}."
    )
    raise InputError(message)


def _named(answer: Any, known: set[str]) -> set[str]:
    """Return the keys of an answer if they are ids of interrupts; none of a bare answer."""
    if isinstance(answer, list | tuple):
        return set().union(*(_named(one, known) for one in answer if isinstance(one, Mapping)))
    if not isinstance(answer, Mapping) or not answer:
        return set()
    keys = [str(key) for key in answer]
    by_id = any(key in known or _ID.fullmatch(key) for key in keys)
    return set(keys) if by_id or all(map(_OLD_ID.fullmatch, keys)) else set()


def answers_to(interrupts: list[Interrupt], answer: Any) -> dict[str, Any]:
    """Return what a `resume` input answers, by the id of the interrupt.

    Args:
        interrupts: those that wait.
        answer: a dict by id, or the bare answer where one waits.

    Raises:
        InputError: it names an interrupt that does not wait; or several wait, and it does not say
            which it answers.
    """
    ids = {one.id for one in interrupts}
    if names_open(interrupts, answer):
        return dict(answer)
    check_known(ids, answer)
    if len(ids) == 1:
        return dict.fromkeys(ids, answer)
    known = ", ".join(map(repr, sorted(ids)))
    message = f"The thread waits for several answers: pass {{id: answer}} for any of {known}."
    raise InputError(message)
