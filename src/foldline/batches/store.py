"""`JobStore`: one job in a database: its inputs by number and key, their states and results, counts, parts.

Everything that belongs together is one transaction: an item's result and the counts that it changes, or a part and the
items in it. So a process may be killed at any point, and the next one finds a state in which nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from foldline.batches.records import (
    BatchReport,
    Finished,
    Item,
    Part,
    RejectedRow,
    State,
)
from foldline.batches.sql import Connection, open_sql
from foldline.exceptions import StoreError, UsageError

__all__ = ["JobRow", "JobStore", "NewItem", "StoredResult"]

SPACE: Final = 2**40
"""Numbers of one job: an item's id is its number after those of all jobs before."""
AT_ONCE: Final = 500
"""Values in one statement; old SQLite takes 999."""
PAGE: Final = 1000
SUMS: Final = ("items", "done", "failed", "cancelled", "copies", "rejected", "asked_again", "missing", "parts",
               "input_tokens", "output_tokens", "known_cost", "unpriced")  # fmt: skip
JOB: Final = "SELECT id, tag, target, described, written, rows_read, is_read FROM foldline_jobs WHERE name = ?"
OPEN: Final = "job = ? AND state < 3 AND state = ?"
ADD: Final = """INSERT INTO foldline_job_items (id, job, state, same_as, key, digest, input)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
TAKE: Final = f"""SELECT id, key, input, attempts, prompt FROM foldline_job_items
    WHERE {OPEN} AND id >= ? ORDER BY id LIMIT ?"""
FINISH: Final = """UPDATE foldline_job_items SET state = ?, output = ?, error = ?, how = ?, input_tokens = ?,
    output_tokens = ?, cost = ?, prompt = NULL, part = NULL WHERE id = ?"""
READ: Final = """SELECT i.id, i.key, i.state, i.attempts, i.how, i.input_tokens, i.output_tokens, i.cost, i.error,
    COALESCE(i.output, f.output), COALESCE(i.error, f.error) FROM foldline_job_items i
    LEFT JOIN foldline_job_items f ON f.id = i.same_as
    WHERE i.id >= ? AND i.id < ? AND i.state IN (3, 4) ORDER BY i.id LIMIT ?"""


class NewItem(NamedTuple):
    """An input as it is added."""

    number: int
    key: str | None
    digest: str
    input: str


class JobRow(NamedTuple):
    """What a store says of a job."""

    id: int
    tag: str
    """Names the job at the provider's: no two jobs have the same."""
    target: str
    described: str
    written: str | None
    rows_read: int
    is_read: int


