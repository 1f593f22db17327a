"""In-memory vector search over 100,000 x 384 beside the bare matrix product with a partial sort.

python -m benchmarks.vectors
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from foldline.documents import Document
from foldline.embeddings import DeterministicFakeEmbedding
from foldline.vectorstores import InMemoryVectorStore

COUNT, SIZE, K = 100_000, 384, 4


class Compared(NamedTuple):
    bare: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.bare


@cache
def _filled_store() -> tuple[InMemoryVectorStore, Any, Any]:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((COUNT, SIZE), dtype=np.float32)
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=SIZE))
    documents = [Document(f"text {n}", id=str(n), metadata={"n": n % 100}) for n in range(COUNT)]
    store._upsert(documents, rows)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return store, units, rng.standard_normal(SIZE).astype(np.float32)


def compare(repeats: int = 30, **search: Any) -> Compared:
    """Time both in turn, so that a busy machine slows both."""
    store, units, query = _filled_store()
    numbers = query.tolist()

    def bare() -> None:
        scores = units @ query
        np.argpartition(scores, COUNT - K)[COUNT - K :]

    def search_store() -> None:
        store.similarity_search_by_vector(numbers, k=K, **search)

    times: dict[Callable[[], None], list[float]] = {bare: [], search_store: []}
    for _ in range(repeats):
        for function, durations in times.items():
            start = time.perf_counter()
            function()
            durations.append(time.perf_counter() - start)
    return Compared(statistics.median(times[bare]), statistics.median(times[search_store]))


if __name__ == "__main__":
    for name, search in {
        "plain": {},
        "filter, 1 in 100": {"filter": {"n": 3}},
        "filter, a function": {"filter": lambda document: document.metadata["n"] == 3},
    }.items():
        bare, store_seconds = compare(**search)
        print(
            f"{name:20} bare {bare * 1e3:6.2f} ms   ours {store_seconds * 1e3:6.2f} ms   {store_seconds / bare:.2f} x"
        )
