"""The arithmetic of vector stores, on NumPy (extra `vectors`): a contiguous float32 matrix that grows, and its search.

Rows are kept at unit length, so that the cosine of all of them with a question is one matrix product. Rows are only
ever added at the end or marked dead, so a search needs no lock: it looks at the rows that were there when it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from foldline.exceptions import MissingExtraError, UsageError

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as error:
    raise MissingExtraError(
        'vector stores need the package "numpy": pip install "foldline[vectors]"'
    ) from error

__all__ = ["Floats", "Rows", "as_query", "as_rows", "check_size", "diverse", "top"]

Floats = NDArray[np.float32]
SMALLEST = 256
"""Rows a matrix has room for at first."""
WIDENING = 4
"""How many times more candidates each round of a filtered search looks at."""


def as_rows(vectors: Sequence[Sequence[float]], dimension: int | None, *, what: str) -> Floats:
    """Check vectors and give them as a matrix; `what` begins the sentence of an error."""
    try:
        with np.errstate(over="ignore"):
            rows: Floats = np.asarray(vectors, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{what}: vectors are equally long lists of numbers ({error})") from error
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise UsageError(f"{what}: vectors are lists of numbers, got the shape {rows.shape}")
    check_size(rows, dimension, what=what)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise UsageError(
            f"{what}: vector {int(np.argmin(finite))} has a number that is not finite (NaN or infinite)"
        )
    return rows


def check_size(rows: Floats, dimension: int | None, *, what: str) -> None:
    """Refuse vectors that are longer or shorter than those of the store."""
    if dimension is not None and rows.shape[1] != dimension:
        raise UsageError(
            f"{what}: the store holds vectors of {dimension} numbers, got one of {rows.shape[1]}: "
            "use the embedding model that it was filled with"
        )


def as_query(vector: Sequence[float], dimension: int | None) -> Floats:
    """Check a question's vector."""
    row: Floats = as_rows([vector], dimension, what="the question's vector")[0]
    return row


def lengths(rows: Floats) -> NDArray[np.float64]:
    """Return the length of each row, in float64: squares of float32 overflow."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return np.sqrt(squares)


def unit(rows: Floats) -> Floats:
    """Scale rows to length one; a row of zeros stays, and is like nothing."""
    norms = lengths(rows)
    norms[norms == 0] = 1.0
    return np.asarray(rows / norms[:, None], dtype=np.float32)


def top(scores: Floats, count: int) -> NDArray[np.intp]:
    """Return the places of the highest scores, highest first; of equal ones the earlier place first."""
    size = len(scores)
    if count >= size:
        return np.argsort(-scores, kind="stable")
    if count <= 0:
        return np.empty(0, dtype=np.intp)
    threshold = np.partition(scores, size - count)[size - count]
    candidates = np.flatnonzero(scores >= threshold)
    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order][:count]


def diverse(query: Floats, rows: Floats, *, count: int, weight: float) -> list[int]:
    """Choose rows that are near to a query (by `weight`) and unlike each other (by the rest of it), in order."""
    if count <= 0 or len(rows) == 0:
        return []
    rows = unit(rows)
    nearness = rows @ unit(query[None])[0]
    likeness = np.full(len(rows), -np.inf, dtype=np.float32)
    chosen = [int(np.argmax(nearness))]
    while len(chosen) < min(count, len(rows)):
        np.maximum(likeness, rows @ rows[chosen[-1]], out=likeness)
        worth = weight * nearness - (1 - weight) * likeness
        worth[chosen] = -np.inf
        chosen.append(int(np.argmax(worth)))
    return chosen


class Rows:
    """Unit vectors by place, and the search over them. One writer at a time, any number of searches."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.count = 0
        """Places in use, the dead ones included."""
        self.dead = 0
        self._units: Floats = np.empty((SMALLEST, dimension), dtype=np.float32)
        self._norms: Floats = np.empty(SMALLEST, dtype=np.float32)
        self._alive = np.zeros(SMALLEST, dtype=np.bool_)

    @property
    def alive(self) -> int:
        """How many rows count."""
        return self.count - self.dead

    def append(self, rows: Floats) -> range:
        """Add rows at the end; gives their places."""
        begin, end = self.count, self.count + len(rows)
        if end > len(self._units):
            self._grow(max(end, 2 * len(self._units)))
        self._units[begin:end] = unit(rows)
        self._norms[begin:end] = lengths(rows)
        self._alive[begin:end] = True
        self.count = end
        return range(begin, end)

    def _grow(self, size: int) -> None:
        units: Floats = np.empty((size, self.dimension), dtype=np.float32)
        norms: Floats = np.empty(size, dtype=np.float32)
        alive = np.zeros(size, dtype=np.bool_)
        units[: self.count] = self._units[: self.count]
        norms[: self.count] = self._norms[: self.count]
        alive[: self.count] = self._alive[: self.count]
        self._units, self._norms, self._alive = units, norms, alive

    def kill(self, places: Iterable[int]) -> None:
        """Take rows out of every later search."""
        for place in places:
            if self._alive[place]:
                self._alive[place] = False
                self.dead += 1

    def vectors(self, places: Sequence[int]) -> Floats:
        """Return rows at their own length."""
        chosen = np.asarray(places, dtype=np.intp)
        return np.asarray(self._units[chosen] * self._norms[chosen, None], dtype=np.float32)

    def without_dead(self, places: Sequence[int]) -> Rows:
        """Copy some rows into a new matrix."""
        copy = Rows(self.dimension)
        copy.append(self.vectors(places))
        return copy

    def nearest(self, query: Floats, first: int) -> Iterator[tuple[int, float]]:
        """Return places and cosines, nearest first; `first` is how many will probably be read."""
        units, alive, count = self._units, self._alive, self.count
        if count > len(units):  # the matrix grew between the reads
            units, alive = self._units, self._alive
        scores: Any = units[:count] @ unit(query[None])[0]
        if self.dead:
            scores[~alive[:count]] = -np.inf
        given, wanted = 0, max(1, first)
        while given < count:
            places = top(scores, wanted)[given:]
            for place in places.tolist():
                score = float(scores[place])
                if score == -np.inf:
                    return
                yield place, score
            given, wanted = wanted, wanted * WIDENING
