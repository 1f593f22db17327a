"""One run of a flow: load the journal, apply the caller's input, call the function, store its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foldline._io import IO
from foldline._io.waiting import is_async_callable
from foldline._run import Run
from foldline.exceptions import EmptyInputError, FlowChangedError, FlowFinishedError, UsageError
from foldline.utils.uuid import new_id
from foldline.workflows._decisions import check_reviews
from foldline.workflows._flow_output import FlowOutput
from foldline.workflows._flow_scope import FlowContext, Scope, enter_scope
from foldline.workflows._journal import Journal, encode_error
from foldline.workflows._parent_run import Parent, current_parent
from foldline.workflows._run_events import FlowEvent
from foldline.workflows._started_tasks import finish_tasks
from foldline.workflows._step_trace import trace_node
from foldline.workflows._thread_log import ends_run
from foldline.workflows.durability import ENGINE_RUN
from foldline.workflows.interrupts import (
    Command,
    FlowInterrupt,
    Interrupt,
    InterruptScope,
    answers_for,
    is_invalid_resume,
    question_row,
    reopened_questions,
    valid_answers,
)
from foldline.workflows.steps import digest_of
from foldline.workflows.values import pack, unpack

if TYPE_CHECKING:
    from foldline.workflows.flow import Workflow

__all__ = ["Arguments", "FlowRun", "pack_arguments"]

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
UNDO = "undo"
MODEL_CHANNELS = frozenset({"messages", "tokens"})
"""Channels that the flow's own token handler serves, for all models inside the flow."""


