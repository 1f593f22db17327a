"""Stopping for a person: `interrupt(value)` inside a flow, a node, a tool or a hook; `Command(resume=…)` continues.

The first time, `interrupt` stops the run: the checkpointer stores its state, and the caller gets the value under
`__interrupt__`. When the run is resumed, the flow, node, tool or hook is called again from its beginning; finished
steps return their results from the journal, and `interrupt` returns the person's answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from foldline.exceptions import NothingToResumeError, UnknownInterruptError, UsageError
from foldline.messages.tool import ToolOutputMixin

__all__ = ["Command", "FlowInterrupt", "Interrupt", "InterruptScope", "answers_for", "interrupt"]

Goto = TypeVar("Goto")
ID_DIGITS = 32
HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question to a person: its value, and the id of its answer."""

    value: Any
    id: str


@dataclass(slots=True)
class Command(ToolOutputMixin, Generic[Goto]):
    """An instruction to a run: resume with an answer, or (from a tool or a node) update the state and jump.

    `resume` is the answer to the only open interrupt, or a dict of answers by interrupt id if several are open.
    `goto` names nodes or holds `Send`s; `graph=Command.PARENT` means the graph that contains this one.
    """

    PARENT: ClassVar[str] = "__parent__"

    resume: Any = None
    update: Any = None
    goto: Any = None
    graph: str | None = None


class FlowInterrupt(BaseException):
    """Carries interrupts out of a tool or a hook; not an `Exception`, so that `except Exception` does not catch it."""

    def __init__(self, interrupts: list[Interrupt]) -> None:
        self.interrupts = interrupts
        super().__init__(f"stopped for {len(interrupts)} answer(s)")


@dataclass(slots=True)
class InterruptScope:
    """The step in which `interrupt()` is called, and the answers that exist already."""

    place: str
    """Identifies the step: two different steps never have the same place."""
    answers: Mapping[str, Any]
    can_stop: bool
    count: int = field(default=0)
    key: str = ""
    """The idempotency key of a node or a tool call."""

    def ask(self, value: object) -> Any:  # noqa: ANN401  the answer, of any type
        """Return the answer, or stop for it."""
        name = f"{self.place}/{self.count}"
        self.count += 1
        id = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        if id in self.answers:
            return self.answers[id]
        if not self.can_stop:
            raise UsageError(
                "interrupt() needs a checkpointer and a thread, so that the run can continue later: "
                'pass checkpointer=InMemorySaver() and config={"configurable": {"thread_id": "1"}}'
            )
        raise FlowInterrupt([Interrupt(value, id)])


current_interrupt_scope: ContextVar[InterruptScope | None] = ContextVar(
    "foldline_interrupt_scope", default=None
)


def interrupt(value: object) -> Any:  # noqa: ANN401  the answer, of any type
    """Stop this run until a person has answered; return the answer."""
    scope = current_interrupt_scope.get()
    if scope is None:
        raise UsageError(
            "interrupt() works inside a tool or a middleware hook of an agent, a flow, or a node of a graph"
        )
    return scope.ask(value)


def answers_for(
    resume: object, questions: Sequence[Interrupt], answered: str | None = None
) -> dict[str, Any]:
    """Return the answers by the ids of their questions; raise if they are not for open ones.

    A dict is a map of answers if all its keys have the form of an id; else it is the answer to the only question.
    """
    is_map = isinstance(resume, Mapping) and all(map(_is_id, resume))
    if is_map and not resume:
        raise UnknownInterruptError(
            "Command(resume={}) answers no question: pass {id: answer, …}", "empty_map"
        )
    if not questions:
        raise NothingToResumeError(
            "there is nothing to resume: this thread did not stop for an answer, or has gone on since"
            if answered is None
            else f"there is nothing to resume: the question was answered at {answered}, and the run is under way or "
            "was stopped; invoke(None) continues a run that was stopped"
        )
    ids = [question.id for question in questions]
    if isinstance(resume, Mapping) and is_map:
        for key in resume:
            if key not in ids:
                raise UnknownInterruptError(
                    f"no open question has the id {key}: it was answered, or belongs to another branch. The open "
                    f"ones are {', '.join(ids)}"
                )
        return dict(resume)
    if len(ids) > 1:
        raise UnknownInterruptError(
            f"there are multiple pending interrupts, and the answer does not say for which it is: "
            f"Command(resume={{id: answer, …}}) with some of the ids {', '.join(ids)}",
            "ambiguous",
        )
    return {ids[0]: resume}


def _is_id(key: object) -> bool:
    return isinstance(key, str) and len(key) == ID_DIGITS and not set(key) - HEX
