"""Text models and embeddings that Ollama serves, over its own API; chat models: `providers.openai_compatible`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazily

if TYPE_CHECKING:
    from foldline.providers.ollama.embeddings import OllamaEmbeddings
    from foldline.providers.ollama.text import OllamaLLM

__all__ = ["OllamaEmbeddings", "OllamaLLM"]

__getattr__: Loader = lazily(__name__, {".embeddings": "OllamaEmbeddings", ".text": "OllamaLLM"})
