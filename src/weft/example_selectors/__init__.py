"""Selectors: which examples a few-shot prompt shows."""

from weft.example_selectors.base import BaseExampleSelector
from weft.example_selectors.length_based import LengthBasedExampleSelector
from weft.example_selectors.semantic_similarity import (
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
