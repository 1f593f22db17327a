"""`NestedFlow`: a flow that another flow calls. It is a step at a place of the outer journal, `child#0`.

Its steps are places under it, `child#0/step#0`. It has the run, the keys and the questions of the outer flow, and its
own events and version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foldline._io import IO
from foldline._run import Run
from foldline.exceptions import FlowChangedError
from foldline.workflows._flow_output import FlowOutput
from foldline.workflows._flow_scope import FlowContext, Scope, current_scope
from foldline.workflows._journal import Journal
from foldline.workflows._parent_run import current_parent
from foldline.workflows._run_events import FlowEvent
from foldline.workflows.interrupts import Command, FlowInterrupt
from foldline.workflows.steps import Step, StepCall, run_call

if TYPE_CHECKING:
    from foldline.workflows.flow import Workflow

__all__ = ["NestedFlow"]

VERSION_PLACE = "(version)"
"""The place of the version that began a nested flow, under the flow's own place."""


class NestedFlow(Step[Any, Any]):
    """One call of a flow inside another flow."""

    def __init__(self, flow: Workflow[Any, Any], run: Run, scope: Scope) -> None:
        super().__init__(flow.function, name=flow.flow_name, is_flow=True)
        self.publishes_itself = True
        self.flow = flow
        self.called_in = scope
        self._run = run
        self._emit: Callable[[FlowEvent], None] | None = scope.flow.emit
        self._wants = scope.flow.wants
        outer = current_parent.get()
        self._namespace: tuple[str, ...] = ()
        if outer is not None:
            self._namespace = (*outer.next_place().namespace, flow.flow_name)
        self._context = scope.flow
        self._output = FlowOutput(scope.flow, None)

    @classmethod
    def find(cls, flow: Workflow[Any, Any], value: object, run: Run) -> NestedFlow | None:
        """Return the call of a flow if it is one inside another flow, on its thread; else None."""
        scope, outer = current_scope.get(), current_parent.get()
        if scope is None or outer is None or value is None or isinstance(value, Command):
            return None
        journal = scope.opened
        if journal is None or not journal.has_nested_flows:
            return None
        is_inner = outer.stores_run(flow.checkpointer, run.configurable.get("thread_id"))
        return cls(flow, run, scope) if is_inner else None

    @property
    def returns(self) -> object:
        """The declared type of the result."""
        return self.flow.returns

    def send_to(self, emit: Callable[[FlowEvent], None], wants: frozenset[str]) -> None:
        """Send the events to the caller of `stream`, not to the stream of the outer flow."""
        self._emit, self._wants, self._namespace = emit, wants, ()

    async def result(self, value: object, io: IO) -> Any:  # noqa: ANN401  the result of the flow
        """Return the result: from the outer journal, or by running the flow."""
        args, kwargs = self.flow.arguments(value)
        scope = self.called_in
        call: StepCall[Any] = StepCall(self, args, kwargs, scope, scope.place(self.name))
        return await run_call(call, io)

    def inner_scope(self, scope: Scope, place: str) -> Scope:
        """Return the scope of the flow's code."""
        inner = super().inner_scope(scope, place)
        version = None if scope.journal is None else self._version(scope.journal, place)
        self._context = inner.flow = self._make_context(scope.flow, version)
        self._output = FlowOutput(self._context, None, scope.key_of(place))
        return inner

    def _make_context(self, outer: FlowContext, version: str | None) -> FlowContext:
        flow = self.flow
        return replace(
            outer,
            name=flow.flow_name,
            emit=self._emit,
            wants=self._wants,
            namespace=self._namespace,
            version=version,
            previous=None,
            store=flow.store,
            context=self._run.kwargs.get("context", outer.context),
        )

    def _version(self, journal: Journal, place: str) -> str | None:
        """Return the version that began this call; record it if that is this one."""
        flow, version_place = self.flow, f"{place}/{VERSION_PLACE}"
        record = journal.steps.get(version_place)
        if record is None and not journal.has_steps_under(place):
            if flow.version is not None:
                journal.note("step", place=version_place, args="version", value=flow.version)
            return flow.version
        version = None if record is None else record.get("value")
        if version != flow.version and version not in flow.accepts:
            raise FlowChangedError(
                f"{place} of thread {journal.thread_id!r} was begun by version {version!r} of {flow.flow_name}, and "
                f"this is version {flow.version!r}: finish it with that version, or set accepts=[{version!r}] and "
                "branch on flow_version()"
            )
        return version

    async def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], io: IO) -> object:
        """Call the flow's function; publish its start and its outcome."""
        output = self._output
        output.publish_start(args, kwargs)
        kwargs = {**kwargs, **self.flow.injected_arguments(self._context, self._run)}
        try:
            with self._run.current():
                value = await io.call(self.function, *args, **kwargs)
        except FlowInterrupt as stop:
            output.publish_stop(stop.interrupts)
            raise
        except Exception as error:
            output.publish_result(error=error)
            raise
        result, _ = self.flow.split_output(value)
        output.publish_end(result)
        return result
