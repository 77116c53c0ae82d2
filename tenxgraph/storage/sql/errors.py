"""Driver errors become ours in one place."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tenxgraph.core.exceptions import SchemaVersionError, StorageError, TransientStorageError

__all__ = [
    "cannot_open",
    "is_connection_lost",
    "is_name_taken",
    "is_plan_outdated",
    "is_privilege_missing",
    "is_unique_violation",
    "is_wrong_transaction",
    "translating",
]

# SQLSTATE classes and codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
_LOST = ("08", "57P", "53300")
_PASSING = ("53", "55P03", "57", "58", "40001", "40P01")
_LOGIN = ("28", "3D")
_MISSING_TABLE = ("42P01", "3F000", "42703")
_MISSING_PRIVILEGE = "42501"
_UNIQUE = "23505"
_NAME_TAKEN = ("42P07", "42710")
# A serialization failure, and a write in a read-only transaction.
_TRANSACTION = ("40001", "25006")
# What asyncpg and SQLAlchemy call a prepared statement, or a type, that DDL has changed since.
_OUTDATED = frozenset({"InvalidCachedStatementError", "OutdatedSchemaCacheError"})


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


def is_plan_outdated(error: DBAPIError) -> bool:
    """Whether DDL has changed what a prepared statement returns; nothing was carried out."""
    cause: BaseException | None = error.orig
    while cause is not None:
        if type(cause).__name__ in _OUTDATED:
            return True
        cause = cause.__cause__
    return "cache lookup failed for type" in str(error.orig)


def is_wrong_transaction(error: DBAPIError) -> bool:
    """Whether the database's own default, stricter than what is needed, has refused the work."""
    return _sqlstate(error.orig) in _TRANSACTION


def is_name_taken(error: DBAPIError) -> bool:
    """Whether something of that name is in the database already."""
    return _sqlstate(error.orig) in _NAME_TAKEN or str(error.orig).endswith(" already exists")


def is_privilege_missing(error: DBAPIError) -> bool:
    """Whether the role may not do this."""
    return _sqlstate(error.orig) == _MISSING_PRIVILEGE


def is_connection_lost(error: BaseException) -> bool:
    """Whether the server may have gone away, so that the call may work on a new connection."""
    if isinstance(error, DBAPIError):
        state = _sqlstate(error.orig)
        return (
            error.connection_invalidated
            or state.startswith(_LOST)
            or "connection is closed" in str(error.orig)
            or "connection was closed" in str(error.orig)
        )
    return isinstance(error, OSError | TimeoutError | EOFError)


@contextmanager
def translating(place: str) -> Iterator[None]:
    """Turn what SQLAlchemy and the drivers raise inside into a `StorageError` of the fitting kind.

    The message names the place and keeps the driver's own words, and never the statement's
    parameters.
    """
    try:
        yield
    except PoolTimeoutError as error:
        message = (
            f"No connection to {place} became free in time. Raise `pool_size`, or look for calls "
            "that hold connections."
        )
        raise TransientStorageError(message, code="pool_timeout") from error
    except DBAPIError as error:
        words = str(error.orig).split("\n")[0]
        raise _of_server(error, words, place) or _of_file(error, words, place) from error
    except (OSError, TimeoutError) as error:
        raise _unreachable(f"{type(error).__name__}: {error}", place) from error


def _of_server(error: DBAPIError, words: str, place: str) -> StorageError | None:
    """What PostgreSQL says by its SQLSTATE, or by going away."""
    state = _sqlstate(error.orig)
    if state in _MISSING_TABLE:
        return _missing_tables(words)
    if state == _MISSING_PRIVILEGE:
        message = f"The database role lacks a right on {place}: {words}."
        return StorageError(message, code="missing_privilege")
    if state.startswith(_LOGIN):
        message = f"{place} refused the login: {words}. Check the user, password and DSN."
        return StorageError(message, code="login_refused")
    if is_connection_lost(error):
        return _unreachable(words, place)
    if state.startswith(_PASSING):
        return TransientStorageError(f"{place} refused for now: {words}.")
    return None


def _of_file(error: DBAPIError, words: str, place: str) -> StorageError:
    """What SQLite says in words alone; and what nobody expects."""
    if "no such table" in words or "no such column" in words:
        return _missing_tables(words)
    if "unable to open database file" in words:
        return cannot_open(place, words)
    if "readonly database" in words:
        message = f"{place} cannot be written: {words}. Grant this process the right to write."
        return StorageError(message, code="read_only")
    if "not a database" in words or "malformed" in words:
        message = f"{place} is damaged, or no SQLite database: {words}. Restore it from a backup."
        return StorageError(message, code="damaged")
    if isinstance(error, OperationalError | InterfaceError):
        return TransientStorageError(f"{place} refused for now: {words}.")
    return StorageError(f"{place} refused: {words}.", code="database")


def cannot_open(path: str, words: str = "no such file") -> StorageError:
    """Why there is no reading from a file: nobody has set it up, or it is out of reach."""
    if os.path.isdir(os.path.dirname(path)) and not os.path.exists(path):
        return _missing_tables(f"there is no file {path}")
    message = (
        f"{path} cannot be opened: {words}. Does its folder exist, and may this process write "
        "there?"
    )
    return StorageError(message, code="cannot_open")


def _missing_tables(words: str) -> SchemaVersionError:
    return SchemaVersionError(
        f"The tables of tenxgraph are not there, or not of this version ({words}). Run "
        "`checkpointer.setup()` or `alembic upgrade head` once, before the first request."
    )


def _unreachable(words: str, place: str) -> TransientStorageError:
    return TransientStorageError(
        f"{place} cannot be reached, or went away: {words}. Check the DSN and the server."
    )
