"""`Run`: the config, the handlers and the I/O of one call, passed to every body.

A body gets a `Run` and nothing else from its caller. Steps get `run.child(tag)`. Without handlers a run is a few
attributes: no UUID is made, no dict is copied, and `child()` returns the run itself.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Token
from functools import cache
from typing import Any, Literal, cast
from uuid import UUID

from foldline._config import (
    DEFAULT_RECURSION_LIMIT,
    RunnableConfig,
    check_config,
    ensure_config,
    merge_configs,
    split_config,
    var_child_runnable_config,
)
from foldline._io import ASYNC, BLOCKING, IO, stopped_by
from foldline._traceback import cut_traceback
from foldline.callbacks import hooks
from foldline.callbacks._observers import RunObserver
from foldline.callbacks.base import BaseCallbackHandler, Callbacks
from foldline.callbacks.dispatch import dispatch_now
from foldline.callbacks.manager import (
    RUN_MANAGERS,
    AsyncCallbackManager,
    BaseRunManager,
    CallbackManager,
    child_manager,
)
from foldline.callbacks.mixins import Metadata
from foldline.tracers import _environment as _environment  # registers the environment's tracer
from foldline.utils._suggest import warn_of_typo
from foldline.utils.uuid import uuid7

Kind = Literal["chain", "tool", "retriever", "llm"]
Manager = CallbackManager | AsyncCallbackManager
ConfigFactory = Callable[[RunnableConfig], RunnableConfig]

NO_CONFIG: RunnableConfig = {}
NO_KWARGS: dict[str, Any] = {}
OWN_KEYS = frozenset({"run_name", "run_id", "callbacks"})
"""Config keys of one run, which its children do not inherit."""
CALL_KEYWORDS = ("config", "return_exceptions")
"""Parameters of every call besides its input."""


class _Current:
    __slots__ = ("_config", "_token")

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config
        self._token: Token[RunnableConfig | None] | None = None

    def __enter__(self) -> None:
        self._token = var_child_runnable_config.set(self._config)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            var_child_runnable_config.reset(self._token)


UNCHANGED = nullcontext()


class Run:
    """The config, the handlers and the I/O of one call."""

    __slots__ = ("call_config", "id", "io", "kwargs", "manager", "origin", "started")

    def __init__(
        self, io: IO, call_config: RunnableConfig, manager: Manager | None, kwargs: dict[str, Any]
    ) -> None:
        self.io: IO = io
        self.call_config: RunnableConfig = call_config
        """The config of the caller, without defaults."""
        self.manager: Manager | None = manager
        """The handlers; None where there are none."""
        self.kwargs: dict[str, Any] = kwargs
        """Keyword arguments of this call, for this runnable and not for its children."""
        self.id: UUID | None = None
        self.started: bool = False
        self.origin: tuple[RunnableConfig, RunnableConfig] | None = None
        """For a call made inside the function of another run: the inherited config, and the config of the call."""

    @classmethod
    def blocking(
        cls, config: RunnableConfig | None = None, kwargs: dict[str, Any] = NO_KWARGS
    ) -> Run:
        """Return the run of a sync call."""
        return cls.root(BLOCKING, config, kwargs)

    @classmethod
    def asynchronous(
        cls, config: RunnableConfig | None = None, kwargs: dict[str, Any] = NO_KWARGS
    ) -> Run:
        """Return the run of an async call."""
        return cls.root(ASYNC, config, kwargs)

    @classmethod
    def root(cls, io: IO, config: RunnableConfig | None, kwargs: dict[str, Any]) -> Run:
        """Return the run of a public call: its config over that of an enclosing call."""
        inherited = var_child_runnable_config.get()
        if kwargs:
            _check_keywords(kwargs)
        if config is None and inherited is None:
            return cls(
                io, NO_CONFIG, _configure_manager(io, NO_CONFIG) if _has_hooks() else None, kwargs
            )
        try:
            call_config = _overlay(inherited, config)
        except Exception as error:
            cut_traceback(error)
            raise
        run = cls(io, call_config, _configure_manager(io, call_config), kwargs)
        if inherited is not None:
            run.origin = (inherited, config or NO_CONFIG)
        return run

    # -- values of the config

    def get(self, key: str, default: object = None) -> Any:  # noqa: ANN401  the type depends on the key
        """Return a value of the config."""
        value = self.call_config.get(key)
        return default if value is None else value

    @property
    def max_concurrency(self) -> int | None:
        """The number of nested calls that may run at once."""
        return self.call_config.get("max_concurrency")

    @property
    def recursion_limit(self) -> int:
        """How many runnables may still return a runnable, one inside the other."""
        return cast("int", self.get("recursion_limit", DEFAULT_RECURSION_LIMIT))

    @property
    def configurable(self) -> dict[str, Any]:
        """Values for configurable fields."""
        return cast("dict[str, Any]", self.get("configurable", {}))

    # -- other runs

    def child(self, tag: str | None = None) -> Run:
        """Return the run of a step, with this run as its parent."""
        if self.manager is None:
            if not self.kwargs and OWN_KEYS.isdisjoint(self.call_config):
                return self
            return Run(self.io, _without_own_keys(self.call_config), None, NO_KWARGS)
        manager = self.manager
        if self.id is not None:
            manager = child_manager(type(manager), manager, self.id, tag, is_private=True)
        elif tag:
            manager = manager.copy()
            manager.add_tags([tag], inherit=False)
        return Run(self.io, _without_own_keys(self.call_config), manager, NO_KWARGS)

    def patched(
        self,
        config: RunnableConfig | None = None,
        kwargs: dict[str, Any] | None = None,
        *,
        io: IO | None = None,
    ) -> Run:
        """Return a copy that has not started: with more config, other keyword arguments, or sync instead of async."""
        if not config:
            manager = self.manager
            if io is not None and manager is not None and io.blocking is not self.io.blocking:
                manager = _manager_class(io).configure(manager)
            return Run(
                io or self.io, self.call_config, manager, self.kwargs if kwargs is None else kwargs
            )
        base = {**self.call_config, "callbacks": self.manager} if self.manager else self.call_config
        merged_config = merge_configs(base, config)
        io = io or self.io
        manager = _configure_manager(io, merged_config)
        return Run(io, merged_config, manager, self.kwargs if kwargs is None else kwargs)

    def with_defaults(
        self, defaults: RunnableConfig, factories: Sequence[ConfigFactory], kwargs: dict[str, Any]
    ) -> Run:
        """Return a copy with the config of a binding; values of the caller's config win."""
        if self.origin is None:
            base = (
                {**self.call_config, "callbacks": self.manager}
                if self.manager
                else self.call_config
            )
            merged_config = merge_configs(_overlay(None, defaults), base)
        else:
            inherited, config = self.origin
            if config.get("callbacks") is not None:  # handlers of the call replace inherited ones
                inherited = cast("RunnableConfig", {**inherited, "callbacks": None})
            merged_config = merge_configs(
                inherited, _overlay(None, defaults), _overlay(None, config)
            )
        for factory in factories:
            merged_config = merge_configs(merged_config, factory(merged_config))
        return Run(self.io, merged_config, _configure_manager(self.io, merged_config), kwargs)

    def with_local(
        self,
        callbacks: Callbacks = None,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        *,
        verbose: bool = False,
    ) -> Run:
        """Return a copy with the handlers, tags and metadata that a runnable adds to its own runs."""
        if self.manager is None and not callbacks and not verbose:
            return self
        cls = type(self.manager) if self.manager else _manager_class(self.io)
        manager = cls.configure(
            self.manager, callbacks, verbose, local_tags=tags, local_metadata=metadata
        )
        return Run(self.io, self.call_config, manager if manager.handlers else None, self.kwargs)

    # -- for user code

    def config(self, tag: str | None = None) -> RunnableConfig:
        """Return the full config for calls nested in this run."""
        config = ensure_config(_without_own_keys(self.call_config))
        nested = self.child(tag).manager
        config["callbacks"] = None if nested is None else nested.copy()
        return config

    def own_config(self) -> RunnableConfig:
        """Return the config of this run itself, with its name and id."""
        config = ensure_config(self.call_config)
        if self.manager is not None:
            config["callbacks"] = self.manager
        return config

    def current(self) -> AbstractContextManager[None]:
        """Make runnables that user code calls inside the block children of this run.

        Enter it around each step of user code, never across a `yield`: another task or thread may run the next step.
        It can be entered repeatedly, but not by two threads at once.
        """
        if self.manager is None and not self.call_config:
            return UNCHANGED
        return _Current(self.config())

    def run_manager(self, kind: Kind = "chain", *, is_async: bool | None = None) -> BaseRunManager:
        """Return the object through which user code calls the handlers of this run; by default in the call's mode."""
        cls = RUN_MANAGERS[kind][not self.io.blocking if is_async is None else is_async]
        if self.manager is None:
            return _noop(cls)  # type: ignore[arg-type] # a class has a hash
        return cls.of(self.manager, self.id or uuid7())

    # -- events

    @property
    def handlers(self) -> list[BaseCallbackHandler]:
        """The handlers of this run."""
        return self.manager.handlers if self.manager else []

    async def begin(self, kind: Kind, event: str, *args: object, **kwargs: object) -> None:
        """Start this run: make its id and call its handlers."""
        waiting = self.begin_now(event, args, kwargs)
        if waiting is not None:
            await waiting

    def begin_now(
        self, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Awaitable[None] | None:
        """Start this run; return an awaitable where a handler takes time."""
        manager = self.manager
        if manager is None or self.started:
            return None
        run_id: object = self.call_config.get("run_id")  # `check_config` accepts its text too
        if run_id is None:
            self.id = uuid7()
        else:
            self.id = run_id if isinstance(run_id, UUID) else UUID(str(run_id))
        self.started = True
        if configurable := self.call_config.get("configurable"):
            for handler in manager.handlers:
                if isinstance(handler, RunObserver):
                    handler.on_run_config(self.id, configurable)
        kwargs["run_id"] = self.id
        kwargs["parent_run_id"] = manager.parent_run_id
        kwargs["tags"] = manager.tags
        kwargs["metadata"] = manager.metadata
        return dispatch_now(self.io, manager.handlers, event, args, kwargs)

    async def dispatch(self, event: str, *args: object, **kwargs: object) -> None:
        """Call the handlers of this run for an event."""
        waiting = self.dispatch_now(event, args, kwargs)
        if waiting is not None:
            await waiting

    def dispatch_now(
        self, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Awaitable[None] | None:
        """Call the handlers of this run for an event; return an awaitable where one takes time."""
        manager = self.manager
        if manager is None or self.id is None:
            return None
        kwargs["run_id"] = self.id
        kwargs["parent_run_id"] = manager.parent_run_id
        kwargs["tags"] = manager.tags
        return dispatch_now(self.io, manager.handlers, event, args, kwargs)

    async def end_stream(self, output: object, **kwargs: object) -> None:
        """Dispatch the end of a stream that its reader closed, or the error of a parallel stream that closed it."""
        if sys.is_finalizing():  # handlers cannot import anything at the exit of Python
            return
        if (error := stopped_by()) is None:
            await self.dispatch("on_chain_end", output, **kwargs)
        else:
            await self.dispatch("on_chain_error", error, **kwargs)


@cache
def _noop(cls: type[BaseRunManager]) -> BaseRunManager:
    # It has no handlers and is never changed, so one instance serves every call.
    return cls(run_id=UUID(int=0), handlers=[], inheritable_handlers=[])


def _check_keywords(kwargs: dict[str, Any]) -> None:
    """Warn of a keyword that looks like a misspelt parameter of every call."""
    for name in kwargs:
        warn_of_typo("a call", name, CALL_KEYWORDS, "it is passed on as given")


def _overlay(inherited: RunnableConfig | None, config: RunnableConfig | None) -> RunnableConfig:
    config_values, configurable = split_config(config)
    merged: dict[str, Any] = {**inherited, **config_values} if inherited else config_values
    if configurable:
        merged["configurable"] = {**(merged.get("configurable") or {}), **configurable}
    check_config(merged)
    return cast("RunnableConfig", merged)


def _without_own_keys(config: RunnableConfig) -> RunnableConfig:
    if OWN_KEYS.isdisjoint(config):
        return config
    return cast(
        "RunnableConfig", {key: value for key, value in config.items() if key not in OWN_KEYS}
    )


def _manager_class(io: IO) -> type[Manager]:
    return CallbackManager if io.blocking else AsyncCallbackManager


def _configure_manager(io: IO, config: RunnableConfig) -> Manager | None:
    callbacks = config.get("callbacks")
    if not callbacks and not _has_hooks():
        return None
    manager = _manager_class(io).configure(
        callbacks, inheritable_tags=config.get("tags"), inheritable_metadata=config.get("metadata")
    )
    return manager if manager.handlers else None


def _has_hooks() -> bool:
    """Whether a handler is added to every run without being passed to it."""
    if hooks.EVERYWHERE:
        return True
    for source, _, _, variable in hooks.HOOKS:
        if source.get() is not None or (variable is not None and hooks.is_on(variable)):
            return True
    return False
