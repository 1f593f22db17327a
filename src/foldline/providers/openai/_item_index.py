"""Finds the items of a response: by id, and by position if several share an id or an id is unknown. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from foldline.providers.openai._base_item import Item, Native

__all__ = ["ItemIndex"]


class ItemIndex:
    """The items of one response, in the order in which they appeared."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._by_id: dict[str, list[Item]] = {}
        self._by_position: dict[int, Item] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def new_key(self, id: str | None) -> str:
        """Return a unique key: ids are not always unique."""
        self._count += 1
        return f"{id or ''}#{self._count}"

    def add(self, item: Item, index: int | None) -> None:
        """Add an item."""
        self._items.append(item)
        if item.id:
            self._by_id.setdefault(_id_text(item.id), []).append(item)
        if index is not None:
            item.index = index
            self._by_position[index] = item

    def remove(self, item: Item) -> None:
        """Remove an item."""
        self._items.remove(item)
        if item.id:
            self._by_id[_id_text(item.id)].remove(item)
        if item.index is not None and self._by_position.get(item.index) is item:
            del self._by_position[item.index]

    def find_added(self, id: str | None, index: int | None) -> Item | None:
        """Return an item that is added again; the same id at another position is another item."""
        for item in self._by_id.get(_id_text(id), ()):
            if index is None or item.index in (None, index):
                return item
        return None

    def find(self, id: str | None, index: int | None) -> Item | None:
        """Return the item of an event; positions may shift while it is streamed."""
        item = self.find_added(id, index)
        if item is not None:
            return item
        same_id = self._by_id.get(_id_text(id))
        if same_id:
            return None if same_id[-1].is_done else same_id[-1]
        same_position = self._by_position.get(index) if index is not None else None
        return None if same_position is None or (id and same_position.is_done) else same_position

    def match_output(self, output: Sequence[Native]) -> Iterator[tuple[int, Native, Item | None]]:
        """Yield the items of the final response with their streamed ones: those of one id in order."""
        ids = {_id_text(native.get("id")) for native in output} - {""}
        counts: Counter[str] = Counter()
        for index, native in enumerate(output):
            id = _id_text(native.get("id"))
            same_id, occurrence = self._by_id.get(id, []), counts[id]
            counts[id] += 1
            if occurrence < len(same_id):
                yield index, native, same_id[occurrence]
                continue
            same_position = self._by_position.get(index)
            is_other = same_position is not None and _id_text(same_position.id) in ids
            yield index, native, None if is_other else same_position


def _id_text(id: object) -> str:
    return str(id or "")
