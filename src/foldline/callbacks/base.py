"""What observes a run: the handler classes users subclass, and the lists of them a call carries.

A handler overrides the events it cares for; a hook left as it is costs nothing. Nothing here waits or dispatches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar
from uuid import UUID

from foldline.callbacks.mixins import (
    CallbackManagerMixin,
    ChainManagerMixin,
    LLMManagerMixin,
    Metadata,
    RetrieverManagerMixin,
    RunManagerMixin,
    ToolManagerMixin,
)
from foldline.utils._short_repr import short_repr

__all__ = [
    "AsyncCallbackHandler",
    "BaseCallbackHandler",
    "BaseCallbackManager",
    "CallbackManagerMixin",
    "Callbacks",
    "ChainManagerMixin",
    "LLMManagerMixin",
    "RetrieverManagerMixin",
    "RunManagerMixin",
    "ToolManagerMixin",
]

T = TypeVar("T")


class BaseCallbackHandler(
    LLMManagerMixin,
    ChainManagerMixin,
    ToolManagerMixin,
    RetrieverManagerMixin,
    CallbackManagerMixin,
    RunManagerMixin,
):
    """Observes runs. Override the events you care for.

    ```python
    from foldline.callbacks import BaseCallbackHandler

    class Loud(BaseCallbackHandler):
        def on_chain_start(self, serialized, inputs, **kwargs):
            print("start", inputs)
    ```
    """

    if TYPE_CHECKING:

        def __repr__(self) -> str: ...
    else:
        __repr__ = short_repr

    raise_error: bool = False
    """Whether an error of this handler breaks the run it observes."""
    run_inline: bool = False
    """Whether an async run calls this blocking handler in its own thread of execution, not in another one."""
    patience: float | None = None
    """Seconds a run waits for one hook before it goes on without it; None waits for ever."""

    @property
    def ignore_llm(self) -> bool:
        """Whether to skip model events."""
        return False

    @property
    def ignore_retry(self) -> bool:
        """Whether to skip retry events."""
        return False

    @property
    def ignore_chain(self) -> bool:
        """Whether to skip chain events."""
        return False

    @property
    def ignore_agent(self) -> bool:
        """Whether to skip agent and tool events."""
        return False

    @property
    def ignore_retriever(self) -> bool:
        """Whether to skip retriever events."""
        return False

    @property
    def ignore_chat_model(self) -> bool:
        """Whether to skip `on_chat_model_start`."""
        return False

    @property
    def ignore_custom_event(self) -> bool:
        """Whether to skip custom events."""
        return False


class AsyncCallbackHandler(BaseCallbackHandler):
    """Observes runs with `async def` hooks; in sync runs they run in another thread."""


def _awaited(event: str) -> Callable[..., Coroutine[Any, Any, None]]:
    hook = getattr(BaseCallbackHandler, event)

    @functools.wraps(hook)
    async def awaited(self: AsyncCallbackHandler, *args: object, **kwargs: object) -> None:
        hook(self, *args, **kwargs)

    return awaited


for _event in [name for name in dir(BaseCallbackHandler) if name.startswith("on_")]:
    # For overrides that call `await super().on_llm_end(...)`.
    setattr(AsyncCallbackHandler, _event, _awaited(_event))


class BaseCallbackManager(CallbackManagerMixin):
    """The handlers, tags and metadata of one call: all of them, and those its children inherit."""

    def __init__(
        self,
        handlers: list[BaseCallbackHandler],
        inheritable_handlers: list[BaseCallbackHandler] | None = None,
        parent_run_id: UUID | None = None,
        *,
        tags: list[str] | None = None,
        inheritable_tags: list[str] | None = None,
        metadata: Metadata | None = None,
        inheritable_metadata: Metadata | None = None,
    ) -> None:
        self.handlers: list[BaseCallbackHandler] = handlers
        self.inheritable_handlers: list[BaseCallbackHandler] = inheritable_handlers or []
        self.parent_run_id = parent_run_id
        self.tags: list[str] = tags or []
        self.inheritable_tags: list[str] = inheritable_tags or []
        self.metadata: Metadata = metadata or {}
        self.inheritable_metadata: Metadata = inheritable_metadata or {}

    @property
    def is_async(self) -> bool:
        """Whether this manager's events are awaited."""
        return False

    def copy(self) -> Self:
        """Copy, so that adding a handler to one does not add it to the other."""
        return type(self)(
            handlers=self.handlers.copy(),
            inheritable_handlers=self.inheritable_handlers.copy(),
            parent_run_id=self.parent_run_id,
            tags=self.tags.copy(),
            inheritable_tags=self.inheritable_tags.copy(),
            metadata=self.metadata.copy(),
            inheritable_metadata=self.inheritable_metadata.copy(),
        )

    def with_metadata(self, metadata: Metadata) -> Self:
        """Copy with more metadata, not inherited; the copy shares the lists, so it is for foldline's own use."""
        copied = object.__new__(type(self))
        copied.__dict__ = {**self.__dict__, "metadata": {**self.metadata, **metadata}}
        return copied

    def merge(self, other: BaseCallbackManager) -> Self:
        """Join two managers; this one's parent run wins."""
        merged = self.copy()
        merged.parent_run_id = self.parent_run_id or other.parent_run_id
        merged.handlers = _union(self.handlers, other.handlers)
        merged.inheritable_handlers = _union(self.inheritable_handlers, other.inheritable_handlers)
        merged.tags = _union(self.tags, other.tags)
        merged.inheritable_tags = _union(self.inheritable_tags, other.inheritable_tags)
        merged.metadata = {**self.metadata, **other.metadata}
        merged.inheritable_metadata = {**self.inheritable_metadata, **other.inheritable_metadata}
        return merged

    def add_handler(self, handler: BaseCallbackHandler, inherit: bool = True) -> None:  # noqa: FBT001, FBT002
        """Add a handler once."""
        if handler not in self.handlers:
            self.handlers = [*self.handlers, handler]  # a new list: managers share theirs
        if inherit and handler not in self.inheritable_handlers:
            self.inheritable_handlers = [*self.inheritable_handlers, handler]

    def remove_handler(self, handler: BaseCallbackHandler) -> None:
        """Take a handler away."""
        self.handlers = [other for other in self.handlers if other is not handler]
        self.inheritable_handlers = [
            other for other in self.inheritable_handlers if other is not handler
        ]

    def set_handlers(self, handlers: list[BaseCallbackHandler], inherit: bool = True) -> None:  # noqa: FBT001, FBT002
        """Replace all handlers."""
        self.handlers, self.inheritable_handlers = [], []
        for handler in handlers:
            self.add_handler(handler, inherit=inherit)

    def set_handler(self, handler: BaseCallbackHandler, inherit: bool = True) -> None:  # noqa: FBT001, FBT002
        """Replace all handlers by one."""
        self.set_handlers([handler], inherit=inherit)

    def add_tags(self, tags: list[str], inherit: bool = True) -> None:  # noqa: FBT001, FBT002
        """Add tags, each once."""
        self.tags = _union(self.tags, tags)
        if inherit:
            self.inheritable_tags = _union(self.inheritable_tags, tags)

    def remove_tags(self, tags: list[str]) -> None:
        """Take tags away."""
        self.tags = [tag for tag in self.tags if tag not in tags]
        self.inheritable_tags = [tag for tag in self.inheritable_tags if tag not in tags]

    def add_metadata(self, metadata: Metadata, inherit: bool = True) -> None:  # noqa: FBT001, FBT002
        """Add metadata; new values win."""
        self.metadata = {**self.metadata, **metadata}
        if inherit:
            self.inheritable_metadata = {**self.inheritable_metadata, **metadata}

    def remove_metadata(self, keys: list[str]) -> None:
        """Take metadata away."""
        self.metadata = {key: value for key, value in self.metadata.items() if key not in keys}
        self.inheritable_metadata = {
            key: value for key, value in self.inheritable_metadata.items() if key not in keys
        }


def _union(first: list[T], second: list[T]) -> list[T]:
    return [*first, *(item for item in second if item not in first)]


Callbacks: TypeAlias = list[BaseCallbackHandler] | BaseCallbackManager | None
