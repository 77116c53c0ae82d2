"""How an engine gives back its connections, in bounded time and without a word in the log."""

import asyncio
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["close_engine"]


async def close_engine(engine: AsyncEngine) -> None:
    """Close the idle connections now, and each one that is in use when its call has ended.

    A cancellation, as by a timeout, ends the remaining connections by force instead.
    """
    event.listen(engine.sync_engine, "checkin", _close_at_checkin)
    dialect: Any = engine.dialect
    say_goodbye = dialect.do_close
    by_force: list[Any] = []

    def close(connection: Any) -> None:
        # SQLAlchemy would log a traceback for the cancellation, and forget the connections left.
        if by_force and dialect.has_terminate:
            by_force.append(connection)
            return
        try:
            say_goodbye(connection)
        except asyncio.CancelledError:
            by_force.append(connection)

    dialect.do_close = close
    await engine.dispose()
    # Not in a greenlet, where SQLAlchemy waits for nothing.
    for connection in by_force if dialect.has_terminate else ():
        dialect.do_terminate(connection)


def _close_at_checkin(_connection: Any, record: Any) -> None:
    """Keep no connection in the pool of a closed engine, which nobody would close again."""
    record.invalidate()
