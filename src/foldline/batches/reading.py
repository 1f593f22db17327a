"""Inputs into the store, some at a time: keys, contents, rows that are none; a job that goes on skips what it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from foldline.batches.records import RejectedRow
from foldline.batches.store import JobStore, NewItem
from foldline.batches.target import Target, digest_of
from foldline.exceptions import FoldlineError, UsageError

__all__ = ["Reading"]

AT_ONCE: Final = 1000


class Reading:
    """The inputs of a job on their way into its store."""

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
        self._known = store.job.rows_read
        """Rows that the store has from an earlier process."""
        self.count = 0
        self.is_over = rows is None or bool(store.job.is_read and not self._known)

    def read_some(self) -> None:
        """Read the next rows; rows that are in the store already must be the same."""
        if self._rows is None or self.is_over:
            return
        rows = list(islice(self._rows, AT_ONCE))
        first = self.count
        self.count += len(rows)
        items, rejects = self._items(rows, first)
        if first < self._known:
            digests: dict[int, str] = {item.number: item.digest for item in items}
            known = min(self.count, self._known) - first
            self._store.check_rows(first, [digests.get(first + place) for place in range(known)])
            items = [item for item in items if item.number >= self._known]
            rejects = []
        if items or rejects or self.count > self._known:
            self._store.add(items, rejects, max(self.count, self._known), dedupe=self._dedupe)
        if len(rows) < AT_ONCE:
            self.is_over = True
            self._store.end_reading()

    def _items(self, rows: list[Any], first: int) -> tuple[list[NewItem], list[RejectedRow]]:
        items: list[NewItem] = []
        rejects: list[RejectedRow] = []
        for number, row in enumerate(rows, first):
            if isinstance(row, RejectedRow):
                rejects.append(row)
                continue
            try:
                text = self._target.pack_input(row)
                items.append(NewItem(number, self._key_of(row), digest_of(text), text))
            except (FoldlineError, KeyError, TypeError, ValueError) as error:
                rejects.append(
                    RejectedRow(
                        f"row {number}", f"{type(error).__name__}: {error}"[:300], repr(row)[:200]
                    )
                )
        return items, rejects

    def _key_of(self, row: Any) -> str | None:  # noqa: ANN401  JSON, or whatever was given
        if self._key is None:
            return None
        if callable(self._key):
            key = self._key(row)
        elif isinstance(row, Mapping) and self._key in row:
            key = row[self._key]
        else:
            raise UsageError(f"the row has no column {self._key!r} to be its key")
        if key is None or isinstance(key, Mapping | list | float):
            raise UsageError(f"{key!r:.60} is no key: a text or a whole number")
        return key if isinstance(key, str) else json.dumps(key)
