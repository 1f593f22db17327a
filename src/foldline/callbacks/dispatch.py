"""The dispatcher: calls the handlers of an event, sync and async.

A handler that raises, or takes longer than its `patience`, is logged and the run continues, unless the handler sets
`raise_error`. Other exceptions (KeyboardInterrupt, cancellation) are always raised. A hook that a handler did not
override is never called. The start and the end of a run reach every handler: an error of one of them, or a
cancellation meanwhile, is raised afterwards.
"""

from __future__ import annotations

import functools
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeGuard, TypeVar, cast

from foldline._io import ASYNC, BLOCKING, IO, OutOfTime, shield
from foldline._io.drive import drive
from foldline.callbacks._copied_context import CopiedContext
from foldline.callbacks.base import AsyncCallbackHandler, BaseCallbackHandler

F = TypeVar("F", bound=Callable[..., Any])

logger: logging.Logger = logging.getLogger("foldline.callbacks")


class HookWait(ABC):
    """What a hook returns that must wait before the run goes on: the dispatcher waits as the run does, sync or async.

    A hook called in place cannot wait itself: in an async run that would stop the event loop.
    """

    __slots__ = ()

    @abstractmethod
    async def wait(self, io: IO) -> None:
        """Wait through `io`."""


IGNORED_BY: dict[str, str] = {
    "on_llm_start": "ignore_llm",
    "on_chat_model_start": "ignore_chat_model",
    "on_llm_new_token": "ignore_llm",
    "on_stream_event": "ignore_llm",
    "on_model_request": "ignore_llm",
    "on_llm_end": "ignore_llm",
    "on_llm_error": "ignore_llm",
    "on_chain_start": "ignore_chain",
    "on_chain_end": "ignore_chain",
    "on_chain_error": "ignore_chain",
    "on_agent_action": "ignore_agent",
    "on_agent_finish": "ignore_agent",
    "on_tool_start": "ignore_agent",
    "on_tool_end": "ignore_agent",
    "on_tool_error": "ignore_agent",
    "on_retriever_start": "ignore_retriever",
    "on_retriever_end": "ignore_retriever",
    "on_retriever_error": "ignore_retriever",
    "on_retry": "ignore_retry",
    "on_custom_event": "ignore_custom_event",
}

_OVERRIDES: dict[tuple[type, str], bool] = {}
"""Class of handler and event -> whether the class overrides the hook."""
_IS_DIRECT: dict[tuple[type, str], bool] = {}
"""Class of handler and event -> whether its hook is a plain function that can be called without further checks."""
COPIED_EVENTS = frozenset({"on_stream_event"})
"""Events whose first argument is copied for each handler."""
SETTINGS = ("patience", *sorted({*IGNORED_BY.values()}))
"""Attributes of a handler that change how its hooks are called in place."""


def has_hook(handler: BaseCallbackHandler, event: str) -> bool:
    """Whether a handler overrides the hook of an event, in its class or as an instance attribute."""
    cls = type(handler)
    overrides = _OVERRIDES.get((cls, event))
    if overrides is None:
        hook = getattr(cls, event, None)
        defaults = (
            getattr(BaseCallbackHandler, event, None),
            getattr(AsyncCallbackHandler, event, None),
        )
        # A class without the hook may have it through __getattr__ (a proxy).
        overrides = _OVERRIDES[cls, event] = hook is None or hook not in defaults
    return overrides or event in getattr(handler, "__dict__", ())


def listening(handlers: Sequence[BaseCallbackHandler], event: str) -> list[BaseCallbackHandler]:
    """Return the handlers that want an event."""
    ignored = IGNORED_BY.get(event)
    return [
        handler
        for handler in handlers
        if has_hook(handler, event)
        and not (ignored is not None and getattr(handler, ignored, False))
    ]


START_AND_END_EVENTS = frozenset(
    event for event in IGNORED_BY if event.endswith(("_start", "_end", "_error"))
)
"""Events that reach every handler once, also if another handler raises or the caller is cancelled."""
END_EVENTS = frozenset(event for event in START_AND_END_EVENTS if not event.endswith("_start"))
"""Events whose hooks are shielded from cancellation; a start runs in the caller's task, whose context it may set."""


async def dispatch(
    io: IO, handlers: Sequence[BaseCallbackHandler], event: str, *args: object, **kwargs: object
) -> None:
    """Call every handler that overrides the hook of an event."""
    waiting = dispatch_now(io, handlers, event, args, kwargs)
    if waiting is not None:
        await waiting


