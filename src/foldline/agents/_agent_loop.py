"""`Loop`: one run of an agent: named steps, each of which updates the state and determines the next step."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any

from foldline._run import Run
from foldline.agents._agent_definition import END, MODEL, TOOLS, Setup
from foldline.agents._eager_tools import EagerTools
from foldline.agents._model_step import ModelStep
from foldline.agents._run_context import AgentContext
from foldline.agents._run_start import AgentStart
from foldline.agents._tool_runner import ToolRunner
from foldline.agents._tool_step import ToolStep
from foldline.agents.checkpoint._records import Record
from foldline.exceptions import UsageError
from foldline.workflows._inbox import Message
from foldline.workflows._nesting import Parent
from foldline.workflows._run_events import FlowEvent
from foldline.workflows._run_loop import RunLoop
from foldline.workflows._started_tasks import finish_tasks
from foldline.workflows.interrupts import FlowInterrupt, Interrupt, request_data

__all__ = ["Loop"]

Values = dict[str, Any]
JUMPS = ("tools", "model", "end")


class HookStep:
    """Calls a hook of a middleware; `update` is the update of the state that it returned."""

    def __init__(self, context: AgentContext, node: str) -> None:
        self.context = context
        self.node = node
        self.update: Values = {}

    async def events(self, run: Run) -> AsyncGenerator[FlowEvent, None]:
        """Call the hook; yield its events."""
        context = self.context
        events = context.output.run_body(lambda: self._call(run), is_live=bool(context.wants))
        async with aclosing(events):
            async for event in events:
                yield event

    async def _call(self, run: Run) -> None:
        context = self.context
        hook = context.setup.hooks[self.node]
        with context.enter(self.node) as parent:
            body = hook(context.thread.values, context.runtime, run)
            update = await finish_tasks(body, parent, context.io)
        if update is not None and not isinstance(update, Mapping):
            raise UsageError(
                f"{self.node} must return a dict that updates the state, or None, not {type(update).__name__}"
            )
        self.update = dict(update or {})


class Loop(RunLoop[AgentContext]):
    """One run of an agent."""

    def __init__(
        self, setup: Setup, run: Run, *, wants: frozenset[str], outer: Parent | None
    ) -> None:
        super().__init__(AgentContext(setup, run, wants=wants, outer=outer))
        runner = ToolRunner(self.context)
        self.eager = EagerTools(self.context, runner)
        self.steps: dict[str, ModelStep | ToolStep | HookStep] = {
            MODEL: ModelStep(self.context, self.eager),
            TOOLS: ToolStep(self.context, runner, self.eager),
            **{node: HookStep(self.context, node) for node in setup.hooks},
        }

    def result(self) -> Values:
        """Return the public part of the state, with the open questions."""
        values = self.context.setup.schema.public_values(self.context.thread.values)
        if self.interrupts:
            values["__interrupt__"] = list(self.interrupts)
        return values

    def partial_result(self) -> Values:
        """Return the state of a run that the caller abandoned."""
        return self.context.transcript()

    # -- the loop

    async def open(self, value: object) -> None:
        """Load the thread and apply the caller's input."""
        await AgentStart(self.context).open(value)
        self._publish_start()

    async def reload(self) -> None:
        """Load the thread again, which another run may have continued."""
        await AgentStart(self.context).load(None, None)

    def can_take_messages(self) -> bool:
        """Whether a message may follow the last one now."""
        return AgentStart(self.context).can_take_messages()

    async def take_message(self, message: Message) -> None:
        """Add a message to the state, and record that it was taken."""
        await AgentStart(self.context).take_message(message)
        self._publish_values()

    async def skip_message(self, message: Message) -> None:
        """Record that a message was taken, and change nothing."""
        await AgentStart(self.context).skip_message(message)

    def has_next_step(self) -> bool:
        """Whether there is another step."""
        return self.context.thread.is_unfinished

    async def step_events(self) -> AsyncGenerator[FlowEvent, None]:
        """Run one step and store it; yield its events."""
        context = self.context
        node = context.thread.next
        assert node is not None
        if node in (MODEL, TOOLS):
            context.bounds.step()
        await context.check_owner()
        step = self.steps[node]
        is_traced = context.run.manager is not None
        events = self._traced_events(node, step) if is_traced else step.events(context.run)
        async with aclosing(events):
            async for event in events:
                yield event
        await self._commit(node, step.update, getattr(step, "jump", None))

    async def keep_questions(self, interrupts: list[Interrupt]) -> None:
        """Record that the run stopped for these questions."""
        step = self.context.thread.step
        await self.context.keep(Record("interrupt", step=step, interrupts=interrupts))

    def fail(self, error: BaseException) -> None:
        """Attach the transcript to the error, and publish that the run failed."""
        self.eager.drop()
        self._attach_transcript(error)
        if isinstance(error, Exception):
            data = {**self._lifecycle("failed"), "error": str(error)}
            self.context.output.publish("lifecycle", None, data)

    async def _traced_events(
        self, node: str, step: ModelStep | ToolStep | HookStep
    ) -> AsyncGenerator[FlowEvent, None]:
        """Run a step as a child run in the traces."""
        thread = self.context.thread
        run = self.context.run.child(f"graph:step:{thread.step + 1}").patched()
        try:
            await run.begin("chain", "on_chain_start", None, thread.values, name=node)
            async with aclosing(step.events(run)) as events:
                async for event in events:
                    yield event
        except FlowInterrupt as stop:
            await run.dispatch("on_chain_end", {"__interrupt__": stop.interrupts})
            raise
        except GeneratorExit:
            await run.end_stream(step.update)
            raise
        except BaseException as error:
            await run.dispatch("on_chain_error", error)
            raise
        await run.dispatch("on_chain_end", step.update)

    # -- storing

    async def _commit(self, node: str, update: Values, jump: str | None) -> None:
        """Merge a step's update into the state, choose the next step, and store both."""
        context, setup = self.context, self.context.setup
        thread, schema = context.thread, setup.schema
        jump = jump or update.get("jump_to")
        update = schema.prepare(
            {key: value for key, value in update.items() if key != "jump_to"}, node
        )
        values = schema.update(thread.values, update, thread.indexes) if update else thread.values
        next_node = self._target(jump, node) if jump else setup.next_step(node, values)
        # A hook that changed nothing is not stored: a resumed run calls it again before the next step.
        is_unchanged = not update and node in setup.hooks and next_node != END
        record = None
        thread.values = (
            values  # before storing: if the store fails, the error still has the transcript
        )
        if not is_unchanged:
            thread.finished, thread.answered_at, thread.answers = {}, None, {}
        if context.log is not None and not is_unchanged:
            record = thread.step_done(node, next_node, update)
            await context.keep(record)
        thread.step += 1
        thread.next = None if next_node == END else next_node
        if context.wants:
            self._publish_step(node, update, record)

    def _target(self, jump: str, node: str) -> str:
        if jump not in JUMPS:
            raise UsageError(f"{node} jumps to {jump!r}: use one of {', '.join(JUMPS)}")
        setup = self.context.setup
        if node in setup.hooks:
            declared = setup.jumps[node]
            if jump not in declared:
                only = ", ".join(map(repr, sorted(declared)))
                raise UsageError(
                    f"{node} jumps to {jump!r} and declares {f'only {only}' if only else 'no jump'}: put "
                    f"@hook_config(can_jump_to=[{jump!r}]) on the hook, or pass can_jump_to to its decorator"
                )
            self.context.bounds.step()  # a hook that always jumps would never end otherwise
        return {"tools": TOOLS, "model": setup.head, "end": setup.exit}[jump]

    def _attach_transcript(self, error: BaseException) -> None:
        """Attach the transcript so far to an error that ends the run."""
        if getattr(error, "agent_state", None) is None:
            with suppress(AttributeError, TypeError):
                error.agent_state = self.context.transcript()  # type: ignore[attr-defined]
                error.messages = list(error.agent_state.get("messages", ()))  # type: ignore[attr-defined]

    # -- publishing

    def _publish_step(self, node: str, update: Values, record: Record | None) -> None:
        output = self.context.output
        if update:
            output.publish("updates", node, {"node": node, "values": update})
            if "values" in output.wants:
                values = self.context.setup.schema.public_values(self.context.thread.values)
                output.publish("values", node, values)
        if record is not None:
            output.publish("checkpoints", node, _checkpoint_data(record))

    def _publish_start(self) -> None:
        context = self.context
        if context.wants:
            context.output.publish("lifecycle", None, self._lifecycle("started"))
            self._publish_values()

    def _publish_values(self) -> None:
        context = self.context
        if context.wants:
            values = context.setup.schema.public_values(context.thread.values)
            context.output.publish("values", None, values)

    def end(self) -> None:
        """Publish that the run has ended or was interrupted."""
        output = self.context.output
        if not output.wants:
            return
        for question in self.interrupts:
            output.publish("input.requested", None, request_data(question))
        ending = "interrupted" if self.interrupts else "completed"
        output.publish("lifecycle", None, self._lifecycle(ending))

    def _lifecycle(self, event: str) -> dict[str, Any]:
        context = self.context
        data: dict[str, Any] = {"event": event, "graph_name": context.setup.name}
        if context.outer is not None and context.outer.tool_call_id is not None:
            data["cause"] = {"type": "toolCall", "tool_call_id": context.outer.tool_call_id}
        if context.log is not None and context.thread.head is not None:
            data["checkpoint"] = {"id": context.thread.head, "ns": "|".join(context.namespace)}
        return data


def _checkpoint_data(record: Record) -> dict[str, Any]:
    """Return a checkpoint in the form of the protocol."""
    data: dict[str, Any] = {"id": record.id, "step": record.step, "source": "loop"}
    return {**data, "parent_id": record.parent} if record.parent else data
