"""A log of promised writes in a folder, as a durable checkpointer would keep one."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenxgraph.storage.store.pending_write import PendingWrite


class FileLog:
    """One file a promise, gone when it is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refusals: list[str] = []

    async def begin(self, write: PendingWrite) -> None:
        number = len(list(self.folder.iterdir()))
        draft = self.folder / f"{number:04}.draft"
        draft.write_text(json.dumps(write.as_json()))
        os.rename(draft, draft.with_suffix(".json"))

    async def landed(self, write: PendingWrite) -> None:
        self._drop(write)

    async def refused(self, write: PendingWrite, reason: str) -> None:
        self.refusals.append(reason)
        self._drop(write)

    async def pending(self, config: Mapping[str, Any]) -> list[PendingWrite]:
        return [PendingWrite(**json.loads(file.read_text())) for file in self._files()]

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.json"))

    def _drop(self, write: PendingWrite) -> None:
        for file in self._files():
            if PendingWrite(**json.loads(file.read_text())) == write:
                file.unlink()
                return
