"""A thread as lines of JSON: for audit, for moving to another database, for looking at."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state.codec import to_text
from tenxgraph.core.state.nesting import check_depth, on_fresh_stack
from tenxgraph.storage import archive_rows
from tenxgraph.storage.backend import Archive, ArchivePage

__all__ = ["lines", "parse"]

FORMAT = 1
# Columns that hold JSON as text, and are embedded in a line as what they say.
_DOCUMENTS = frozenset({"data", "state_data", "result"})
# Columns with what users have put together, and how many levels are around that: a state's fields,
# a message's fields, content, blocks and calls.
_LEVELS = {"meta": 0, "result": 0, "state_data": 1, "data": 4}
# A run in progress belongs to the thread that it runs on, not to a copy of it.
_OF_A_RUN = frozenset({"lease_holder", "lease_until"})
_KINDS = {"message": "messages", "state": "states", "tool_execution": "tool_executions"}
_KIND_OF = {part: kind for kind, part in _KINDS.items()}


async def lines(pages: AsyncIterable[ArchivePage]) -> AsyncGenerator[str, None]:
    """Yield the thread's record, then its messages, states and tool executions.

    Raises:
        SerializationError: an import would refuse what is stored; names the thread and why.
    """
    thread: Mapping[str, Any] = {}
    found = dict.fromkeys(_KINDS.values(), 0)
    async for part, rows in pages:
        if part == "thread":
            (thread,) = rows
            kept = {name: value for name, value in thread.items() if name not in _OF_A_RUN}
            yield _line("thread", {"format": FORMAT, **kept})
            continue
        found[part] += len(rows)
        for row in rows:
            if part == "states":
                _check_state(thread, row)
            yield _line(_KIND_OF[part], row)
    if thread:
        _check_complete(thread["thread_id"], thread["rows"], found, "Export it again.")


def _check_state(thread: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    try:
        archive_rows.check_references(row, thread["last_seq"])
    except SerializationError as error:
        message = f"Thread {thread['thread_id']!r} is damaged and cannot be exported. {error}"
        raise SerializationError(message) from error


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
    found = {part: len(getattr(archive, part)) for part in _KINDS.values()}
    _check_complete(archive.thread["thread_id"], announced, found, "Nothing was imported.")
    # What is only promised stays with the thread that it was promised on: whoever imports a file
    # must not carry out what stands in it.
    executions = archive.tool_executions
    executions[:] = [row for row in executions if row["status"] != "scheduled"]
    archive_rows.check(archive)
    return archive


def _check_complete(
    thread_id: str, announced: Mapping[str, int], found: Mapping[str, int], outcome: str
) -> None:
    """Refuse an export that was cut short: it would be taken for the whole thread."""
    if found != announced:
        message = (
            f"The export of thread {thread_id!r} is not complete: it announces {announced}, and "
            f"{found} came. {outcome}"
        )
        raise SerializationError(message)


def _line(kind: str, row: Mapping[str, Any]) -> str:
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
        document = on_fresh_stack(json.loads, text)
        for name, levels in _LEVELS.items():
            check_depth(document.get(name), f"{document.get('kind')}.{name}", levels)
        kind = document.pop("kind")
        if kind == "thread" and document.pop("format", None) != FORMAT:
            message = f"The export is not of format {FORMAT}; it was made by another version."
            raise SerializationError(message)
        return kind, archive_rows.read(kind, document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"Line {number} is no line of an export: {error!r}"
        raise SerializationError(message) from error
