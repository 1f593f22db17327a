"""One run of an agent: a short loop over named steps, each of which updates the state and is kept before the next.

`Loop.events()` gives what happens as it happens; where nobody listens it says nothing, and only `result()` counts.
The two big steps are in `model_step` and `tool_step`; what a step said last is in `self.update`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from foldline._run import Run
from foldline.agents.checkpoint.records import Record
from foldline.agents.limits import Bounds
from foldline.agents.model_step import ModelStep
from foldline.agents.opening import Opened
from foldline.agents.runtime import Runtime
from foldline.agents.setup import END, MODEL, TOOLS, Setup
from foldline.agents.tool_step import ToolStep
from foldline.exceptions import UsageError
from foldline.workflows.background import run_in_background
from foldline.workflows.events import Emit, FlowEvent
from foldline.workflows.interrupts import Asking, FlowInterrupt, Interrupt
from foldline.workflows.nesting import Within, inside

__all__ = ["Loop"]

Json = Any
Values = dict[str, Any]
JUMPS = ("tools", "model", "end")


class Loop(Opened, ModelStep, ToolStep):
    """One run of an agent."""

    def __init__(
        self, setup: Setup, run: Run, *, wants: frozenset[str], outer: Within | None
    ) -> None:
        self.setup = setup
        self.run = run
        self.io = run.io
        self.outer = outer
        self.namespace: tuple[str, ...] = () if outer is None else outer.next_namespace()
        self.wants = wants if outer is None or outer.emit is None else wants | outer.wants
        self.is_observed = bool(self.wants) or run.manager is not None
        """Whether anybody hears of a step before it is kept."""
        self._emit: Emit | None = None
        self._held: list[FlowEvent] = []
        self.bounds = Bounds(setup.name, setup.limits, run)
        self.update: Values | None = None
        self.jump: str | None = None
        self.prepare()
        self.runtime: Runtime[Any] = Runtime(
            context=run.kwargs.get("context"),
            store=setup.store,
            stream_writer=self.write,
            config=run.given,
            thread_id=self.thread_id,
            namespace=self.namespace,
        )

    # -- the loop

    async def events(self, value: Json) -> AsyncGenerator[FlowEvent, None]:
        """Run; give what happens."""
        try:
            await self.open(value)
            for said in self._first_words():
                yield said
            async with aclosing(self._steps()) as steps:
                async for said in steps:
                    yield said
        except BaseException as error:
            self.drop_eager()
            self._carry(error)
            if isinstance(error, Exception):
                for said in self._tell(
                    "lifecycle", None, {**self._lifecycle("failed"), "error": str(error)}
                ):
                    yield said
            raise
        for said in self._last_words():
            yield said

    async def _steps(self) -> AsyncGenerator[FlowEvent, None]:
        """Take step after step, until the end or a question to a person."""
        try:
            while self.thread.next is not None and not self.thread.interrupts:
                if not self.is_observed:
                    await self._step_quietly(self.thread.next)
                    continue
                async with aclosing(self._step(self.thread.next)) as step:
                    async for said in step:
                        yield said
        except FlowInterrupt as stop:
            await self._stop(stop.interrupts)

    def result(self) -> Values:
        """Give the state as callers see it, and the questions that are open."""
        shown = self.setup.schema.shown(self.thread.values)
        if self.thread.interrupts:
            shown["__interrupt__"] = list(self.thread.interrupts)
        return shown

    async def _step(self, node: str) -> AsyncGenerator[FlowEvent, None]:
        if node in (MODEL, TOOLS):
            self.bounds.step()
        self.update = self.jump = None
        taken = self._take(node, self.run) if self.run.manager is None else self._take_told(node)
        async with aclosing(taken):
            async for said in taken:
                yield said
        for said in await self._commit(node):
            yield said

    async def _step_quietly(self, node: str) -> None:
        """Take a step that nobody watches: the same, without a stream around it."""
        self.update = self.jump = None
        if node == MODEL:
            self.bounds.step()
            await self.ask_quietly(self.run)
        elif node == TOOLS:
            self.bounds.step()
            await self.run_quietly(self.run)
        else:
            await self._call_hook(node, self.run)
        await self._commit(node)

    def _take(self, node: str, run: Run) -> AsyncGenerator[FlowEvent, None]:
        if node == MODEL:
            return self.ask_model(run)
        if node == TOOLS:
            return self.run_tools(run)
        return self.alongside(lambda: self._call_hook(node, run))

    async def _take_told(self, node: str) -> AsyncGenerator[FlowEvent, None]:
        """Take a step as a run of its own in the traces."""
        run = self.run.child(f"graph:step:{self.thread.step + 1}").patched()
        try:
            await run.begin("chain", "on_chain_start", None, self.thread.values, name=node)
            async with aclosing(self._take(node, run)) as taken:
                async for said in taken:
                    yield said
        except FlowInterrupt as stop:
            await run.tell("on_chain_end", {"__interrupt__": stop.interrupts})
            raise
        except GeneratorExit:
            await run.leave(self.update)
            raise
        except BaseException as error:
            await run.tell("on_chain_error", error)
            raise
        await run.tell("on_chain_end", self.update)

    async def _call_hook(self, node: str, run: Run) -> None:
        with inside(self.within(node), self.asking(node)), self.bounds.active():
            update = await self.setup.hooks[node](self.thread.values, self.runtime, run)
        if update is not None and not isinstance(update, Mapping):
            raise UsageError(
                f"{node} must return a dict that updates the state, or None, not {type(update).__name__}"
            )
        self.update = None if update is None else dict(update)

    # -- keeping

    async def _commit(self, node: str) -> list[FlowEvent]:
        """Join the step's update into the state, choose the next step, and keep both."""
        thread, schema = self.thread, self.setup.schema
        update = self.update or {}
        jump = self.jump or update.get("jump_to")
        update = schema.prepared(
            {key: one for key, one in update.items() if key != "jump_to"}, node
        )
        values = schema.update(thread.values, update) if update else thread.values
        following = self._target(jump, node) if jump else self.setup.next_step(node, values)
        # Whoever carries on later takes such a step again, on the way to what was under way behind it.
        is_small = not update and node in self.setup.hooks and following != END
        record = None
        thread.values = values  # before it is kept: a store that fails must not hide what was done
        if not is_small:
            thread.finished, thread.asked, thread.answers = {}, [], {}
        if self.saver is not None and not is_small:
            record = thread.step_done(node, following, update)
            await self.append(record)
            thread.head = record.id
        thread.step += 1
        thread.next = None if following == END else following
        return self._after_step(node, update, record) if self.wants else []

    def _target(self, jump: str, node: str) -> str:
        if jump not in JUMPS:
            raise UsageError(f"{node} jumps to {jump!r}: say one of {', '.join(JUMPS)}")
        return {"tools": TOOLS, "model": self.setup.head, "end": self.setup.exit}[jump]

    async def _stop(self, interrupts: list[Interrupt]) -> None:
        self.thread.interrupts = interrupts
        if self.saver is not None:
            record = Record(
                "interrupt", parent=self.thread.head, step=self.thread.step, interrupts=interrupts
            )
            await self.append(record)
            self.thread.head = record.id

    def _carry(self, error: BaseException) -> None:
        """Put the transcript so far on an error that leaves the run."""
        if getattr(error, "agent_state", None) is None:
            with suppress(AttributeError, TypeError):
                error.agent_state = self.transcript()  # type: ignore[attr-defined]
                error.messages = list(error.agent_state.get("messages", ()))  # type: ignore[attr-defined]

    # -- saying

    def _tell(self, method: Any, node: str | None, data: Json) -> list[FlowEvent]:
        return [FlowEvent(method, self.namespace, node, data)] if method in self.wants else []

    def _after_step(self, node: str, update: Values, record: Record | None) -> list[FlowEvent]:
        said = self._tell("updates", node, {"node": node, "values": update}) if update else []
        if "values" in self.wants and update:
            said += self._tell("values", node, self.setup.schema.shown(self.thread.values))
        if record is not None:
            said += self._tell("checkpoints", node, checkpoint_data(record, "loop"))
        return said

    def _first_words(self) -> list[FlowEvent]:
        if not self.wants:
            return []
        values = self.setup.schema.shown(self.thread.values)
        started = self._tell("lifecycle", None, self._lifecycle("started"))
        return [*started, *self._tell("values", None, values)]

    def _last_words(self) -> list[FlowEvent]:
        if not self.wants:
            return []
        said: list[FlowEvent] = []
        for one in self.thread.interrupts:
            said += self._tell(
                "input.requested", None, {"interrupt_id": one.id, "payload": one.value}
            )
        ending = "interrupted" if self.thread.interrupts else "completed"
        return [*said, *self._tell("lifecycle", None, self._lifecycle(ending))]

    def _lifecycle(self, event: str) -> dict[str, Json]:
        data: dict[str, Json] = {"event": event, "graph_name": self.setup.name}
        if self.outer is not None and self.outer.tool_call_id is not None:
            data["cause"] = {"type": "toolCall", "tool_call_id": self.outer.tool_call_id}
        if self.saver is not None and self.thread.head is not None:
            data["checkpoint"] = {"id": self.thread.head, "ns": "|".join(self.namespace)}
        return data

    def write(self, chunk: Json) -> None:
        """Send something of a user's to whoever listens."""
        if "custom" in self.wants:
            self.say(FlowEvent("custom", self.namespace, None, {"payload": chunk}))

    def say(self, said: FlowEvent) -> None:
        """Say something from inside a step; while nobody reads yet, it is held back."""
        if self._emit is not None:
            self._emit(said)
        else:
            self._held.append(said)

    def take_held(self) -> list[FlowEvent]:
        """Give what was held back."""
        held, self._held = self._held, []
        return held

    async def alongside(
        self, make: Callable[[], Awaitable[object]]
    ) -> AsyncGenerator[FlowEvent, None]:
        """Run a body of a step; give what it says, if anybody listens."""
        if not self.wants:
            await make()
            return

        async def body(emit: Emit) -> None:
            for held in self.take_held():
                emit(held)
            self._emit = emit
            try:
                await make()
            finally:
                self._emit = None

        async with aclosing(run_in_background(self.io, body)) as items:
            async for said in items:
                yield said

    # -- where a step's code is

    def within(self, node: str, call_id: str | None = None) -> Within:
        """Say to agents called by a step where they are."""
        label = f"{node}:{call_id}" if call_id else node
        return Within(
            (*self.namespace, label), self.wants, self.say if self.wants else None, self.saver,
            self.thread_id, self.thread.answers, call_id,
        )  # fmt: skip

    def asking(self, node: str, call_id: str | None = None) -> Asking:
        """Say to `interrupt()` in a step where it is."""
        place = (
            f"{self.thread_id}/{'|'.join(self.namespace)}/{self.thread.step}/{node}/{call_id or ''}"
        )
        return Asking(place, self.thread.answers, self.saver is not None)


def checkpoint_data(record: Record, source: str) -> dict[str, Json]:
    """Describe a checkpoint in the protocol's form."""
    data: dict[str, Json] = {"id": record.id, "step": record.step, "source": source}
    return {**data, "parent_id": record.parent} if record.parent else data
