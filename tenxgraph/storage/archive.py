"""A thread as lines of JSON: for audit, for moving to another database, for looking at."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state.codec import to_text
from tenxgraph.storage import archive_rows
from tenxgraph.storage.backend import Archive

__all__ = ["lines", "parse"]

FORMAT = 1
# Columns that hold JSON as text, and are embedded in a line as what they say.
_DOCUMENTS = frozenset({"data", "state_data", "result"})
# A run in progress belongs to the thread that it runs on, not to a copy of it.
_OF_A_RUN = frozenset({"lease_holder", "lease_until"})
_KINDS = {"message": "messages", "state": "states", "tool_execution": "tool_executions"}


def lines(archive: Archive) -> Iterator[str]:
    """The thread's record first, then its messages, states and tool executions."""
    thread = {name: value for name, value in archive.thread.items() if name not in _OF_A_RUN}
    rows = {part: len(getattr(archive, part)) for part in _KINDS.values()}
    yield _line("thread", {"format": FORMAT, "rows": rows, **thread})
    for kind, part in _KINDS.items():
        for row in getattr(archive, part):
            yield _line(kind, row)


def parse(lines: Iterable[str]) -> Archive:
    """Read what `lines` wrote.

    Raises:
        SerializationError: it is no such export, or of a newer format, or damaged or cut short.
    """
    archive: Archive | None = None
    announced: dict[str, int] = {}
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        kind, row = _read_line(number, text)
        if kind == "thread" and archive is None:
            announced = row.pop("rows")
            archive = Archive(thread=row)
        elif archive is not None and kind in _KINDS:
            getattr(archive, _KINDS[kind]).append(row)
        else:
            message = f"Line {number} of the export is a {kind!r}, which does not belong there."
            raise SerializationError(message)
    if archive is None:
        message = "There is no thread in the export."
        raise SerializationError(message)
    _check_complete(archive, announced)
    # What is only promised stays with the thread that it was promised on: whoever imports a file
    # must not carry out what stands in it.
    executions = archive.tool_executions
    executions[:] = [row for row in executions if row["status"] != "scheduled"]
    archive_rows.check(archive)
    return archive


def _check_complete(archive: Archive, announced: dict[str, int]) -> None:
    """Refuse a file that was cut short: it would be taken for the whole thread."""
    found = {part: len(getattr(archive, part)) for part in _KINDS.values()}
    if found != announced:
        message = (
            f"The export of thread {archive.thread['thread_id']!r} is not complete: it announces "
            f"{announced}, and {found} came. Nothing was imported."
        )
        raise SerializationError(message)


def _line(kind: str, row: dict[str, Any]) -> str:
    return to_text({"kind": kind, **{name: _written(name, value) for name, value in row.items()}})


def _written(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _DOCUMENTS or (name == "meta" and isinstance(value, str)):
        return json.loads(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _read_line(number: int, text: str) -> tuple[str, dict[str, Any]]:
    try:
        document = json.loads(text)
        kind = document.pop("kind")
        if kind == "thread" and document.pop("format", None) != FORMAT:
            message = f"The export is not of format {FORMAT}; it was made by another version."
            raise SerializationError(message)
        return kind, archive_rows.read(kind, document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"Line {number} is no line of an export: {error!r}"
        raise SerializationError(message) from error
