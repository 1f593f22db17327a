"""Managers: the objects through which user code calls handlers, sync and async from one body.

`configure` merges the three sources of handlers (constructor, config, context) into one manager; starting a run
returns a run manager with the id of the run; its `get_child` is the manager for nested calls.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, cast
from uuid import UUID

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._lazy import forward_names
from foldline.callbacks.base import (
    BaseCallbackHandler,
    BaseCallbackManager,
    Callbacks,
    ChainManagerMixin,
    LLMManagerMixin,
    RetrieverManagerMixin,
    RunManagerMixin,
    ToolManagerMixin,
)
from foldline.callbacks.dispatch import dispatch
from foldline.callbacks.hooks import join_hooked
from foldline.callbacks.mixins import Metadata
from foldline.utils.uuid import uuid7

M = TypeVar("M", bound=BaseCallbackManager)


class EventMethod:
    """A method that dispatches one event: directly under a sync manager, as an awaitable under an async one."""

    def __init__(self, event: str) -> None:
        self.event = event

    def __get__(self, manager: BaseRunManager | None, owner: type) -> Callable[..., Any]:
        if manager is None:
            return cast("Callable[..., Any]", self)
        event = self.event

        def method(*args: object, **kwargs: object) -> object:
            body = manager._dispatch(event, *args, **kwargs)
            return drive(body) if manager._io.blocking else body

        return method


class TokenMethod(EventMethod):
    """`on_llm_new_token`, which knows of the tokens that the framework dispatches itself."""

    def __get__(self, manager: BaseRunManager | None, owner: type) -> Callable[..., Any]:
        dispatch_token = super().__get__(manager, owner)
        tokens: TokenState | None = getattr(manager, "tokens", None)
        if manager is None or tokens is None:
            return dispatch_token
        is_blocking = manager._io.blocking

        def method(*args: object, **kwargs: object) -> object:
            tokens.has_tokens = True
            if not tokens.is_ignored:
                return dispatch_token(*args, **kwargs)
            return None if is_blocking else _nothing()

        return method


async def _nothing() -> None:
    return None


@dataclass(slots=True)
class TokenState:
    """What becomes of the tokens that an author dispatches, so that handlers get no token twice."""

    is_ignored: bool = False
    """Whether the framework dispatches every token that the author yields."""
    has_tokens: bool = False
    """Whether the author has dispatched one."""


def event_method(event: str) -> Callable[..., Any]:
    """Return the method that dispatches one event."""
    return cast("Callable[..., Any]", EventMethod(event))


class BaseRunManager(RunManagerMixin):
    """Calls the handlers of one run."""

    _io: ClassVar[IO] = BLOCKING

    def __init__(
        self,
        *,
        run_id: UUID,
        handlers: list[BaseCallbackHandler],
        inheritable_handlers: list[BaseCallbackHandler],
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        inheritable_tags: list[str] | None = None,
        metadata: Metadata | None = None,
        inheritable_metadata: Metadata | None = None,
    ) -> None:
        self.run_id = run_id
        self.handlers = handlers
        self.inheritable_handlers = inheritable_handlers
        self.parent_run_id = parent_run_id
        self.tags: list[str] = tags or []
        self.inheritable_tags: list[str] = inheritable_tags or []
        self.metadata: Metadata = metadata or {}
        self.inheritable_metadata: Metadata = inheritable_metadata or {}

    @classmethod
    def of(cls, manager: BaseCallbackManager, run_id: UUID) -> Self:
        """Return the manager of a run that another manager started."""
        run_manager = object.__new__(cls)
        run_manager.__dict__ = {
            **manager.__dict__,
            "run_id": run_id,
        }  # both kinds have the same attributes
        return run_manager

    @classmethod
    def get_noop_manager(cls) -> Self:
        """Return a manager without handlers."""
        return cls(run_id=uuid7(), handlers=[], inheritable_handlers=[])

    async def _dispatch(self, event: str, *args: object, **kwargs: object) -> None:
        await dispatch(
            self._io,
            self.handlers,
            event,
            *args,
            run_id=self.run_id,
            parent_run_id=self.parent_run_id,
            tags=self.tags,
            **kwargs,
        )

    on_text: Callable[..., Any] = event_method("on_text")
    on_retry: Callable[..., Any] = event_method("on_retry")


class RunManager(BaseRunManager):
    """Calls the handlers of one run, sync."""


class AsyncRunManager(BaseRunManager):
    """Calls the handlers of one run, async."""

    _io = ASYNC

    def get_sync(self) -> RunManager:
        """Return the sync manager of the same run."""
        return cast("RunManager", _sync_manager(self))


class ParentRunManager(RunManager):
    """A run that may have children."""

    def get_child(self, tag: str | None = None) -> CallbackManager:
        """Return the manager for calls nested in this run."""
        return child_manager(CallbackManager, self, self.run_id, tag)


class AsyncParentRunManager(AsyncRunManager):
    """A run that may have children, async."""

    def get_child(self, tag: str | None = None) -> AsyncCallbackManager:
        """Return the manager for calls nested in this run."""
        return child_manager(AsyncCallbackManager, self, self.run_id, tag)


class _LLMEvents(LLMManagerMixin):
    tokens: TokenState | None = None
    """None: every token is dispatched, as it comes."""
    on_llm_new_token: Callable[..., Any] = cast(
        "Callable[..., Any]", TokenMethod("on_llm_new_token")
    )
    on_stream_event: Callable[..., Any] = event_method("on_stream_event")
    on_llm_end: Callable[..., Any] = event_method("on_llm_end")
    on_llm_error: Callable[..., Any] = event_method("on_llm_error")


class _ChainEvents(ChainManagerMixin):
    on_chain_end: Callable[..., Any] = event_method("on_chain_end")
    on_chain_error: Callable[..., Any] = event_method("on_chain_error")
    on_agent_action: Callable[..., Any] = event_method("on_agent_action")
    on_agent_finish: Callable[..., Any] = event_method("on_agent_finish")


class _ToolEvents(ToolManagerMixin):
    on_tool_end: Callable[..., Any] = event_method("on_tool_end")
    on_tool_error: Callable[..., Any] = event_method("on_tool_error")


class _RetrieverEvents(RetrieverManagerMixin):
    on_retriever_end: Callable[..., Any] = event_method("on_retriever_end")
    on_retriever_error: Callable[..., Any] = event_method("on_retriever_error")


class CallbackManagerForLLMRun(_LLMEvents, ParentRunManager):
    """A model's run; a model that calls another one passes it `get_child()`."""


