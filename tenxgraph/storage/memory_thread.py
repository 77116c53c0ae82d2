"""One thread in memory: the rows that SQL keeps in four tables."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from tenxgraph.storage import stored_state
from tenxgraph.storage.backend import ArchivePage, Committed, Head, Lease, ToolRow, Write
from tenxgraph.storage.records import ThreadInfo, utc_now
from tenxgraph.storage.revisions import Live, Plan, plan_messages, resolve

__all__ = ["MemoryThread", "Row"]

Row = dict[str, Any]


class MemoryThread:
    """The rows, and what a write does to them. Whoever has it in hand holds the lock."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.states: dict[int, Row] = {}
        self.messages: dict[int, Row] = {}
        self.live: dict[str, int] = {}
        """The number of each message's newest revision."""
        self.tools: dict[tuple[str, int], ToolRow] = {}

    @property
    def user_id(self) -> str | None:
        """The owner."""
        owner: str | None = self.row["user_id"]
        return owner

    @property
    def generation(self) -> UUID:
        """The life of the thread id."""
        life: UUID = self.row["generation"]
        return life

    @property
    def version(self) -> int:
        """The version of the newest state."""
        version: int = self.row["version"]
        return version

    @property
    def lease_holder(self) -> str | None:
        """Which run has claimed the thread."""
        holder: str | None = self.row.get("lease_holder")
        return holder

    @property
    def lease_until(self) -> datetime | None:
        """When that claim ends."""
        until: datetime | None = self.row.get("lease_until")
        return until

    @property
    def now(self) -> datetime:
        """This moment."""
        return utc_now()

    def claim(self, lease: Lease) -> None:
        """Take the thread for a run, or give it back."""
        until = None if lease.lasts is None else self.now + lease.lasts
        self.row |= {"lease_holder": lease.holder, "lease_until": until}

    def head(self) -> Head:
        """The thread at this moment."""
        return Head(self.version, self.generation, self.row["stop_requested"])

    def info(self) -> ThreadInfo:
        """The thread's record."""
        row = self.row
        return ThreadInfo(**{**row, "metadata": json.loads(row["meta"])})

    def pages(self) -> list[ArchivePage]:
        """Copy all rows: later writes change them in their place."""
        parts = {
            "messages": [dict(row) for _, row in sorted(self.messages.items())],
            "states": [dict(row) for _, row in sorted(self.states.items())],
            "tool_executions": [tool.columns() for tool in self.tools.values()],
        }
        counts = {name: len(rows) for name, rows in parts.items()}
        thread = {"rows": counts, **self.row, "meta": json.loads(self.row["meta"])}
        of_thread = {"thread_id": self.row["thread_id"]}
        return [
            ArchivePage("thread", [thread]),
            *(
                ArchivePage(name, [{**of_thread, **row} for row in rows])
                for name, rows in parts.items()
            ),
        ]

    def put(self, write: Write) -> Committed:
        """Carry out a write that has been checked."""
        row = self.row
        live = self._newest_revisions(one.message_id for one in write.messages)
        plan = plan_messages(write.messages, live, row["last_seq"])
        self._put_messages(plan, write.at)
        if write.state is not None:
            self._put_state(write, plan)
        self.tools |= {
            (one.execution.message_id, one.execution.position): one for one in write.tools
        }
        row["last_seq"] += len(plan.inserts)
        row["updated_at"] = write.at
        if write.lease is not None:
            self.claim(write.lease)
        return Committed(self.version, self.generation, plan.seqs, row["stop_requested"])

    def _newest_revisions(self, ids: Iterable[str]) -> dict[str, Live]:
        found = {}
        for message_id in ids:
            seq = self.live.get(message_id)
            if seq is not None:
                row = self.messages[seq]
                found[message_id] = Live(seq, row["position"], row["data"])
        return found

    def _put_messages(self, plan: Plan, at: datetime) -> None:
        for old, new in plan.superseded.items():
            self.messages[old]["replaced_by"] = new
        for insert in plan.inserts:
            self.messages[insert.seq] = {
                "seq": insert.seq,
                "position": insert.position,
                "replaced_by": insert.replaced_by,
                "created_at": at,
                **insert.row._asdict(),
            }
            if insert.replaced_by is None:
                self.live[insert.row.message_id] = insert.seq

    def _put_state(self, write: Write, plan: Plan) -> None:
        version = self.row["version"] = self.version + 1
        context = resolve(write.context, plan.seqs)
        self.states[version] = {
            "version": version,
            "state_data": stored_state.document(write.state or "{}", context),
            "base_seq": self.row["last_seq"],
            "meta": write.meta,
            "write_id": write.write_id,
            "created_at": write.at,
        }
        for old in [v for v in self.states if v <= version - write.keep]:
            del self.states[old]
