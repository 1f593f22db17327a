"""Steps of flows as runs in the traces, and the values that flows draw or read as events of their run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from foldline._config import RunnableConfig, var_child_runnable_config
from foldline._io import IO
from foldline._run import Run
from foldline.callbacks._observers import PAUSE, RunObserver
from foldline.callbacks.base import BaseCallbackManager
from foldline.load._packed import Packer
from foldline.runnables._trace import observers
from foldline.workflows.interrupts import FlowInterrupt

__all__ = ["note_pause", "note_value", "trace_node", "trace_step"]

T = TypeVar("T")
STEP = "step"


async def trace_step(
    name: str,
    place: str,
    inputs: dict[str, Any],
    io: IO,
    body: Callable[[], Awaitable[T]],
    *,
    is_task: bool = False,
) -> T:
    """Run the body of a step as a child of the current run; without handlers, as it is.

    A task is shown as LangGraph shows it: its result is the output, and a chunk.
    """
    if _current_manager() is None:
        return await body()
    config: RunnableConfig = {"metadata": {"step": place}}
    if is_task:
        config["tags"] = ["seq:step:1"]
    run = Run.root(io, config, {}).patched()

    def show(value: T) -> object:
        return value if is_task else {"output": value}

    return await _trace(run, name, inputs, body, show, run_type=STEP, has_chunk=is_task)


async def trace_node(
    run: Run, name: str, value: object, body: Callable[[], Awaitable[T]], show: Callable[[T], Any]
) -> T:
    """Run the function of an entrypoint as a node of its run."""
    return await _trace(run.patched(), name, value, body, show, run_type=None, has_chunk=True)


async def _trace(
    run: Run,
    name: str,
    inputs: object,
    body: Callable[[], Awaitable[T]],
    show: Callable[[T], Any],
    *,
    run_type: str | None,
    has_chunk: bool,
) -> T:
    try:
        await run.begin("chain", "on_chain_start", None, inputs, name=name, run_type=run_type)
        with run.current():
            value = await body()
    except FlowInterrupt as stop:
        await run.dispatch("on_chain_end", {"__interrupt__": stop.interrupts})
        raise
    except BaseException as error:
        await run.dispatch("on_chain_error", error)
        raise
    output = show(value)
    if has_chunk:
        for observer in observers(run.handlers):
            observer.on_chunk(run.id, output)
    await run.dispatch("on_chain_end", output)
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
