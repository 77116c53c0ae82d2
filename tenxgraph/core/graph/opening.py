"""Opening: from what is stored and what comes in, to where a run begins."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tenxgraph.core.exceptions import GraphError, InputError, PendingInterruptError
from tenxgraph.core.graph import answer
from tenxgraph.core.graph.interrupts import answers_to, check_known, names_open, new_token
from tenxgraph.core.graph.ledger import Ledger
from tenxgraph.core.graph.plan import Plan
from tenxgraph.core.graph.settings import Settings
from tenxgraph.core.graph.settle import settled
from tenxgraph.core.graph.update import Joined, as_messages, join
from tenxgraph.core.state import AgentState, ExecutionState, Message

__all__ = ["Input", "Opening", "is_done", "open_run"]

_KEYS = frozenset({"messages", "state", "resume"})
_NOTHING = object()

FirstNode = Callable[[AgentState], Awaitable[str]]
"""Says where a graph begins, given the state with the input in it."""


@dataclass(frozen=True, slots=True)
class Input:
    """What a caller sends in."""

    messages: list[Message] = field(default_factory=list)
    fields: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = _NOTHING

    @property
    def has_answer(self) -> bool:
        """Whether it answers an interrupt."""
        return self.answer is not _NOTHING

    @classmethod
    def of(cls, given: Any) -> "Input":
        """Read an input: `{"messages": ..., "state": {...}, "resume": ...}`, or a bare message.

        Raises:
            InputError: it has other keys, or no messages where messages should be.
        """
        if given is None:
            return cls()
        if not isinstance(given, Mapping) or "role" in given:
            return cls(messages=_messages(given))
        unknown = set(given) - _KEYS
        if unknown:
            message = (
                f"The input has {', '.join(map(repr, sorted(map(str, unknown))))}; it may have "
                "`messages`, `state` (a dict of state fields) and `resume`."
            )
            raise InputError(message)
        fields = given.get("state") or {}
        if not isinstance(fields, Mapping):
            raise InputError("`state` in the input must be a dict of state fields.")
        messages = _messages(given.get("messages") or ())
        return cls(messages, fields, given.get("resume", _NOTHING))


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a run begins."""

    state: AgentState
    node: str
    messages: list[Message]
    """Those of the input, to be stored."""
    is_new: bool
    """Whether a run begins. One that goes on has been let past a pause before its node."""


async def open_run(
    plan: Plan,
    stored: AgentState | None,
    given: Input,
    settings: Settings,
    ledger: Ledger,
    first_node: FirstNode,
) -> Opening:
    """Decide where a run begins.

    A thread whose run was cut short goes on at the recorded node. One whose run failed or was
    stopped goes on there, too, unless a new message comes in: that begins a new run. A paused one
    waits for its answer. Calls that are still open where something new comes in are settled first.

    Raises:
        PendingInterruptError: the thread is paused, and this is no answer.
        InputError: it is an answer, and nothing was asked; or the input does not fit the state.
    """
    if stored is None:
        if given.has_answer:
            raise InputError(f"There is no thread {settings.config['thread_id']!r} to answer.")
        fresh = plan.initial.model_copy(deep=True)
        return await _new_run(fresh, given, settings, first_node)
    meta = stored.execution_meta
    if meta.status == "interrupted" and not (given.has_answer or settings.on_pending == "cancel"):
        questions = "; ".join(f"{one.id!r}: {one.value!r}" for one in meta.interrupts)
        message = (
            f"Thread {settings.config['thread_id']!r} waits for an answer ({questions}). Pass "
            '{"resume": ...}, or set `on_pending` to "cancel" in the config to give it up.'
        )
        raise PendingInterruptError(message)
    if given.has_answer and meta.status not in ("interrupted", "running"):
        message = f"Thread {settings.config['thread_id']!r} is not waiting for an answer."
        raise InputError(message)
    if _goes_on(meta, given, settings):
        messages = [] if answer.is_of(settings.run_id, meta) else given.messages
        if messages and not given.has_answer:
            stored = await settled(stored, ledger)
        return _resumed(plan, stored, given, settings, messages)
    return await _new_run(await settled(stored, ledger), given, settings, first_node)


def is_done(stored: AgentState, given: Input, settings: Settings) -> bool:
    """Whether this very call has its answer already, be it a pause, and only asks once more.

    A client that lost the answer tries again under the same `run_id`: nothing runs twice for it.
    """
    meta = stored.execution_meta
    if not answer.is_of(settings.run_id, meta):
        return False
    if meta.status != "interrupted" or not given.has_answer:
        return meta.status in ("completed", "interrupted")
    # It has answered before: unless it names a question that waits, its answer is that one again.
    return settings.run_id in meta.resumed and not names_open(meta.interrupts, given.answer)


def _goes_on(meta: ExecutionState, given: Input, settings: Settings) -> bool:
    """Whether the recorded run is taken up, rather than a new one begun."""
    if meta.status == "completed" or not meta.current_node:
        return False
    if meta.status == "interrupted":
        return given.has_answer
    # A retry under the run's own id is that run, whatever it brings along again.
    return meta.status == "running" or not given.messages or answer.is_of(settings.run_id, meta)


def _resumed(
    plan: Plan, stored: AgentState, given: Input, settings: Settings, messages: list[Message]
) -> Opening:
    meta = stored.execution_meta
    plan.node(meta.current_node)
    is_repeated = answer.is_of(settings.run_id, meta)
    if given.has_answer and meta.status != "interrupted" and not is_repeated:
        # The answer was taken before the run was cut short, or belongs to another run.
        check_known(meta.answers, given.answer)
    if meta.status == "interrupted" or not is_repeated:
        meta = answer.called(meta, settings.run_id)
    joined = _joined(stored, given, messages)
    answers = meta.answers
    if given.has_answer and meta.interrupts:
        answers = {**answers, **answers_to(meta.interrupts, given.answer)}
        meta = answer.resumed(meta, settings.run_id)
    going_on = meta.model_copy(
        update={
            "status": "running",
            "interrupts": [],
            "answers": answers,
            # Answers that are kept without a token are known by ids without one.
            "interrupt_token": meta.interrupt_token or ("" if answers else new_token()),
            "error": None,
        }
    )
    state = joined.state.model_copy(update={"execution_meta": going_on})
    return Opening(state, meta.current_node, messages, is_new=False)


async def _new_run(
    state: AgentState, given: Input, settings: Settings, first_node: FirstNode
) -> Opening:
    joined = _joined(state, given, given.messages)
    node = await first_node(joined.state)
    run_id = settings.run_id or uuid4().hex
    meta = ExecutionState(
        current_node=node, status="running", run_id=run_id, interrupt_token=new_token()
    )
    meta = answer.called(meta, run_id)
    state = joined.state.model_copy(update={"execution_meta": meta})
    return Opening(state, node, given.messages, is_new=True)


def _messages(said: Any) -> list[Message]:
    try:
        return as_messages(said, role="user")
    except (GraphError, ValueError) as error:
        raise InputError(f"`messages` in the input: {error}") from error


def _joined(state: AgentState, given: Input, messages: list[Message]) -> Joined:
    """The state with what came in."""
    try:
        return join(join(state, dict(given.fields)).state, messages)
    except GraphError as error:
        raise InputError(str(error)) from error
