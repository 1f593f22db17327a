"""Stopping for a person: `interrupt(value)` inside a flow, a node, a tool or a hook; `Command(resume=…)` to go on.

The first time, `interrupt` stops the run: its state is kept by the checkpointer and the caller gets the value under
`__interrupt__`. When the run is resumed the flow, node, tool or hook is called again from its beginning; steps that
are finished give their results from the journal, and `interrupt` returns what the person said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from foldline.exceptions import UsageError
from foldline.messages.tool import ToolOutputMixin

__all__ = ["Asking", "Command", "FlowInterrupt", "Interrupt", "answers_for", "interrupt"]

Goto = TypeVar("Goto")


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question to a person: what was asked, and the id under which the answer is given."""

    value: Any
    id: str


@dataclass(slots=True)
class Command(ToolOutputMixin, Generic[Goto]):
    """What to do besides the ordinary: resume with an answer, or (from a tool or a node) update the state and jump.

    `resume` is the answer to the one open interrupt, or a dict of answers by interrupt id where several are open.
    `goto` names nodes or holds `Send`s; `graph=Command.PARENT` means the graph around this one.
    """

    PARENT: ClassVar[str] = "__parent__"

    resume: Any = None
    update: Any = None
    goto: Any = None
    graph: str | None = None


class FlowInterrupt(BaseException):
    """Carries interrupts out of a tool or a hook; no `Exception`, so that `except Exception` does not lose it."""

    def __init__(self, interrupts: list[Interrupt]) -> None:
        self.interrupts = interrupts
        super().__init__(f"stopped for {len(interrupts)} answer(s)")


@dataclass(slots=True)
class Asking:
    """Where the code that may ask is: which step of which agent, and which answers are there already."""

    place: str
    """Names the step: two different steps never have the same."""
    answers: Mapping[str, Any]
    can_stop: bool
    count: int = field(default=0)

    def ask(self, value: object) -> Any:  # noqa: ANN401  whatever the person answered
        """Return the answer, or stop for it."""
        name = f"{self.place}/{self.count}"
        self.count += 1
        id = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        if id in self.answers:
            return self.answers[id]
        if not self.can_stop:
            raise UsageError(
                "interrupt() needs a checkpointer and a thread, so that the run can go on later: "
                'give checkpointer=InMemorySaver() and config={"configurable": {"thread_id": "1"}}'
            )
        raise FlowInterrupt([Interrupt(value, id)])


asking: ContextVar[Asking | None] = ContextVar("foldline_agent_asking", default=None)


def interrupt(value: object) -> Any:  # noqa: ANN401  whatever the person answered
    """Stop this run until a person has answered; give the answer."""
    current = asking.get()
    if current is None:
        raise UsageError(
            "interrupt() works inside a tool or a middleware hook of an agent, a flow, or a node of a graph"
        )
    return current.ask(value)


def answers_for(resume: object, interrupts: list[Interrupt]) -> dict[str, Any]:
    """Return the answers by the ids of their questions."""
    ids = [item.id for item in interrupts]
    if isinstance(resume, Mapping) and resume and set(resume) <= set(ids):
        return dict(resume)
    if len(ids) == 1:
        return {ids[0]: resume}
    raise UsageError(
        f"{len(ids)} answers are needed: Command(resume={{id: answer, …}}) for the ids {', '.join(ids)}"
    )
