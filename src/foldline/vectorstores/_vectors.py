"""The arithmetic of vector stores, with NumPy (extra `vectors`): a growing float32 matrix, and the search over it.

Rows have unit length, so that the cosine similarity of all rows to a query is one matrix product. Rows are only added
at the end or marked as removed, so a search needs no lock: it uses the rows that existed when it began.
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
INITIAL_ROWS = 256
"""Rows that a new matrix has room for."""
GROWTH_FACTOR = 4
"""How many times more candidates each round of a filtered search considers."""


def as_rows(vectors: Sequence[Sequence[float]], dimension: int | None, *, what: str) -> Floats:
    """Return vectors as a matrix; raise `UsageError`, whose text begins with `what`, if they are not valid."""
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
    """Raise `UsageError` if the vectors have another size than those of the store."""
    if dimension is not None and rows.shape[1] != dimension:
        raise UsageError(
            f"{what}: the store holds vectors of {dimension} numbers, got one of {rows.shape[1]}: "
            "use the embedding model that it was filled with"
        )


def as_query(vector: Sequence[float], dimension: int | None) -> Floats:
    """Return a query vector as an array; raise `UsageError` if it is not valid."""
    row: Floats = as_rows([vector], dimension, what="the query vector")[0]
    return row


def lengths(rows: Floats) -> NDArray[np.float64]:
    """Return the length of each row, in float64: squares of float32 overflow."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return np.sqrt(squares)


def unit(rows: Floats) -> Floats:
    """Scale rows to length one; a row of zeros stays zero."""
    norms = lengths(rows)
    norms[norms == 0] = 1.0
    return np.asarray(rows / norms[:, None], dtype=np.float32)


def top(scores: Floats, count: int) -> NDArray[np.intp]:
    """Return the places of the highest scores, highest first; equal scores in the order of places."""
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
    """Return rows near a query (`weight`) and unlike each other (`1 - weight`), in order of selection."""
    if count <= 0 or len(rows) == 0:
        return []
    rows = unit(rows)
    query_similarity = rows @ unit(query[None])[0]
    chosen_similarity = np.full(len(rows), -np.inf, dtype=np.float32)
    chosen = [int(np.argmax(query_similarity))]
    while len(chosen) < min(count, len(rows)):
        np.maximum(chosen_similarity, rows @ rows[chosen[-1]], out=chosen_similarity)
        scores = weight * query_similarity - (1 - weight) * chosen_similarity
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
    return chosen


class Rows:
    """Unit vectors by place (row number), and their search. One writer at a time, any number of searches."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.count = 0
        """Places in use, including removed rows."""
        self.removed_count = 0
        self._units: Floats = np.empty((INITIAL_ROWS, dimension), dtype=np.float32)
        self._norms: Floats = np.empty(INITIAL_ROWS, dtype=np.float32)
        self._is_active = np.zeros(INITIAL_ROWS, dtype=np.bool_)

    @property
    def active_count(self) -> int:
        """How many rows are not removed."""
        return self.count - self.removed_count

    def append(self, rows: Floats) -> range:
        """Append rows; return their places."""
        begin, end = self.count, self.count + len(rows)
        if end > len(self._units):
            self._grow(max(end, 2 * len(self._units)))
        self._units[begin:end] = unit(rows)
        self._norms[begin:end] = lengths(rows)
        self._is_active[begin:end] = True
        self.count = end
        return range(begin, end)

    def _grow(self, size: int) -> None:
        units: Floats = np.empty((size, self.dimension), dtype=np.float32)
        norms: Floats = np.empty(size, dtype=np.float32)
        active = np.zeros(size, dtype=np.bool_)
        units[: self.count] = self._units[: self.count]
        norms[: self.count] = self._norms[: self.count]
        active[: self.count] = self._is_active[: self.count]
        self._units, self._norms, self._is_active = units, norms, active

    def remove(self, places: Iterable[int]) -> None:
        """Exclude rows from later searches."""
        for place in places:
            if self._is_active[place]:
                self._is_active[place] = False
                self.removed_count += 1

    def vectors(self, places: Sequence[int]) -> Floats:
        """Return rows at their original length."""
        indexes = np.asarray(places, dtype=np.intp)
        return np.asarray(self._units[indexes] * self._norms[indexes, None], dtype=np.float32)

    def copy_rows(self, places: Sequence[int]) -> Rows:
        """Copy some rows into a new matrix."""
        copy = Rows(self.dimension)
        copy.append(self.vectors(places))
        return copy

    def nearest(self, query: Floats, first: int) -> Iterator[tuple[int, float]]:
        """Yield places and cosine similarities, nearest first; `first` is how many the caller expects to read."""
        units, active, count = self._units, self._is_active, self.count
        if count > len(units):  # the matrix grew between the reads
            units, active = self._units, self._is_active
        scores: Any = units[:count] @ unit(query[None])[0]
        if self.removed_count:
            scores[~active[:count]] = -np.inf
        yielded, limit = 0, max(1, first)
        while yielded < count:
            places = top(scores, limit)[yielded:]
            for place in places.tolist():
                score = float(scores[place])
                if score == -np.inf:
                    return
                yield place, score
            yielded, limit = limit, limit * GROWTH_FACTOR
