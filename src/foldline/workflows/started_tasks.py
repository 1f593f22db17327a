"""Tasks that run while the code that started them goes on: they end, and are stored, before the code's run ends."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from foldline._io import IO
from foldline.workflows.interrupts import FlowInterrupt, Interrupt
from foldline.workflows.scope import FlowContext

__all__ = ["finish_tasks"]


async def finish_tasks(body: Coroutine[Any, Any, Any], flow: FlowContext | None, io: IO) -> Any:  # noqa: ANN401  the result of the body
    """Run the code of a flow, a node or a tool, then wait for the tasks that it has started.

    Their questions are asked together with its own. If the code is cancelled, they are cancelled too.
    """
    try:
        result = await body
    except FlowInterrupt as stop:
        questions = await _wait(flow, io)
        own = [item for item in stop.interrupts if item not in questions]
        if questions:
            raise FlowInterrupt([*questions, *own]) from None
        raise
    except Exception:
        await _wait(flow, io)
        raise
    except BaseException:
        await _cancel(flow, io)
        raise
    questions = await _wait(flow, io)
    if questions:
        raise FlowInterrupt(questions)
    return result


async def _wait(flow: FlowContext | None, io: IO) -> list[Interrupt]:
    """Wait for the tasks, and those that they start; return the questions that they ask, in the order of starting."""
    questions: list[Interrupt] = []
    while flow is not None and flow.tasks:
        place = next(iter(flow.tasks))
        error = await flow.tasks[place].end(io)
        flow.tasks.pop(place, None)
        if isinstance(error, FlowInterrupt):
            questions += [item for item in error.interrupts if item not in questions]
    return questions


async def _cancel(flow: FlowContext | None, io: IO) -> None:
    tasks = [] if flow is None else list(flow.tasks.values())
    running = [task for task in tasks if task.cancel()]  # a thread cannot be stopped
    for task in running:
        with suppress(Exception):
            await task.end(io)
