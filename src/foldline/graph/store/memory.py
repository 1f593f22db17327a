"""`InMemoryStore`: values in this process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from foldline._io import mutex
from foldline.graph.store.base import IndexConfig
from foldline.graph.store.engine import Row, RowStore

__all__ = ["InMemoryStore"]


class InMemoryStore(RowStore):
    """Keeps values in memory.

    ```python
    from foldline.graph import InMemoryStore

    store = InMemoryStore()
    store.put(("memories", "ann"), "food", {"likes": "pears"})
    print(store.search(("memories",), filter={"likes": "pears"})[0].key)
    #> food
    ```
    """

    def __init__(self, *, index: IndexConfig | None = None) -> None:
        """Begin empty; with an index, values are searched by meaning."""
        super().__init__(index)
        self._rows: dict[tuple[str, str], Row] = {}
        self._lock = mutex()

    def _read(self, namespace: str, key: str) -> Row | None:
        with self._lock:
            return self._rows.get((namespace, key))

    def _write(self, rows: list[Row], gone: list[tuple[str, str]]) -> None:
        with self._lock:
            for row in rows:
                old = self._rows.get((row.namespace, row.key))
                kept = row if old is None else replace(row, created_at=old.created_at)
                self._rows[row.namespace, row.key] = kept
            for place in gone:
                self._rows.pop(place, None)

    def _under(self, prefix: str) -> Iterable[Row]:
        with self._lock:
            return [row for (place, _), row in self._rows.items() if place.startswith(prefix)]

    def _namespaces(self) -> list[str]:
        with self._lock:
            return list({place for place, _ in self._rows})
