"""The state of an agent, its schema, and how updates are merged into it. No I/O.

A key of the schema may have a reducer, `Annotated[list[str], operator.add]`, which merges the old value and the new
one; a key without one is replaced. `add_messages` merges `messages`: appended, replaced by id, or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import is_
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
)
from uuid import uuid4

import typing_extensions
from pydantic import TypeAdapter, ValidationError

from foldline.exceptions import SchemaError, UsageError
from foldline.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage, convert_to_messages
from foldline.utils._short_repr import short_repr
from foldline.utils.uuid import new_id
from foldline.workflows._snapshots import fingerprint
from foldline.workflows.interrupts import Interrupt

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AgentState",
    "InputAgentState",
    "OmitFromSchema",
    "OutputAgentState",
    "StructuredAgentState",
    "add_messages",
]

SchemaT = TypeVar("SchemaT")
JumpTo = Literal["tools", "model", "end"]
Reducer = Callable[[Any, Any], Any]
Values = dict[str, Any]

REMOVE_ALL_MESSAGES = "__remove_all__"
"""The id of a `RemoveMessage` that removes all earlier messages."""


class OmitFromSchema:
    """Mark a key that callers do not pass (`input`) or do not receive (`output`)."""

    __repr__ = short_repr

    def __init__(self, *, input: bool = True, output: bool = True) -> None:
        self.input = input
        self.output = output


PrivateStateAttr = OmitFromSchema(input=True, output=True)
"""Marks a key that only the agent's steps see."""


def add_messages(left: Sequence[Any], right: object) -> list[BaseMessage]:
    """Merge messages: new ones are appended, an existing id is replaced, a `RemoveMessage` removes."""
    return merge_messages(list(left), as_messages(right))


def as_messages(value: Any) -> list[BaseMessage]:  # noqa: ANN401  messages in every form that callers write
    """Return messages of any form as messages with ids; the caller's objects are not changed."""
    if type(value) is not list:
        value = list(value) if isinstance(value, list | tuple) and not _is_pair(value) else [value]
    for message in value:
        if not isinstance(message, BaseMessage):
            value = convert_to_messages(value)
            break
    return [message if message.id else _with_id(message) for message in value]


class GrowingMessages(list[BaseMessage]):
    """Messages to which updates are added in place, while a log is folded and nobody else has the list.

    Merging into a new list for each record of a log would take the square of its length.
    """

    def __init__(self) -> None:
        super().__init__()
        self._indexes: dict[str | None, int] = {}

    def add(self, new_messages: Iterable[BaseMessage]) -> None:
        """Add messages that have ids."""
        new_messages = list(new_messages)
        if any(isinstance(message, RemoveMessage) for message in new_messages):
            self[:] = merge_messages(list(self), new_messages)
            self._indexes = {message.id: index for index, message in enumerate(self)}
            return
        for message in new_messages:
            index = self._indexes.get(message.id)
            if index is not None:
                self[index] = message
            else:
                self._indexes[message.id] = len(self)
                self.append(message)


def replace_messages(old: object, messages: Any) -> Any:  # noqa: ANN401  a value that replaces another one
    """Return messages that replace others; they grow in place where these did."""
    if type(old) is not GrowingMessages or type(messages) is not list:
        return messages
    if not all(_has_own_id(message) for message in messages):
        return messages  # stored by a version that took them as they came
    grown = GrowingMessages()
    grown.add(messages)
    return grown if len(grown) == len(messages) else messages


class MessageIndex:
    """The ids of the messages of a list, so that a run which adds to a long list need not collect them each time."""

    __slots__ = ("_ids", "_messages")

    def __init__(self, messages: GrowingMessages) -> None:
        self._messages = list(messages)
        self._ids = set(messages._indexes)

    def extend(
        self, messages: list[BaseMessage], new_messages: list[BaseMessage]
    ) -> list[BaseMessage] | None:
        """Return a list with messages of new ids; None if one removes or replaces another, or the list is not known."""
        known = self._messages
        if len(messages) != len(known) or not all(map(is_, messages, known)):
            return None
        ids = [message.id for message in new_messages]
        if (
            len(set(ids)) < len(ids)
            or not self._ids.isdisjoint(ids)
            or any(isinstance(message, RemoveMessage) for message in new_messages)
        ):
            return None
        self._ids.update(ids)
        known.extend(new_messages)
        return list(known)


def indexes_of(values: dict[str, Any]) -> dict[str, MessageIndex]:
    """Return the indexes of the message lists of a folded state."""
    return {
        key: MessageIndex(value) for key, value in values.items() if type(value) is GrowingMessages
    }


def as_plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return a folded state with ordinary lists."""
    return {
        key: list(value) if type(value) is GrowingMessages else value
        for key, value in values.items()
    }


def as_growing(empty: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return stored values for the fold of a log: the lists that grow in `empty` grow in the result."""
    new = dict(values)
    for key, value in empty.items():
        if type(value) is GrowingMessages and key in new:
            value.add(new[key])
            new[key] = value
    return new


def merge_messages(
    messages: list[BaseMessage],
    new_messages: Iterable[BaseMessage],
    index: MessageIndex | None = None,
) -> list[BaseMessage]:
    """Merge messages that have ids."""
    if type(messages) is GrowingMessages:
        messages.add(new_messages)
        return messages
    if index is not None:
        new_messages = list(new_messages)
        extended = index.extend(messages, new_messages)
        if extended is not None:
            return extended
    indexes: dict[str | None, int] | None = None
    removed: set[str | None] = set()
    merged = list(messages)
    for message in new_messages:
        if indexes is None:
            indexes = {earlier.id: index for index, earlier in enumerate(merged)}
        if isinstance(message, RemoveMessage):
            if message.id == REMOVE_ALL_MESSAGES:
                merged, indexes, removed = [], {}, set()
            elif message.id in indexes:
                removed.add(message.id)
            else:
                raise UsageError(f"there is no message with the id {message.id!r} to remove")
        elif message.id in indexes:
            merged[indexes[message.id]] = message
            removed.discard(message.id)
        else:
            indexes[message.id] = len(merged)
            merged.append(message)
    return [message for message in merged if message.id not in removed] if removed else merged


