"""What the dialects answer differently, as questions that the rest of the storage layer asks."""

from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Table

__all__ = ["Dialect"]


class Dialect(Protocol):
    """One kind of database."""

    def insert(self, table: Table) -> Any:
        """An INSERT that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""

    def now(self) -> ColumnElement[datetime]:
        """This moment, by the clock that all who share the database go by."""

    def from_now(self, name: str) -> ColumnElement[datetime]:
        """The moment when the timedelta bound as `name` will have passed; NULL if it is none."""

    def json_has(self, column: ColumnElement[Any], key: str, value: Any) -> ColumnElement[bool]:
        """Whether a JSON object has `key` with this very JSON value, which is no list."""
