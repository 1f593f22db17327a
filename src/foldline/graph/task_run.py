"""One task of a graph: calls the node, reads its result, and evaluates its branches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from foldline._run import Run
from foldline.exceptions import InvalidUpdateError
from foldline.graph._graph_records import PlannedTask, Target, TaskOutcome
from foldline.graph._node_spec import NodeSpec
from foldline.graph._plan import check_target
from foldline.graph.cache import cache_key
from foldline.graph.runtime import ExecutionInfo, Runtime, current_state, with_namespace
from foldline.graph.types import Overwrite, Send
from foldline.workflows._nesting import Parent, enter_step
from foldline.workflows._started_tasks import finish_tasks
from foldline.workflows._tokens import TokenHandler
from foldline.workflows.interrupts import Command, FlowInterrupt, InterruptScope
from foldline.workflows.retry import run_attempts
from foldline.workflows.runtime import current_task

if TYPE_CHECKING:
    from foldline.graph._run_state import GraphRun

__all__ = [
    "ParentCommand",
]

Values = dict[str, Any]


class ParentCommand(BaseException):
    """Carries a Command to the parent graph."""

    def __init__(self, command: Command[Any]) -> None:
        self.command = command
        super().__init__("a command for the parent graph")


class TaskRun:
    """One task of a step."""

    def __init__(self, loop: GraphRun, task: PlannedTask) -> None:
        self.loop = loop
        self.task = task
        self.spec: NodeSpec = loop.plan.nodes[task.name]
        self.handler: TokenHandler | None = None

    async def outcome(self) -> TaskOutcome:
        """Run the node; return its update and its targets."""
        loop, task = self.loop, self.task
        value = self._input()
        loop.publish_task(task, value)
        run = loop.run
        if run.manager is not None or "tokens" in loop.wants:
            return await self._run_traced(value)
        return await self._attempts(value, run, loop.current(is_alone=len(loop.tasks) == 1))

    async def _run_traced(self, value: object) -> TaskOutcome:
        """Run the task as a child run in the traces."""
        loop = self.loop
        run = loop.run.child(f"graph:step:{loop.thread.step + 1}").patched()
        if "tokens" in loop.wants:
            metadata = {
                **(self.spec.metadata or {}),
                "langgraph_node": self.task.name,
                "langgraph_step": loop.thread.step + 1,
                "langgraph_path": self.task.path,
                "langgraph_checkpoint_ns": "|".join((*loop.namespace, self._label)),
                "thread_id": loop.context.thread_id,
            }

            def call_metadata() -> dict[str, Any] | None:
                task = current_task.get()
                info = None if task is None else task.execution_info
                # A nested graph has its own handler.
                is_this_task = info is None or info.task_id in metadata["langgraph_checkpoint_ns"]
                return metadata if is_this_task else None

            self.handler = TokenHandler(loop.output.send, loop.namespace, call_metadata)
            run = run.patched({"callbacks": [self.handler]})
        try:
            await run.begin("chain", "on_chain_start", None, value, name=self.task.name)
            outcome = await self._attempts(value, run, run.current())
        except (FlowInterrupt, ParentCommand) as stop:
            await run.dispatch("on_chain_end", {"__interrupt__": getattr(stop, "interrupts", [])})
            raise
        except BaseException as error:
            await run.dispatch("on_chain_error", error)
            raise
        await run.dispatch("on_chain_end", loop.plan.keys.without_root(outcome.update))
        if self.handler is not None:
            self.handler.publish_other_messages(outcome.update)
        return outcome

    async def _attempts(
        self, value: object, run: Run, current: AbstractContextManager[None]
    ) -> TaskOutcome:
        spec, loop = self.spec, self.loop
        if not spec.retry and spec.timeout is None and spec.cache_policy is None:
            return await self._call_node(value, run, current)
        key, cache = None, loop.graph.cache
        if spec.cache_policy is not None and cache is not None:
            key = cache_key(spec, value)
            cached = await run.io.call(cache.get, (loop.graph.name, spec.name), key)
            if cached is not None:
                return loop.decode_cached(spec.name, cached)
        outcome = await run_attempts(
            run.io, f"the node {spec.name!r}", lambda _: self._call_node(value, run, current), spec.retry, spec.timeout
        )  # fmt: skip
        if key is not None and spec.cache_policy is not None and cache is not None:
            namespace, ttl = (loop.graph.name, spec.name), spec.cache_policy.ttl
            await run.io.call(cache.set, namespace, key, loop.encode_cached(outcome), ttl)
        return outcome

    async def _call_node(
        self, value: object, run: Run, current: AbstractContextManager[None]
    ) -> TaskOutcome:
        loop, task = self.loop, self.task
        await loop.context.check_owner()
        runtime = self._runtime(run)
        parent, interrupts = self._parent(), self._interrupt_scope()
        with enter_step(parent, interrupts, run.io), enter_node(runtime, current, self._state):
            try:
                body = self.spec.call(value, run, runtime)
                returned = await finish_tasks(body, parent, run.io)
            except ParentCommand as parent_command:
                returned = parent_command.command
            result, update, goto = self._read(returned)
            given, update = update, loop.plan.keys.check(update, f"the node {task.name!r}")
            if result is given:
                result = update  # its messages have the ids that the state knows them by
            goto += await self._branches(update, run, runtime)
        return TaskOutcome(task.name, update, goto, result)

    # -- the input of the node

    def _input(self) -> object:
        if self.task.is_push:
            arg, schema = self.task.arg, self.spec.input_schema
            if (
                isinstance(arg, dict)
                and isinstance(schema, type)
                and self.spec.shape is not None
                and not self.spec.shape.is_dict
            ):
                return schema(**arg)
            return arg
        return self._state()

    def _state(self) -> object:
        assert self.spec.shape is not None
        return self.spec.shape.read(self.loop.thread.values, self.loop.managed)

    def _runtime(self, run: Run) -> Runtime[Any]:
        loop = self.loop
        info = ExecutionInfo(
            loop.context.thread_id, self.task.id, "|".join(loop.namespace), loop.thread.step + 1
        )
        config = run.call_config if run.manager is None else run.config()
        namespace = "|".join((*loop.namespace, self._label))
        config = with_namespace(config, namespace)
        return Runtime(loop.context_value, loop.store, self._write, None, config, info)

    def _write(self, chunk: object) -> None:
        self.loop.output.write(chunk, self.task.name)

    def _parent(self) -> Parent:
        context = self.loop.context
        return context.make_parent(self._label, self._label, wants=context.wants - {"messages"})

    @property
    def _label(self) -> str:
        """The name of the task in namespaces."""
        return f"{self.task.name}:{self.task.id}"

    def _interrupt_scope(self) -> InterruptScope:
        return self.loop.context.interrupt_scope(f"{'|'.join(self.loop.namespace)}/{self.task.id}")

    # -- the result of the node

    def _read(self, returned: object) -> tuple[Any, Values, list[Target]]:
        if returned is None:
            return None, {}, []
        keys = self.loop.plan.keys
        if type(returned) is dict and not self.spec.is_graph and not keys.is_root:
            return returned, returned, []
        if isinstance(returned, list | tuple) and any(
            isinstance(item, Command) for item in returned
        ):
            result: list[Any] = []
            updates: list[tuple[str, Values]] = []
            goto: list[Target] = []
            for item in returned:
                item_result, part, targets = self._read(item)
                result.append(item_result)
                updates.append(
                    (
                        self.task.name,
                        keys.check(part, f"the node {self.task.name!r}"),
                    )
                )
                goto += targets
            return result, self._merge([part for _, part in updates]), goto
        if isinstance(returned, Command):
            return self._read_command(returned)
        returned_update = self._update_of(returned)
        if keys.is_root:
            return returned, returned_update, []
        return returned_update if isinstance(returned, Mapping) else returned, returned_update, []

    def _merge(self, parts: list[Values]) -> Values:
        """Merge several updates of one task into one that can be stored."""
        keys = self.loop.plan.keys
        merged: Values = {}
        for part in parts:
            for key, value in part.items():
                reducer = keys.reducers.get(key)
                if isinstance(merged.get(key), Overwrite) and not isinstance(value, Overwrite):
                    continue
                if key in merged and reducer is not None and not isinstance(value, Overwrite):
                    value = (
                        [*merged[key], *value] if isinstance(merged[key], list) and isinstance(value, list)
                        else reducer(merged[key], value)
                    )  # fmt: skip
                merged[key] = value
        return merged

    def _read_command(self, command: Command[Any]) -> tuple[Any, Values, list[Target]]:
        if command.graph == Command.PARENT:
            if self.loop.outer is None:
                raise InvalidUpdateError(
                    f"the node {self.task.name!r} sends a Command to its parent graph, and there is none"
                )
            raise ParentCommand(dataclasses.replace(command, graph=None))
        update = {} if command.update is None else self._update_of(command.update)
        goto_value = command.goto
        targets = (
            []
            if goto_value is None
            else list(goto_value)
            if isinstance(goto_value, list | tuple)
            else [goto_value]
        )
        where = f"the Command of {self.task.name!r}"
        goto = [check_target(target, where, self.loop.plan.nodes) for target in targets]
        return (self.loop.plan.keys.without_root(update) if update else None), update, goto

    def _update_of(self, returned: object) -> Values:
        if self.loop.plan.keys.is_root:
            return self.loop.plan.keys.as_update(returned)
        if isinstance(returned, Mapping):
            if self.spec.is_graph:  # a nested graph returns its state: use the keys that both have
                key_types = self.loop.plan.keys.types
                return {key: value for key, value in returned.items() if key in key_types}
            return dict(returned)
        if isinstance(returned, BaseModel):
            return {key: getattr(returned, key) for key in returned.model_fields_set}
        if dataclasses.is_dataclass(returned) and not isinstance(returned, type | Send):
            return {
                item.name: getattr(returned, item.name) for item in dataclasses.fields(returned)
            }
        if isinstance(returned, list | tuple) and all(
            isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
            for item in returned
        ):
            return dict(returned)
        raise InvalidUpdateError(
            f"the node {self.task.name!r} must return a dict that updates the state, a Command or None, not "
            f"{type(returned).__name__}: {returned!r:.80}"
        )

    async def _branches(self, update: Values, run: Run, runtime: Runtime[Any]) -> list[Target]:
        plan = self.loop.plan
        branches = plan.branches.get(self.task.name)
        if not branches:
            return []
        values = self.loop.thread.values
        if update:
            values = plan.keys.join(values, [(self.task.name, update)])
        return await self.loop.ask_branches(branches, self.task.name, values, run, runtime)


@contextmanager
def enter_node(
    runtime: Runtime[Any], current: AbstractContextManager[None], read: Callable[[], object]
) -> Generator[None, None, None]:
    """Set the runtime for the code of a node, and the config for the runnables that it calls."""
    token, state_token = current_task.set(runtime), current_state.set(read)
    try:
        with current:
            yield
    finally:
        current_state.reset(state_token)
        current_task.reset(token)
