"""The start of an agent's run: loads its thread and applies the caller's input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from foldline._io import IO
from foldline.agents._agent_definition import END, MODEL, Setup
from foldline.agents._run_context import AgentContext
from foldline.agents._tool_calls import error_message, unanswered, with_results
from foldline.agents.checkpoint._records import Record, Thread
from foldline.agents.state import GrowingMessages, as_growing, as_plain, indexes_of
from foldline.checkpoint.base import Entry
from foldline.exceptions import EmptyInputError, InvalidAnswerError, SchemaError, UsageError
from foldline.messages import BaseMessage
from foldline.prompt_values import PromptValue
from foldline.tools.base import BaseTool, describe_validation_error
from foldline.utils.json_schema import validate
from foldline.utils.strings import suggestion
from foldline.workflows._decisions import Decision
from foldline.workflows._inbox import Message
from foldline.workflows._snapshots import fields_of, set_fields
from foldline.workflows._state_fold import Fold
from foldline.workflows._thread_log import Log
from foldline.workflows._thread_start import ThreadStart
from foldline.workflows.interrupts import Command

__all__ = ["AgentStart", "check_command", "check_message", "load_thread"]

Values = dict[str, Any]
CONVERSATION_CONTINUED = "not run: the conversation went on without it"


class AgentStart(ThreadStart[AgentContext]):
    """The beginning of a run of an agent."""

    async def load(self, at: str | None, value: object) -> bool:
        """Load the thread; return whether the run continues from an earlier record, as a fork."""
        context = self.context
        assert context.log is not None
        context.thread = await load_thread(context.setup, context.log, context.io, at)
        is_last = context.thread.head == context.log.last
        if not is_last:
            context.thread.begin_branch(with_step=True)
        return at is not None and not is_last

    async def begin(self, kind: str) -> None:
        """Record that the run continues."""
        await self._begin(Record(kind, step=self.context.thread.step))

    async def _begin(self, *records: Record) -> None:
        await self.context.keep(*records)
        for record in records:
            self.context.thread.take(record, self.context.setup.schema)

    def can_take_messages(self) -> bool:
        """Whether a message may follow the last one now: before a model call, or after the run's end."""
        thread, setup = self.context.thread, self.context.setup
        if thread.interrupts or thread.answers or thread.finished:
            return False
        if thread.next is None:
            return True
        is_before_model = thread.next in (setup.entry, setup.head, MODEL)
        return is_before_model and not unanswered(thread.values.get("messages", ()))

    async def take_message(self, message: Message) -> None:
        """Add a message to the state; the agent goes on with it, also after its end."""
        thread, schema = self.context.thread, self.context.setup.schema
        if thread.next is None:
            await self.take_input(message.value, inbox=message.id)
            return
        update = schema.prepare(schema.input_update(_as_values(message.value)), "the message")
        await self._begin(Record("update", step=thread.step, values=update, inbox=message.id))

    async def skip_message(self, message: Message) -> None:
        """Record that a message was taken, and change nothing."""
        await self._begin(Record("claim", step=self.context.thread.step, inbox=message.id))

    async def take_input(self, value: object, *, inbox: str | None = None) -> None:
        """Apply the input of a caller; calls without a result get one that says so."""
        context, thread, schema = self.context, self.context.thread, self.context.setup.schema
        update = schema.input_update(_as_values(value))
        new_messages = with_results(update.get("messages", ()), CONVERSATION_CONTINUED)
        answered_ids = {getattr(message, "tool_call_id", None) for message in new_messages}
        error_results = [
            error_message(call, CONVERSATION_CONTINUED)
            for call in unanswered(context.transcript().get("messages", ()))
            if call.get("id") not in answered_ids
        ]
        results = [message for result in thread.finished.values() for message in result["messages"]]
        messages = [*results, *error_results, *new_messages]
        if len(messages) != len(update.get("messages", ())):
            update["messages"] = schema.prepare({"messages": messages}, "the input")["messages"]
        thread.values.pop("structured_response", None)
        if context.log is None:
            thread.values = schema.update(thread.values, update)
            thread.next = context.setup.entry
        else:
            await self._begin(
                Record(
                    "input", step=thread.step, next=context.setup.entry, values=update, inbox=inbox
                )
            )
        if not thread.values.get("messages"):
            raise EmptyInputError(
                'an agent needs at least one message: invoke({"messages": [...]})'
            )

    async def take_change(self, command: Command[Any]) -> None:
        """Change the state; if the thread is finished, the change is an input."""
        if self.context.thread.is_unfinished:
            await self._begin(self._change(command))
        else:
            await self.take_input(dict(_update_of(command)))

    async def take_answers(self, answers: dict[str, Any], command: Command[Any] | None) -> None:
        """Record the answers, after the state change that came with them."""
        changes = [] if command is None else [self._change(command)]
        step = self.context.thread.step
        await self._begin(*changes, Record("resume", step=step, answers=answers))

    def check_decision(self, name: str, decision: Decision) -> None:
        """Raise `InvalidAnswerError` if the edited name or arguments of a call do not fit the tools."""
        tools = self.context.setup.tools
        if decision["type"] != "edit" or name not in tools:
            return  # the tools of a nested agent are not known here
        action = decision["edited_action"]
        if action["name"] not in tools:
            raise InvalidAnswerError(
                f"there is no tool {action['name']!r:.80}{suggestion(action['name'], tools)}, and the question stays "
                f"open: edit the call of {name} to one of {', '.join(tools)}"
            )
        _check_arguments(tools[action["name"]], action)

    def _change(self, command: Command[Any]) -> Record:
        thread, schema = self.context.thread, self.context.setup.schema
        update = schema.prepare(_update_of(command), "the Command")
        return Record("update", step=thread.step, values=update)