class AsyncCallbackManagerForLLMRun(_LLMEvents, AsyncParentRunManager):
    """A model's run, async; a model that calls another one passes it `get_child()`."""


class CallbackManagerForChainRun(_ChainEvents, ParentRunManager):
    """A chain's run."""


class AsyncCallbackManagerForChainRun(_ChainEvents, AsyncParentRunManager):
    """A chain's run, async."""


class CallbackManagerForToolRun(_ToolEvents, ParentRunManager):
    """A tool's run."""


class AsyncCallbackManagerForToolRun(_ToolEvents, AsyncParentRunManager):
    """A tool's run, async."""


class CallbackManagerForRetrieverRun(_RetrieverEvents, ParentRunManager):
    """A retriever's run."""


class AsyncCallbackManagerForRetrieverRun(_RetrieverEvents, AsyncParentRunManager):
    """A retriever's run, async."""


RUN_MANAGERS: dict[str, tuple[type[BaseRunManager], type[BaseRunManager]]] = {
    "llm": (CallbackManagerForLLMRun, AsyncCallbackManagerForLLMRun),
    "chain": (CallbackManagerForChainRun, AsyncCallbackManagerForChainRun),
    "tool": (CallbackManagerForToolRun, AsyncCallbackManagerForToolRun),
    "retriever": (CallbackManagerForRetrieverRun, AsyncCallbackManagerForRetrieverRun),
}
"""Kind of run -> the class of its manager, sync and async."""


