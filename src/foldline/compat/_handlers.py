"""Adapters for callback handlers and managers: those of one library get the events of the other's runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from foldline.compat._adapters import Adapter

if TYPE_CHECKING:
    from foldline.compat.convert import Direction

SETTINGS = (
    "raise_error",
    "run_inline",
    "ignore_llm",
    "ignore_retry",
    "ignore_chain",
    "ignore_agent",
    "ignore_retriever",
    "ignore_chat_model",
    "ignore_custom_event",
)


class HandlerAdapter(Adapter):
    """A handler of the other library: it gets the events that it overrides, with values of its own library."""

    def __init__(self, handler: object, direction: Direction) -> None:
        self._adapted = handler
        self._direction = direction

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HandlerAdapter) and other._adapted is self._adapted

    def __hash__(self) -> int:
        return hash((HandlerAdapter, id(self._adapted)))


def adapt_handler(handler: object, direction: Direction) -> object:
    """Adapt a callback handler."""
    handler_class: Any = type(handler)
    return _handler_class(handler_class, direction)(handler, direction)


@cache
def _handler_class(handler_class: type[object], direction: Direction) -> type[Any]:
    is_async = issubclass(
        handler_class, direction.source_class("callbacks", "AsyncCallbackHandler")
    )
    name = "AsyncCallbackHandler" if is_async else "BaseCallbackHandler"
    base = direction.target_class("callbacks", name)
    source_base = direction.source_class("callbacks", name)
    members: dict[str, Any] = {setting: _setting(setting) for setting in SETTINGS}
    for event in dir(base):
        method = getattr(handler_class, event, None) if event.startswith("on_") else None
        if method is not None and method is not getattr(source_base, event, None):
            members[event] = _async_event(event) if is_async else _event(event)
    return type(f"Adapted{handler_class.__name__}", (HandlerAdapter, base), members)


def _setting(name: str) -> property:
    return property(lambda self: getattr(self._adapted, name))


def _event(name: str) -> Callable[..., Any]:
    def on_event(self: HandlerAdapter, *args: Any, **kwargs: Any) -> object:
        result: object = getattr(self._adapted, name)(*self._in(args), **self._in(kwargs))
        return result

    return on_event


def _async_event(name: str) -> Callable[..., Any]:
    async def on_event(self: HandlerAdapter, *args: Any, **kwargs: Any) -> object:
        result: object = await getattr(self._adapted, name)(*self._in(args), **self._in(kwargs))
        return result

    return on_event


def adapt_manager(manager: Any, direction: Direction) -> object:  # noqa: ANN401  a callback manager of either library
    """Return a manager of the other library with the handlers, tags, metadata and parent run of this one."""
    is_async = bool(getattr(manager, "is_async", False))
    name = "AsyncCallbackManager" if is_async else "CallbackManager"
    adapted_manager: object = direction.target_class("callbacks", name)(
        handlers=direction.convert(list(manager.handlers)),
        inheritable_handlers=direction.convert(list(manager.inheritable_handlers)),
        parent_run_id=manager.parent_run_id,
        tags=list(manager.tags),
        inheritable_tags=list(manager.inheritable_tags),
        metadata=dict(manager.metadata),
        inheritable_metadata=dict(manager.inheritable_metadata),
    )
    return adapted_manager
