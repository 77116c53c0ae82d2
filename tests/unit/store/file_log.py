"""A log of promised writes in a folder, as a durable checkpointer would keep one."""

import json
from pathlib import Path

from tenxgraph.storage.store import BaseStore
from tenxgraph.storage.store.pending_write import PENDING_LOG_KEY, PendingWrite


class FileWrite:
    """One promise in a file, gone when it is kept."""

    is_new = True

    def __init__(self, file: Path, write: PendingWrite, log: "FileLog") -> None:
        self.write = write
        self._file = file
        self._log = log

    async def landed(self) -> bool:
        self._file.unlink()
        return True

    async def refused(self, reason: str) -> None:
        self._log.refusals.append(reason)
        self._file.unlink()


class FileLog:
    """A folder with one file a promise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refusals: list[str] = []

    def config(self, **told: str) -> dict[str, object]:
        """The config of a call that keeps its promises here."""
        return {**told, PENDING_LOG_KEY: self}

    async def keep(self, write: PendingWrite, store: BaseStore) -> FileWrite:
        file = self.folder / f"{len(list(self.folder.iterdir())):04}.json"
        file.write_text(json.dumps(write.as_json()))
        return FileWrite(file, write, self)

    def left(self) -> list[FileWrite]:
        """What was promised and has neither landed nor been refused, in order."""
        return [
            FileWrite(file, PendingWrite(**json.loads(file.read_text())), self)
            for file in sorted(self.folder.iterdir())
        ]

    def recover(self, store: BaseStore) -> int:
        """Carry out what is left; how many writes that is."""
        left = self.left()
        for kept in left:
            store.writes.resubmit(kept)
        return len(left)
