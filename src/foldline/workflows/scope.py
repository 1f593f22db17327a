"""`Scope`: where the code of a flow is. Steps called in it are named by their place, which a replay finds again."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.workflows.events import FlowEvent, Method
from foldline.workflows.interrupts import Asking, asking
from foldline.workflows.journal import Journal
from foldline.workflows.log import Lineage
from foldline.workflows.parent import Parent, within

__all__ = ["FlowContext", "Scope", "current_scope", "entered"]

Undo = tuple[str, Callable[..., Any], Any]


@dataclass(slots=True)
class FlowContext:
    """What all scopes of one run share."""

    name: str
    thread_id: str | None = None
    emit: Callable[[FlowEvent], None] | None = None
    wants: frozenset[str] = frozenset()
    undo: list[Undo] = field(default_factory=list)
    """The compensations of finished steps, in the order of finishing."""
    failures: dict[int, tuple[BaseException, str]] = field(default_factory=dict)
    """The errors of failed steps by identity, with their places."""
    version: str | None = None
    previous: Any = None
    store: Any = None
    cache: Any = None
    context: Any = None
    write: Callable[[Any], None] | None = None
    questions: Asking | None = None
    """Where the whole run asks; every step inside asks at a place of its own."""
    within: Parent | None = None
    """What agents, graphs and flows inherit that the flow calls; None where a node or a tool says it."""

    namespace: tuple[str, ...] = ()
    """Where the flow is inside the run that is streamed."""

    def publish(self, method: Method, node: str | None, data: object) -> None:
        """Say to whoever streams the run what happened."""
        if self.emit is not None and method in self.wants:
            self.emit(FlowEvent(method, self.namespace, node, data))


@dataclass(slots=True)
class Scope:
    """A part of a flow in which places are counted."""

    flow: FlowContext
    opened: Journal | None
    path: str = ""
    """The place of the enclosing step with a slash, or nothing."""
    is_async: bool | None = None
    """Whether the code here is async; None where that is not known."""
    checks_order: bool = False
    """Whether steps come one after another here, so that a step that is missing is noticed at once."""
    key: str = ""
    """The idempotency key of the step that runs here."""
    counts: dict[str, int] = field(default_factory=dict)
    source: tuple[BaseCheckpointSaver, str, str, Lineage | None] | None = None
    """Where the journal is, if it is made when the first step is called: saver, thread, namespace and lineage."""

    @property
    def journal(self) -> Journal | None:
        """The journal of the steps; None where nothing is kept."""
        if self.opened is None and self.source is not None:
            self.opened = Journal(*self.source)
        return self.opened

    def place(self, name: str) -> str:
        """Name the next call of a step; what the journal has for it counts as reached."""
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        place = f"{self.path}{name}#{number}"
        if self.journal is not None and self.journal.is_open:
            self.journal.claim(place)
        return place

    def inside(self, place: str, *, is_async: bool, checks_order: bool) -> Scope:
        """Make the scope of what runs at a place."""
        return Scope(
            self.flow, self.journal, f"{place}/", is_async, checks_order, self.key_of(place)
        )

    def key_of(self, place: str) -> str:
        """Return a key that is the same whenever this run comes to this place."""
        run = "" if self.journal is None else f"{self.journal.thread_id}/{self.journal.run_id}"
        return f"{run or self.flow.name}/{place}"

    def asking(self) -> Asking | None:
        """Return where questions of this scope are; None where nobody can be asked."""
        questions = self.flow.questions
        if questions is None or not self.path:
            return questions
        return Asking(f"{questions.place}/{self.path}", questions.answers, questions.can_stop)

    def within(self) -> Parent | None:
        """Return what agents, graphs and flows called in this scope inherit."""
        outer = self.flow.within or within.get()
        if outer is None or not self.path:
            return outer
        return outer.inside(self.path.rstrip("/"))


current_scope: ContextVar[Scope | None] = ContextVar("foldline_flow_scope", default=None)


@contextmanager
def entered(scope: Scope) -> Generator[None, None, None]:
    """Let steps and questions in the block know where they are. Never held across a `yield` to a caller."""
    token = current_scope.set(scope)
    questions = scope.asking()
    asked = asking.set(questions) if questions is not None else None
    outer = within.set(scope.within())
    try:
        yield
    finally:
        within.reset(outer)
        if asked is not None:
            asking.reset(asked)
        current_scope.reset(token)