def _has_own_id(message: object) -> bool:
    return (
        isinstance(message, BaseMessage)
        and bool(message.id)
        and not isinstance(message, RemoveMessage)
    )


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _with_id(message: BaseMessage) -> BaseMessage:
    return message.model_copy(update={"id": fresh_id()})


def fresh_id() -> str:
    """Return a new message id."""
    return new_id()


def with_fresh_id(message: AIMessage, known: set[str | None]) -> AIMessage:
    """Return an answer with an id that no earlier message has: it must not take that one's place."""
    if message.id and message.id not in known:
        return message
    if message.id:
        return message.model_copy(update={"id": f"{message.id}-{uuid4().hex[:12]}"})
    message.__dict__["id"] = fresh_id()
    return message


class BaseAgentState(TypedDict):
    """The keys that the state of every agent has."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    jump_to: NotRequired[Annotated[JumpTo | None, PrivateStateAttr]]
    __interrupt__: NotRequired[list[Interrupt]]
    """The open questions of a run that stopped for a person; not stored."""


class AgentState(BaseAgentState):
    """The state of an agent; subclass it to add keys (`state_schema=`)."""

    structured_response: NotRequired[Annotated[Any, OmitFromSchema(input=True, output=False)]]


class StructuredAgentState(BaseAgentState, Generic[SchemaT]):
    """The state of an agent with a `response_format`, after it has answered: what `invoke` returns."""

    structured_response: SchemaT
    """The answer."""


class InputAgentState(TypedDict):
    """What an agent is given."""

    messages: Required[Annotated[list[AnyMessage | dict[str, Any]], add_messages]]


class OutputAgentState(TypedDict):
    """What an agent gives."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    structured_response: NotRequired[Any]


class StateSchema:
    """The keys of an agent's state, collected from its schemas."""

    def __init__(self, schemas: Iterable[type]) -> None:
        self.types: dict[str, Any] = {}
        for schema in (AgentState, *schemas):
            self.types |= _annotations(schema)
        self.types.pop("__interrupt__", None)
        self.reducers = {
            key: reducer for key, hint in self.types.items() if (reducer := _reducer(hint))
        }
        marks = {key: _mark(hint) for key, hint in self.types.items()}
        self._not_in_input = {key for key, mark in marks.items() if mark is not None and mark.input}
        self._not_in_output = {
            key for key, mark in marks.items() if mark is not None and mark.output
        }
        self._adapters: dict[str, TypeAdapter[Any]] = {}

    @cached_property
    def fingerprint(self) -> str:
        """A text that differs if the keys, their types or their reducers do."""
        return fingerprint(self.types, self.reducers)

    def update(
        self,
        values: Values,
        update: Mapping[str, Any],
        indexes: Mapping[str, MessageIndex] | None = None,
    ) -> Values:
        """Return the state with an update merged in."""
        new = dict(values)
        for key, value in update.items():
            if key == "messages":
                earlier = values.get(key)
                index = indexes.get(key) if indexes else None
                new[key] = merge_messages([] if earlier is None else earlier, value, index)
            elif (reducer := self.reducers.get(key)) is not None:
                new[key] = reducer(values[key], value) if key in values else value
            else:
                new[key] = value
        return new

    def prepare(self, update: Mapping[str, Any], where: str) -> Values:
        """Check an update's keys and add ids to its messages, so that it can be stored and merged again."""
        if not isinstance(update, Mapping):
            raise UsageError(
                f"{where} is a dict with some of {', '.join(self.types)}, not {type(update).__name__}: {update!r:.80}"
            )
        unknown = [key for key in update if key not in self.types]
        if unknown:
            raise UsageError(
                f"{where} has {unknown[0]!r}, which is not a key of the state ({', '.join(self.types)}): "
                "declare it in state_schema"
            )
        if "messages" not in update:
            return dict(update)
        return {**update, "messages": as_messages(update["messages"])}

    def input_update(self, values: Mapping[str, Any]) -> Values:
        """Prepare the input of a caller."""
        return self.prepare(
            {key: value for key, value in values.items() if key not in self._not_in_input},
            "the input",
        )

    def public_values(self, values: Values) -> Values:
        """Return the part of a state that callers see."""
        return {key: value for key, value in values.items() if key not in self._not_in_output}

    def read(self, key: str, value: object) -> object:
        """Return the value of a key for its JSON form, by the key's type."""
        if key not in self.types:
            raise SchemaError(
                f"the checkpoint has the key {key!r}, which this agent's state does not have"
            )
        if key not in self._adapters:
            self._adapters[key] = TypeAdapter(_inner_type(self.types[key]))
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


def _inner_type(annotation: object) -> Any:  # noqa: ANN401  annotations are any object
    while get_origin(annotation) in (Required, NotRequired, Annotated):
        annotation = get_args(annotation)[0]
    return annotation


def _reducer(annotation: object) -> Reducer | None:
    reducers = [
        note for note in _metadata(annotation) if callable(note) and not isinstance(note, type)
    ]
    return reducers[-1] if reducers else None


def _mark(annotation: object) -> OmitFromSchema | None:
    return next((note for note in _metadata(annotation) if isinstance(note, OmitFromSchema)), None)
