"""Selectors choose the examples of a few-shot prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.example_selectors.base import BaseExampleSelector
    from foldline.example_selectors.length_based import LengthBasedExampleSelector
    from foldline.example_selectors.semantic_similarity import (
        MaxMarginalRelevanceExampleSelector,
        SemanticSimilarityExampleSelector,
        sorted_values,
    )

__all__ = [
    "BaseExampleSelector",
    "LengthBasedExampleSelector",
    "MaxMarginalRelevanceExampleSelector",
    "SemanticSimilarityExampleSelector",
    "sorted_values",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseExampleSelector",
        ".length_based": "LengthBasedExampleSelector",
        ".semantic_similarity": "MaxMarginalRelevanceExampleSelector SemanticSimilarityExampleSelector "
        "sorted_values",
    },
)
