"""Models that run in this process: llama.cpp, with a small chat model and a sentence encoder fetched on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers.local.chat import ChatLlamaCpp
    from foldline.providers.local.embeddings import LocalEmbeddings
    from foldline.providers.local.fetch import MODELS, cache_dir, is_fetched, model_path
    from foldline.providers.local.runtime import Runtime, RuntimeSettings, unload
    from foldline.providers.local.session import LocalModel
    from foldline.providers.local.text import LlamaCpp

__all__ = [
    "MODELS",
    "ChatLlamaCpp",
    "LlamaCpp",
    "LocalEmbeddings",
    "LocalModel",
    "Runtime",
    "RuntimeSettings",
    "cache_dir",
    "is_fetched",
    "model_path",
    "unload",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".chat": "ChatLlamaCpp",
        ".embeddings": "LocalEmbeddings",
        ".fetch": "MODELS cache_dir is_fetched model_path",
        ".runtime": "Runtime RuntimeSettings unload",
        ".session": "LocalModel",
        ".text": "LlamaCpp",
    },
)
