"""Reads inputs into the store, a page at a time; a resumed job skips the rows that it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from foldline.batches._store.input_table import NewItem, Reject
from foldline.batches._store.job_store import JobStore
from foldline.batches._targets.base import Target, digest_of
from foldline.batches.records import RejectedRow
from foldline.batches.rows import read_rows
from foldline.exceptions import FoldlineError, UsageError

__all__ = ["InputReader", "open_inputs"]

PAGE: Final = 1000


def open_inputs(inputs: object) -> Iterable[Any] | None:
    """Return the rows of the inputs: an iterable, or the path of a file."""
    if inputs is None:
        return None
    if isinstance(inputs, Path) or (isinstance(inputs, str) and Path(inputs).suffix):
        return read_rows(inputs)
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
        raise UsageError(
            f"a job takes many inputs (a list, a generator, the path of a .jsonl, .csv or .parquet file), not "
            f"{inputs!r:.60}"
        )
    return inputs


class InputReader:
    """Reads the inputs of a job into its store."""

    def __init__(
        self,
        store: JobStore,
        rows: Iterable[Any] | None,
        target: Target,
        key: str | Callable[[Any], Any] | None,
        *,
        dedupe: bool,
    ) -> None:
        self._store = store
        self._rows: Iterator[Any] | None = None if rows is None else iter(rows)
        self._target = target
        self._key = key
        self._dedupe = dedupe
        self._stored_rows = store.job.row.rows_read
        """Rows that an earlier process has read."""
        self.count = 0
        self.is_over = rows is None
        self.error: Exception | None = None
        """The error of the user's iterator, where it failed."""

    def read_page(self) -> None:
        """Read the next rows; rows that an earlier process read must be the same, except those it refused."""
        if self._rows is None or self.is_over:
            return
        rows = self._next_rows()
        first = self.count
        self.count += len(rows)
        items, rejects = self._sort(rows, first)
        if first < self._stored_rows:
            self._check(items, first)
            items = [item for item in items if item.number >= self._stored_rows]
            rejects = [reject for reject in rejects if reject[0] >= self._stored_rows]
        if self.count > self._stored_rows:
            self._store.inputs.add(items, rejects, self.count, dedupe=self._dedupe)
        if self.error is not None:
            self.is_over = True
        elif len(rows) < PAGE:
            self.is_over = True
            self._store.inputs.set_complete()

    def _next_rows(self) -> list[Any]:
        """Return the next rows; where the iterator fails, return those before and keep its error."""
        rows: list[Any] = []
        try:
            rows.extend(islice(cast("Iterator[Any]", self._rows), PAGE))
        except Exception as error:  # noqa: BLE001  of the user's iterator: raised once its rows are stored
            self.error = error
        return rows

    def _check(self, items: list[NewItem], first: int) -> None:
        """Compare rows with those of an earlier process; add those that were refused and are inputs now."""
        digests: dict[int, str] = {item.number: item.digest for item in items}
        end = min(self.count, self._stored_rows)
        stored = self._store.inputs.check(
            first, [digests.get(number) for number in range(first, end)]
        )
        mended = [item for item in items if item.number < end and item.number not in stored]
        if mended:
            self._store.inputs.add_mended(mended, dedupe=self._dedupe)

    def _sort(self, rows: list[Any], first: int) -> tuple[list[NewItem], list[Reject]]:
        """Return the rows that are inputs, and the rejected ones."""
        items: list[NewItem] = []
        rejects: list[Reject] = []
        for number, row in enumerate(rows, first):
            if isinstance(row, RejectedRow):
                rejects.append((number, row))
                continue
            try:
                text = self._target.pack_input(row)
                items.append(NewItem(number, self._key_of(row), digest_of(text), text))
            except (FoldlineError, KeyError, TypeError, ValueError) as error:
                reason = f"{type(error).__name__}: {error}"[:300]
                rejects.append((number, RejectedRow(f"row {number}", reason, repr(row)[:200])))
        return items, rejects

    def _key_of(self, row: object) -> str | None:
        if self._key is None:
            return None
        if callable(self._key):
            key = self._key(row)
        elif isinstance(row, Mapping) and self._key in row:
            key = row[self._key]
        else:
            raise UsageError(f"the row has no column {self._key!r} to be its key")
        if key is None or isinstance(key, Mapping | list | float):
            raise UsageError(f"{key!r:.60} is not a key: use a text or an integer")
        return key if isinstance(key, str) else json.dumps(key)
