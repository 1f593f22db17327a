"""Ollama's text models and embeddings, over its own API; its chat models are in `providers.openai_compatible`."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers.ollama.embeddings import OllamaEmbeddings as OllamaEmbeddings
    from foldline.providers.ollama.text import OllamaLLM as OllamaLLM
