"""`CallModel`: what a call needs of its model. Chat models and text models are; a call uses nothing else of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Hashable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

from foldline._run import Run
from foldline.callbacks.base import Callbacks
from foldline.language_models._call.cache_key import KeyedModel
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models.count import TokenCount
from foldline.language_models.profile import ModelProfile
from foldline.messages import BaseMessage
from foldline.outputs import ChatResult
from foldline.protocol.folded_message import Bounds
from foldline.rate_limiters import BaseRateLimiter

if TYPE_CHECKING:  # it knows models
    from foldline.language_models._call.author import Author

__all__ = ["CallModel", "setting_of"]


class CallModel(KeyedModel, Protocol):
    """The members of a model that a call uses; settings first, then methods that its author may override."""

    callbacks: Callbacks
    tags: list[str] | None
    metadata: dict[str, Any] | None
    verbose: bool
    rate_limiter: BaseRateLimiter | None
    _tool_name_pattern: ClassVar[str | None]
    _usage_mode: ClassVar[Literal["sum", "last"]]
    _makes_new_events: ClassVar[bool]

    @property
    def _profile(self) -> ModelProfile | None: ...
    @property
    def _author(self) -> Author: ...
    @property
    def _provider(self) -> str | None: ...
    @property
    def _model_name(self) -> str | None: ...
    @property
    def _settings(self) -> dict[str, Any]: ...
    @property
    def _retry_policy(self) -> RetryPolicy: ...
    @property
    def _fold_limits(self) -> Bounds | None: ...
    @property
    def _output_version(self) -> Literal["v0", "v1"]: ...
    def _streaming_disabled(self, options: dict[str, Any]) -> bool: ...
    def _request(self, value: object, run: Run, *, stream: bool) -> ChatRequest: ...
    def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Any, None]: ...
    def _step(self, input: Any, run: Run) -> Coroutine[Any, Any, Any]: ...  # noqa: ANN401  any form of a prompt
    async def _preprocess(self, request: ChatRequest, run: Run) -> ChatRequest: ...
    async def _postprocess(
        self, request: ChatRequest, result: ChatResult, run: Run
    ) -> ChatResult: ...
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any: ...  # noqa: ANN401  a TypedDict of the traces
    def _get_invocation_params(
        self, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]: ...
    def _combine_llm_outputs(self, llm_outputs: list[dict[str, Any] | None]) -> dict[str, Any]: ...
    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str: ...
    def count_tokens(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> TokenCount: ...


def setting_of(model: Any, name: str) -> Any:  # noqa: ANN401  any model; the type depends on the setting
    """Return a setting that not every model has; a missing attribute of a Pydantic model takes 7 µs to look up."""
    values = model.__dict__
    if name in values:
        return values[name]
    return getattr(model, name) if _has_attribute(cast("Hashable", type(model)), name) else None


_has_attribute = lru_cache(maxsize=256)(hasattr)
