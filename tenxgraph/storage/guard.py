"""Who may write what: the rules that every backend applies to a thread it has in hand."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from tenxgraph.core.exceptions import RunInProgressError, StaleStateError, ThreadOwnershipError
from tenxgraph.storage.backend import Claim, ForgottenMessagesError, Write
from tenxgraph.storage.scope import Scope

__all__ = ["ThreadHead", "check_life", "check_write", "owns"]


class ThreadHead(Protocol):
    """What must be known of a thread to judge a write."""

    @property
    def user_id(self) -> str | None:
        """The owner."""

    @property
    def generation(self) -> UUID:
        """The life of the thread id."""

    @property
    def version(self) -> int:
        """The version of the newest state."""

    @property
    def lease_holder(self) -> str | None:
        """Which run has claimed the thread."""

    @property
    def lease_until(self) -> datetime | None:
        """When that claim ends."""

    @property
    def now(self) -> datetime:
        """This moment, by the clock that says when claims end."""


def owns(scope: Scope, user_id: str | None) -> bool:
    """Whether a thread of that owner is the caller's, or ownership does not count."""
    return not scope.isolated or user_id == scope.user_id


def check_life(scope: Scope, thread: ThreadHead | None) -> ThreadHead:
    """Refuse a write to a thread that is gone, another's, or not the one that was read.

    Raises:
        ThreadOwnershipError: it is another user's.
        StaleStateError: it is gone, or was deleted and made anew.
    """
    if thread is not None and not owns(scope, thread.user_id):
        raise ThreadOwnershipError(scope.thread_id)
    if thread is None or scope.generation not in (None, thread.generation):
        raise StaleStateError(scope.thread_id, scope.expected_version, None)
    return thread


def check_write(scope: Scope, write: Write, thread: ThreadHead | None) -> None:
    """Refuse a durable write to a thread that is not as the caller has seen it.

    Args:
        scope: the caller's view of the thread.
        write: the write; one without a state does not depend on the version.
        thread: the thread, if there is one.

    Raises:
        ThreadOwnershipError: it is another user's.
        StaleStateError: it is at another version, in another life, or gone.
        RunInProgressError: the write asks for a lease, and another run has it.
        ForgottenMessagesError: only the numbers of messages are from another life.
    """
    expected = scope.expected_version
    if thread is not None or expected or scope.generation is not None:
        thread = check_life(scope, thread)
        if write.state is not None and expected not in (None, thread.version):
            raise StaleStateError(scope.thread_id, expected, thread.version)
        _check_lease(scope, write, thread)
    found = None if thread is None else thread.generation
    if write.generation not in (None, found):
        raise ForgottenMessagesError("The messages are from an earlier life of the thread.")


def _check_lease(scope: Scope, write: Write, thread: ThreadHead) -> None:
    lease, holder, until = write.lease, thread.lease_holder, thread.lease_until
    if lease is None or holder is None or until is None:
        return
    if holder != lease.holder and lease.over != Claim(holder, until):
        expired = until <= thread.now
        raise RunInProgressError(scope.thread_id, thread.version, holder, until, expired=expired)
