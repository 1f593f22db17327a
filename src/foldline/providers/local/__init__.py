"""Models that run in this process: llama.cpp, with a small chat model and a sentence encoder fetched on first use."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers.local.chat import ChatLlamaCpp as ChatLlamaCpp
    from foldline.providers.local.embeddings import LocalEmbeddings as LocalEmbeddings
    from foldline.providers.local.fetch import (
        MODELS as MODELS,
        cache_dir as cache_dir,
        is_fetched as is_fetched,
        model_path as model_path,
    )
    from foldline.providers.local.runtime import (
        LocalRuntime as LocalRuntime,
        RuntimeSettings as RuntimeSettings,
        unload as unload,
    )
    from foldline.providers.local.session import LocalModel as LocalModel
    from foldline.providers.local.text import LlamaCpp as LlamaCpp
