"""Selecting diverse vectors, under LangChain's names; needs NumPy (extra `vectors`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline.exceptions import UsageError

__all__ = ["maximal_marginal_relevance"]


def maximal_marginal_relevance(
    query_embedding: object,
    embedding_list: Sequence[Any],
    lambda_mult: float = 0.5,
    k: int = 4,
) -> list[int]:
    """Return the indexes of vectors that are near a query and unlike each other.

    With `lambda_mult` 1 only nearness counts, with 0 only difference.
    """
    from foldline.vectorstores._vectors import as_query, as_rows, diverse  # noqa: PLC0415  an extra

    check_weight(lambda_mult)
    if min(k, len(embedding_list)) <= 0:
        return []
    rows = as_rows(embedding_list, None, what="max marginal relevance")
    row = [number for part in _nested(query_embedding) for number in part]
    return diverse(as_query(row, rows.shape[1]), rows, count=k, weight=lambda_mult)


def check_weight(lambda_mult: float) -> None:
    """Raise `UsageError` unless the weight is between 0 and 1."""
    if not 0.0 <= lambda_mult <= 1.0:
        raise UsageError(f"lambda_mult is between 0 and 1, not {lambda_mult!r}")


def _nested(vector: Any) -> Sequence[Sequence[float]]:  # noqa: ANN401  one vector or several
    """Return a matrix; LangChain accepts a vector, or a matrix of one row."""
    return vector if len(vector) and hasattr(vector[0], "__len__") else [vector]
