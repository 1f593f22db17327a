"""`Scope`: the position of the code of a flow. Steps called in it get places that are the same in every replay."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from foldline._io import IO
from foldline.workflows._journal import Journal
from foldline.workflows._parent_run import Parent, current_parent
from foldline.workflows._run_events import FlowEvent, Method
from foldline.workflows._started_tasks import StartedTasks
from foldline.workflows.interrupts import InterruptScope, current_interrupt_scope

__all__ = [
    "FlowContext",
    "RunClosed",
    "Scope",
    "current_scope",
    "enter_scope",
]


class RunClosed(BaseException):
    """Ends the code of a run that was cancelled; not an `Exception`, so that `except Exception` does not catch it."""


Undo = tuple[str, Callable[..., Any], Any]


@dataclass(slots=True)
class FlowContext:
    """The context that all scopes of one run share."""

    name: str
    thread_id: str | None = None
    emit: Callable[[FlowEvent], None] | None = None
    wants: frozenset[str] = frozenset()
    undo: list[Undo] = field(default_factory=list)
    """The compensations of finished steps, in the order of finishing."""
    failures: dict[int, tuple[BaseException, str]] = field(default_factory=dict)
    """The errors of failed steps by identity, with their places."""
    tasks: StartedTasks = field(default_factory=StartedTasks)
    """The tasks that were started; those of nested flows too."""
    io: IO | None = None
    """How the run waits."""
    version: str | None = None
    previous: Any = None
    store: Any = None
    cache: Any = None
    context: Any = None
    write: Callable[[Any], None] | None = None
    questions: InterruptScope | None = None
    """The interrupt scope of the run; each step has a nested one."""
    parent: Parent | None = None
    """The parent of the runs that the flow calls; None: that of the node or tool that calls the flow."""

    key: str = ""
    """The first part of the keys of steps that are not stored, or are those of a node or a tool."""
    namespace: tuple[str, ...] = ()
    """The namespace of the flow inside the streamed run."""

    def publish(self, method: Method, node: str | None, data: object) -> None:
        """Emit an event if its channel was requested."""
        if self.emit is not None and method in self.wants:
            self.emit(FlowEvent(method, self.namespace, node, data))


@dataclass(slots=True)
class Scope:
    """A part of a flow, in which the calls of steps are counted."""

    flow: FlowContext
    opened: Journal | None
    path: str = ""
    """The place of the enclosing step with a slash, or an empty string."""
    is_async: bool | None = None
    """Whether the code here is async; None if that is not known."""
    checks_order: bool = False
    """Whether steps run one after another here, so that a missing step is detected at once."""
    key: str = ""
    """The idempotency key of the step that runs here."""
    counts: dict[str, int] = field(default_factory=dict)
    source: Callable[[], Journal] | None = None
    """Makes the journal when the first step is called."""

    @property
    def journal(self) -> Journal | None:
        """The journal of the steps; None without a checkpointer."""
        if self.opened is None and self.source is not None:
            self.opened = self.source()
        return self.opened

    def place(self, name: str) -> str:
        """Return the place of the next call of a step, and mark its journal records as reached."""
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        place = f"{self.path}{name}#{number}"
        if self.journal is not None and self.journal.is_open:
            self.journal.claim(place)
        return place

    def nested(self, place: str, *, is_async: bool, checks_order: bool) -> Scope:
        """Return the scope of the code that runs at a place."""
        return Scope(
            self.flow, self.journal, f"{place}/", is_async, checks_order, self.key_of(place)
        )

    def key_of(self, place: str) -> str:
        """Return a key that is the same whenever this run reaches this place."""
        journal = self.journal
        if journal is None or not journal.run_id:
            return f"{self.flow.key or self.flow.name}/{place}"
        return f"{journal.thread_id}/{journal.run_id}/{place}"

    def interrupt_scope(self) -> InterruptScope | None:
        """Return the interrupt scope of this scope; None if interrupts are not possible."""
        questions = self.flow.questions
        if questions is None or not self.path:
            return questions
        return InterruptScope(
            f"{questions.place}/{self.path}", questions.answers, questions.can_stop
        )

    def parent(self) -> Parent | None:
        """Return the parent of the agents, graphs and flows that are called in this scope."""
        outer = self.flow.parent or current_parent.get()
        if outer is None or not self.path:
            return outer
        return outer.nested(self.path.rstrip("/"))


current_scope: ContextVar[Scope | None] = ContextVar("foldline_flow_scope", default=None)


@contextmanager
def enter_scope(scope: Scope) -> Generator[None, None, None]:
    """Set the context for steps and interrupts; it must not be held across a `yield` to a caller."""
    scope_token = current_scope.set(scope)
    interrupts = scope.interrupt_scope()
    interrupt_token = current_interrupt_scope.set(interrupts) if interrupts is not None else None
    parent_token = current_parent.set(scope.parent())
    try:
        yield
    finally:
        current_parent.reset(parent_token)
        if interrupt_token is not None:
            current_interrupt_scope.reset(interrupt_token)
        current_scope.reset(scope_token)
