"""RunSlots: how many runs may go on at the same time, in one process and for one user."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from tenxgraph.server.problems import TooManyRunsError

__all__ = ["RunSlots"]


class RunSlots:
    """Counts the runs of a process and of each user.

    Args:
        in_all: the most runs of the process.
        per_user: the most runs of one user.
    """

    def __init__(self, in_all: int, per_user: int) -> None:
        self._in_all = in_all
        self._per_user = per_user
        self._taken: Counter[str] = Counter()

    def take(self, user_id: str) -> Callable[[], None]:
        """Take a slot for a run, and return the function that gives it back.

        Raises:
            TooManyRunsError: all slots of the user, or of the process, are taken.
        """
        if self._taken.get(user_id, 0) >= self._per_user:
            message = f"You have {self._per_user} runs at the same time, and may not have more."
            raise TooManyRunsError(f"{message} Wait until one ends, or stop one.")
        if self._taken.total() >= self._in_all:
            message = f"The server has {self._in_all} runs at the same time, and takes no more."
            raise TooManyRunsError(f"{message} Try again.")
        self._taken[user_id] += 1
        slot = [user_id]

        def give_back() -> None:
            with suppress(IndexError):  # given back once already
                self._free(slot.pop())

        return give_back

    def _free(self, user_id: str) -> None:
        self._taken[user_id] -= 1
        if not self._taken[user_id]:
            del self._taken[user_id]  # else it would grow with every user that ever came
