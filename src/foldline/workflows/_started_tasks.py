"""Tasks that run while the code that started them goes on: they end, and are stored, before the code's run ends."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from foldline._io import IO
from foldline.workflows.interrupts import FlowInterrupt, Interrupt

__all__ = ["StartedTask", "StartedTasks", "TaskOwner", "finish_tasks"]


class StartedTask(Protocol):
    """A task that runs while the code that started it goes on."""

    def cancel(self) -> object:
        """Ask it to stop."""

    async def end(self, io: IO) -> BaseException | None:
        """Wait until it has ended; return its error."""


class StartedTasks(dict[str, StartedTask]):
    """The tasks of a run that were started and have not ended with a result, by place."""

    is_closed = False
    """Whether the run was cancelled, or its reader has gone: no further step begins."""


class TaskOwner(Protocol):
    """The code that starts tasks: a flow, a node or a tool."""

    @property
    def tasks(self) -> StartedTasks | None:
        """Its tasks; None if it has started none."""


async def finish_tasks(body: Awaitable[Any], owner: TaskOwner, io: IO) -> Any:  # noqa: ANN401  the result of the body
    """Run the code of a flow, a node or a tool, then wait for the tasks that it has started.

    Their questions are asked together with its own. If the code is cancelled, they are cancelled too.
    """
    try:
        result = await body
    except FlowInterrupt as stop:
        questions = await _wait(owner, io)
        own = [item for item in stop.interrupts if item not in questions]
        if questions:
            raise FlowInterrupt([*questions, *own]) from None
        raise
    except Exception:
        await _wait(owner, io)
        raise
    except BaseException:
        await _cancel(owner, io)
        raise
    if owner.tasks and (questions := await _wait(owner, io)):
        raise FlowInterrupt(questions)
    return result


async def _wait(owner: TaskOwner, io: IO) -> list[Interrupt]:
    """Wait for the tasks, and those that they start; return the questions that they ask, in the order of starting."""
    questions: list[Interrupt] = []
    while owner.tasks:
        place = next(iter(owner.tasks))
        error = await owner.tasks[place].end(io)
        owner.tasks.pop(place, None)
        if isinstance(error, FlowInterrupt):
            questions += [item for item in error.interrupts if item not in questions]
    return questions


async def _cancel(owner: TaskOwner, io: IO) -> None:
    """Cancel the tasks; wait for those that can be cancelled, and in sync code for threads, which cannot."""
    if owner.tasks is None:
        return
    owner.tasks.is_closed = True
    for task in [task for task in owner.tasks.values() if task.cancel() or io.blocking]:
        await task.end(io)
