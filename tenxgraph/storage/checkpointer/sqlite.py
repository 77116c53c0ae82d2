"""SqliteCheckpointer: states and messages in one file."""

import os

from tenxgraph.core.state.agent_state import StateT
from tenxgraph.storage.checkpointer.durable import DurableCheckpointer
from tenxgraph.storage.sql.dsn import SqliteDsn, is_postgres

__all__ = ["SqliteCheckpointer"]


class SqliteCheckpointer(DurableCheckpointer[StateT]):
    """Threads in one SQLite file, for desktop, command line and embedded agents.

    Args:
        db_path: a path, `":memory:"`, or a `sqlite:///` or `sqlite+aiosqlite:///` URL, whose one
            option is `mode`: `rwc`, the default, or `rw`, with which `setup()` makes no file.
        state_history_limit: how many snapshots of each thread are kept.
        enforce_user_isolation: whether threads belong to the `user_id` of the config.

    Raises:
        ValueError: `db_path` is none of these, or has options that are not known.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str],
        *,
        state_history_limit: int = 20,
        enforce_user_isolation: bool = True,
    ) -> None:
        # Here, not above: SQLAlchemy is loaded by whoever needs it, not by every import.
        from tenxgraph.storage.sql.backend import SqliteBackend
        from tenxgraph.storage.sql.sqlite_database import SqliteDatabase

        path = os.fspath(db_path)
        if not path or is_postgres(path):
            message = "`db_path` must be the path of a file, `:memory:` or a sqlite:/// URL."
            raise ValueError(message)
        file = SqliteDsn.parse(path)
        self._database = SqliteDatabase(file.path, must_exist=file.must_exist)
        super().__init__(
            SqliteBackend(self._database),
            state_history_limit=state_history_limit,
            enforce_user_isolation=enforce_user_isolation,
        )

    @property
    def serves_one_process(self) -> bool:
        """A file does not; `":memory:"` does."""
        return self._database.path == ":memory:"

    def __repr__(self) -> str:
        return f"SqliteCheckpointer({self._database.path!r})"
