"""The items of a job: their states, outcomes and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from foldline.batches._store.job_database import Connection
from foldline.batches._store.job_table import OPEN, JobTable
from foldline.batches.records import AnswerSource, BatchItem, ItemOutcome, ItemState
from foldline.exceptions import UsageError

__all__ = ["ItemTable", "StoredResult"]

VALUES: Final = 500
"""Values in one statement; old SQLite takes 999."""
PAGE: Final = 1000
TAKE: Final = f"""SELECT id, key, input, attempts, prompt FROM foldline_job_items
    WHERE {OPEN} AND id >= ? ORDER BY id LIMIT ?"""
FINISH: Final = """UPDATE foldline_job_items SET state = ?, output = ?, error = ?, source = ?, input_tokens = ?,
    output_tokens = ?, cost = ?, prompt = NULL, part = NULL WHERE id = ?"""
READ: Final = """SELECT i.id, i.key, i.state, i.attempts, i.source, i.input_tokens, i.output_tokens, i.cost, i.error,
    COALESCE(i.output, f.output), COALESCE(i.error, f.error) FROM foldline_job_items i
    LEFT JOIN foldline_job_items f ON f.id = i.same_as
    WHERE i.id >= ? AND i.id < ? AND i.state IN (3, 4) ORDER BY i.id LIMIT ?"""
WAIT_AGAIN: Final = (
    "UPDATE foldline_job_items SET state = CASE WHEN attempts < ? THEN 0 ELSE 4 END, error = ?, source = ?, "
    "part = NULL WHERE id = ?"
)
PUT_BACK: Final = (
    "UPDATE foldline_job_items SET state = 0, attempts = attempts - 1, error = ?, part = NULL "
    "WHERE id = ? AND state IN (1, 2)"
)
COPY_STATE: Final = (
    "UPDATE foldline_job_items SET state = ?, source = 'copy' WHERE job = ? AND state = 5 AND same_as IN "
    "(SELECT f.id FROM foldline_job_items f WHERE f.id = foldline_job_items.same_as AND f.state = ?)"
)
END_STATES: Final = (
    (ItemState.DONE, "done"),
    (ItemState.FAILED, "failed"),
    (ItemState.CANCELLED, "cancelled"),
)


class StoredResult(NamedTuple):
    """A finished item as the store has it."""

    number: int
    key: str | None
    output: str | None
    error: str | None
    source: str | None
    attempts: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class ItemTable:
    """The items of one job."""

    def __init__(self, job: JobTable) -> None:
        self._job = job

    # -- taken and finished

    def advance(
        self, outcomes: Sequence[ItemOutcome], attempts: int, start: int, count: int
    ) -> list[BatchItem]:
        """Write the outcomes of items, and take the next ones after a number, which count as in a call."""

        def work(connection: Connection) -> list[BatchItem]:
            self.write_outcomes(connection, outcomes, attempts)
            items = self._select(connection, start, count) if count else []
            connection.each(
                "UPDATE foldline_job_items SET state = 1, attempts = attempts + 1 WHERE id = ?",
                [(self._job.id_of(item.number),) for item in items],
            )
            return items

        return self._job.database.write(work)

    def waiting(self, start: int, count: int) -> list[BatchItem]:
        """Return the next waiting items without taking them."""
        return self._job.database.read(lambda connection: self._select(connection, start, count))

    def _select(self, connection: Connection, start: int, count: int) -> list[BatchItem]:
        values = (self._job.row.id, ItemState.WAITING, self._job.id_of(start), count)
        rows = connection.rows(TAKE, values)
        return [BatchItem(self._job.number_of(row[0]), *row[1:]) for row in rows]

    def write_outcomes(
        self, connection: Connection, outcomes: Sequence[ItemOutcome], attempts: int
    ) -> None:
        """Write the outcomes of unfinished items, and count them, in the given transaction.

        Outcomes that were written before are skipped, so a caller may write them again.
        """
        outcomes = self._select_open(connection, outcomes)
        if not outcomes:
            return
        counts = dict.fromkeys(("done", "failed", "input_tokens", "output_tokens", "unpriced"), 0)
        cost = 0.0
        ends: list[Any] = []
        repeats: list[Any] = []
        returns: list[Any] = []
        for outcome in outcomes:
            id = self._job.id_of(outcome.number)
            counts["input_tokens"] += outcome.input_tokens
            counts["output_tokens"] += outcome.output_tokens
            cost += outcome.cost or 0.0
            if outcome.error is not None and outcome.is_retryable:
                if outcome.was_called:
                    repeats.append((outcome.error, outcome.source, id))
                else:
                    returns.append((outcome.error, id))
                continue
            is_done = outcome.error is None
            counts["done" if is_done else "failed"] += 1
            counts["unpriced"] += is_done and outcome.cost is None
            state = int(ItemState.DONE if is_done else ItemState.FAILED)
            ends.append((state, *outcome[1:7], id))
        connection.each(FINISH, ends)
        connection.each(PUT_BACK, returns)
        counts["failed"] += self.wait_again(connection, repeats, attempts)
        self._job.count(connection, **counts, known_cost=cost)

    def _select_open(
        self, connection: Connection, outcomes: Sequence[ItemOutcome]
    ) -> list[ItemOutcome]:
        """Return the outcomes of unfinished items."""
        ids: set[int] = set()
        for start in range(0, len(outcomes), VALUES):
            page = [self._job.id_of(outcome.number) for outcome in outcomes[start : start + VALUES]]
            marks = ", ".join("?" * len(page))
            query = f"SELECT id FROM foldline_job_items WHERE state < 3 AND id IN ({marks})"
            ids.update(row[0] for row in connection.rows(query, page))
        return [outcome for outcome in outcomes if self._job.id_of(outcome.number) in ids]

    def wait_again(
        self,
        connection: Connection,
        failures: Sequence[tuple[str, AnswerSource | None, int]],
        attempts: int,
    ) -> int:
        """Let items (error, source, id) wait again; those out of attempts fail. Return how many failed."""
        connection.each(WAIT_AGAIN, [(attempts, *failure) for failure in failures])
        count = 0
        for start in range(0, len(failures), VALUES):
            ids = [id for _, _, id in failures[start : start + VALUES]]
            marks = ", ".join("?" * len(ids))
            query = f"SELECT count(*) FROM foldline_job_items WHERE state = 4 AND id IN ({marks})"
            count += connection.rows(query, ids)[0][0]
        return count

    # -- all of a state

    def recover(self) -> None:
        """Repeat the calls that were in progress when a process died, and count them."""

        def work(connection: Connection) -> None:
            count = connection.run(
                f"UPDATE foldline_job_items SET state = ? WHERE {OPEN}",
                (ItemState.WAITING, self._job.row.id, ItemState.IN_CALL),
            )
            self._job.count(connection, repeated_calls=count)

        self._job.database.write(work)

    def settle_copies(self) -> int:
        """Give copies the state of the item with their content; return how many there were."""

        def work(connection: Connection) -> int:
            total = 0
            for state, name in END_STATES:
                count = connection.run(COPY_STATE, (int(state), self._job.row.id, int(state)))
                self._job.count(connection, **{name: count})
                total += count
            return total

        return self._job.database.write(work)

    def retry_failures(self) -> None:
        """Let failed items wait again."""

        def work(connection: Connection) -> None:
            count = connection.run(
                "UPDATE foldline_job_items SET attempts = 0, output = NULL, error = NULL, source = NULL, "
                "state = CASE WHEN same_as IS NULL THEN 0 ELSE 5 END WHERE job = ? AND state = 4",
                (self._job.row.id,),
            )
            self._job.count(connection, failed=-count)

        self._job.database.write(work)

    def cancel_waiting(self) -> None:
        """Cancel the waiting items."""

        def work(connection: Connection) -> None:
            count = connection.run(
                f"UPDATE foldline_job_items SET state = 6 WHERE {OPEN}",
                (self._job.row.id, ItemState.WAITING),
            )
            self._job.count(connection, cancelled=count)

        self._job.database.write(work)

    def reopen(self) -> None:
        """Let cancelled items wait again."""

        def work(connection: Connection) -> None:
            connection.run(
                "UPDATE foldline_jobs SET is_cancelled = 0 WHERE id = ?", (self._job.row.id,)
            )
            count = connection.run(
                "UPDATE foldline_job_items SET state = CASE WHEN same_as IS NULL THEN 0 ELSE 5 END "
                "WHERE job = ? AND state = 6",
                (self._job.row.id,),
            )
            self._job.count(connection, cancelled=-count)

        self._job.database.write(work)

    # -- read

    def results(
        self, states: tuple[ItemState, ...] = (ItemState.DONE, ItemState.FAILED)
    ) -> Iterator[StoredResult]:
        """Yield finished items in the order of their inputs, a page at a time."""
        start, end = self._job.id_of(0), self._job.last_id
        while True:
            rows = self._job.read(READ, (start, end, PAGE))
            yield from (self._result(row) for row in rows if row[2] in states)
            if len(rows) < PAGE:
                return
            start = rows[-1][0] + 1

    def _result(self, row: tuple[Any, ...]) -> StoredResult:
        error = row[10] if row[2] == ItemState.FAILED else None
        return StoredResult(
            self._job.number_of(row[0]), row[1], row[9], error, row[4], row[3], *row[5:8]
        )

    def input_of(self, number: int) -> str:
        """Return an input as it is stored."""
        query = "SELECT input FROM foldline_job_items WHERE id = ?"
        rows = self._job.read(query, (self._job.id_of(number),))
        if not rows:
            raise UsageError(f"the job {self._job.name!r} has no item {number}")
        return str(rows[0][0])

    def key_of(self, number: int) -> str:
        """Return the key of an item, else its number."""
        query = "SELECT key FROM foldline_job_items WHERE id = ?"
        rows = self._job.read(query, (self._job.id_of(number),))
        return str(number) if not rows or rows[0][0] is None else str(rows[0][0])
