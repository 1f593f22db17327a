"""`AsyncBatchedBaseStore`: a store that executes the operations of concurrent tasks in one `abatch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline._io.batching import BatchQueue
from foldline._items.base import BaseStore, Op, PutOp
from foldline._lazy import publish

__all__ = ["AsyncBatchedBaseStore"]


class AsyncBatchedBaseStore(BaseStore):
    """A store for which a call is expensive: async calls that are made at the same time are one `abatch`.

    Equal reads are executed once; of several writes to one key only the last is. A subclass implements `batch` and
    `abatch`.
    """

    def __init__(self) -> None:
        self._queue: BatchQueue[Op] = BatchQueue(self._execute)

    async def _arun(self, op: Op) -> Any:  # noqa: ANN401  the result of the operation
        return await self._queue.add(op)

    async def _execute(self, ops: list[Op]) -> list[Any]:
        places, distinct = _distinct(ops)
        results = await self.abatch(distinct)
        return [results[place] for place in places]


def _distinct(ops: Sequence[Op]) -> tuple[list[int], list[Op]]:
    """Return the operations to execute, and for each given one the place of its result among them."""
    places: list[int] = []
    distinct: list[Op] = []
    for op in ops:
        place = next((place for place, known in enumerate(distinct) if _is_same(op, known)), None)
        if place is None:
            place = len(distinct)
            distinct.append(op)
        elif isinstance(op, PutOp):
            distinct[place] = op
        places.append(place)
    return places, distinct


def _is_same(first: Op, second: Op) -> bool:
    if isinstance(first, PutOp) and isinstance(second, PutOp):
        return (first.namespace, first.key) == (second.namespace, second.key)
    return type(first) is type(second) and first == second


publish("foldline.graph.store.base", AsyncBatchedBaseStore)
