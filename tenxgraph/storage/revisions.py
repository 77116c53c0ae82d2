"""Which messages of a write are new, which are there already, and which replace one that is."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from tenxgraph.storage.backend import MessageRow, Ranges

__all__ = ["Live", "Plan", "plan_messages", "resolve"]


class Live(NamedTuple):
    """The newest revision of a message that is stored."""

    seq: int
    position: int
    data: str


class Insert(NamedTuple):
    """A row to be inserted."""

    seq: int
    position: int
    replaced_by: int | None
    row: MessageRow


class Plan(NamedTuple):
    """What a write does to the messages of its thread."""

    inserts: list[Insert]
    superseded: dict[int, int]
    """Stored rows that get a newer revision: number, and the number of what replaces it."""
    seqs: list[int]
    """For each message of the write, the number it is known by from now on."""


def plan_messages(rows: Sequence[MessageRow], live: dict[str, Live], last_seq: int) -> Plan:
    """Give every message its number: the one it has, or the next.

    A message sent again unchanged keeps its row. One that says something else under the same id
    becomes a new row at the old position.
    """
    plan = Plan([], {}, [])
    newest = dict(live)
    inserted: dict[int, int] = {}
    for row in rows:
        known = newest.get(row.message_id)
        if known is not None and _same(known.data, row.data):
            plan.seqs.append(known.seq)
            continue
        last_seq += 1
        position = last_seq if known is None else known.position
        if known is not None and known.seq in inserted:
            index = inserted[known.seq]
            plan.inserts[index] = plan.inserts[index]._replace(replaced_by=last_seq)
        elif known is not None:
            plan.superseded[known.seq] = last_seq
        inserted[last_seq] = len(plan.inserts)
        plan.inserts.append(Insert(last_seq, position, None, row))
        newest[row.message_id] = Live(last_seq, position, row.data)
        plan.seqs.append(last_seq)
    return plan


def _same(one: str, other: str) -> bool:
    """Whether two texts are the same message; when it was built does not count.

    A client that sends the whole history with every turn builds each message anew, with the
    moment of building as its timestamp.
    """
    return one == other or _undated(one) == _undated(other)


def _undated(text: str) -> str:
    document = json.loads(text)
    document.pop("timestamp", None)
    # As text again: to Python 1, 1.0 and true are equal.
    return json.dumps(document, sort_keys=True)


def resolve(ranges: Ranges, seqs: Sequence[int]) -> list[list[int]]:
    """Replace references to the messages of a write (-1, -2, ...) by their numbers."""
    resolved: list[list[int]] = []
    for first, last in ranges:
        if first > 0:
            append(resolved, first, last)
        else:
            for index in range(-first, -last + 1):
                append(resolved, seqs[index - 1], seqs[index - 1])
    return resolved


def append(ranges: list[list[int]], first: int, last: int) -> None:
    """Add a range behind others, as one with the last where it goes on from there.

    Numbers of new messages are negative and count down: -1, -2.
    """
    step = 1 if first > 0 else -1
    if ranges and ranges[-1][0] * step > 0 and ranges[-1][1] + step == first:
        ranges[-1] = [ranges[-1][0], last]
    else:
        ranges.append([first, last])
