"""Models that run in this process: llama.cpp, a small chat model and a sentence encoder fetched on first use."""

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
