"""`BaseLanguageModel`: what text models and chat models share: settings, listeners, token counts."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from weft.caches import BaseCache
from weft.callbacks.base import Callbacks
from weft.messages import AnyMessage, BaseMessage, MessageLikeRepresentation
from weft.messages.utils import count_tokens_approximately
from weft.prompt_values import PromptValue
from weft.runnables.base import Runnable
from weft.runnables.serializable import RunnableSerializable

LanguageModelInput: TypeAlias = PromptValue | str | Sequence[MessageLikeRepresentation]
LanguageModelOutput: TypeAlias = BaseMessage | str
LanguageModelLike: TypeAlias = Runnable[LanguageModelInput, LanguageModelOutput]
LanguageModelOutputVar = TypeVar("LanguageModelOutputVar", AnyMessage, str, covariant=True)


class LangSmithParams(TypedDict, total=False):
    """What traces say of a model."""

    ls_provider: str
    ls_model_name: str
    ls_model_type: str
    ls_temperature: float | None
    ls_max_tokens: int | None
    ls_stop: list[str] | None


class BaseLanguageModel(RunnableSerializable[Any, LanguageModelOutputVar], ABC):
    """A model that continues text or messages."""

    cache: BaseCache | bool | None = Field(default=None, exclude=True)
    """None: the global cache if one is set. True: the global cache. False: none. Or a cache of its own."""
    verbose: bool = Field(default=False, exclude=True, repr=False)
    """Whether to print what happens."""
    callbacks: Callbacks = Field(default=None, exclude=True)
    """Handlers that observe every run of this model."""
    tags: list[str] | None = Field(default=None, exclude=True)
    """Tags of every run of this model."""
    metadata: dict[str, Any] | None = Field(default=None, exclude=True)
    """Metadata of every run of this model."""
    custom_get_token_ids: Callable[[str], list[int]] | None = Field(default=None, exclude=True)
    """Your tokenizer, for counting."""

    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What tells this model from another: part of every cache key."""
        return self.lc_attributes

    def get_token_ids(self, text: str) -> list[int]:
        """Give the ids of the tokens of a text; needs `custom_get_token_ids` or a provider that knows them."""
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        # No tokenizer in the core: four characters count as one token, as in `count_tokens_approximately`.
        return list(range(-(-len(text) // 4)))

    def get_num_tokens(self, text: str) -> int:
        """Count the tokens of a text: exactly with a tokenizer, else about four characters each."""
        return len(self.get_token_ids(text))

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Count the tokens of messages and tools; opens no socket."""
        if self.custom_get_token_ids is None:
            return count_tokens_approximately(messages, tools=list(tools) if tools else None)
        return sum(self.get_num_tokens(str(message.text)) + 3 for message in messages)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """Give a runnable whose output fits a schema."""
        raise NotImplementedError(f"{type(self).__name__} has no structured output")
