"""The answer to a call: the messages that its run has added since, however often it is asked for.

A run may have several calls, each under a `run_id` of its own: one that began it, one that took it
over from a process that had died, one that brought the answer to a question. The state keeps where
each one's answer begins, so a client that did not hear its answer can ask for it again.
"""

from collections.abc import Iterable

from tenxgraph.core.state import ExecutionState, Message

__all__ = ["called", "extended", "is_of", "message_ids", "resumed"]

# Of a run that goes on for weeks, each write would else be larger than the one before.
_MOST_REMEMBERED = 1000


def is_of(run_id: str | None, meta: ExecutionState) -> bool:
    """Whether a call is one of this run's."""
    return run_id in meta.calls


def called(meta: ExecutionState, run_id: str | None) -> ExecutionState:
    """The run with one more call, whose answer begins here."""
    if run_id is None:
        return meta
    return meta.model_copy(update={"calls": {**meta.calls, run_id: len(meta.added)}})


def resumed(meta: ExecutionState, run_id: str | None) -> ExecutionState:
    """The run after a call has brought an answer to its questions."""
    if run_id is None:
        return meta
    return meta.model_copy(update={"resumed": [*meta.resumed, run_id][-_MOST_REMEMBERED:]})


def extended(meta: ExecutionState, messages: Iterable[Message]) -> ExecutionState:
    """The run with more messages in the answers to its calls."""
    messages = list(messages)
    if not messages:
        return meta
    added = [*meta.added, *(message.message_id for message in messages)]
    forgotten = max(0, len(added) - _MOST_REMEMBERED)
    calls = {run_id: max(0, begin - forgotten) for run_id, begin in meta.calls.items()}
    return meta.model_copy(update={"added": added[forgotten:], "calls": calls})


def message_ids(meta: ExecutionState, run_id: str | None) -> list[str]:
    """What the answer to a call consists of by now, each message once."""
    begin = meta.calls.get(run_id or "", len(meta.added))
    return list(dict.fromkeys(meta.added[begin:]))
