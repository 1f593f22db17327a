"""The start of a graph's run: loads its thread and applies the caller's input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foldline.exceptions import UsageError
from foldline.graph._graph_records import GraphThread, Target, TaskOutcome, encode_target, record
from foldline.graph._plan import check_target
from foldline.graph._threads import load_thread
from foldline.graph.runtime import Runtime
from foldline.graph.types import START
from foldline.workflows._inbox import Message
from foldline.workflows._run_context import RunContext
from foldline.workflows._thread_start import ThreadStart
from foldline.workflows.interrupts import Command
from foldline.workflows.values import pack

if TYPE_CHECKING:
    from foldline.graph._plan import GraphPlan
    from foldline.graph._run_state import GraphRun

__all__ = ["GraphStart", "check_command", "check_message"]

COMMAND = "the Command"
Values = dict[str, Any]


class GraphStart(ThreadStart[RunContext[GraphThread]]):
    """The start of a run of a graph."""

    def __init__(self, loop: GraphRun) -> None:
        super().__init__(loop.context)
        self.loop = loop
        self.plan = loop.plan

    async def load(self, at: str | None, value: object) -> bool:
        """Load the thread; return whether the run continues from an earlier record, as a fork."""
        context = self.context
        assert context.log is not None
        log, io = context.log, context.io
        resumes = isinstance(value, Command) and value.resume is not None
        context.thread = await load_thread(self.plan, log, io, at, with_pending=True)
        if context.thread.head == log.last:
            return False
        is_replay = at is not None and not resumes
        if is_replay:  # the step begins again, without its results and answers
            context.thread = await load_thread(self.plan, log, io, at)
        context.thread.begin_branch(with_step=not is_replay)
        return is_replay and value is None

    def continues_nested(self) -> bool:
        """Whether a nested graph continues; a finished one with its own thread begins a new run."""
        return super().continues_nested() and (
            self.context.thread.is_unfinished or self.loop.graph.checkpointer is not True
        )

    def stands_at_breakpoint(self) -> bool:
        """Whether the run stopped at a breakpoint, where it continues with any answer."""
        return self.context.thread.is_paused and not self.context.thread.interrupts

    async def begin(self, kind: str) -> None:
        """Record that the run continues."""
        await self._begin(record(kind))

    async def _begin(self, *bodies: dict[str, Any]) -> None:
        entries = await self.loop.append(*bodies)
        for body, entry in zip(bodies, entries, strict=False):
            self.context.thread.take(entry.id, body)
        self.loop.publish_values()

    def stay(self) -> None:
        """Stay at a breakpoint."""
        self.loop.is_stopped = True

    # -- a message

    def can_take_messages(self) -> bool:
        """Whether a message may change the state now: between two steps, or after the run's end."""
        thread = self.context.thread
        if thread.interrupts or thread.answers or thread.finished or thread.failures:
            return False
        return not thread.is_paused and thread.next != [START]

    async def take_message(self, message: Message) -> None:
        """Merge a message into the state; an input also begins at START, beside the next tasks."""
        thread, keys = self.context.thread, self.plan.keys
        is_input = message.what == "input" or thread.head is None
        if is_input and not thread.is_unfinished:
            await self.take_input(message.value, inbox=message.id)
            return
        update = keys.check(
            _input_values(self.plan, self.loop.graph.get_name(), message.value), "the message"
        )
        body = {**self._change(Command(update=update)), "inbox": message.id}
        if is_input:
            values = keys.join(keys.own_values(thread.values), [("the message", update)])
            targets, _, deferred = await self._first_targets(values, [])
            body["next"] += [encode_target(target, keys) for target in targets]
            body["deferred"] = [*body["deferred"], *deferred]
        await self._begin(body)

    async def skip_message(self, message: Message) -> None:
        """Record that a message was taken, and change nothing."""
        await self._begin({**record("claim"), "inbox": message.id})

    # -- an input

    async def take_input(
        self, value: object, goto: list[Target] | None = None, *, inbox: str | None = None
    ) -> None:
        """Begin a round at START, and at the targets of a command."""
        keys, thread = self.plan.keys, self.context.thread
        update = keys.check(
            _input_values(self.plan, self.loop.graph.get_name(), value), "the input"
        )
        bodies = []
        if self.context.log is not None:
            bodies = [record("input", values=keys.encode(update, "the input"))]
            bodies[0]["step"] = thread.step + 1
            if inbox is not None:
                bodies[0]["inbox"] = inbox
        await self.plan_round(update, goto, bodies)
        thread.inbox = inbox or thread.inbox

    async def plan_round(
        self,
        update: Values,
        goto: list[Target] | None = None,
        bodies: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Merge the input of a round, and choose its first tasks; the record of the input is written with them."""
        keys, thread = self.plan.keys, self.context.thread
        values = keys.join(thread.values, [("the input", update)], thread.indexes)
        targets, waiting, deferred = await self._first_targets(values, list(goto or ()))
        id, step = None, thread.step + 1 + (thread.input is None)
        if self.context.log is not None:
            body = record("plan", waiting=waiting, deferred=deferred)
            body["step"] = step
            body["next"] = [encode_target(target, keys) for target in targets]
            entries = await self.loop.append(*bodies, body)
            if bodies:
                thread.at = bodies[0]["at"]
                thread.move(entries[0].id, [START], step - 1, {}, [])
                thread.input, thread.source = update, "input"
                self.loop.publish_checkpoint()
            id = entries[-1].id
            thread.at = body["at"]
        thread.values, thread.input = values, None
        thread.move(id, targets, step, waiting, deferred)
        thread.source, thread.last_nodes = "loop", []
        if update:
            self.loop.publish_values()
        self.loop.publish_checkpoint()

    async def _first_targets(
        self, values: Values, targets: list[Target]
    ) -> tuple[list[Target], dict[str, list[str]], list[str]]:
        """Return the tasks after START, and the targets given, with what waits and is deferred."""
        branches = self.plan.branches.get(START)
        if branches:
            runtime = Runtime(self.loop.context_value, self.loop.store)
            targets += await self.loop.ask_branches(branches, START, values, self.loop.run, runtime)
        return self.plan.next_targets([TaskOutcome(START, {}, targets)], {}, [])

    # -- a command

    async def take_change(self, command: Command[Any]) -> None:
        """Change the state and add the targets of the command to the next steps; open questions stay open."""
        thread = self.context.thread
        if thread.head is None:
            keys = self.plan.keys
            update = command.update if keys.is_root else keys.as_update(command.update)
            await self.take_input(update, _targets_of(command, self.plan))
            return
        await self._begin(self._change(command))
        if command.goto:
            thread.interrupts = []  # the tasks with questions run with the new ones, and ask again

    async def take_answers(self, answers: dict[str, Any], command: Command[Any] | None) -> None:
        """Record the answers, after the state change that came with them."""
        packed = {key: pack(answer, "an answer") for key, answer in answers.items()}
        changes = [] if command is None else [self._change(command)]
        await self._begin(*changes, record("resume", answers=packed))

    def _change(self, command: Command[Any]) -> dict[str, Any]:
        """Return the record of a change from outside: the next tasks stay, and the command's targets are added."""
        keys, thread = self.plan.keys, self.context.thread
        update = _update_of(command, self.plan)
        body = record("update", tasks=[{"name": COMMAND, "update": keys.encode(update, COMMAND)}])
        targets = [*thread.next, *_targets_of(command, self.plan)]
        return {
            **body,
            "step": thread.step + 1,
            "next": [encode_target(target, keys) for target in targets],
            "waiting": thread.waiting,
            "deferred": thread.deferred,
            "keeps": True,
            "paused": thread.is_paused,
        }


def _update_of(command: Command[Any], plan: GraphPlan) -> Values:
    """Return the validated update of a command; raise `InvalidUpdateError` if it does not fit the state."""
    return plan.keys.check(plan.keys.as_update(command.update), COMMAND)


def _targets_of(command: Command[Any], plan: GraphPlan) -> list[Target]:
    """Return the targets of a command; raise `InvalidRouteError` if there is no such node."""
    goto = command.goto
    targets = [] if goto is None else list(goto) if isinstance(goto, list | tuple) else [goto]
    return [check_target(target, COMMAND, plan.nodes) for target in targets]


def check_command(plan: GraphPlan, command: Command[Any]) -> None:
    """Raise if the update or the targets of a command do not fit the graph."""
    plan.keys.encode(_update_of(command, plan), COMMAND)
    for target in _targets_of(command, plan):
        encode_target(target, plan.keys)


def check_message(plan: GraphPlan, name: str, value: object) -> None:
    """Raise if a message to a thread cannot be merged into the state of the graph of this name."""
    keys = plan.keys
    keys.encode(keys.check(_input_values(plan, name, value), "the message"), "the message")


def _input_values(plan: GraphPlan, name: str, value: object) -> Mapping[str, Any]:
    if plan.keys.is_root:
        return plan.keys.as_update(value)
    if isinstance(value, Mapping):
        return value
    shape = plan.input
    is_class = isinstance(shape.schema, type) and not shape.is_dict
    if is_class and isinstance(value, shape.schema):
        return {key: getattr(value, key) for key in shape.names if hasattr(value, key)}
    raise UsageError(
        f"{name} takes a dict with some of {', '.join(shape.names)}, not {type(value).__name__}: {value!r:.80}"
    )
