"""Stopping for a person: `interrupt(value)` inside a flow, a node, a tool or a hook; `Command(resume=…)` continues.

The first time, `interrupt` stops the run: the checkpointer stores its state, and the caller gets the value under
`__interrupt__`. When the run is resumed, the flow, node, tool or hook is called again from its beginning; finished
steps return their results from the journal, and `interrupt` returns the person's answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, overload

from pydantic import ValidationError
from typing_extensions import TypeVar

from foldline.exceptions import (
    REOPENED,
    NothingToResumeError,
    UnknownInterruptError,
    UsageError,
    is_invalid_resume,
)
from foldline.messages.tool import ToolOutputMixin
from foldline.workflows._answer_schema import (
    AnswerSchema,
    answer_schema,
    check_answer,
    plain_answer,
    read_answer,
)
from foldline.workflows.values import pack, unpack

__all__ = [
    "Command",
    "Interrupt",
    "interrupt",
    "is_invalid_resume",
]

Goto = TypeVar("Goto", default=Any)
AnswerT = TypeVar("AnswerT", default=Any)
ID_DIGITS = 32
HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Interrupt(Generic[AnswerT]):
    """A question to a person: its value, the id of its answer, and the JSON schema that the answer must fit."""

    value: Any
    id: str
    response_schema: dict[str, Any] | None = field(default=None, kw_only=True)
    check: str = field(default="schema", kw_only=True, repr=False, compare=False)
    """How an answer is checked before it is stored (`AnswerSchema.check`)."""


def question_data(question: Interrupt[Any]) -> dict[str, Any]:
    """Return a question as the events of tasks and checkpoints show it."""
    schema = question.response_schema
    return {"value": question.value, "id": question.id, "response_schema": schema}


def request_data(question: Interrupt[Any]) -> dict[str, Any]:
    """Return the data of the event `input.requested`."""
    data = {"interrupt_id": question.id, "payload": question.value}
    if question.response_schema is not None:
        data["response_schema"] = question.response_schema
    return data


def question_row(question: Interrupt[Any], task: str | None = None) -> list[Any]:
    """Return a question as JSON: its id, value, task, schema and check; the last ones only if they are set."""
    row = [question.id, pack(question.value, "a question")]
    if question.response_schema is not None:
        return [*row, task, question.response_schema, question.check]
    return row if task is None else [*row, task]


def question_of_row(row: Sequence[Any]) -> tuple[Interrupt[Any], str | None]:
    """Return the question of its JSON form, and its task."""
    id, value, task, schema, check = [*row, None, None, None][:5]
    question: Interrupt[Any] = Interrupt(
        unpack(value, "a question"), id, response_schema=schema, check=check or "schema"
    )
    return question, task


@dataclass(slots=True)
class Command(ToolOutputMixin, Generic[Goto]):
    """An instruction to a run: resume with an answer, or (from a tool or a node) update the state and jump.

    `resume` is the answer to the only open interrupt, or a dict of answers by interrupt id if several are open.
    `goto` names nodes or holds `Send`s; `graph=Command.PARENT` means the graph that contains this one.
    """

    PARENT: ClassVar[str] = "__parent__"

    resume: Any = None
    update: Any = None
    goto: Any = None
    graph: str | None = None


class FlowInterrupt(BaseException):
    """Carries interrupts out of a tool or a hook; not an `Exception`, so that `except Exception` does not catch it."""

    def __init__(self, interrupts: list[Interrupt[Any]]) -> None:
        self.interrupts = interrupts
        super().__init__(f"stopped for {len(interrupts)} answer(s)")


@dataclass(slots=True)
class InterruptScope:
    """The step in which `interrupt()` is called, and the answers that exist already."""

    place: str
    """Identifies the step: two different steps never have the same place."""
    answers: Mapping[str, Any]
    can_stop: bool
    count: int = field(default=0)
    key: str = ""
    """The idempotency key of a node or a tool call."""

    def ask(self, value: object, response_schema: object = None) -> Any:  # noqa: ANN401  the answer, of any type
        """Return the answer, or stop for it; raise `ValidationError` for one that does not fit the schema."""
        name = f"{self.place}/{self.count}"
        self.count += 1
        id = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        schema = answer_schema(response_schema)
        json, check = (None, "schema") if schema is None else schema
        question: Interrupt[Any] = Interrupt(value, id, response_schema=json, check=check)
        if id in self.answers:
            return _read(self.answers[id], response_schema, question)
        if not self.can_stop:
            raise UsageError(
                "interrupt() needs a checkpointer and a thread, so that the run can continue later: "
                'pass checkpointer=InMemorySaver() and config={"configurable": {"thread_id": "1"}}'
            )
        raise FlowInterrupt([question])


current_interrupt_scope: ContextVar[InterruptScope | None] = ContextVar(
    "foldline_interrupt_scope", default=None
)


@overload
def interrupt(value: object, *, response_schema: type[AnswerT]) -> AnswerT: ...


@overload
def interrupt(value: object, *, response_schema: object = None) -> Any: ...  # noqa: ANN401  the answer, of any type


def interrupt(value: object, *, response_schema: object = None) -> Any:
    """Stop this run until a person has answered; return the answer.

    With `response_schema`, a type or a JSON schema, an answer that does not fit is refused with a `ValidationError`,
    and the question stays open; the answer is returned as a value of the type.
    """
    scope = current_interrupt_scope.get()
    if scope is None:
        raise UsageError(
            "interrupt() works inside a tool or a middleware hook of an agent, a flow, or a node of a graph"
        )
    return scope.ask(value, response_schema)


# -- answers that do not fit


def reopened_questions(error: BaseException) -> list[Interrupt[Any]]:
    """Return the questions that stay open after such an error, to read or to add to."""
    questions: list[Interrupt[Any]] = getattr(error, REOPENED, [])
    return questions


def _read(answer: object, response_schema: object, question: Interrupt[Any]) -> object:
    try:
        return read_answer(answer, response_schema)
    except ValidationError as error:
        setattr(error, REOPENED, [question])
        raise


def valid_answers(
    answers: Mapping[str, Any], questions: Sequence[Interrupt[Any]]
) -> tuple[dict[str, Any], ValidationError | None]:
    """Return the answers that fit their questions, as plain data, and the error of the first that does not.

    Raise that error if none fits.
    """
    schemas = {
        question.id: AnswerSchema(question.response_schema, question.check)
        for question in questions
        if question.response_schema is not None
    }
    valid: dict[str, Any] = {}
    failure: ValidationError | None = None
    for id, answer in answers.items():
        if id in schemas:
            answer = plain_answer(answer)
            try:
                check_answer(answer, schemas[id])
            except ValidationError as error:
                failure = failure or error
                continue
        valid[id] = answer
    if failure is not None:
        setattr(failure, REOPENED, [item for item in questions if item.id not in valid])
        if not valid:
            raise failure
    return valid, failure


def answers_for(
    resume: object, questions: Sequence[Interrupt[Any]], answered: str | None = None
) -> dict[str, Any]:
    """Return the answers by the ids of their questions; raise if they are not for open ones.

    A dict is a map of answers if all its keys have the form of an id; else it is the answer to the only question.
    """
    is_map = isinstance(resume, Mapping) and all(map(_is_id, resume))
    if is_map and not resume:
        raise UnknownInterruptError(
            "Command(resume={}) answers no question: pass {id: answer, …}", "empty_map"
        )
    if not questions:
        raise NothingToResumeError(
            "there is nothing to resume: this thread did not stop for an answer, or has gone on since"
            if answered is None
            else f"there is nothing to resume: the question was answered at {answered}, and the run is under way or "
            "was stopped; invoke(None) continues a run that was stopped"
        )
    ids = [question.id for question in questions]
    if isinstance(resume, Mapping) and is_map:
        for key in resume:
            if key not in ids:
                raise UnknownInterruptError(
                    f"no open question has the id {key}: it was answered, or belongs to another branch. The open "
                    f"ones are {', '.join(ids)}"
                )
        return dict(resume)
    if len(ids) > 1:
        raise UnknownInterruptError(
            f"there are multiple pending interrupts, and the answer does not say for which it is: "
            f"Command(resume={{id: answer, …}}) with some of the ids {', '.join(ids)}",
            "ambiguous",
        )
    return {ids[0]: resume}


def _is_id(key: object) -> bool:
    return isinstance(key, str) and len(key) == ID_DIGITS and not set(key) - HEX
