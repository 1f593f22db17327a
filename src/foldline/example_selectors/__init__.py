"""Selectors choose the examples of a few-shot prompt."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.example_selectors.base import BaseExampleSelector as BaseExampleSelector
    from foldline.example_selectors.length_based import (
        LengthBasedExampleSelector as LengthBasedExampleSelector,
    )
    from foldline.example_selectors.semantic_similarity import (
        MaxMarginalRelevanceExampleSelector as MaxMarginalRelevanceExampleSelector,
        SemanticSimilarityExampleSelector as SemanticSimilarityExampleSelector,
        sorted_values as sorted_values,
    )
