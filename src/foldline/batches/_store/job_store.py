"""`JobStore`: one job in a database, and its tables.

Changes that belong together are one transaction: an item's result and the counts, or a part and its items. So a process
may be killed at any point, and nothing is lost.
"""

from __future__ import annotations

from pathlib import Path

from foldline.batches._store.input_table import InputTable
from foldline.batches._store.item_table import ItemTable
from foldline.batches._store.job_database import JobDatabase
from foldline.batches._store.job_table import JobTable
from foldline.batches._store.part_table import PartTable
from foldline.exceptions import StoreError

__all__ = ["JobStore"]


class JobStore:
    """One job of a database."""

    def __init__(self, location: str | Path, name: str) -> None:
        self._database = JobDatabase(location)
        self.job = JobTable(self._database, name)
        self.inputs = InputTable(self.job)
        self.items = ItemTable(self.job)
        self.parts = PartTable(self.job, self.items)

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.job.name

    @property
    def where(self) -> str:
        """The name of this store in errors."""
        return self._database.where

    def try_lock(self) -> bool:
        """Lock the job for this process; return False where another one works on it."""
        return self._database.lock(self.name)

    def lock(self) -> None:
        """Keep other processes from working on this job."""
        if not self.try_lock():
            raise StoreError(
                f"{self.where}: another process works on the job {self.name!r}: wait for it or end it; `status` and "
                "`cancel` need no lock"
            )

    def unlock(self) -> None:
        """Let other processes work on this job."""
        self._database.unlock()

    def close(self) -> None:
        """Unlock the job and close the idle connections."""
        self._database.unlock()
        self._database.close()
