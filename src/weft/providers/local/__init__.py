"""Models that run in this process: llama.cpp, a small chat model and a sentence encoder fetched on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.providers.local.chat import ChatLlamaCpp
    from weft.providers.local.embeddings import LocalEmbeddings
    from weft.providers.local.fetch import MODELS, cache_dir, is_fetched, model_path
    from weft.providers.local.runtime import Runtime, Settings, unload
    from weft.providers.local.session import LocalModel

__all__ = [
    "MODELS",
    "ChatLlamaCpp",
    "LocalEmbeddings",
    "LocalModel",
    "Runtime",
    "Settings",
    "cache_dir",
    "is_fetched",
    "model_path",
    "unload",
]

__getattr__ = lazily(
    __name__,
    {
        ".chat": "ChatLlamaCpp",
        ".embeddings": "LocalEmbeddings",
        ".fetch": "MODELS cache_dir is_fetched model_path",
        ".runtime": "Runtime Settings unload",
        ".session": "LocalModel",
    },
)