def _update_of(command: Command[Any]) -> Mapping[str, Any]:
    if command.goto:
        raise UsageError(
            f"Command(goto={command.goto!r}) was passed to an agent, whose steps follow from its messages: pass "
            "only update= and resume="
        )
    try:
        return dict(command.update or {})
    except (TypeError, ValueError) as error:
        raise UsageError(
            "the update of a Command is a dict of keys of the state, or a list of pairs (key, value), "
            f"not {type(command.update).__name__}: {command.update!r:.80}"
        ) from error


def _check_arguments(tool: BaseTool, action: Mapping[str, Any]) -> None:
    schema, args = tool.tool_call_schema, dict(action["args"])
    problem: object = None
    if isinstance(schema, dict):
        problem = "; ".join(map(str, validate(args, schema)))
    elif issubclass(schema, BaseModel):
        try:
            schema.model_validate(args)
        except ValidationError as error:
            problem = describe_validation_error(error)
    if problem:
        raise InvalidAnswerError(
            f"the edited arguments of {action['name']} do not fit its schema, and the question stays open: {problem}"
        )


class AgentFold(Fold[Thread]):
    """How the entries of an agent's thread add up."""

    kind = "agent"

    def __init__(self, setup: Setup) -> None:
        self.plan = setup.schema
        self.setup = setup

    def begin(self) -> Thread:
        """Return the state before any entry."""
        return Thread(values={"messages": GrowingMessages()})

    def take(self, state: Thread, entry: Entry, place: int) -> None:
        """Add an entry."""
        state.take_next(self.setup.codec.record(entry), self.setup.schema)

    def indexes_of(self, state: Thread) -> dict[str, Any]:
        """Return the ids of the messages of a state."""
        return indexes_of(state.values)

    def fingerprint(self) -> str:
        """Return a text that differs where the same entries would add up to another state."""
        return self.setup.schema.fingerprint

    def freeze(self, state: Thread) -> dict[str, Any] | None:
        """Return a state as JSON; None in the middle of a step."""
        packed = fields_of(state)
        if packed is None:
            return None
        return {
            **packed,
            "values": self.setup.codec.encode(as_plain(state.values)),
            "next": state.next,
        }

    def thaw(self, packed: dict[str, Any]) -> Thread:
        """Return the state of its JSON form."""
        thread = self.begin()
        set_fields(thread, packed)
        thread.values = as_growing(thread.values, self.setup.codec.decode(packed["values"]))
        thread.next = packed["next"]
        return thread

    def plain_values(self, state: Thread) -> Values:
        """Return the values of a state, with new lists of messages; there are none before the first entry."""
        return as_plain(state.values) if state.head is not None else {}


async def load_thread(setup: Setup, log: Log, io: IO, at: str | None = None) -> Thread:
    """Load the state of a thread, at its end or at an earlier record."""
    fold = AgentFold(setup)
    if at is None:
        thread = await fold.load(log, io)
    else:
        thread = fold.begin()
        for place, entry in enumerate(await log.chain(io, at)):
            fold.take(thread, entry, place)
        thread.values = fold.plain_values(thread)
    if thread.next == END:
        thread.next = None
    if thread.next is not None and thread.next not in setup.nodes:
        raise SchemaError(
            f"thread {log.thread_id!r} stands before the step {thread.next!r}, which this agent does not have: "
            "use an agent with the same middleware"
        )
    return thread


def check_command(setup: Setup, command: Command[Any]) -> None:
    """Raise if a command has targets, or an update that cannot be merged into the state of an agent."""
    setup.codec.encode(setup.schema.prepare(_update_of(command), "the Command"))


def check_message(setup: Setup, value: object) -> None:
    """Raise if a message to a thread cannot be merged into the state of an agent."""
    update = setup.schema.input_update(_as_values(value))
    setup.codec.encode(setup.schema.prepare(update, "the message"))


def _as_values(value: object) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str | list | tuple | BaseMessage):
        return {"messages": value}
    if isinstance(value, PromptValue):
        return {"messages": value.to_messages()}
    raise UsageError(
        f'an agent takes {{"messages": [...]}}, not {type(value).__name__}: {value!r:.100}'
    )