def dispatch_now(
    io: IO,
    handlers: Sequence[BaseCallbackHandler],
    event: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Awaitable[None] | None:
    """Call every handler that overrides the hook of an event; return an awaitable where one takes time."""
    return _dispatch(io, tuple(handlers), event, IGNORED_BY.get(event), args, kwargs, None)


def _dispatch(
    io: IO,
    handlers: tuple[BaseCallbackHandler, ...],
    event: str,
    ignored: str | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    first: BaseException | None,
) -> Awaitable[None] | None:
    """Call handlers; `first` is the error of an earlier handler, raised when all have been called."""
    for place, handler in enumerate(handlers):  # a tuple: a hook may add or remove handlers
        try:
            waiting = _start_hook(io, handler, event, ignored, args, kwargs)
        except BaseException as error:
            if event not in START_AND_END_EVENTS:
                raise
            first = first or error
        else:
            if waiting is not None:
                settled = _wait_for_hook(io, handler, event, waiting, args, kwargs)
                others = handlers[place + 1 :]
                return _wait_and_dispatch(io, settled, others, event, ignored, args, kwargs, first)
    if first is not None:
        raise first
    return None


async def _wait_and_dispatch(
    io: IO,
    settled: Coroutine[Any, Any, None],
    handlers: tuple[BaseCallbackHandler, ...],
    event: str,
    ignored: str | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    first: BaseException | None,
) -> None:
    """Wait for a handler that takes time, then call the handlers after it."""
    try:
        await (shield(settled) if event in END_EVENTS and not io.blocking else settled)
    except BaseException as error:
        if event not in START_AND_END_EVENTS:
            raise
        first = first or error
    waiting = _dispatch(io, handlers, event, ignored, args, kwargs, first)
    if waiting is not None:
        await waiting


def _is_direct(handler: BaseCallbackHandler, event: str) -> bool:
    """Whether a hook that may be called in place needs no further checks."""
    cls = type(handler)
    is_direct = _IS_DIRECT.get((cls, event))
    if is_direct is None:
        is_direct = _IS_DIRECT[cls, event] = (
            all(getattr(cls, name, None) is getattr(BaseCallbackHandler, name) for name in SETTINGS)
            and cls.__dictoffset__ != 0
            and has_hook(handler, event)
            and event not in COPIED_EVENTS
            and not inspect.iscoroutinefunction(getattr(cls, event, None))
        )
    if not is_direct:
        return False
    attributes = handler.__dict__
    return "patience" not in attributes and event not in attributes


def _start_hook(
    io: IO,
    handler: BaseCallbackHandler,
    event: str,
    ignored: str | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Awaitable[Any] | None:
    """Call a hook; return an awaitable where it takes time."""
    try:
        if (io.blocking or handler.run_inline) and _is_direct(handler, event):
            result = getattr(handler, event)(*args, **_copy_arguments(kwargs))
            return None if result is None else _result(io, result)
        return _call_hook(io, handler, event, ignored, args, kwargs)
    except Exception as error:
        return _failed(io, handler, event, error, args, kwargs)


def _call_hook(
    io: IO,
    handler: BaseCallbackHandler,
    event: str,
    ignored: str | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Awaitable[Any] | None:
    """Call a hook by the settings of its handler, unless the handler ignores the event."""
    is_ignored = ignored is not None and getattr(handler, ignored, False)
    if is_ignored or not has_hook(handler, event):
        is_text = event == "on_chat_model_start" and not is_ignored
        return _dispatch_as_text(io, handler, args, kwargs) if is_text else None
    if event in COPIED_EVENTS:
        args = (_copy(args[0]), *args[1:])
    hook: Callable[..., Any] = getattr(handler, event)
    if isinstance(patience := getattr(handler, "patience", None), int | float):
        return _in_time(io, patience, hook, args, _copy_arguments(kwargs))
    if not (io.blocking or handler.run_inline or _is_inline(hook)):
        return io.call(hook, *args, **_copy_arguments(kwargs))
    result = hook(*args, **_copy_arguments(kwargs))
    if not io.blocking and not handler.run_inline and inspect.iscoroutine(result):
        result = CopiedContext(result)
    return None if result is None else _result(io, result)


def _result(io: IO, result: object) -> Awaitable[Any] | None:
    """Return the awaitable that a hook returned, if it did."""
    if isinstance(result, HookWait):
        return result.wait(io)
    return io.settle(result) if _is_awaitable(result) else None


def direct_hooks(
    io: IO, handlers: Sequence[BaseCallbackHandler], event: str
) -> list[tuple[BaseCallbackHandler, Callable[..., Any]]] | None:
    """Return the hooks of an event where each is a plain function that may be called in place, else None.

    Used for tokens, so that nothing is looked up for each. Pass an error that a hook raises to `hook_failed`, and an
    awaitable that it returns to `settled`.
    """
    listeners = listening(handlers, event)
    for handler in listeners:
        if not (io.blocking or handler.run_inline) or not _is_direct(handler, event):
            return None
    return [(handler, getattr(handler, event)) for handler in listeners]


def hook_failed(handler: BaseCallbackHandler, event: str, error: Exception) -> None:
    """Log the error of a hook; raise it where the handler has `raise_error`."""
    _complain(handler, event, error)
    if handler.raise_error and not isinstance(error, NotImplementedError):
        raise error


def settled(io: IO, result: object) -> Coroutine[Any, Any, Any] | None:
    """Wait for an awaitable that a hook returned, in a sync call; return it to an async call."""
    if not _is_awaitable(result):
        return None
    if not io.blocking:
        return io.settle(result)
    drive(io.settle(result))
    return None


def _is_awaitable(result: object) -> TypeGuard[Awaitable[Any]]:
    """Whether a result is awaitable; cached by class, because `hasattr` of a Pydantic class is slow."""
    cls: Any = type(result)
    return _has_await(cls)


@functools.lru_cache(maxsize=256)
def _has_await(cls: type) -> bool:
    return hasattr(cls, "__await__")


async def _in_time(
    io: IO, patience: float, hook: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    async def run_hook() -> None:
        result = hook(*args, **kwargs) if io.blocking else await io.call(hook, *args, **kwargs)
        if (more := _result(io, result)) is not None:
            await more

    try:
        await io.bounded(patience, run_hook())
    except OutOfTime:
        raise TimeoutError(
            f"the hook took longer than the {patience:g} s of `patience` its handler has:"
            " let it hand its work to a queue, or give it more"
        ) from None


async def _wait_for_hook(
    io: IO,
    handler: BaseCallbackHandler,
    event: str,
    waiting: Awaitable[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    try:
        result = await waiting
        if isinstance(result, HookWait):
            await result.wait(io)
    except Exception as error:
        fallback = _failed(io, handler, event, error, args, kwargs)
        if fallback is not None:
            await fallback


def _failed(
    io: IO,
    handler: BaseCallbackHandler,
    event: str,
    error: Exception,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Awaitable[None] | None:
    """Log the error of a hook; raise it where the handler has `raise_error`.

    NotImplementedError from `on_chat_model_start` means that the handler knows text models only.
    """
    if event == "on_chat_model_start" and isinstance(error, NotImplementedError):
        return _dispatch_as_text(io, handler, args, kwargs)
    hook_failed(handler, event, error)
    return None


def _copy_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Copy the tags and the metadata, so that a handler which changes them does not affect others."""
    copied = kwargs.copy()
    if (tags := copied.get("tags")) is not None:
        copied["tags"] = list(tags)
    if (metadata := copied.get("metadata")) is not None:
        copied["metadata"] = dict(metadata)
    return copied


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def inline(hook: F) -> F:
    """Mark a sync hook that returns quickly: async runs call it without a thread."""
    hook.__dict__["_foldline_inline"] = True
    return hook


def _is_inline(hook: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(hook) or getattr(hook, "_foldline_inline", False)


async def _dispatch_as_text(
    io: IO, handler: BaseCallbackHandler, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    if not has_hook(handler, "on_llm_start") or handler.ignore_llm:
        return
    from foldline.messages import get_buffer_string  # noqa: PLC0415  only old-style handlers pay for it

    serialized, conversations, *others = args
    prompts = [get_buffer_string(messages) for messages in conversations]
    await dispatch(io, [handler], "on_llm_start", serialized, prompts, *others, **kwargs)


_COMPLAINTS = "_foldline_complaints"


def _complain(handler: BaseCallbackHandler, event: str, error: Exception) -> None:
    """Log an error of a handler once: the same error on every token would flood the log."""
    fault = (event, type(error))
    try:
        logged: set[Any] = handler.__dict__.setdefault(_COMPLAINTS, set())
    except AttributeError:  # a handler with slots cannot remember it
        logged = set()
    if fault in logged:
        logger.debug("%s.%s raised %r again", type(handler).__name__, event, error)
        return
    logged.add(fault)
    logger.warning(
        "%s.%s raised %r; the run goes on%s",
        type(handler).__name__,
        event,
        error,
        " no further (raise_error)"
        if handler.raise_error
        else ", the same fault is not logged again",
        exc_info=error,
    )


def handle_event(
    handlers: list[BaseCallbackHandler],
    event_name: str,
    ignore_condition_name: str | None,
    *args: object,
    **kwargs: object,
) -> None:
    """Call handlers for an event; `ignore_condition_name` is the `ignore_*` property with which one skips it."""
    waiting = _dispatch(
        BLOCKING, tuple(handlers), event_name, ignore_condition_name, args, kwargs, None
    )
    if waiting is not None:
        drive(cast("Coroutine[Any, Any, None]", waiting))


async def ahandle_event(
    handlers: list[BaseCallbackHandler],
    event_name: str,
    ignore_condition_name: str | None,
    *args: object,
    **kwargs: object,
) -> None:
    """Call handlers for an event; `ignore_condition_name` is the `ignore_*` property with which one skips it."""
    waiting = _dispatch(
        ASYNC, tuple(handlers), event_name, ignore_condition_name, args, kwargs, None
    )
    if waiting is not None:
        await waiting


def shielded(func: F) -> F:
    """Let an async function finish although its caller was cancelled."""

    @functools.wraps(func)
    async def guarded(*args: object, **kwargs: object) -> object:
        return await shield(func(*args, **kwargs))

    return cast("F", guarded)