def _sync_manager(manager: BaseRunManager) -> object:
    for sync_class, async_class in RUN_MANAGERS.values():
        if type(manager) is async_class:
            cls = sync_class
            break
    else:
        cls = ParentRunManager if isinstance(manager, AsyncParentRunManager) else RunManager
    sync_manager = cls(
        run_id=manager.run_id,
        handlers=manager.handlers,
        inheritable_handlers=manager.inheritable_handlers,
        parent_run_id=manager.parent_run_id,
        tags=manager.tags,
        inheritable_tags=manager.inheritable_tags,
        metadata=manager.metadata,
        inheritable_metadata=manager.inheritable_metadata,
    )
    if isinstance(sync_manager, _LLMEvents):
        sync_manager.tokens = getattr(manager, "tokens", None)
    return sync_manager


class _Manager(BaseCallbackManager):
    """Starts runs: dispatches the start and returns the manager of the run."""

    _io: ClassVar[IO] = BLOCKING

    @property
    def is_async(self) -> bool:
        """Whether this manager's events are awaited."""
        return not self._io.blocking

    async def _start(
        self, kind: str, event: str, *args: object, run_id: UUID | None = None, **kwargs: object
    ) -> BaseRunManager:
        run_id = run_id or uuid7()
        await dispatch(
            self._io,
            self.handlers,
            event,
            *args,
            run_id=run_id,
            parent_run_id=self.parent_run_id,
            tags=self.tags,
            metadata=self.metadata,
            **kwargs,
        )
        return RUN_MANAGERS[kind][not self._io.blocking].of(self, run_id)

    async def _start_each(
        self,
        event: str,
        serialized: object,
        items: Sequence[Any],
        run_id: UUID | None,
        **kwargs: object,
    ) -> list[BaseRunManager]:
        managers = []
        for item in items:
            managers.append(
                await self._start("llm", event, serialized, [item], run_id=run_id, **kwargs)
            )
            run_id = None  # a caller's id names the first run only
        return managers

    async def _custom(
        self, name: str, data: object, run_id: UUID | None = None, **kwargs: object
    ) -> None:
        if not self.handlers:
            return
        await dispatch(
            self._io,
            self.handlers,
            "on_custom_event",
            name,
            data,
            run_id=run_id or uuid7(),
            tags=self.tags,
            metadata=self.metadata,
            **kwargs,
        )

    def _run_body(self, body: Coroutine[Any, Any, object]) -> object:
        return drive(body) if self._io.blocking else body

    def on_llm_start(
        self, serialized: object, prompts: list[str], run_id: UUID | None = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  a run manager; under an async manager an awaitable of one
        """Start one text-model run per prompt."""
        return self._run_body(
            self._start_each("on_llm_start", serialized, prompts, run_id, **kwargs)
        )

    def on_chat_model_start(
        self,
        serialized: object,
        messages: list[list[Any]],
        run_id: UUID | None = None,
        **kwargs: object,
    ) -> Any:  # noqa: ANN401  a run manager; under an async manager an awaitable of one
        """Start one chat-model run per list of messages."""
        return self._run_body(
            self._start_each("on_chat_model_start", serialized, messages, run_id, **kwargs)
        )

    def on_chain_start(
        self, serialized: object, inputs: object, run_id: UUID | None = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  a run manager; under an async manager an awaitable of one
        """Start a chain's run."""
        return self._run_body(
            self._start("chain", "on_chain_start", serialized, inputs, run_id=run_id, **kwargs)
        )

    def on_tool_start(
        self,
        serialized: object,
        input_str: str,
        run_id: UUID | None = None,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> Any:  # noqa: ANN401  a run manager; under an async manager an awaitable of one
        """Start a tool's run."""
        return self._run_body(
            self._start(
                "tool",
                "on_tool_start",
                serialized,
                input_str,
                run_id=run_id,
                inputs=inputs,
                **kwargs,
            )
        )

    def on_retriever_start(
        self,
        serialized: object,
        query: str,
        run_id: UUID | None = None,
        parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> Any:  # noqa: ANN401  a run manager; under an async manager an awaitable of one
        """Start a retriever's run."""
        return self._run_body(
            self._start(
                "retriever", "on_retriever_start", serialized, query, run_id=run_id, **kwargs
            )
        )

    def on_custom_event(
        self, name: str, data: object, run_id: UUID | None = None, **kwargs: object
    ) -> Any:  # noqa: ANN401  a run manager; under an async manager an awaitable of one
        """Dispatch a custom event."""
        return self._run_body(self._custom(name, data, run_id, **kwargs))

    @classmethod
    def configure(
        cls,
        inheritable_callbacks: Callbacks = None,
        local_callbacks: Callbacks = None,
        verbose: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        inheritable_tags: list[str] | None = None,
        local_tags: list[str] | None = None,
        inheritable_metadata: Metadata | None = None,
        local_metadata: Metadata | None = None,
    ) -> Self:
        """Merge the sources of handlers, tags and metadata into one manager."""
        manager = _manager_of(cls, inheritable_callbacks)
        if local_callbacks:
            for handler in _handlers_of(local_callbacks):
                manager.add_handler(handler, inherit=False)
        if inheritable_tags:
            manager.add_tags(inheritable_tags)
        if local_tags:
            manager.add_tags(local_tags, inherit=False)
        if inheritable_metadata:
            manager.add_metadata(inheritable_metadata)
        if local_metadata:
            manager.add_metadata(local_metadata, inherit=False)
        join_hooked(manager)
        if verbose:
            _add_verbose(manager)
        return manager


class CallbackManager(_Manager):
    """Starts runs, sync."""


class AsyncCallbackManager(_Manager):
    """Starts runs, async."""

    _io = ASYNC


def _handlers_of(callbacks: Callbacks) -> list[BaseCallbackHandler]:
    if callbacks is None:
        return []
    return callbacks if isinstance(callbacks, list) else callbacks.handlers


def _manager_of(cls: type[M], callbacks: Callbacks) -> M:
    if callbacks is None:
        return cls(handlers=[])
    if isinstance(callbacks, list):
        return cls(callbacks.copy(), callbacks.copy())
    return cls(
        handlers=callbacks.handlers.copy(),
        inheritable_handlers=callbacks.inheritable_handlers.copy(),
        parent_run_id=callbacks.parent_run_id,
        tags=callbacks.tags.copy(),
        inheritable_tags=callbacks.inheritable_tags.copy(),
        metadata=callbacks.metadata.copy(),
        inheritable_metadata=callbacks.inheritable_metadata.copy(),
    )


def _add_verbose(manager: BaseCallbackManager) -> None:
    from foldline.callbacks.stdout import StdOutCallbackHandler  # noqa: PLC0415  only verbose runs print

    if not any(isinstance(handler, StdOutCallbackHandler) for handler in manager.handlers):
        manager.add_handler(StdOutCallbackHandler(), inherit=False)


def child_manager(
    cls: type[M],
    parent: BaseRunManager | BaseCallbackManager,
    run_id: UUID,
    tag: str | None = None,
    *,
    is_private: bool = False,
) -> M:
    """Return the manager for calls nested in a run: inherited handlers, tags and metadata, and one more tag.

    A private one, whose lists are never changed in place, shares them with its parent.
    """
    tags = parent.inheritable_tags
    child = object.__new__(cls)  # past the constructor, which has nothing to check
    child.__dict__ = {
        "handlers": parent.inheritable_handlers,
        "inheritable_handlers": parent.inheritable_handlers,
        "parent_run_id": run_id,
        "tags": [tag, *tags] if tag and tag not in tags else tags,
        "inheritable_tags": tags,
        "metadata": parent.inheritable_metadata,
        "inheritable_metadata": parent.inheritable_metadata,
    }
    return child if is_private else child.copy()


# Names that LangChain has in this module.
forward_names(
    __name__,
    {
        "foldline.callbacks.custom_events": "adispatch_custom_event dispatch_custom_event",
        "foldline.callbacks.dispatch": "ahandle_event handle_event shielded",
        "foldline.callbacks.groups": (
            "AsyncCallbackManagerForChainGroup CallbackManagerForChainGroup atrace_as_chain_group trace_as_chain_group"
        ),
    },
)
