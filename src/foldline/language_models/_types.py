"""The input and output types of language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from typing_extensions import TypedDict

from foldline._lazy import publish
from foldline.messages import BaseMessage, MessageLikeRepresentation
from foldline.prompt_values import PromptValue
from foldline.runnables.base import Runnable

__all__ = ["LangSmithParams", "LanguageModelInput", "LanguageModelLike", "LanguageModelOutput"]

LanguageModelInput: TypeAlias = PromptValue | str | Sequence[MessageLikeRepresentation]
LanguageModelOutput: TypeAlias = BaseMessage | str
LanguageModelLike: TypeAlias = Runnable[LanguageModelInput, LanguageModelOutput]


class LangSmithParams(TypedDict, total=False):
    """The description of a model in traces."""

    ls_provider: str
    ls_model_name: str
    ls_model_type: str
    ls_temperature: float | None
    ls_max_tokens: int | None
    ls_stop: list[str] | None
    ls_integration: str


publish("foldline.language_models", LangSmithParams)
