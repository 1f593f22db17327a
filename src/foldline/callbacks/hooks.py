"""Hooks: handlers that join every run without being passed to it, found in a context variable or by the environment."""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol

from foldline.callbacks.base import BaseCallbackHandler, BaseCallbackManager
from foldline.exceptions import UsageError

__all__ = [
    "register_configure_hook",
]


class HandlerSource(Protocol):
    """Where a handler may be found: a context variable, or anything else with its `get`."""

    def get(self) -> BaseCallbackHandler | None: ...


class _Hook(NamedTuple):
    source: HandlerSource
    inheritable: bool
    handler_class: type[BaseCallbackHandler] | None
    variable: str | None

    def join(self, manager: BaseCallbackManager) -> None:
        handler: BaseCallbackHandler | None = self.source.get()
        if handler is None and self.handler_class is not None:
            handler_class = self.handler_class
            if any(isinstance(other, handler_class) for other in manager.handlers):
                return
            handler = handler_class()
        if handler is not None:
            manager.add_handler(handler, inherit=self.inheritable)


HOOKS: list[_Hook] = []
"""Where handlers are found that join every run."""
EVERYWHERE: list[BaseCallbackHandler] = []
"""Handlers that join every run of the process."""


def is_on(variable: str) -> bool:
    """Whether the environment switches a hook on."""
    return os.environ.get(variable, "") not in ("", "0", "false", "False")


def register_configure_hook(
    context_var: HandlerSource,
    inheritable: bool,  # noqa: FBT001  LangChain's signature
    handle_class: type[BaseCallbackHandler] | None = None,
    env_var: str | None = None,
) -> None:
    """Let the handler in a context variable observe every run of that context.

    With `handle_class` and `env_var` a new handler is made where the variable is empty and the environment says so.
    """
    if env_var is not None and handle_class is None:
        raise UsageError(
            f"{env_var} can only switch on a handler whose class is given as `handle_class`"
        )
    HOOKS.append(_Hook(context_var, inheritable, handle_class, env_var))


def join_hooked(manager: BaseCallbackManager) -> None:
    """Add the handlers that join every run."""
    for handler in EVERYWHERE:
        if handler not in manager.handlers:
            manager.add_handler(handler)
    for hook in HOOKS:
        source, _, _, variable = (
            hook  # every run asks: by place, an attribute of a tuple takes longer
        )
        if source.get() is not None or (variable is not None and is_on(variable)):
            hook.join(manager)
