"""Dispatch an application's own events to the handlers of the run that is under way.

Public as `foldline.callbacks.dispatch_custom_event`. It stands above that package because it must find the run:
in the config it is given, or in the one that the enclosing runnable left in the context.
"""

from __future__ import annotations

from typing import Any

from foldline._config import RunnableConfig, ensure_config
from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.callbacks.dispatch import tell
from foldline.callbacks.manager import CallbackManager
from foldline.exceptions import UsageError


class NoRunError(UsageError, RuntimeError):
    """A custom event outside every run."""


async def _dispatch(io: IO, name: str, data: Any, config: RunnableConfig | None) -> None:
    config = ensure_config(config)
    manager = CallbackManager.configure(
        config.get("callbacks"),
        inheritable_tags=config.get("tags"),
        inheritable_metadata=config.get("metadata"),
    )
    if not manager.handlers:
        return
    if manager.parent_run_id is None:
        raise NoRunError(
            f"the event {name!r} belongs to no run: dispatch it inside a tool, a RunnableLambda or a "
            "RunnableGenerator, or pass the `config` that your function was given"
        )
    await tell(
        io,
        manager.handlers,
        "on_custom_event",
        name,
        data,
        run_id=manager.parent_run_id,
        tags=manager.tags,
        metadata=manager.metadata,
    )


def dispatch_custom_event(name: str, data: Any, *, config: RunnableConfig | None = None) -> None:
    """Tell the handlers of the run under way of an event of your own."""
    drive(_dispatch(BLOCKING, name, data, config))


async def adispatch_custom_event(
    name: str, data: Any, *, config: RunnableConfig | None = None
) -> None:
    """Tell the handlers of the run under way of an event of your own."""
    await _dispatch(ASYNC, name, data, config)
