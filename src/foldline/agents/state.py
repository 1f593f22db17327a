"""What an agent knows while it works: its state, the schema of it, and how an update joins what was there. No I/O.

A key of the schema may carry a function, `Annotated[list[str], operator.add]`, which joins the old value and the new
one; a key without one is replaced. `messages` are joined by `add_messages`: appended, replaced by id, or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict, get_args, get_origin
from uuid import uuid4

import typing_extensions
from pydantic import TypeAdapter, ValidationError

from foldline.exceptions import SchemaError, UsageError
from foldline.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, convert_to_messages
from foldline.utils.short_repr import short_repr
from foldline.utils.uuid import new_id
from foldline.workflows.interrupts import Interrupt

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AgentState",
    "InputAgentState",
    "JumpTo",
    "OmitFromSchema",
    "OutputAgentState",
    "PrivateStateAttr",
    "StateSchema",
    "add_messages",
    "with_fresh_id",
]

JumpTo = Literal["tools", "model", "end"]
Reducer = Callable[[Any, Any], Any]
Values = dict[str, Any]

REMOVE_ALL_MESSAGES = "__remove_all__"
"""The id of a `RemoveMessage` that forgets everything before it."""


class OmitFromSchema:
    """Mark a key that callers do not give (`input`) or do not see (`output`)."""

    __repr__ = short_repr

    def __init__(self, *, input: bool = True, output: bool = True) -> None:
        self.input = input
        self.output = output


PrivateStateAttr = OmitFromSchema(input=True, output=True)
"""Marks a key that only the agent's own steps see."""


def add_messages(left: Sequence[Any], right: object) -> list[BaseMessage]:
    """Join messages: new ones are appended, one with a known id replaces it, a `RemoveMessage` removes."""
    return joined(list(left), coerced(right))


def coerced(given: Any) -> list[BaseMessage]:  # noqa: ANN401  messages in every form that callers write
    """Return messages of any form as messages with ids; the caller's own objects are not changed."""
    if type(given) is not list:
        given = list(given) if isinstance(given, list | tuple) and not _is_pair(given) else [given]
    for message in given:
        if not isinstance(message, BaseMessage):
            given = convert_to_messages(given)
            break
    return [message if message.id else _with_id(message) for message in given]


def joined(messages: list[BaseMessage], more: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Join messages that have ids."""
    places: dict[str | None, int] | None = None
    gone: set[str | None] = set()
    whole = list(messages)
    for message in more:
        if places is None:
            places = {one.id: place for place, one in enumerate(whole)}
        if isinstance(message, RemoveMessage):
            if message.id == REMOVE_ALL_MESSAGES:
                whole, places, gone = [], {}, set()
            elif message.id in places:
                gone.add(message.id)
            else:
                raise UsageError(f"there is no message with the id {message.id!r} to remove")
        elif message.id in places:
            whole[places[message.id]] = message
            gone.discard(message.id)
        else:
            places[message.id] = len(whole)
            whole.append(message)
    return [message for message in whole if message.id not in gone] if gone else whole


def _is_pair(given: object) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)


def _with_id(message: BaseMessage) -> BaseMessage:
    return message.model_copy(update={"id": fresh_id()})


def fresh_id() -> str:
    """Make the id of a message."""
    return new_id()


def with_fresh_id(message: AIMessage, known: set[str | None]) -> AIMessage:
    """Return an answer with an id that no earlier message has: it must not take that one's place."""
    if message.id and message.id not in known:
        return message
    if message.id:
        return message.model_copy(update={"id": f"{message.id}-{uuid4().hex[:12]}"})
    message.__dict__["id"] = fresh_id()
    return message


class AgentState(TypedDict):
    """The state of an agent; subclass it to add keys (`state_schema=`)."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    jump_to: NotRequired[Annotated[JumpTo | None, PrivateStateAttr]]
    structured_response: NotRequired[Annotated[Any, OmitFromSchema(input=True, output=False)]]
    __interrupt__: NotRequired[list[Interrupt]]
    """The open questions of a run that stopped for a person; never kept."""


class InputAgentState(TypedDict):
    """What an agent is given."""

    messages: Required[Annotated[list[AnyMessage | dict[str, Any]], add_messages]]


class OutputAgentState(TypedDict):
    """What an agent gives."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    structured_response: NotRequired[Any]


class StateSchema:
    """The keys of an agent's state, gathered from its schemas."""

    def __init__(self, schemas: Iterable[type]) -> None:
        self.types: dict[str, Any] = {}
        for schema in (AgentState, *schemas):
            self.types |= _annotations(schema)
        self.types.pop("__interrupt__", None)
        self.reducers = {key: found for key, one in self.types.items() if (found := _reducer(one))}
        marks = {key: _mark(one) for key, one in self.types.items()}
        self._not_given = {key for key, mark in marks.items() if mark is not None and mark.input}
        self._not_shown = {key for key, mark in marks.items() if mark is not None and mark.output}
        self._adapters: dict[str, TypeAdapter[Any]] = {}

    def update(self, values: Values, update: Mapping[str, Any]) -> Values:
        """Return the state with an update joined in."""
        new = dict(values)
        for key, value in update.items():
            if key == "messages":
                new[key] = joined(values.get(key) or [], value)
            elif (reducer := self.reducers.get(key)) is not None:
                new[key] = reducer(values[key], value) if key in values else value
            else:
                new[key] = value
        return new

    def prepared(self, update: Mapping[str, Any], where: str) -> Values:
        """Check an update's keys and give its messages ids, so that it can be kept and joined again."""
        unknown = [key for key in update if key not in self.types]
        if unknown:
            raise UsageError(
                f"{where} gives {unknown[0]!r}, which is no key of the state ({', '.join(self.types)}): "
                "declare it in state_schema"
            )
        if "messages" not in update:
            return dict(update)
        return {**update, "messages": coerced(update["messages"])}

    def given(self, values: Mapping[str, Any]) -> Values:
        """Prepare what a caller gives."""
        return self.prepared(
            {key: one for key, one in values.items() if key not in self._not_given}, "the input"
        )

    def shown(self, values: Values) -> Values:
        """Return the part of a state that callers see."""
        return {key: one for key, one in values.items() if key not in self._not_shown}

    def read(self, key: str, value: object) -> object:
        """Make a value of a key out of JSON, by the key's type."""
        if key not in self.types:
            raise SchemaError(
                f"the checkpoint has the key {key!r}, which this agent's state does not have"
            )
        if key not in self._adapters:
            self._adapters[key] = TypeAdapter(_bare(self.types[key]))
        try:
            return self._adapters[key].validate_python(value)
        except ValidationError as error:
            raise SchemaError(
                f"the checkpoint's {key!r} does not fit this agent's state_schema: {error.errors()[0]['msg']}"
            ) from error


def _annotations(schema: object) -> dict[str, Any]:
    hints: dict[str, Any] = typing_extensions.get_type_hints(schema, include_extras=True)
    return hints


def _metadata(annotation: object) -> tuple[Any, ...]:
    while get_origin(annotation) in (Required, NotRequired):
        annotation = get_args(annotation)[0]
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _bare(annotation: object) -> Any:  # noqa: ANN401  annotations are any object
    while get_origin(annotation) in (Required, NotRequired, Annotated):
        annotation = get_args(annotation)[0]
    return annotation


def _reducer(annotation: object) -> Reducer | None:
    found = [one for one in _metadata(annotation) if callable(one) and not isinstance(one, type)]
    return found[-1] if found else None


def _mark(annotation: object) -> OmitFromSchema | None:
    return next((one for one in _metadata(annotation) if isinstance(one, OmitFromSchema)), None)
