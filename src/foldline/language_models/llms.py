"""Text models, under LangChain's path: `BaseLLM` answers many prompts at once, `LLM` one at a time."""

from __future__ import annotations

from foldline.language_models.text._llm_cache import (
    aget_prompts,
    aupdate_cache,
    create_base_retry_decorator,
    get_prompts,
    update_cache,
)
from foldline.language_models.text.base_llm import BaseLLM
from foldline.language_models.text.llm import LLM

__all__ = [
    "LLM",
    "BaseLLM",
    "aget_prompts",
    "aupdate_cache",
    "create_base_retry_decorator",
    "get_prompts",
    "update_cache",
]