class FlowRun:
    """One run of a flow, on a thread if it has a checkpointer."""

    def __init__(
        self,
        flow: Workflow[Any, Any],
        run: Run,
        *,
        wants: frozenset[str] = frozenset(),
        emit: Callable[[FlowEvent], None] | None = None,
    ) -> None:
        self.flow = flow
        self.run = run
        self.io: IO = run.io
        self.interrupts: list[Interrupt] = []
        self._invalid_answer: Exception | None = None
        """The error of an answer that does not fit its question, raised when the other answers were used."""
        outer = current_parent.get()
        saver, thread_id = flow.checkpointer, run.configurable.get("thread_id")
        key, old_key, lineage = "", None, None
        namespace: tuple[str, ...] = ()
        run_key = ENGINE_RUN.get() or new_id()
        is_inner = outer is not None and outer.stores_run(saver, thread_id)
        if outer is not None:
            namespace, place, old_place = outer.next_place()
            if outer.root is not None:
                run_key = f"{outer.root}/{place}"
            if emit is None:
                emit, wants = outer.emit, outer.wants
            if is_inner:  # inside a node, an agent's tool or another flow
                saver, thread_id, lineage = outer.checkpointer, outer.thread_id, outer.lineage
                key = f"{place}|{flow.flow_name}"
                if old_place is not None:
                    old_key = f"{old_place}|{flow.flow_name}"
        self.thread_id: str | None = (
            str(thread_id) if thread_id is not None else new_id() if saver is not None else None
        )
        self.journal = (
            None
            if saver is None
            else Journal(
                saver,
                self.thread_id or "",
                key,
                lineage,
                old_key,
                outer.owner if outer is not None and is_inner else None,
            )
        )
        self.outer = outer if is_inner else None
        self.context = FlowContext(
            flow.flow_name,
            self.thread_id,
            emit,
            wants,
            store=flow.store,
            context=run.kwargs.get("context"),
            key=f"{run_key}/{flow.flow_name}",
            io=run.io,
        )
        if outer is not None and emit is outer.emit:
            self.context.namespace = (*namespace, flow.flow_name)
        read_saved = self._previous if flow.is_node else None
        self.output = FlowOutput(self.context, self.journal, read_saved=read_saved)

    def close(self) -> None:
        """Let no further step begin: the reader of the run has gone."""
        self.context.tasks.is_closed = True

    async def result(self, value: object) -> object:
        """Run to the end, or to a question; the questions are in `interrupts`."""
        if self.journal is not None and self.outer is not None:
            await self.journal.load(self.io)
            if self.journal.is_done:  # the calling node or tool runs again
                return self._stored_result(self.journal)
        try:
            return await self._result(value)
        finally:
            if self.journal is not None:
                await self._release(self.journal)

    async def _release(self, journal: Journal) -> None:
        try:
            await journal.release(self.io)
        finally:
            if self.outer is None and journal.owner is not None:
                await journal.owner.release(self.io)

    async def _result(self, value: object) -> object:
        arguments = await self._open(value)
        if arguments is None:  # the run is finished: its result is stored
            assert self.journal is not None
            return self._stored_result(self.journal)
        self.context.version = self._version()
        if self.journal is not None and self.journal.interrupts:
            self.interrupts = self.journal.interrupts
            return None
        try:
            output = await finish_tasks(self._call(arguments), self.context, self.io)
        except FlowInterrupt as stop:
            await self._stop(stop.interrupts)
            if self._invalid_answer is not None:
                raise self._invalid_answer from None
            return None
        except Exception as error:
            if is_invalid_resume(error):  # its question stays open
                await self._stop(reopened_questions(error))
            if not ends_run(error):  # else nothing can be stored, or another run has the thread
                await self._fail(error)
            raise
        return await self._end(output)

    # -- the beginning

    def _stored_result(self, journal: Journal) -> object:
        ending = journal.ending or {}
        return unpack(ending["value"], "the result", self.flow.returns)

    async def _open(self, value: object) -> Arguments | None:
        """Load the thread and record that the run begins or continues; return None if it is finished."""
        if self.journal is None:
            if value is None or isinstance(value, Command):
                raise UsageError(
                    f"{self.flow.flow_name} has no checkpointer, so there is no run to continue: "
                    "@workflow(checkpointer=…)"
                )
            return self.flow.arguments(value)
        journal = self.journal
        at = None if self.outer is not None else self.run.configurable.get("checkpoint_id")
        if self.outer is None:
            await self._claim(journal, at, value)
        await journal.load(self.io, at)
        journal.set_durability(self.run.kwargs.get("durability"))
        if isinstance(value, Command):
            return await self._answer(journal, value)
        if value is None and not journal.is_done and not journal.is_unfinished:
            raise EmptyInputError(
                f"{self.flow.flow_name} was invoked with None, which continues a run, and thread {self.thread_id!r} "
                "has none: pass an input"
            )
        if value is None:
            return None if journal.is_done else await self._carry_on(journal)
        return await self._begin(journal, value)

    async def _begin(self, journal: Journal, value: object) -> Arguments | None:
        """Begin a run with an input, or continue the one that has it; return None if that is finished."""
        arguments = self.flow.arguments(value)
        is_same = digest_of(*arguments) == (journal.run or {}).get("args")
        replaces_run = self.flow.replaces_unfinished_run and not (
            self.outer is not None and is_same
        )
        if not replaces_run and not is_repeated(value):
            if journal.is_done and not is_same:
                raise FlowFinishedError(
                    f"thread {self.thread_id!r} has a finished run of {self.flow.flow_name} with another input, "
                    "and nothing was run. Use a new thread, or run again on purpose: .thread(id).again(…)"
                )
            if journal.is_done:
                return None
            if journal.is_unfinished and is_same:
                return await self._carry_on(journal)
        if journal.is_unfinished and not replaces_run:
            raise UsageError(
                f"thread {self.thread_id!r} has an unfinished run of {self.flow.flow_name} with another input: "
                "continue it with invoke(None), or use another thread"
            )
        await journal.write(
            self.io,
            "flow",
            name=self.flow.flow_name,
            version=self.flow.version,
            args=digest_of(*arguments),
            input=pack_arguments(self.flow, arguments),
        )
        return arguments

    async def _claim(self, journal: Journal, at: str | None, value: object) -> None:
        """Own the thread; an answer that comes while another run uses the first one is refused as such."""
        assert journal.owner is not None
        command = value
        if not isinstance(command, Command):
            await journal.owner.claim(self.io)
            return

        async def check() -> bool:
            other = Journal(journal.saver, journal.thread_id)
            await other.load(self.io, at)
            _answers(command, other)
            return other.ends_with_question

        await journal.owner.claim_to_answer(self.io, check)

    def _stored_arguments(self, journal: Journal) -> Arguments:
        record = journal.run or {}
        packed = record.get("input")
        where = f"the input of thread {self.thread_id!r}"
        types = self.flow.parameter_types
        if not isinstance(packed, list) or len(packed) != 2:
            raise FlowChangedError(f"{where} is not that of a flow")
        args = tuple(
            unpack(item, where, types.get(number, Any)) for number, item in enumerate(packed[0])
        )
        return args, {
            key: unpack(item, where, types.get(key, Any)) for key, item in packed[1].items()
        }

    async def _carry_on(self, journal: Journal) -> Arguments:
        self._check_flow(journal)
        self.output.publish_unfinished()
        if self.outer is not None:
            outer_answers = self.outer.answers
            answers = {
                item.id: outer_answers[item.id]
                for item in journal.interrupts
                if item.id in outer_answers
            }
            if answers:
                await journal.write(self.io, "resume", answers=answers)
                return self._stored_arguments(journal)
        if not journal.interrupts:
            await journal.write(self.io, "claim")
        return self._stored_arguments(journal)

    async def _answer(self, journal: Journal, command: Command[Any]) -> Arguments:
        answers, self._invalid_answer = _answers(
            command, journal, is_unfinished=journal.is_unfinished
        )
        self._check_flow(journal)
        self.output.publish_unfinished()
        packed = {key: pack(item, "an answer") for key, item in answers.items()}
        await journal.write(self.io, "resume", answers=packed)
        return self._stored_arguments(journal)

    def _check_flow(self, journal: Journal) -> None:
        record = journal.run or {}
        if record.get("name") != self.flow.flow_name:
            raise FlowChangedError(
                f"thread {self.thread_id!r} was begun by the flow {record.get('name')!r}, not by "
                f"{self.flow.flow_name!r}"
            )
        version = record.get("version")
        if version != self.flow.version and version not in self.flow.accepts:
            raise FlowChangedError(
                f"thread {self.thread_id!r} was begun by version {version!r} of {self.flow.flow_name}, and this is "
                f"version {self.flow.version!r}: finish it with that version, or set accepts=[{version!r}] and branch "
                "on flow_version()"
            )

    def _version(self) -> str | None:
        if self.journal is None or self.journal.run is None:
            return self.flow.version
        self.context.previous = self._previous()
        version: str | None = self.journal.run.get("version")
        return version

    def _previous(self) -> Any:  # noqa: ANN401  what the previous run saved
        journal = self.journal
        if journal is None or journal.previous is None:
            return None
        declared = self.flow.saves if journal.has_saved_value else self.flow.returns
        return unpack(journal.previous, "the last result", declared)

    # -- the function

    async def _call(self, arguments: Arguments) -> object:
        args, kwargs = arguments
        function = self.flow.function
        is_async = is_async_callable(function)
        self.context.questions = InterruptScope("", {}, False)  # noqa: FBT003
        if self.journal is not None:
            answers = {key: unpack(item, "an answer") for key, item in self.journal.answers.items()}
            place = f"{self.thread_id}/{self.journal.namespace}/{self.journal.run_id}"
            self.context.questions = InterruptScope(place, answers, True)  # noqa: FBT003
        self.context.parent = self._parent()
        scope = Scope(
            self.context, self.journal, "", is_async, checks_order=self.journal is not None and not is_async
        )  # fmt: skip
        self.output.publish_start(args, kwargs)
        kwargs = {**kwargs, **self.flow.injected_arguments(self.context, self.run)}
        with enter_scope(scope):
            output = await self._call_function(args, kwargs)
        missing_place = None if self.journal is None else self.journal.unclaimed()
        if missing_place is not None:
            raise FlowChangedError(
                f"thread {self.thread_id!r}: the first place that differs is {missing_place}: the journal has it, and "
                "the flow ended without it. Use the code that began this thread, or begin a new one"
            )
        return output

    async def _call_function(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        flow, run = self.flow, self._observed_run()

        async def body() -> object:
            return await self.io.call(flow.function, *args, **kwargs)

        if not flow.is_node or run.manager is None:
            with run.current():
                return await body()
        step = 0 if self.journal is None else self.journal.step
        node_run = run.child(f"graph:step:{step}")
        return await trace_node(
            node_run, flow.flow_name, args[0], body, lambda output: flow.split_output(output)[0]
        )

    def _parent(self) -> Parent | None:
        """Return the parent of the agents, graphs and flows that this flow calls: they are stored on its thread."""
        context, journal = self.context, self.journal
        if journal is None and context.emit is None:
            return None
        key = context.name if journal is None else f"{context.name}@{journal.run_id}"
        return Parent(
            namespace=context.namespace or (context.name,),
            key=f"{journal.namespace}|{key}" if journal is not None and journal.namespace else key,
            wants=context.wants - MODEL_CHANNELS,
            emit=context.emit,
            checkpointer=None if journal is None else journal.saver,
            thread_id=self.thread_id,
            lineage=journal,
            owner=None if journal is None else journal.owner,
            root=self.thread_id or context.key,
            answers={} if context.questions is None else context.questions.answers,
        )

    def _observed_run(self) -> Run:
        """Return the parent run of the models inside; their tokens go to the stream of the flow."""
        handler = None if self.outer is not None else self.output.token_handler()
        return self.run if handler is None else self.run.child().patched({"callbacks": [handler]})

    # -- the end

    async def _end(self, output: object) -> object:
        result, saved = self.flow.split_output(output)
        if self.journal is not None:
            returns = self.flow.returns
            fields = {"value": pack(result, f"the result of {self.flow.flow_name}", returns)}
            if saved is not result:
                fields["saved"] = pack(saved, f"what {self.flow.flow_name} saves", self.flow.saves)
            await self.journal.write(self.io, "end", **fields)
        self.output.publish_end(result)
        return result

    async def _stop(self, interrupts: list[Interrupt]) -> None:
        self.interrupts = interrupts
        if self.journal is not None:
            rows = [question_row(item) for item in interrupts]
            await self.journal.write(self.io, "stop", interrupts=rows)
        self.output.publish_stop(interrupts)

    async def _fail(self, error: Exception) -> None:
        """Run the compensations, the newest first; if there are none, the next attempt repeats the failed steps."""
        self.output.publish_result(error=error)
        compensations = self.context.undo
        for place, compensate, value in reversed(compensations):
            await self._undo(place, compensate, value)
        if self.journal is None:
            return
        if compensations:
            await self.journal.write(self.io, "end", failed=encode_error(error))
            return
        causes = _causes(error)
        again = [
            place
            for failed, place in self.context.failures.values()
            if any(failed is cause for cause in causes)
        ]
        await self.journal.write(self.io, "end", error=encode_error(error), again=again)

    async def _undo(self, place: str, compensate: Callable[..., Any], value: object) -> None:
        journal, undo_place = self.journal, f"{place}/{UNDO}"
        if journal is not None and undo_place in journal.steps:
            return
        scope = Scope(self.context, journal, f"{undo_place}/", is_async_callable(compensate))
        scope.key = scope.key_of(undo_place)
        if journal is not None:
            await journal.check_owner(self.io)
        with enter_scope(scope):
            await self.io.call(compensate, value)
        if journal is not None:
            await journal.write(self.io, "step", place=undo_place, args=UNDO, value=None)


def pack_arguments(flow: Workflow[Any, Any], arguments: Arguments) -> object:
    """Return the arguments of a flow as JSON."""
    args, kwargs = arguments
    types = flow.parameter_types
    positional = [
        pack(item, f"argument {number} of {flow.flow_name}", types.get(number, Any))
        for number, item in enumerate(args)
    ]
    keywords = {
        key: pack(item, f"argument {key!r} of {flow.flow_name}", types.get(key, Any))
        for key, item in kwargs.items()
    }
    return [positional, keywords]


def is_repeated(value: object) -> bool:
    """Whether the caller of a finished flow wants another run."""
    return bool(getattr(value, "is_repeated", False))


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    queue: list[BaseException | None] = [error]
    while queue:
        current = queue.pop()
        if current is None or any(current is item for item in causes):
            continue
        causes.append(current)
        queue += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            queue += current.exceptions
    return causes


def _answers(
    command: Command[Any], journal: Journal, *, is_unfinished: bool = True
) -> tuple[dict[str, Any], Exception | None]:
    """Return the answers of a command, and the error of those that do not fit; raise if none does."""
    questions = journal.interrupts if is_unfinished else []
    answers = answers_for(command.resume, questions, journal.answered_at)
    check_reviews(questions, answers)
    return valid_answers(answers, questions)
