"""`GraphRun`: what a run of a graph is made of, and what it stores and publishes. How it proceeds is in `loop`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from foldline._config import DEFAULT_RECURSION_LIMIT
from foldline._run import Run
from foldline.checkpoint.base import Entry
from foldline.exceptions import UsageError
from foldline.graph._graph_records import (
    BASES,
    STARTS,
    GraphThread,
    PlannedTask,
    Target,
    TaskOutcome,
    decode_target,
    encode_target,
    one_checkpoint,
    plain_metadata,
)
from foldline.graph._node_spec import call_function
from foldline.graph._plan import Branch, GraphPlan
from foldline.graph.runtime import Runtime
from foldline.runnables.base import Runnable
from foldline.utils.strings import suggestion
from foldline.workflows._nesting import Parent
from foldline.workflows._run_context import RunContext
from foldline.workflows._run_loop import RunLoop
from foldline.workflows.interrupts import (
    Interrupt,
    question_data,
)
from foldline.workflows.runtime import current_task, read_context

if TYPE_CHECKING:
    from foldline.graph._parts import GraphParts

__all__ = ["GraphRun"]

Values = dict[str, Any]
DEFAULT_MAX_STEPS = 10_007


class GraphRun(RunLoop[RunContext[GraphThread]]):
    """A run of a graph as its start and its tasks see it."""

    def __init__(
        self, graph: GraphParts, run: Run, *, wants: frozenset[str], outer: Parent | None
    ) -> None:
        thread = GraphThread(graph.plan.keys, graph.plan.keys.empty())
        super().__init__(
            RunContext(
                run,
                thread,
                name=graph.get_name(),
                checkpointer=graph.checkpointer,
                wants=wants,
                outer=outer,
            )
        )
        self.graph = graph
        self.plan = graph.plan
        self.run = run
        self.io = run.io
        self.output = self.context.output
        self.wants: frozenset[str] = self.context.wants
        outer_task = current_task.get()  # a nested graph inherits context and store
        self.context_value: Any = (
            read_context(self.plan.context_schema, run.kwargs["context"], graph.get_name())
            if "context" in run.kwargs
            else getattr(outer_task, "context", None)
        )
        self.store = (
            graph.store if graph.store is not None or outer_task is None else outer_task.store
        )
        self.output_keys: str | list[str] | None = _output_keys(
            run.kwargs.get("output_keys"), self.plan
        )
        self.tasks: list[PlannedTask] = []
        self.before: frozenset[str] = _names(
            "interrupt_before",
            run.kwargs.get("interrupt_before"),
            graph.interrupt_before,
            self.plan.nodes,
        )
        self.after: frozenset[str] = _names(
            "interrupt_after",
            run.kwargs.get("interrupt_after"),
            graph.interrupt_after,
            self.plan.nodes,
        )
        limit = run.call_config.get("recursion_limit")
        is_set = limit is not None and (limit != DEFAULT_RECURSION_LIMIT or run.origin is None)
        # The config of a nested call has the default limit of runnables, which is too low for graphs.
        self.limit: int = limit if limit is not None and is_set else DEFAULT_MAX_STEPS
        self._step_count = 0
        self._current: AbstractContextManager[None] | None = None
        self.is_stopped = False
        self._questions: dict[str, list[Interrupt]] = {}
        """The questions of the current step, by task."""
        self._metadata: Values = {}
        if self.context.log is not None:
            self.context.log.squeeze = one_checkpoint
            self._metadata = plain_metadata(run.call_config.get("metadata"))

    @property
    def place(self) -> str:
        """The namespace as text: the seed of the ids of tasks."""
        return "|".join(self.namespace)

    @property
    def thread(self) -> GraphThread:
        """The state of the thread."""
        return self.context.thread

    # -- storing

    async def append(self, *bodies: dict[str, Any]) -> list[Entry]:
        """Write records; a checkpoint of a nested run names those of the outer runs."""
        outer = self.outer
        for body in bodies:
            if body["kind"] in STARTS:
                self.thread.run_metadata = self._metadata
                if self._metadata:
                    body["metadata"] = self._metadata
        if outer is not None and self.is_inner and outer.parents:
            for body in bodies:
                if body["kind"] in BASES:
                    body["parents"] = dict(outer.parents)
        return await self.context.append(*bodies)

    def encode(self, outcome: TaskOutcome) -> dict[str, Any]:
        where = f"the update of {outcome.name!r}"
        body: dict[str, Any] = {"name": outcome.name}
        if outcome.update:
            body["update"] = self.plan.keys.encode(outcome.update, where)
        if outcome.goto:
            body["goto"] = [encode_target(target, self.plan.keys) for target in outcome.goto]
        return body

    def encode_cached(self, outcome: TaskOutcome) -> str:
        """Return the result of a task as text for a cache."""
        return json.dumps(self.encode(outcome))

    def decode_cached(self, name: str, text: str) -> TaskOutcome:
        """Return the cached result of a task."""
        body, keys = json.loads(text), self.plan.keys
        update = keys.decode(body.get("update", {}), f"the cache of {name!r}")
        return TaskOutcome(
            name, update, [decode_target(target, keys) for target in body.get("goto", ())]
        )

    # -- for tasks

    def managed(self, name: str) -> object:
        """Return the value of a managed key."""
        remaining = self.limit - self._step_count + 1
        return remaining if name == "remaining_steps" else remaining <= 1

    def current(self, *, is_alone: bool) -> AbstractContextManager[None]:
        """Return a context in which this run is the parent of the runnables that a node calls."""
        if not is_alone:
            return self.run.current()
        if self._current is None:
            self._current = self.run.current()
        return self._current

    async def ask_branches(
        self, branches: list[Branch], source: str, values: Values, run: Run, runtime: Runtime[Any]
    ) -> list[Target]:
        """Return the targets of the branches of a node."""
        state = self.plan.state.read(values, self.managed)
        targets: list[Target] = []
        for branch in branches:
            if isinstance(branch.path, Runnable):
                answer = await branch.path._step(state, run.child())
            else:
                answer = await call_function(
                    branch.path, branch.wants, branch.count, state, run, runtime
                )
            targets += branch.targets(answer, source, self.plan.nodes)
        return targets

    # -- publishing

    def public_values(self) -> Any:  # noqa: ANN401  a dict, or the value of a state with one value
        """Return the part of the state that callers see."""
        thread = self.thread
        values = thread.values_now(thread.tasks(self.place)) if thread.finished else thread.values
        if self.plan.output.is_root:
            return self.plan.keys.without_root(values)
        keys = self.output_keys
        if isinstance(keys, str):
            return values.get(keys)
        return {key: values[key] for key in keys or self.plan.output.names if key in values}

    @property
    def has_one_value(self) -> bool:
        """Whether callers see one value, not a dict."""
        return self.plan.output.is_root or isinstance(self.output_keys, str)

    def publish_values(self) -> None:
        """Publish the state."""
        if "values" in self.wants:
            self.output.publish("values", None, self.public_values())

    def publish_checkpoint(self) -> None:
        """Publish the checkpoint that was written."""
        if "checkpoints" in self.wants and self.context.log is not None:
            self.output.publish(
                "checkpoints",
                None,
                self.graph.checkpoint_data(
                    self.thread, self.context.thread_id or "", self.namespace
                ),
            )

    def publish_task(self, task: PlannedTask, value: object) -> None:
        """Publish that a task begins."""
        if "tasks" in self.wants:
            data = {
                "type": "task",
                "step": self.thread.step + 1,
                "id": task.id,
                "name": task.name,
                "input": value,
                "triggers": (f"branch:to:{task.name}",),
            }
            self.output.publish("tasks", task.name, data)

    def publish_result(
        self,
        task: PlannedTask,
        update: Values,
        error: Exception | None = None,
        interrupts: Sequence[Interrupt] = (),
    ) -> None:
        if "tasks" in self.wants:
            data = {
                "type": "task_result",
                "step": self.thread.step + 1,
                "id": task.id,
                "name": task.name,
                "error": error,
                "result": self.plan.keys.without_root(update),
                "interrupts": [question_data(question) for question in interrupts],
            }
            self.output.publish("tasks", task.name, data)

    def publish_update(self, outcome: TaskOutcome, *, is_cached: bool = False) -> None:
        values = outcome.result
        if values is None and outcome.update:
            values = self.plan.keys.without_root(outcome.update)
        if self.output_keys is not None and isinstance(values, Mapping):
            keys = self.output_keys
            if isinstance(keys, str):
                values = values.get(keys)
            else:
                values = {key: values[key] for key in keys if key in values} or None
        data = {"node": outcome.name, "values": values}
        if is_cached:
            data["is_cached"] = True
        self.output.publish("updates", outcome.name, data)

    def publish_finished(self) -> None:
        """Publish the updates of tasks that an earlier run has finished."""
        for task in self.tasks:
            if task.id in self.thread.finished:
                self.publish_update(self.thread.finished[task.id], is_cached=True)


def _output_keys(keys: object, plan: GraphPlan) -> str | list[str] | None:
    """Return the `output_keys` of a call: one key, or several; None for all."""
    if keys is None:
        return None
    names: Sequence[object] = (
        [keys] if isinstance(keys, str) else keys if isinstance(keys, Sequence) else [keys]
    )
    for name in names:
        if name not in plan.keys.types:
            raise UsageError(
                f"output_keys={keys!r:.80}: the state has no key {name!r}{suggestion(str(name), plan.keys.types)}; "
                f"its keys are {', '.join(plan.keys.types)}"
            )
    return keys if isinstance(keys, str) else [str(name) for name in names]


def _names(
    option: str, names: str | Iterable[str] | None, default: list[str], nodes: Mapping[str, Any]
) -> frozenset[str]:
    if names is None:
        return frozenset(default)
    chosen = nodes if names == "*" else [names] if isinstance(names, str) else names
    for name in chosen:
        if name not in nodes:
            raise UsageError(
                f"{option}={names!r:.80}: there is no node {name!r}{suggestion(str(name), nodes)}; "
                f"the nodes are {', '.join(nodes)}"
            )
    return frozenset(chosen)
