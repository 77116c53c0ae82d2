"""Driver errors become ours in one place."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tenxgraph.core.exceptions import SchemaVersionError, StorageError, TransientStorageError

__all__ = ["is_connection_lost", "is_privilege_missing", "is_unique_violation", "translating"]

# SQLSTATE classes and codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
_CONNECTION_CLASSES = ("08", "53", "57", "58")
_SERIALIZATION = ("40001", "40P01", "55P03")
_MISSING_TABLE = ("42P01", "3F000", "42703")
_MISSING_PRIVILEGE = "42501"
_UNIQUE = "23505"


def _sqlstate(error: BaseException | None) -> str:
    """The SQLSTATE of a driver's error, or of the one it was raised from."""
    while error is not None:
        state = getattr(error, "sqlstate", None)
        if isinstance(state, str):
            return state
        error = error.__cause__
    return ""


def is_unique_violation(error: DBAPIError) -> bool:
    """Whether a row of that key was there already."""
    return _sqlstate(error.orig) == _UNIQUE


def is_privilege_missing(error: DBAPIError) -> bool:
    """Whether the role may not do this."""
    return _sqlstate(error.orig) == _MISSING_PRIVILEGE


def is_connection_lost(error: BaseException) -> bool:
    """Whether the server may have gone away, so that the call may work on a new connection."""
    if isinstance(error, DBAPIError):
        state = _sqlstate(error.orig)
        return (
            error.connection_invalidated
            or state[:2] in ("08", "57")
            or "connection is closed" in str(error.orig)
            or "connection was closed" in str(error.orig)
        )
    return isinstance(error, OSError | TimeoutError | EOFError)


@contextmanager
def translating() -> Iterator[None]:
    """Turn what SQLAlchemy and the drivers raise inside into a `StorageError` of the fitting kind.

    The message keeps the driver's own words, and never the statement's parameters.
    """
    try:
        yield
    except PoolTimeoutError as error:
        message = (
            "No database connection became free in time. Raise `pool_size`, or look for calls "
            "that hold connections."
        )
        raise TransientStorageError(message, code="pool_timeout") from error
    except DBAPIError as error:
        raise _translated(error) from error
    except (OSError, TimeoutError) as error:
        raise TransientStorageError(_unreachable(error)) from error


def _translated(error: DBAPIError) -> StorageError:
    state = _sqlstate(error.orig)
    words = str(error.orig).split("\n")[0]
    if state in _MISSING_TABLE or "no such table" in words or "no such column" in words:
        return SchemaVersionError(
            f"The tables of tenxgraph are not there, or not of this version ({words}). Run "
            "`checkpointer.setup()` or `alembic upgrade head` once, before the first request."
        )
    if state == _MISSING_PRIVILEGE:
        return StorageError(f"The database role lacks a right: {words}", code="missing_privilege")
    if state[:2] in _CONNECTION_CLASSES or state in _SERIALIZATION or is_connection_lost(error):
        return TransientStorageError(_unreachable(words))
    if isinstance(error, OperationalError | InterfaceError):
        if "unable to open database file" in words:
            message = (
                f"The database file cannot be opened ({words}). Does its folder exist, and may "
                "this process write there?"
            )
            return StorageError(message, code="cannot_open")
        return TransientStorageError(f"The database refused for now: {words}")
    return StorageError(f"The database refused: {words}", code="database")


def _unreachable(words: object) -> str:
    name = f"{type(words).__name__}: {words}" if isinstance(words, BaseException) else words
    return f"The database cannot be reached, or went away: {name}. Check the DSN and the server."
