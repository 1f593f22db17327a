"""Which item of a response is meant: by its id, and by its place where several share an id or ids are strange. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from foldline.providers.openai.item import Item, Native

__all__ = ["Roster"]


class Roster:
    """The items of one response, in the order in which they were heard of."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._named: dict[str, list[Item]] = {}
        self._placed: dict[int, Item] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def new_key(self, id: str | None) -> str:
        """Return a key that no other item has: ids are not always unique."""
        self._count += 1
        return f"{id or ''}#{self._count}"

    def add(self, item: Item, index: int | None) -> None:
        """Let an item be found."""
        self._items.append(item)
        if item.id:
            self._named.setdefault(_name(item.id), []).append(item)
        if index is not None:
            item.index = index
            self._placed[index] = item

    def remove(self, item: Item) -> None:
        """Forget an item."""
        self._items.remove(item)
        if item.id:
            self._named[_name(item.id)].remove(item)
        if item.index is not None and self._placed.get(item.index) is item:
            del self._placed[item.index]

    def announced(self, id: str | None, index: int | None) -> Item | None:
        """Find the item that is announced again; the same id at another place is another item."""
        for item in self._named.get(_name(id), ()):
            if index is None or item.index in (None, index):
                return item
        return None

    def find(self, id: str | None, index: int | None) -> Item | None:
        """Find the item that is spoken of; places may shift while it speaks."""
        known = self.announced(id, index)
        if known is not None:
            return known
        named = self._named.get(_name(id))
        if named:
            return None if named[-1].is_done else named[-1]
        placed = self._placed.get(index) if index is not None else None
        return None if placed is None or (id and placed.is_done) else placed

    def in_final(self, output: Sequence[Native]) -> Iterator[tuple[int, Native, Item | None]]:
        """Pair the items of the final response with those that were told: of one id, in their order."""
        ids = {_name(native.get("id")) for native in output} - {""}
        seen: Counter[str] = Counter()
        for index, native in enumerate(output):
            id = _name(native.get("id"))
            named, turn = self._named.get(id, []), seen[id]
            seen[id] += 1
            if turn < len(named):
                yield index, native, named[turn]
                continue
            placed = self._placed.get(index)
            is_other = placed is not None and _name(placed.id) in ids
            yield index, native, None if is_other else placed


def _name(id: object) -> str:
    return str(id or "")
