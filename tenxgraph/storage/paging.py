"""Pages: cursors, and numbers from a caller that are checked before they reach a database."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from tenxgraph.core.state import Message
from tenxgraph.core.state.scalars import Json, forms
from tenxgraph.core.state.state_codec import StateCodec
from tenxgraph.storage.backend import Backend, MessageQuery, StoredMessage
from tenxgraph.storage.records import Page, ThreadInfo
from tenxgraph.storage.scope import Scope, checked_id, checked_object

__all__ = [
    "MessagePages",
    "checked_filter",
    "checked_number",
    "position",
    "refuse_both",
    "thread_cursor",
    "thread_place",
]

# Messages read at a time where each has to be looked into.
_CHUNK = 500
_LARGEST = 2**63 - 1
# Bits of an int beyond which no database compares it with anything.
_LONGEST_NUMBER = 1023


def checked_number(name: str, value: Any) -> int | None:
    """A count or version from the caller, or `None`.

    Raises:
        ValueError: it is negative, or no int.
    """
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= _LARGEST:
        message = f"`{name}` must be an int of 0 or more, not {value!r}."
        raise ValueError(message)
    return value


def refuse_both(name: str, value: Any, **others: Any) -> None:
    """Raise `ValueError` where an argument is given that another one would leave without effect."""
    given = [other for other, its_value in others.items() if its_value is not None]
    if value is not None and given:
        message = f"`{name}` cannot be combined with {' and '.join(f'`{one}`' for one in given)}."
        raise ValueError(message)


def checked_filter(filter: Mapping[str, Any]) -> dict[str, list[Json]]:
    """A filter on metadata: by key, what a value that equals the wanted one may be stored as.

    Raises:
        ValueError: a key is no string, or a value is no plain one; there are no operators.
    """
    for key, value in checked_object("filter", filter).items():
        if not isinstance(key, str) or not _is_plain(value):
            message = (
                f"`filter` compares metadata keys with plain values (a string, number, bool or "
                f"None) and knows no operators: {key!r} has {value!r}."
            )
            raise ValueError(message)
    return {key: forms(value) for key, value in filter.items()}


def _is_plain(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() < _LONGEST_NUMBER
    if type(value) is float:
        return isfinite(value)
    return value is None or type(value) in (str, bool)


def position(cursor: object) -> int | None:
    """The place in a thread that a message cursor means."""
    if cursor is None:
        return None
    if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit():
        return checked_number("after", int(cursor))
    message = f"`after` must be the `cursor` of an earlier page, not {cursor!r}."
    raise ValueError(message)


def thread_cursor(last: ThreadInfo) -> str:
    """The cursor behind a thread in a listing."""
    place = json.dumps([last.updated_at.isoformat(), last.thread_id])
    return base64.urlsafe_b64encode(place.encode()).decode()


def thread_place(cursor: str | None) -> tuple[datetime, str] | None:
    """The place in a listing that a thread cursor means.

    Raises:
        ValueError: it is no cursor of such a listing.
    """
    if cursor is None:
        return None
    try:
        moment, thread_id = json.loads(base64.urlsafe_b64decode(cursor))
        place = datetime.fromisoformat(moment)
        if place.tzinfo is None:
            raise ValueError("it has no time zone")
        return place.astimezone(UTC), checked_id({"thread_id": thread_id}, "thread_id")
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        message = f"`cursor` must be the `cursor` of an earlier page, not {cursor!r}."
        raise ValueError(message) from error


class MessagePages:
    """The pages of one thread's messages."""

    def __init__(self, backend: Backend, codec: StateCodec[Any], scope: Scope) -> None:
        self._backend = backend
        self._codec = codec
        self._scope = scope

    async def plain(self, query: MessageQuery) -> Page[Message]:
        """What the query asks for."""
        return self._page(await self._backend.list_messages(self._scope, query))

    async def last(self, count: int, search: str | None) -> Page[Message]:
        """The newest messages in ascending order, not beginning with a tool's result."""
        if search:
            everything = await self.matching(MessageQuery(), search)
            kept = everything[len(everything) - min(count, len(everything)) :]
            return Page(kept, cursor=everything.cursor if kept else None)
        newest = MessageQuery(limit=count, newest_first=True)
        rows = await self._backend.list_messages(self._scope, newest)
        while rows and self._decode(rows[-1:])[0].role == "tool":
            earlier = MessageQuery(before=rows[-1].position, limit=1, newest_first=True)
            found = await self._backend.list_messages(self._scope, earlier)
            if not found:
                break
            rows += found
        return self._page(rows[::-1])

    async def matching(self, query: MessageQuery, search: str) -> Page[Message]:
        """Messages whose text has `search` in it.

        Looked for in the text that a reader sees, not in its JSON, where every role and every
        escape would match as well.
        """
        wanted = search.casefold()
        found: list[tuple[Message, int]] = []
        enough = None if query.limit is None else query.offset + query.limit
        chunk = replace(query, offset=0, limit=_CHUNK)
        while enough is None or len(found) < enough:
            rows = await self._backend.list_messages(self._scope, chunk)
            found += [
                (message, row.position)
                for message, row in zip(self._decode(rows), rows, strict=True)
                if wanted in message.text().casefold()
            ]
            if len(rows) < _CHUNK:
                break
            chunk = replace(chunk, after=rows[-1].position)
        found = found[query.offset : enough]
        cursor = str(found[-1][1]) if found else None
        return Page((message for message, _ in found), cursor=cursor)

    def _decode(self, rows: list[StoredMessage]) -> list[Message]:
        return self._codec.messages([row.data for row in rows])

    def _page(self, rows: list[StoredMessage]) -> Page[Message]:
        return Page(self._decode(rows), cursor=str(rows[-1].position) if rows else None)
