"""`Run`: what one call carries through every body: its config, its listeners, its way to wait.

A body gets a `Run` and nothing else of the caller's world. Steps get `run.child(tag)`. With no listener attached a
run is a few attributes: no uuid is made, no dict is copied, and `child()` is the run itself.
"""

from __future__ import annotations

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
from foldline.callbacks import hooks
from foldline.callbacks.base import BaseCallbackHandler, Callbacks, Metadata
from foldline.callbacks.dispatch import dispatch_now
from foldline.callbacks.manager import (
    RUN_MANAGERS,
    AsyncCallbackManager,
    BaseRunManager,
    CallbackManager,
    child_manager,
)
from foldline.tracers import _switch as _switch  # registers the environment's tracer
from foldline.utils.suggest import warn_of_typo
from foldline.utils.uuid import uuid7

Kind = Literal["chain", "tool", "retriever", "llm"]
Manager = CallbackManager | AsyncCallbackManager
ConfigFactory = Callable[[RunnableConfig], RunnableConfig]

NO_CONFIG: RunnableConfig = {}
NO_KWARGS: dict[str, Any] = {}
OWN_KEYS = frozenset({"run_name", "run_id", "callbacks"})
"""What belongs to one run and not to its children."""
CALL_KEYWORDS = ("config", "return_exceptions")
"""What every call takes besides its input."""


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
    """Config, listeners and io of one call."""

    __slots__ = ("given", "id", "io", "kwargs", "manager", "origin", "started")

    def __init__(
        self, io: IO, given: RunnableConfig, manager: Manager | None, kwargs: dict[str, Any]
    ) -> None:
        self.io: IO = io
        self.given: RunnableConfig = given
        """The config as the caller gave it, defaults not filled in."""
        self.manager: Manager | None = manager
        """The listeners; None when nobody listens."""
        self.kwargs: dict[str, Any] = kwargs
        """Keyword arguments of this call, for this runnable and not for its children."""
        self.id: UUID | None = None
        self.started: bool = False
        self.origin: tuple[RunnableConfig, RunnableConfig] | None = None
        """Of a call made inside another one's function: the config it inherited, and the one it was given."""

    @classmethod
    def blocking(
        cls, config: RunnableConfig | None = None, kwargs: dict[str, Any] = NO_KWARGS
    ) -> Run:
        """Make the run of a blocking call."""
        return cls.root(BLOCKING, config, kwargs)

    @classmethod
    def asynchronous(
        cls, config: RunnableConfig | None = None, kwargs: dict[str, Any] = NO_KWARGS
    ) -> Run:
        """Make the run of an awaited call."""
        return cls.root(ASYNC, config, kwargs)

    @classmethod
    def root(cls, io: IO, config: RunnableConfig | None, kwargs: dict[str, Any]) -> Run:
        """Make the run of a public call: its config over the one of an enclosing call."""
        inherited = var_child_runnable_config.get()
        if kwargs:
            _check_keywords(kwargs)
        if config is None and inherited is None:
            return cls(io, NO_CONFIG, _listeners(io, NO_CONFIG) if _is_hooked() else None, kwargs)
        given = _overlay(inherited, config)
        run = cls(io, given, _listeners(io, given), kwargs)
        if inherited is not None:
            run.origin = (inherited, config or NO_CONFIG)
        return run

    # -- what the config says

    def get(self, key: str, default: object = None) -> Any:  # noqa: ANN401  the type depends on the key
        """Return a value of the config."""
        value = self.given.get(key)
        return default if value is None else value

    @property
    def max_concurrency(self) -> int | None:
        """How many nested calls may run at once."""
        return self.given.get("max_concurrency")

    @property
    def recursion_limit(self) -> int:
        """How deep runnables may still return runnables."""
        return cast("int", self.get("recursion_limit", DEFAULT_RECURSION_LIMIT))

    @property
    def configurable(self) -> dict[str, Any]:
        """Values for configurable fields."""
        return cast("dict[str, Any]", self.get("configurable", {}))

    # -- other runs

    def child(self, tag: str | None = None) -> Run:
        """Make the run of a step: inherits what children inherit, under this run as parent."""
        if self.manager is None:
            if not self.kwargs and OWN_KEYS.isdisjoint(self.given):
                return self
            return Run(self.io, _without_own_keys(self.given), None, NO_KWARGS)
        manager = self.manager
        if self.id is not None:
            manager = child_manager(type(manager), manager, self.id, tag, is_private=True)
        elif tag:
            manager = manager.copy()
            manager.add_tags([tag], inherit=False)
        return Run(self.io, _without_own_keys(self.given), manager, NO_KWARGS)

    def patched(
        self,
        config: RunnableConfig | None = None,
        kwargs: dict[str, Any] | None = None,
        *,
        io: IO | None = None,
    ) -> Run:
        """Copy this run with more config merged in, other kwargs, or another colour; not yet started."""
        if not config:
            manager = self.manager
            if io is not None and manager is not None and io.blocking is not self.io.blocking:
                manager = _recolour(manager, io)
            return Run(
                io or self.io, self.given, manager, self.kwargs if kwargs is None else kwargs
            )
        base = {**self.given, "callbacks": self.manager} if self.manager else self.given
        given = merge_configs(base, config)
        colour = io or self.io
        return Run(
            colour, given, _listeners(colour, given), self.kwargs if kwargs is None else kwargs
        )

    def over(
        self, under: RunnableConfig, factories: Sequence[ConfigFactory], kwargs: dict[str, Any]
    ) -> Run:
        """Copy this run over a config of lower rank, as a binding does: what the caller said wins."""
        if self.origin is None:
            base = {**self.given, "callbacks": self.manager} if self.manager else self.given
            given = merge_configs(_overlay(None, under), base)
        else:
            inherited, called = self.origin
            if (
                called.get("callbacks") is not None
            ):  # a call's own handlers replace the inherited ones
                inherited = cast("RunnableConfig", {**inherited, "callbacks": None})
            given = merge_configs(inherited, _overlay(None, under), _overlay(None, called))
        for factory in factories:
            given = merge_configs(given, factory(given))
        return Run(self.io, given, _listeners(self.io, given), kwargs)

    def with_local(
        self,
        callbacks: Callbacks = None,
        tags: list[str] | None = None,
        metadata: Metadata | None = None,
        *,
        verbose: bool = False,
    ) -> Run:
        """Copy this run with what a runnable's constructor adds for its own runs only."""
        if self.manager is None and not callbacks and not verbose:
            return self
        cls = type(self.manager) if self.manager else _manager_class(self.io)
        manager = cls.configure(
            self.manager, callbacks, verbose, local_tags=tags, local_metadata=metadata
        )
        return Run(self.io, self.given, manager if manager.handlers else None, self.kwargs)

    # -- what user code sees

    def config(self, tag: str | None = None) -> RunnableConfig:
        """Return the full config for calls nested in this run."""
        given = cast(
            "RunnableConfig",
            {key: value for key, value in self.given.items() if key not in OWN_KEYS},
        )
        config = ensure_config(given)
        nested = self.child(tag).manager
        config["callbacks"] = None if nested is None else nested.copy()
        return config

    def own_config(self) -> RunnableConfig:
        """Return the config as this runnable's own call has it: its name and id included."""
        config = ensure_config(self.given)
        if self.manager is not None:
            config["callbacks"] = self.manager
        return config

    def current(self) -> AbstractContextManager[None]:
        """Let runnables that user code calls inside the block be children of this run.

        Enter it around each step of the user's code and never hold it across a `yield`: the next step may be run by
        another task or thread. It may be entered again and again, by one user at a time.
        """
        if self.manager is None and not self.given:
            return UNCHANGED
        return _Current(self.config())

    def run_manager(self, kind: Kind = "chain") -> BaseRunManager:
        """Return the object through which user code speaks to this run's handlers."""
        cls = RUN_MANAGERS[kind][not self.io.blocking]
        if self.manager is None:
            return _noop(cls)  # type: ignore[arg-type] # a class has a hash
        return cls.of(self.manager, self.id or uuid7())

    # -- telling

    @property
    def handlers(self) -> list[BaseCallbackHandler]:
        """The handlers that listen to this run."""
        return self.manager.handlers if self.manager else []

    async def begin(self, kind: Kind, event: str, *args: object, **kwargs: object) -> None:
        """Start this run: give it an id and tell its handlers."""
        waiting = self.begin_now(event, args, kwargs)
        if waiting is not None:
            await waiting

    def begin_now(
        self, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Awaitable[None] | None:
        """Start this run, and give what is to be waited for where one of its handlers takes time."""
        manager = self.manager
        if manager is None or self.started:
            return None
        known: Any = self.given.get("run_id")  # `check_config` lets its text pass too
        self.id = (
            uuid7() if known is None else known if isinstance(known, UUID) else UUID(str(known))
        )
        self.started = True
        kwargs["run_id"] = self.id
        kwargs["parent_run_id"] = manager.parent_run_id
        kwargs["tags"] = manager.tags
        kwargs["metadata"] = manager.metadata
        return dispatch_now(self.io, manager.handlers, event, args, kwargs)

    async def dispatch(self, event: str, *args: object, **kwargs: object) -> None:
        """Tell this run's handlers of an event."""
        waiting = self.dispatch_now(event, args, kwargs)
        if waiting is not None:
            await waiting

    def dispatch_now(
        self, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Awaitable[None] | None:
        """Tell this run's handlers of an event, or give what is to be waited for where one of them takes time."""
        manager = self.manager
        if manager is None or self.id is None:
            return None
        kwargs["run_id"] = self.id
        kwargs["parent_run_id"] = manager.parent_run_id
        kwargs["tags"] = manager.tags
        return dispatch_now(self.io, manager.handlers, event, args, kwargs)

    async def leave(self, output: object, **kwargs: object) -> None:
        """Tell that the stream of this chain is closed: ended with what it gave, or failed with its neighbour."""
        if (error := stopped_by()) is None:
            await self.dispatch("on_chain_end", output, **kwargs)
        else:
            await self.dispatch("on_chain_error", error, **kwargs)


@cache
def _noop(cls: type[BaseRunManager]) -> BaseRunManager:
    # Nobody listens to it and nobody changes it, so one serves every call.
    return cls(run_id=UUID(int=0), handlers=[], inheritable_handlers=[])


def _check_keywords(kwargs: dict[str, Any]) -> None:
    """Warn of a keyword that is nearly one of every call: what nobody reads would be lost without a word."""
    for name in kwargs:
        warn_of_typo("a call", name, CALL_KEYWORDS, "is passed on as it is")


def _overlay(inherited: RunnableConfig | None, config: RunnableConfig | None) -> RunnableConfig:
    known, loose = split_config(config)
    given: dict[str, Any] = {**inherited, **known} if inherited else known
    if loose:
        given["configurable"] = {**(given.get("configurable") or {}), **loose}
    check_config(given)
    return cast("RunnableConfig", given)


def _without_own_keys(given: RunnableConfig) -> RunnableConfig:
    if OWN_KEYS.isdisjoint(given):
        return given
    return cast(
        "RunnableConfig", {key: value for key, value in given.items() if key not in OWN_KEYS}
    )


def _manager_class(io: IO) -> type[Manager]:
    return CallbackManager if io.blocking else AsyncCallbackManager


def _listeners(io: IO, given: RunnableConfig) -> Manager | None:
    callbacks = given.get("callbacks")
    if not callbacks and not _is_hooked():
        return None
    cls = CallbackManager if io.blocking else AsyncCallbackManager
    manager = cls.configure(
        callbacks, inheritable_tags=given.get("tags"), inheritable_metadata=given.get("metadata")
    )
    return manager if manager.handlers else None


def _is_hooked() -> bool:
    """Whether a handler joins every run without being passed to it."""
    if hooks.EVERYWHERE:
        return True
    for source, _, _, variable in hooks.HOOKS:
        if source.get() is not None or (variable is not None and hooks.is_on(variable)):
            return True
    return False


def _recolour(manager: Manager, io: IO) -> Manager:
    return _manager_class(io).configure(manager)