class StoredResult(NamedTuple):
    """A finished item as the store has it."""

    number: int
    key: str | None
    output: str | None
    error: str | None
    how: str
    attempts: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class JobStore:
    """One job of a database."""

    def __init__(self, location: str | Path, name: str) -> None:
        self.sql = open_sql(location)
        self.name = name
        self.job: JobRow
        self._base = 0

    @property
    def where(self) -> str:
        """How errors call this store."""
        return self.sql.where

    # -- the job itself

    def find(self) -> JobRow | None:
        """Return the job of this name, where there is one."""
        found = self.sql.read(lambda sql: sql.rows(JOB, (self.name,)))
        return JobRow(*found[0]) if found else None

    def names(self) -> list[str]:
        """Return the jobs of this database."""
        rows = self.sql.read(lambda sql: sql.rows("SELECT name FROM foldline_jobs ORDER BY id"))
        return [row[0] for row in rows]

    def open(self, target: str, described: str, written: str | None) -> None:
        """Find or make the job; one that asks something else is refused."""

        def work(sql: Connection) -> JobRow:
            if not sql.rows(JOB, (self.name,)):
                sql.run(
                    "INSERT INTO foldline_jobs (name, tag, target, described, written) VALUES (?, ?, ?, ?, ?)",
                    (self.name, uuid4().hex, target, described, written),
                )
            return JobRow(*sql.rows(JOB, (self.name,))[0])

        job = self.find() or self.sql.write(work)
        if job.target != target:
            raise StoreError(
                f"{self.where} holds another job under the name {self.name!r}: {job.described}. This one is "
                f"{described}: give another store, or another name (name=…)"
            )
        self.take_over(job)

    def take_over(self, job: JobRow) -> None:
        """Work on this job from now on."""
        self.job = job
        self._base = job.id * SPACE

    def hold(self) -> None:
        """Keep other processes from working on this job."""
        if not self.sql.hold(self.name):
            raise StoreError(
                f"{self.where}: another process works on the job {self.name!r}: wait for it or end it; `status` and "
                "`cancel` need no lock"
            )

    def recover(self) -> None:
        """Let calls that were under way when a process died be asked again, and count them."""

        def work(sql: Connection) -> None:
            again = sql.run(
                f"UPDATE foldline_job_items SET state = ? WHERE {OPEN}",
                (State.WAITING, self.job.id, State.ASKED),
            )
            self._count(sql, asked_again=again)

        self.sql.write(work)

    def _count(self, sql: Connection, **changes: float) -> None:
        changes = {name: value for name, value in changes.items() if value}
        if changes:
            sums = ", ".join(f"{name} = {name} + ?" for name in changes)
            values = (*changes.values(), self.job.id)
            sql.run(f"UPDATE foldline_jobs SET {sums} WHERE id = ?", values)

    # -- inputs

    def add(
        self,
        items: Sequence[NewItem],
        rejects: Sequence[RejectedRow],
        rows_read: int,
        *,
        dedupe: bool,
    ) -> None:
        """Add inputs; a key that is there already is a rejected row, a content that is there a copy."""

        def work(sql: Connection) -> None:
            known = self._known(sql, "key", [item.key for item in items if item.key is not None])
            first = self._known(sql, "digest", [item.digest for item in items]) if dedupe else {}
            rows, refused, copies = [], list(rejects), 0
            for item in items:
                if item.key is not None and item.key in known:
                    reason = f"the key {item.key!r:.80} is that of row {known[item.key] - self._base} already"
                    refused.append(RejectedRow(f"row {item.number}", reason, item.input[:200]))
                    continue
                id = self._base + item.number
                if item.key is not None:
                    known[item.key] = id
                same_as = first.get(item.digest)
                if same_as is None:
                    first[item.digest] = id if dedupe else None
                copies += same_as is not None
                state = State.WAITING if same_as is None else State.COPY
                rows.append(
                    (id, self.job.id, int(state), same_as, item.key, item.digest, item.input)
                )
            sql.each(ADD, rows)
            sql.each(
                "INSERT INTO foldline_job_rejects (job, place, reason, line) VALUES (?, ?, ?, ?)",
                [(self.job.id, row.place, row.reason, row.text) for row in refused],
            )
            sql.run("UPDATE foldline_jobs SET rows_read = ? WHERE id = ?", (rows_read, self.job.id))
            self._count(sql, items=len(rows), copies=copies, rejected=len(refused))

        self.sql.write(work)

    def _known(self, sql: Connection, column: str, values: list[Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        more = "AND same_as IS NULL" if column == "digest" else "AND key IS NOT NULL"
        for start in range(0, len(values), AT_ONCE):
            some = values[start : start + AT_ONCE]
            marks = ", ".join("?" * len(some))
            query = f"SELECT {column}, id FROM foldline_job_items WHERE job = ? {more} AND {column} IN ({marks})"
            found.update(sql.rows(query, (self.job.id, *some)))
        return found

    def check_rows(self, start: int, digests: Sequence[str | None]) -> None:
        """Raise unless rows that were read before are the same now."""
        end = start + len(digests)
        stored: dict[int, str] = dict(
            self.sql.read(
                lambda sql: sql.rows(
                    "SELECT id, digest FROM foldline_job_items WHERE id >= ? AND id < ?",
                    (self._base + start, self._base + end),
                )
            )
        )
        for number, digest in enumerate(digests, start):
            known = stored.get(self._base + number)
            if known is not None and known != digest:
                raise StoreError(
                    f"{self.where}: row {number} is not the one that the job {self.name!r} has: it was begun with "
                    "other rows. Give the same, none at all (inputs=None) to go on, or another name"
                )

    def end_reading(self) -> None:
        """Note that all inputs are here."""
        self.sql.write(
            lambda sql: sql.run("UPDATE foldline_jobs SET is_read = 1 WHERE id = ?", (self.job.id,))
        )

    # -- live calls

    def advance(
        self, finished: Sequence[Finished], attempts: int, start: int, count: int
    ) -> list[Item]:
        """Write results, and take the next items from a number on: they count as asked from now on."""

        def work(sql: Connection) -> list[Item]:
            self._finish(sql, finished, attempts)
            items = self._waiting(sql, start, count) if count else []
            sql.each(
                "UPDATE foldline_job_items SET state = 1, attempts = attempts + 1 WHERE id = ?",
                [(self._base + item.number,) for item in items],
            )
            return items

        return self.sql.write(work)

    def waiting(self, start: int, count: int) -> list[Item]:
        """Return the next items that wait, and leave them so."""
        return self.sql.read(lambda sql: self._waiting(sql, start, count))

    def _waiting(self, sql: Connection, start: int, count: int) -> list[Item]:
        rows = sql.rows(TAKE, (self.job.id, State.WAITING, self._base + start, count))
        return [Item(row[0] - self._base, *row[1:]) for row in rows]

    def _finish(self, sql: Connection, finished: Sequence[Finished], attempts: int) -> None:
        if not finished:
            return
        sums = dict.fromkeys(("done", "failed", "input_tokens", "output_tokens", "unpriced"), 0)
        cost = 0.0
        ended: list[Any] = []
        again: list[Any] = []
        released: list[Any] = []
        for one in finished:
            id = self._base + one.number
            sums["input_tokens"] += one.input_tokens
            sums["output_tokens"] += one.output_tokens
            cost += one.cost or 0.0
            if one.error is not None and one.is_retryable:
                (again if one.was_asked else released).append((one.error, id))
                continue
            is_done = one.error is None
            sums["done" if is_done else "failed"] += 1
            sums["unpriced"] += is_done and one.cost is None
            state = State.DONE if is_done else State.FAILED
            ended.append(
                (
                    int(state),
                    one.output,
                    one.error,
                    one.how,
                    one.input_tokens,
                    one.output_tokens,
                    one.cost,
                    id,
                )
            )
        sql.each(FINISH, ended)
        sums["failed"] += self._ask_again(sql, again, released, attempts)
        self._count(sql, **sums, known_cost=cost)

    def _ask_again(
        self, sql: Connection, again: list[Any], released: list[Any], attempts: int
    ) -> int:
        """Let items wait once more; those asked too often have failed: return how many."""
        sql.each(
            "UPDATE foldline_job_items SET state = CASE WHEN attempts < ? THEN 0 ELSE 4 END, error = ?, part = NULL "
            "WHERE id = ?",
            [(attempts, *values) for values in again],
        )
        sql.each(
            "UPDATE foldline_job_items SET state = 0, attempts = attempts - 1, error = ?, part = NULL WHERE id = ?",
            released,
        )
        failed = 0
        for start in range(0, len(again), AT_ONCE):
            ids = [id for _, id in again[start : start + AT_ONCE]]
            marks = ", ".join("?" * len(ids))
            failed += sql.rows(
                f"SELECT count(*) FROM foldline_job_items WHERE state = 4 AND id IN ({marks})", ids
            )[0][0]
        return failed

    # -- batches of the provider

    def add_part(self, items: Sequence[tuple[int, str | None]], tag: str, at: float) -> Part:
        """Note that a batch of these items is about to be sent, with the prompts they were made of."""

        def work(sql: Connection) -> Part:
            sql.run(
                "INSERT INTO foldline_job_parts (job, tag, size, made_at) VALUES (?, ?, ?, ?)",
                (self.job.id, tag, len(items), at),
            )
            id = sql.rows("SELECT id FROM foldline_job_parts WHERE tag = ?", (tag,))[0][0]
            sql.each(
                "UPDATE foldline_job_items SET state = 2, attempts = attempts + 1, part = ?, prompt = ? WHERE id = ?",
                [(id, prompt, self._base + number) for number, prompt in items],
            )
            self._count(sql, parts=1)
            return Part(id, tag, None, len(items), at)

        return self.sql.write(work)

    def name_part(self, part: Part, provider_id: str) -> Part:
        """Note what the provider calls a batch."""
        self.sql.write(
            lambda sql: sql.run(
                "UPDATE foldline_job_parts SET provider_id = ? WHERE id = ?", (provider_id, part.id)
            )
        )
        return part._replace(provider_id=provider_id)

    def open_parts(self) -> list[Part]:
        """Return the batches whose results are not here."""
        query = (
            "SELECT id, tag, provider_id, size, made_at FROM foldline_job_parts "
            "WHERE job = ? AND is_ended = 0 ORDER BY id"
        )
        return [Part(*row) for row in self.sql.read(lambda sql: sql.rows(query, (self.job.id,)))]

    def provider_ids(self) -> set[str]:
        """Return what the provider calls the batches of all jobs here."""
        query = "SELECT provider_id FROM foldline_job_parts WHERE provider_id IS NOT NULL"
        return {row[0] for row in self.sql.read(lambda sql: sql.rows(query))}

    def numbers_of(self, part: Part) -> list[int]:
        """Return the numbers of a batch's items that have no result yet."""
        query = f"SELECT id FROM foldline_job_items WHERE {OPEN} AND part = ? ORDER BY id"
        rows = self.sql.read(lambda sql: sql.rows(query, (self.job.id, State.SENT, part.id)))
        return [row[0] - self._base for row in rows]

    def items_of(self, part: Part, numbers: Sequence[int]) -> dict[int, Item]:
        """Return items by number, those that are in this batch and have no result yet."""
        found: dict[int, Item] = {}
        for start in range(0, len(numbers), AT_ONCE):
            ids = [self._base + number for number in numbers[start : start + AT_ONCE]]
            marks = ", ".join("?" * len(ids))
            query = (
                "SELECT id, key, input, attempts, prompt FROM foldline_job_items "
                f"WHERE state = 2 AND part = ? AND id IN ({marks})"
            )
            for row in self._rows(query, (part.id, *ids)):
                found[row[0] - self._base] = Item(row[0] - self._base, *row[1:])
        return found

    def finish(self, finished: Sequence[Finished], attempts: int) -> None:
        """Write results of a batch."""
        self.sql.write(lambda sql: self._finish(sql, finished, attempts))

    def end_part(self, part: Part, told: str, *, is_missing: bool, attempts: int) -> int:
        """Note that all results of a batch are here; items without one wait again. Return how many those are."""

        def work(sql: Connection) -> int:
            open_query = f"SELECT id FROM foldline_job_items WHERE {OPEN} AND part = ?"
            left = [row[0] for row in sql.rows(open_query, (self.job.id, State.SENT, part.id))]
            error = f"the batch {part.provider_id} has no result for it ({told})"
            failed = self._ask_again(sql, [(error, id) for id in left], [], attempts)
            sql.run(
                "UPDATE foldline_job_parts SET is_ended = 1, told = ? WHERE id = ?", (told, part.id)
            )
            self._count(sql, failed=failed, missing=len(left) if is_missing else 0)
            return len(left)

        return self.sql.write(work)

    # -- the end

    def settle_copies(self) -> int:
        """Give copies the state of the item that has their content; return how many there were."""

        def work(sql: Connection) -> int:
            settled = 0
            for state, name in (
                (State.DONE, "done"),
                (State.FAILED, "failed"),
                (State.CANCELLED, "cancelled"),
            ):
                count = sql.run(
                    "UPDATE foldline_job_items SET state = ?, how = 'copy' WHERE job = ? AND state = 5 AND same_as IN "
                    "(SELECT f.id FROM foldline_job_items f WHERE f.id = foldline_job_items.same_as AND f.state = ?)",
                    (int(state), self.job.id, int(state)),
                )
                self._count(sql, **{name: count})
                settled += count
            return settled

        return self.sql.write(work)

    def retry_failed(self) -> None:
        """Let items that failed wait once more."""

        def work(sql: Connection) -> None:
            count = sql.run(
                "UPDATE foldline_job_items SET attempts = 0, output = NULL, error = NULL, how = NULL, "
                "state = CASE WHEN same_as IS NULL THEN 0 ELSE 5 END WHERE job = ? AND state = 4",
                (self.job.id,),
            )
            self._count(sql, failed=-count)

        self.sql.write(work)

    def cancel(self) -> None:
        """Say that nothing more is to be asked; whoever works on the job sees it."""
        self.sql.write(
            lambda sql: sql.run(
                "UPDATE foldline_jobs SET is_cancelled = 1 WHERE name = ?", (self.name,)
            )
        )

    def is_cancelled(self) -> bool:
        """Whether somebody cancelled the job."""
        query = "SELECT is_cancelled FROM foldline_jobs WHERE name = ?"
        found = self.sql.read(lambda sql: sql.rows(query, (self.name,)))
        return bool(found and found[0][0])

    def cancel_waiting(self) -> None:
        """Cancel what waits."""

        def work(sql: Connection) -> None:
            count = sql.run(
                f"UPDATE foldline_job_items SET state = 6 WHERE {OPEN}",
                (self.job.id, State.WAITING),
            )
            self._count(sql, cancelled=count)

        self.sql.write(work)

    def reopen(self) -> None:
        """Take a cancellation back: what was cancelled waits again."""

        def work(sql: Connection) -> None:
            sql.run("UPDATE foldline_jobs SET is_cancelled = 0 WHERE id = ?", (self.job.id,))
            count = sql.run(
                "UPDATE foldline_job_items SET state = CASE WHEN same_as IS NULL THEN 0 ELSE 5 END "
                "WHERE job = ? AND state = 6",
                (self.job.id,),
            )
            self._count(sql, cancelled=-count)

        self.sql.write(work)

    # -- looked at

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self.sql.read(lambda sql: sql.rows(query, values))

    def results(
        self, states: tuple[State, ...] = (State.DONE, State.FAILED)
    ) -> Iterator[StoredResult]:
        """Yield finished items in the order of their inputs, a page at a time."""
        start, end = self._base, self._base + SPACE
        while True:
            rows = self._rows(READ, (start, end, PAGE))
            for row in rows:
                if row[2] in states:
                    error = row[10] if row[2] == State.FAILED else None
                    yield StoredResult(
                        row[0] - self._base,
                        row[1],
                        row[9],
                        error,
                        row[4] or "live",
                        row[3],
                        *row[5:8],
                    )
            if len(rows) < PAGE:
                return
            start = rows[-1][0] + 1

    def input_of(self, number: int) -> str:
        """Return an input as it is stored."""
        query = "SELECT input FROM foldline_job_items WHERE id = ?"
        found = self.sql.read(lambda sql: sql.rows(query, (self._base + number,)))
        if not found:
            raise UsageError(f"the job {self.name!r} has no item {number}")
        return str(found[0][0])

    def key_of(self, number: int) -> str:
        """Return what names an item: its key, else its number."""
        query = "SELECT key FROM foldline_job_items WHERE id = ?"
        found = self.sql.read(lambda sql: sql.rows(query, (self._base + number,)))
        return str(number) if not found or found[0][0] is None else str(found[0][0])

    def rejected(self) -> Iterator[RejectedRow]:
        """Yield the rows that were no input."""
        last = 0
        query = "SELECT id, place, reason, line FROM foldline_job_rejects WHERE job = ? AND id > ? ORDER BY id LIMIT ?"
        while rows := self._rows(query, (self.job.id, last, PAGE)):
            yield from (RejectedRow(*row[1:]) for row in rows)
            last = rows[-1][0]

    def report(self, *, with_errors: bool = True) -> BatchReport:
        """Return where the job stands."""

        def work(sql: Connection) -> BatchReport:
            row = sql.rows(
                f"SELECT {', '.join(SUMS)} FROM foldline_jobs WHERE id = ?", (self.job.id,)
            )[0]
            report = BatchReport(self.name, **dict(zip(SUMS, row, strict=True)))
            count = f"SELECT count(*) FROM foldline_job_items WHERE {OPEN}"
            report.sent = sql.rows(count, (self.job.id, State.SENT))[0][0]
            report.waiting = report.items - report.finished - report.sent
            if with_errors and report.failed:
                errors = (
                    "SELECT substr(error, 1, 160), count(*) FROM foldline_job_items WHERE job = ? AND state = 4 "
                    "AND error IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 50"
                )
                report.errors = dict(sql.rows(errors, (self.job.id,)))
            return report

        return self.sql.read(work)

    def close(self) -> None:
        """Let the job go."""
        self.sql.release()
        self.sql.close()
