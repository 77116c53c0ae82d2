"""InMemoryCheckpointer: for development and tests. Keeps nothing beyond the process."""

from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.checkpointer.durable import DurableCheckpointer
from tenxgraph.storage.memory_backend import MemoryBackend

__all__ = ["InMemoryCheckpointer"]


class InMemoryCheckpointer(DurableCheckpointer[StateT]):
    """Threads in process memory, under the very rules of the databases.

    States and messages go through the same encoding, so what fails on a database fails here.
    """

    def __init__(
        self, *, state_history_limit: int = 20, enforce_user_isolation: bool = True
    ) -> None:
        super().__init__(
            MemoryBackend(),
            state_history_limit=state_history_limit,
            enforce_user_isolation=enforce_user_isolation,
        )

    @property
    def serves_one_process(self) -> bool:
        """It does."""
        return True
