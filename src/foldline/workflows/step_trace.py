"""Steps of flows as runs in the traces, and the values that flows draw or read as events of their run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from foldline._config import var_child_runnable_config
from foldline._io import IO
from foldline._run import Run
from foldline.callbacks.base import BaseCallbackManager
from foldline.callbacks.observers import PAUSE, RunObserver
from foldline.load.packed import Packer
from foldline.workflows.interrupts import FlowInterrupt

__all__ = ["note_pause", "note_value", "trace_step"]

T = TypeVar("T")
STEP = "step"


async def trace_step(
    name: str,
    place: str,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
    io: IO,
    body: Callable[[], Awaitable[T]],
) -> T:
    """Run the body of a step as a child of the current run; without handlers, as it is."""
    if _current_manager() is None:
        return await body()
    run = Run.root(io, {"metadata": {"step": place}}, {}).patched()
    args, kwargs = arguments
    try:
        inputs = {"args": list(args), "kwargs": kwargs}
        await run.begin("chain", "on_chain_start", None, inputs, name=name, run_type=STEP)
        with run.current():
            value = await body()
    except FlowInterrupt as stop:
        await run.dispatch("on_chain_end", {"__interrupt__": stop.interrupts})
        raise
    except BaseException as error:
        await run.dispatch("on_chain_error", error)
        raise
    await run.dispatch("on_chain_end", {"output": value})
    return value


def note_value(name: str, details: dict[str, Any]) -> None:
    """Record a value that the current run drew or read as an event of it; one that cannot be written is left out."""
    manager = _current_manager()
    if manager is None or manager.parent_run_id is None:
        return
    observers = [handler for handler in manager.handlers if isinstance(handler, RunObserver)]
    if not observers:
        return
    try:
        packed = {key: Packer(name).pack(value) for key, value in details.items()}
    except Exception:  # noqa: BLE001  an object of any class: the flow goes on
        return
    for observer in observers:
        observer.on_run_event(manager.parent_run_id, name, packed)


def note_pause(run: Run, next_nodes: list[str]) -> None:
    """Record that a run stopped before nodes, and waits until somebody continues it."""
    for handler in run.handlers:
        if isinstance(handler, RunObserver) and run.id is not None:
            handler.on_run_event(run.id, PAUSE, {"stopped_before": next_nodes})


def _current_manager() -> BaseCallbackManager | None:
    """Return the handlers of the run whose code is running."""
    config = var_child_runnable_config.get()
    callbacks = None if config is None else config.get("callbacks")
    return callbacks if isinstance(callbacks, BaseCallbackManager) and callbacks.handlers else None
