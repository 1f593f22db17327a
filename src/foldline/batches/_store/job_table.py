"""The row of a job: its definition, its counts, whether it is cancelled; and the ids of its items."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import uuid4

from foldline.batches._store.job_database import Connection, JobDatabase
from foldline.batches.records import BatchReport, ItemState
from foldline.exceptions import StoreError

__all__ = ["OPEN", "JobRow", "JobTable"]

SPACE: Final = 2**40
"""Ids per job: an item's id is its number plus the job's id times this."""
COUNTS: Final = ("items", "done", "failed", "cancelled", "copies", "rejected", "repeated_calls", "missing", "parts",
                 "input_tokens", "output_tokens", "known_cost", "unpriced")  # fmt: skip
OPEN: Final = "job = ? AND state < 3 AND state = ?"
"""The items of a job in one of the states before the end; the index of open items answers it."""
JOB: Final = (
    "SELECT id, tag, target, description, definition, rows_read, is_read FROM foldline_jobs "
    "WHERE name = ?"
)
ERRORS: Final = (
    "SELECT substr(error, 1, 160), count(*) FROM foldline_job_items WHERE job = ? AND state = 4 "
    "AND error IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 50"
)


class JobRow(NamedTuple):
    """The stored fields of a job."""

    id: int
    tag: str
    """Names the job at the provider; unique."""
    target: str
    """The fingerprint of the target."""
    description: str
    definition: str | None
    """The target as text, from which another process can make it; None where it cannot be serialised."""
    rows_read: int
    is_read: int


class JobTable:
    """The row of one job."""

    def __init__(self, database: JobDatabase, name: str) -> None:
        self.database = database
        self.name = name
        self.row: JobRow
        self._base = 0

    # -- which job it is

    def find(self) -> JobRow | None:
        """Return the job of this name, where there is one."""
        rows = self.read(JOB, (self.name,))
        return JobRow(*rows[0]) if rows else None

    def names(self) -> list[str]:
        """Return the jobs of this database."""
        return [row[0] for row in self.read("SELECT name FROM foldline_jobs ORDER BY id")]

    def open(self, target: str, description: str, definition: str | None) -> None:
        """Find or make the job; raise where the stored one has another target."""

        def work(connection: Connection) -> JobRow:
            if not connection.rows(JOB, (self.name,)):
                connection.run(
                    "INSERT INTO foldline_jobs (name, tag, target, description, definition) VALUES (?, ?, ?, ?, ?)",
                    (self.name, uuid4().hex, target, description, definition),
                )
            return JobRow(*connection.rows(JOB, (self.name,))[0])

        row = self.find() or self.database.write(work)
        if row.target != target:
            raise StoreError(
                f"{self.database.where} holds another job under the name {self.name!r}: {row.description}. This one is "
                f"{description}: give another store, or another name (name=…)"
            )
        self.use(row)

    def use(self, row: JobRow) -> None:
        """Work on this job from now on."""
        self.row = row
        self._base = row.id * SPACE

    # -- ids

    def id_of(self, number: int) -> int:
        """Return the id of an item; items of a job have consecutive ones."""
        return self._base + number

    def number_of(self, id: int) -> int:
        """Return the number of the item with an id."""
        return id - self._base

    @property
    def last_id(self) -> int:
        """The id behind the last that this job can have."""
        return self._base + SPACE

    # -- its row

    def count(self, connection: Connection, **changes: float) -> None:
        """Add to the counts of the job."""
        changes = {name: value for name, value in changes.items() if value}
        if changes:
            sums = ", ".join(f"{name} = {name} + ?" for name in changes)
            values = (*changes.values(), self.row.id)
            connection.run(f"UPDATE foldline_jobs SET {sums} WHERE id = ?", values)

    def set_cancelled(self) -> None:
        """Mark the job as cancelled; the process that runs it will stop."""
        statement = "UPDATE foldline_jobs SET is_cancelled = 1 WHERE name = ?"
        self.database.write(lambda connection: connection.run(statement, (self.name,)))

    def is_cancelled(self) -> bool:
        """Whether somebody cancelled the job."""
        rows = self.read("SELECT is_cancelled FROM foldline_jobs WHERE name = ?", (self.name,))
        return bool(rows and rows[0][0])

    def report(self, *, with_errors: bool = True) -> BatchReport:
        """Return where the job stands."""

        def work(connection: Connection) -> BatchReport:
            query = f"SELECT {', '.join(COUNTS)} FROM foldline_jobs WHERE id = ?"
            row = connection.rows(query, (self.row.id,))[0]
            report = BatchReport(self.name, **dict(zip(COUNTS, row, strict=True)))
            query = f"SELECT count(*) FROM foldline_job_items WHERE {OPEN}"
            report.sent = connection.rows(query, (self.row.id, ItemState.IN_BATCH))[0][0]
            report.waiting = report.items - report.finished - report.sent
            if with_errors and report.failed:
                report.errors = dict(connection.rows(ERRORS, (self.row.id,)))
            return report

        return self.database.read(work)

    def read(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.database.read(lambda connection: connection.rows(query, values))
