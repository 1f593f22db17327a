"""Ollama's text models and embeddings, over its own API; its chat models are in `providers.openai_compatible`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers.ollama.embeddings import OllamaEmbeddings
    from foldline.providers.ollama.text import OllamaLLM

__all__ = ["OllamaEmbeddings", "OllamaLLM"]

__getattr__: Loader = lazy_exports(
    __name__, {".embeddings": "OllamaEmbeddings", ".text": "OllamaLLM"}
)
