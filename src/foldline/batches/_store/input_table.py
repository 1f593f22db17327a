"""The inputs of a job: their keys and contents, rejected rows, and rows that were read before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from foldline.batches._store.job_database import Connection
from foldline.batches._store.job_table import JobTable
from foldline.batches.records import ItemState, RejectedRow
from foldline.exceptions import StoreError

__all__ = ["InputTable", "NewItem", "Reject"]

VALUES: Final = 500
"""Values in one statement; old SQLite takes 999."""
PAGE: Final = 1000
ADD: Final = """INSERT INTO foldline_job_items (id, job, state, same_as, key, digest, input)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
REFUSE: Final = (
    "INSERT INTO foldline_job_rejects (job, number, place, reason, line) VALUES (?, ?, ?, ?, ?)"
)
Reject = tuple[int, RejectedRow]
"""The number of a row, and why it was rejected."""


class NewItem(NamedTuple):
    """An input as it is added."""

    number: int
    key: str | None
    digest: str
    input: str


class InputTable:
    """The inputs of one job."""

    def __init__(self, job: JobTable) -> None:
        self._job = job

    def add(
        self,
        items: Sequence[NewItem],
        rejects: Sequence[Reject],
        rows_read: int,
        *,
        dedupe: bool,
    ) -> None:
        """Add inputs; one with an existing key is rejected, one with an existing content is a copy."""

        def work(connection: Connection) -> None:
            job = self._job
            rows, refusals, copies = self._sort(connection, items, dedupe=dedupe)
            refusals = [*rejects, *refusals]
            connection.each(ADD, rows)
            connection.each(
                REFUSE,
                [(job.row.id, number, row.place, row.reason, row.text) for number, row in refusals],
            )
            connection.run(
                "UPDATE foldline_jobs SET rows_read = ? WHERE id = ?", (rows_read, job.row.id)
            )
            job.count(connection, items=len(rows), copies=copies, rejected=len(refusals))

        self._job.database.write(work)

    def _sort(
        self, connection: Connection, items: Sequence[NewItem], *, dedupe: bool
    ) -> tuple[list[tuple[Any, ...]], list[Reject], int]:
        """Return the rows to add, those with an existing key, and the number of copies."""
        job = self._job
        keys = self._ids(connection, "key", [item.key for item in items if item.key is not None])
        contents = (
            self._ids(connection, "digest", [item.digest for item in items]) if dedupe else {}
        )
        rows: list[tuple[Any, ...]] = []
        refusals: list[Reject] = []
        copies = 0
        for item in items:
            id = job.id_of(item.number)
            if item.key is not None:
                if item.key in keys:
                    number = job.number_of(keys[item.key])
                    reason = f"the key {item.key!r:.80} is that of row {number} already"
                    row = RejectedRow(f"row {item.number}", reason, item.input[:200])
                    refusals.append((item.number, row))
                    continue
                keys[item.key] = id
            same_as = contents.get(item.digest)
            if dedupe and same_as is None:
                contents[item.digest] = id
            copies += same_as is not None
            state = ItemState.WAITING if same_as is None else ItemState.COPY
            rows.append((id, job.row.id, int(state), same_as, item.key, item.digest, item.input))
        return rows, refusals, copies

    def _ids(self, connection: Connection, column: str, values: list[Any]) -> dict[Any, int]:
        """Return the items that have one of some keys or contents, by key or content."""
        ids: dict[Any, int] = {}
        condition = "same_as IS NULL" if column == "digest" else "key IS NOT NULL"
        for start in range(0, len(values), VALUES):
            page = values[start : start + VALUES]
            marks = ", ".join("?" * len(page))
            query = (
                f"SELECT {column}, id FROM foldline_job_items WHERE job = ? AND {condition} "
                f"AND {column} IN ({marks})"
            )
            ids.update(connection.rows(query, (self._job.row.id, *page)))
        return ids

    def add_mended(self, items: Sequence[NewItem], *, dedupe: bool) -> None:
        """Add rows that were rejected before and are inputs now; others stay rejected."""

        def work(connection: Connection) -> None:
            job = self._job
            rows, _, copies = self._sort(connection, items, dedupe=dedupe)
            connection.each(ADD, rows)
            rejected = 0
            for row in rows:
                rejected += connection.run(
                    "DELETE FROM foldline_job_rejects WHERE job = ? AND number = ?",
                    (job.row.id, job.number_of(row[0])),
                )
            job.count(connection, items=len(rows), copies=copies, rejected=-rejected)

        self._job.database.write(work)

    def check(self, start: int, digests: Sequence[str | None]) -> set[int]:
        """Raise unless rows that were read before are the same now (None: rejected now); return the stored ones."""
        job = self._job
        query = "SELECT id, digest FROM foldline_job_items WHERE id >= ? AND id < ?"
        rows = job.read(query, (job.id_of(start), job.id_of(start + len(digests))))
        stored: dict[int, str] = dict(rows)
        for number, digest in enumerate(digests, start):
            if stored.get(job.id_of(number), digest) != digest:
                raise StoreError(
                    f"{job.database.where}: row {number} is not the one that the job {job.name!r} has: it was begun "
                    "with other rows. Pass the same, inputs=None to resume, or another name"
                )
        return {job.number_of(id) for id in stored}

    def set_complete(self) -> None:
        """Record that all inputs have been read."""
        statement = "UPDATE foldline_jobs SET is_read = 1 WHERE id = ?"
        self._job.database.write(lambda connection: connection.run(statement, (self._job.row.id,)))

    def rejects(self) -> Iterator[RejectedRow]:
        """Yield the rejected rows."""
        last = 0
        query = "SELECT id, place, reason, line FROM foldline_job_rejects WHERE job = ? AND id > ? ORDER BY id LIMIT ?"
        while rows := self._job.read(query, (self._job.row.id, last, PAGE)):
            yield from (RejectedRow(*row[1:]) for row in rows)
            last = rows[-1][0]
