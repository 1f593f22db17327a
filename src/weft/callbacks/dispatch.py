"""The one dispatcher: tells handlers of an event, in either colour.

A handler that raises is logged and the run goes on, unless the handler says `raise_error`. What is no `Exception`
(KeyboardInterrupt, cancellation) always passes. A hook that a handler did not override is never called.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

from weft._io import IO
from weft.callbacks.base import BaseCallbackHandler

logger = logging.getLogger("weft.callbacks")

IGNORED_BY: dict[str, str] = {
    "on_llm_start": "ignore_llm",
    "on_chat_model_start": "ignore_chat_model",
    "on_llm_new_token": "ignore_llm",
    "on_stream_event": "ignore_llm",
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

_HEARD: dict[tuple[type, str], bool] = {}


def hears(handler: BaseCallbackHandler, event: str) -> bool:
    """Whether a handler has a hook of its own for an event (an instance attribute counts)."""
    if event in getattr(handler, "__dict__", ()):
        return True
    key = (type(handler), event)
    heard = _HEARD.get(key)
    if heard is None:
        own = getattr(type(handler), event, None)
        default = getattr(BaseCallbackHandler, event, None)
        # A class without the hook at all may answer through __getattr__ (a proxy): ask it.
        heard = _HEARD[key] = own is not default or own is None
    return heard


def listening(handlers: Sequence[BaseCallbackHandler], event: str) -> list[BaseCallbackHandler]:
    """Give the handlers that want an event."""
    ignored = IGNORED_BY.get(event)
    return [
        handler
        for handler in handlers
        if hears(handler, event) and not (ignored is not None and getattr(handler, ignored, False))
    ]


async def tell(io: IO, handlers: Sequence[BaseCallbackHandler], event: str, *args: Any, **kwargs: Any) -> None:
    """Tell every handler that listens of an event."""
    ignored = IGNORED_BY.get(event)
    for handler in handlers:
        if ignored is not None and getattr(handler, ignored, False):
            continue
        if event == "on_chat_model_start" and not hears(handler, event):
            await _tell_as_text(io, handler, *args, **kwargs)
        elif hears(handler, event):
            await _tell_one(io, handler, event, args, kwargs)


async def _tell_one(
    io: IO, handler: BaseCallbackHandler, event: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    try:
        hook: Callable[..., Any] = getattr(handler, event)
        if io.blocking or handler.run_inline or inspect.iscoroutinefunction(hook):
            result = hook(*args, **kwargs)
        else:
            result = await io.call(hook, *args, **kwargs)
        if hasattr(type(result), "__await__"):
            await io.settle(result)
    except NotImplementedError as error:
        if event == "on_chat_model_start":
            await _tell_as_text(io, handler, *args, **kwargs)
        else:
            _log(handler, event, error)
    except Exception as error:  # noqa: BLE001  a handler's fault is logged, not the run's
        _log(handler, event, error)
        if handler.raise_error:
            raise


async def _tell_as_text(
    io: IO, handler: BaseCallbackHandler, serialized: Any, messages: Any, *args: Any, **kwargs: Any
) -> None:
    if not hears(handler, "on_llm_start") or handler.ignore_llm:
        return
    from weft.messages import get_buffer_string  # noqa: PLC0415  only old-style handlers pay for it

    prompts = [get_buffer_string(one) for one in messages]
    await _tell_one(io, handler, "on_llm_start", (serialized, prompts, *args), kwargs)


def _log(handler: BaseCallbackHandler, event: str, error: Exception) -> None:
    logger.warning("%s.%s raised %r", type(handler).__name__, event, error, exc_info=handler.raise_error)
