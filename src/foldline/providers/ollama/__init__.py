"""Text models that Ollama serves, over its own API; its chat models are `foldline.providers.openai_compatible`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazily

if TYPE_CHECKING:
    from foldline.providers.ollama.text import OllamaLLM

__all__ = ["OllamaLLM"]

__getattr__: Loader = lazily(__name__, {".text": "OllamaLLM"})
