"""`InMemoryStore`: values in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from foldline._io import mutex
from foldline._items.base import IndexConfig, TTLConfig
from foldline._items.engine import Row, RowStore
from foldline._lazy import publish

__all__ = ["InMemoryStore"]


class InMemoryStore(RowStore):
    """Stores values in memory.

    ```python
    from foldline.graph import InMemoryStore

    store = InMemoryStore()
    store.put(("memories", "ann"), "food", {"likes": "pears"})
    print(store.search(("memories",), filter={"likes": "pears"})[0].key)
    #> food
    ```
    """

    def __init__(self, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        """Make an empty store; with an index, `search` ranks by similarity."""
        super().__init__(index, ttl)
        self._rows: dict[tuple[str, str], Row] = {}
        self._lock = mutex()

    def _read(self, namespace: str, key: str) -> Row | None:
        with self._lock:
            return self._rows.get((namespace, key))

    def _write(self, rows: list[Row], deleted: list[tuple[str, str]]) -> None:
        with self._lock:
            for row in rows:
                old = self._rows.get((row.namespace, row.key))
                new_row = row if old is None else replace(row, created_at=old.created_at)
                self._rows[row.namespace, row.key] = new_row
            for item_key in deleted:
                self._rows.pop(item_key, None)

    def _renew(self, untils: list[tuple[Row, str]]) -> None:
        with self._lock:
            for row, until in untils:
                item_key = row.namespace, row.key
                if self._rows.get(item_key) is row:
                    self._rows[item_key] = replace(row, until=until)

    def _sweep(self, now: str) -> int:
        with self._lock:
            expired = [
                item_key
                for item_key, row in self._rows.items()
                if row.until is not None and row.until <= now
            ]
            for item_key in expired:
                del self._rows[item_key]
            return len(expired)

    def _under(self, prefix: str) -> Iterable[Row]:
        with self._lock:
            return [row for (name, _), row in self._rows.items() if name.startswith(prefix)]

    def _namespaces(self, now: str) -> list[str]:
        with self._lock:
            rows = self._rows.values()
            return list({row.namespace for row in rows if row.until is None or row.until > now})


publish("foldline.graph.store.memory", InMemoryStore)
