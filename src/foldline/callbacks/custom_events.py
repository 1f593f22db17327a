"""Dispatch an application's own events to the handlers of the run that is under way.

The run is found in the config that is given, or in the one that the enclosing runnable left in the context. Configs are
above this package, so what completes one is an extension.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline._extensions import extension
from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.callbacks.dispatch import dispatch
from foldline.callbacks.manager import CallbackManager
from foldline.exceptions import UsageError

__all__ = ["adispatch_custom_event", "dispatch_custom_event"]

Config = Mapping[str, Any]


class NoRunError(UsageError, RuntimeError):
    """A custom event outside every run."""


async def _dispatch(io: IO, name: str, data: object, config: Config | None) -> None:
    config = extension("ensure_config")(config)
    assert config is not None
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
    await dispatch(
        io,
        manager.handlers,
        "on_custom_event",
        name,
        data,
        run_id=manager.parent_run_id,
        tags=manager.tags,
        metadata=manager.metadata,
    )


def dispatch_custom_event(name: str, data: object, *, config: Config | None = None) -> None:
    """Call the handlers of the current run for a custom event."""
    drive(_dispatch(BLOCKING, name, data, config))


async def adispatch_custom_event(name: str, data: object, *, config: Config | None = None) -> None:
    """Call the handlers of the current run for a custom event."""
    await _dispatch(ASYNC, name, data, config)
