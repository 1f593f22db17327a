"""The parts of a job: items that went, or are about to go, to the provider as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from foldline.batches._store.item_table import ItemTable
from foldline.batches._store.job_database import Connection
from foldline.batches._store.job_table import OPEN, JobTable
from foldline.batches.records import AnswerSource, BatchItem, ItemOutcome, ItemState, Part

__all__ = ["PartTable"]

VALUES: Final = 500
"""Values in one statement; old SQLite takes 999."""
SET_PROVIDER_ID: Final = "UPDATE foldline_job_parts SET provider_id = ? WHERE id = ?"
OPEN_ITEMS: Final = f"SELECT id FROM foldline_job_items WHERE {OPEN} AND part = ? ORDER BY id"


class PartTable:
    """The parts of one job."""

    def __init__(self, job: JobTable, items: ItemTable) -> None:
        self._job = job
        self._items = items

    def add(self, items: Sequence[tuple[int, str | None]], tag: str, at: float) -> Part:
        """Note that a batch of these items is about to be sent, with the prompts they were made of."""

        def work(connection: Connection) -> Part:
            connection.run(
                "INSERT INTO foldline_job_parts (job, tag, size, made_at) VALUES (?, ?, ?, ?)",
                (self._job.row.id, tag, len(items), at),
            )
            id = connection.rows("SELECT id FROM foldline_job_parts WHERE tag = ?", (tag,))[0][0]
            connection.each(
                "UPDATE foldline_job_items SET state = 2, attempts = attempts + 1, part = ?, prompt = ? WHERE id = ?",
                [(id, prompt, self._job.id_of(number)) for number, prompt in items],
            )
            self._job.count(connection, parts=1)
            return Part(id, tag, None, len(items), at)

        return self._job.database.write(work)

    def set_provider_id(self, part: Part, provider_id: str) -> Part:
        """Note what the provider calls a batch."""
        values = (provider_id, part.id)
        self._job.database.write(lambda connection: connection.run(SET_PROVIDER_ID, values))
        return part._replace(provider_id=provider_id)

    def open_parts(self) -> list[Part]:
        """Return the batches whose results are not here."""
        query = (
            "SELECT id, tag, provider_id, size, made_at FROM foldline_job_parts "
            "WHERE job = ? AND is_ended = 0 ORDER BY id"
        )
        return [Part(*row) for row in self._job.read(query, (self._job.row.id,))]

    def provider_ids(self) -> set[str]:
        """Return what the provider calls the batches of all jobs here."""
        query = "SELECT provider_id FROM foldline_job_parts WHERE provider_id IS NOT NULL"
        return {row[0] for row in self._job.read(query)}

    def numbers_of(self, part: Part) -> list[int]:
        """Return the numbers of a batch's items that have no result yet."""
        rows = self._job.read(OPEN_ITEMS, (self._job.row.id, ItemState.IN_BATCH, part.id))
        return [self._job.number_of(row[0]) for row in rows]

    def items_of(self, part: Part, numbers: Sequence[int]) -> dict[int, BatchItem]:
        """Return items by number, those that are in this batch and have no result yet."""
        items: dict[int, BatchItem] = {}
        for start in range(0, len(numbers), VALUES):
            ids = [self._job.id_of(number) for number in numbers[start : start + VALUES]]
            marks = ", ".join("?" * len(ids))
            query = (
                "SELECT id, key, input, attempts, prompt FROM foldline_job_items "
                f"WHERE state = 2 AND part = ? AND id IN ({marks})"
            )
            for row in self._job.read(query, (part.id, *ids)):
                number = self._job.number_of(row[0])
                items[number] = BatchItem(number, *row[1:])
        return items

    def write_outcomes(self, outcomes: Sequence[ItemOutcome], attempts: int) -> None:
        """Write results of a batch."""
        self._job.database.write(
            lambda connection: self._items.write_outcomes(connection, outcomes, attempts)
        )

    def end(self, part: Part, outcome: str, *, is_missing: bool, attempts: int) -> int:
        """Note that all results of a batch are here; items without one wait again. Return how many those are."""

        def work(connection: Connection) -> int:
            rows = connection.rows(OPEN_ITEMS, (self._job.row.id, ItemState.IN_BATCH, part.id))
            error = f"the batch {part.provider_id} has no result for it ({outcome})"
            source: AnswerSource | None = None if part.provider_id is None else "batch"
            failures = [(error, source, row[0]) for row in rows]
            failed = self._items.wait_again(connection, failures, attempts)
            connection.run(
                "UPDATE foldline_job_parts SET is_ended = 1, outcome = ? WHERE id = ?",
                (outcome, part.id),
            )
            self._job.count(connection, failed=failed, missing=len(rows) if is_missing else 0)
            return len(rows)

        return self._job.database.write(work)
