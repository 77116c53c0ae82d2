"""Checkpointers: the memory of threads, on SQLite, PostgreSQL or in memory."""

from tenxgraph import _other_names
from tenxgraph.core.exceptions import (
    RunInProgressError,
    SchemaVersionError,
    SerializationError,
    StaleStateError,
    StorageError,
    ThreadOwnershipError,
    TransientStorageError,
)
from tenxgraph.storage.checkpointer.base import BaseCheckpointer
from tenxgraph.storage.checkpointer.cached import CachedCheckpointer
from tenxgraph.storage.checkpointer.factory import create_checkpointer
from tenxgraph.storage.checkpointer.memory import InMemoryCheckpointer
from tenxgraph.storage.checkpointer.pg import PgCheckpointer
from tenxgraph.storage.checkpointer.postgres import PostgresCheckpointer
from tenxgraph.storage.checkpointer.sqlite import SqliteCheckpointer
from tenxgraph.storage.records import Page, StateSnapshot, ThreadInfo, ToolExecution

__all__ = [
    "BaseCheckpointer",
    "CachedCheckpointer",
    "InMemoryCheckpointer",
    "Page",
    "PgCheckpointer",
    "PostgresCheckpointer",
    "RunInProgressError",
    "SchemaVersionError",
    "SerializationError",
    "SqliteCheckpointer",
    "StaleStateError",
    "StateSnapshot",
    "StorageError",
    "ThreadInfo",
    "ThreadOwnershipError",
    "ToolExecution",
    "TransientStorageError",
    "create_checkpointer",
]

_other_names.explain_imports(__name__)
