"""The keys of a graph's state: their types, their reducers, and how the updates of a step are merged. No I/O.

Unlike LangGraph, it raises an error for a key that the state does not have, a value of another type, and two nodes that
write one key in one step.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, is_typeddict

import typing_extensions
from pydantic import BaseModel, ValidationError

from foldline.agents.state import (
    GrowingMessages,
    MessageIndex,
    add_messages,
    as_messages,
    merge_messages,
    replace_messages,
)
from foldline.exceptions import InvalidUpdateError, UsageError
from foldline.graph.types import Overwrite
from foldline.load._packed import TAG
from foldline.utils._short_repr import short_repr
from foldline.workflows._snapshots import fingerprint
from foldline.workflows._state_fold import isolate
from foldline.workflows.values import adapter_of, pack, unpack

__all__ = [
    "EphemeralValue",
    "IsLastStep",
    "RemainingSteps",
    "UntrackedValue",
]

ROOT = "__root__"
"""The only key of a state that is one value: `StateGraph(int)`."""

OVERWRITE = "__overwrite__"
"""The only key of a dict that stands for an `Overwrite`."""
Values = dict[str, Any]
Reducer = Callable[[Any, Any], Any]
PURE_REDUCERS = (None, add_messages, operator.add, operator.or_, operator.and_, operator.mul)
"""Those that return a new value; also no reducer at all."""
CONCRETE_TYPES: dict[Any, type] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}


class ManagedValue:
    """A key whose value the run computes; nodes can read it but not write it."""

    def __init__(self, name: str) -> None:
        self.name = name


class EphemeralValue:
    """Mark a key that is cleared after the step that follows its update."""

    __repr__ = short_repr


class UntrackedValue:
    """Mark a key that is not stored in checkpoints."""

    __repr__ = short_repr


REMAINING_STEPS, IS_LAST_STEP = ManagedValue("remaining_steps"), ManagedValue("is_last_step")
RemainingSteps = Annotated[int, REMAINING_STEPS]
IsLastStep = Annotated[bool, IS_LAST_STEP]


def keys_of(schema: object) -> dict[str, Any]:
    """Return the annotations of a schema: a TypedDict, a Pydantic model, a dataclass, or the type of one value."""
    if not (
        isinstance(schema, type)
        and (is_typeddict(schema) or typing_extensions.is_typeddict(schema)
             or issubclass(schema, BaseModel) or dataclasses.is_dataclass(schema)
             or getattr(schema, "__annotations__", None))
    ):  # fmt: skip
        if isinstance(schema, type) or get_origin(schema) is not None or schema is Any:
            return {ROOT: schema}
        raise UsageError(
            "the state of a graph must be a TypedDict, a Pydantic model, a dataclass or another type, not "
            f"{schema!r:.80}"
        )
    hints = typing_extensions.get_type_hints(schema, include_extras=True)
    if issubclass(schema, BaseModel):
        fields = schema.model_fields
        return {
            key: Annotated[hints[key], *fields[key].metadata]
            if fields[key].metadata
            else hints[key]
            for key in fields
            if key in hints
        }
    return {key: hint for key, hint in hints.items() if not key.startswith("_abc_")}


class StateKeys:
    """All keys that the schemas of a graph declare."""

    def __init__(self, schemas: Iterable[Any]) -> None:
        self.types: dict[str, Any] = {}
        self.reducers: dict[str, Reducer] = {}
        self.managed: dict[str, ManagedValue] = {}
        self.ephemeral: set[str] = set()
        self.untracked: set[str] = set()
        self.inputs: dict[str, Any] = {}
        """The input schemas of nodes that declare one."""
        self._factories: dict[str, Callable[[], Any]] = {}
        self._coerced_keys: set[str] = set()
        self._fingerprint: str | None = None
        self._adapters: dict[str, Any] = {}
        for schema in schemas:
            self.add(schema)

    @property
    def is_root(self) -> bool:
        """Whether the state is one value, without keys."""
        return ROOT in self.types

    @property
    def fingerprint(self) -> str:
        """A text that differs if the keys, their types or their reducers do."""
        if self._fingerprint is None:
            marks = sorted(self.ephemeral), sorted(self.untracked)
            self._fingerprint = fingerprint(self.types, self.reducers, *marks)
        return self._fingerprint

    def as_update(self, given: Any) -> Values:  # noqa: ANN401  what callers and nodes write
        """Return what somebody gives as an update: of the keys, or of the one value."""
        if self.is_root:
            return {} if given is None else {ROOT: given}
        try:
            return dict(given or {})
        except (TypeError, ValueError) as error:
            raise InvalidUpdateError(
                f"an update is a dict with some of {', '.join(self.types)}, or a list of pairs (key, value), "
                f"not {type(given).__name__}: {given!r:.80}"
            ) from error

    def without_root(self, values: Values) -> Any:  # noqa: ANN401  the state, or a part of it
        """Return values as callers see them: a dict, or the one value."""
        return values.get(ROOT) if self.is_root else values

    def add(self, schema: object) -> None:
        """Add the keys of a schema; a key that has a reducer keeps it."""
        is_model = isinstance(schema, type) and issubclass(schema, BaseModel)
        keys, self._fingerprint = keys_of(schema), None
        if self.types and (ROOT in keys) is not self.is_root:
            raise UsageError(
                f"a state is one value, or it has keys ({', '.join(self.types)}): {schema!r:.80} is the other"
            )
        for key, annotation in keys.items():
            metadata, inner_type = _metadata(annotation), _inner_type(annotation)
            managed = next((note for note in metadata if isinstance(note, ManagedValue)), None)
            if managed is not None:
                self.managed[key] = managed
                continue
            reducer = next(
                (
                    note
                    for note in reversed(metadata)
                    if callable(note) and not isinstance(note, type)
                ),
                None,
            )
            if key in self.types and reducer is None:
                continue
            self.types[key] = inner_type
            if is_model:
                self._coerced_keys.add(key)
            if reducer is not None:
                self.reducers[key] = reducer
                self._factories[key] = _factory(inner_type)
            for mark, names in ((EphemeralValue, self.ephemeral), (UntrackedValue, self.untracked)):
                if any(note is mark or isinstance(note, mark) for note in metadata):
                    names.add(key)

    # -- values

    def empty(self) -> Values:
        """Return the state before any input: the initial values of reducers."""
        values: Values = {}
        for key, factory in self._factories.items():
            try:
                values[key] = factory()
            except TypeError:  # a type without a default constructor has no initial value
                continue
        return values

    def growing(self) -> Values:
        """Return the same for the fold of a log: its message lists grow in place until `as_plain`."""
        values = self.empty()
        for key, reducer in self.reducers.items():
            if reducer is add_messages:
                values[key] = GrowingMessages()
        return values

    def own_values(self, values: Values) -> Values:
        """Return values to which updates can be added while the old ones stay: a reducer may change them in place."""
        return {
            key: value
            if self.reducers.get(key) in PURE_REDUCERS or key in self.untracked
            else isolate(value)
            for key, value in values.items()
        }

    def check(self, update: Mapping[str, Any], where: str) -> Values:
        """Return a validated update; raise `InvalidUpdateError` for an unknown key or a value of another type."""
        checked: Values = {}
        for key, value in update.items():
            if key not in self.types:
                raise InvalidUpdateError(self._unknown_key_text(key, where))
            if isinstance(value, dict) and value.keys() == {OVERWRITE} and key in self.reducers:
                value = Overwrite(value[OVERWRITE])
            if self.reducers.get(key) is add_messages:
                value = _checked_messages(value)
            elif key not in self.reducers:
                value = self._validate(key, value, where)
            checked[key] = value
        return checked

    def _unknown_key_text(self, key: str, where: str) -> str:
        if key in self.managed:
            return f"{where} has {key!r}, which the run computes and nodes cannot write"
        return (
            f"{where} has {key!r}, which is not a key of the state ({', '.join(self.types)}): declare it in the "
            "state's schema, or correct the name"
        )

    def _validate(self, key: str, value: object, where: str) -> object:
        if key not in self._adapters:
            self._adapters[key] = adapter_of(self.types[key])
        adapter = self._adapters[key]
        if adapter is None:
            return value
        is_coerced = key in self._coerced_keys
        try:
            validated = adapter.validate_python(value, strict=not is_coerced)
        except ValidationError as error:
            first = error.errors()[0]
            location = "".join(f"[{part!r}]" for part in first["loc"])
            name = "the state" if key == ROOT else repr(key)
            raise InvalidUpdateError(
                f"{where} has {name}{location} with a {type(value).__name__}, which does not match its type "
                f"{_name(self.types[key])}: {first['msg']}"
            ) from error
        return validated if is_coerced else value

    def join(
        self,
        values: Values,
        updates: Iterable[tuple[str, Mapping[str, Any]]],
        indexes: Mapping[str, MessageIndex] | None = None,
    ) -> Values:
        """Return the state with the validated updates of one step merged in, in order."""
        new = dict(values)
        for key in self.ephemeral:
            new.pop(key, None)
        writers: dict[str, str] = {}
        overwrites: dict[str, str] = {}
        for writer, update in updates:
            for key, value in update.items():
                if isinstance(value, Overwrite) and key in self.reducers:
                    _check_single_overwrite(key, writer, overwrites)
                    new[key] = replace_messages(new.get(key), value.value)
                elif key in overwrites:
                    pass  # the value that replaces the old one stands alone
                elif type(value) is list and indexes and key in indexes:
                    new[key] = merge_messages(new[key], value, indexes[key])
                else:
                    self._join_key(new, key, value, writer, writers)
        return new

    def _join_key(
        self,
        new: Values,
        key: str,
        value: Any,  # noqa: ANN401  a value of the type that its reducer takes
        writer: str,
        writers: dict[str, str],
    ) -> None:
        reducer = self.reducers.get(key)
        if isinstance(value, Overwrite):
            new[key] = value.value
            self._check_single_writer(key, writer, writers)
        elif reducer is None:
            self._check_single_writer(key, writer, writers)
            new[key] = value
        elif reducer is add_messages:
            earlier = new.get(key)
            new[key] = merge_messages([] if earlier is None else earlier, value)
        else:
            try:
                new[key] = reducer(new[key], value) if key in new else value
            except (TypeError, AttributeError) as error:
                raise InvalidUpdateError(
                    f"{writer} has {key!r} with a {type(value).__name__}, which its reducer cannot merge into a "
                    f"{type(new.get(key)).__name__}: {error}"
                ) from error

    def _check_single_writer(self, key: str, writer: str, writers: dict[str, str]) -> None:
        if key in writers:
            raise InvalidUpdateError(
                f"{writers[key]} and {writer} both write {key!r} in one step, and it can take one value: add a "
                "reducer, Annotated[…, operator.add], or let one node write it"
            )
        writers[key] = writer

    # -- JSON

    def encode(self, update: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return an update as JSON."""
        packed: dict[str, Any] = {}
        for key, value in update.items():
            if key in self.untracked:
                continue
            if isinstance(value, Overwrite):
                packed[key] = {OVERWRITE: pack(value.value, f"{where}'s {key!r}", self.types[key])}
            else:
                packed[key] = _apart(pack(value, f"{where}'s {key!r}", self._stored_type(key)))
        return packed

    def decode(self, packed: Mapping[str, Any], where: str) -> Values:
        """Return the update of its JSON form."""
        update: Values = {}
        for key, value in packed.items():
            if key not in self.types:
                raise InvalidUpdateError(
                    f"{where} has the key {key!r}, which this graph's state does not have"
                )
            if isinstance(value, dict) and value.keys() == {OVERWRITE}:
                update[key] = Overwrite(unpack(value[OVERWRITE], where, self.types[key]))
            else:
                update[key] = unpack(value, f"{where}'s {key!r}", self._stored_type(key))
        return update

    def _stored_type(self, key: str) -> object:
        return self.types[key]


def _checked_messages(value: Any) -> Any:  # noqa: ANN401  messages in every form, or their Overwrite
    if not isinstance(value, Overwrite):
        return as_messages(value)
    if value.value is None:
        return value
    # Each message once, and none that removes another: as if they were added to an empty list.
    return Overwrite(merge_messages([], as_messages(value.value)))


def _apart(packed: object) -> object:
    """Return the JSON of a value in a form that is never taken for an `Overwrite`."""
    if isinstance(packed, dict) and packed.keys() == {OVERWRITE}:
        return {TAG: "dict", "v": [[key, value] for key, value in packed.items()]}
    return packed


def _check_single_overwrite(key: str, writer: str, overwrites: dict[str, str]) -> None:
    if key in overwrites:
        raise InvalidUpdateError(
            f"{overwrites[key]} and {writer} both overwrite {key!r}, which can receive only one Overwrite value per "
            "super-step: let one node overwrite it, or run them one after the other"
        )
    overwrites[key] = writer


def _metadata(annotation: object) -> tuple[Any, ...]:
    while get_origin(annotation) in (Required, NotRequired):
        annotation = get_args(annotation)[0]
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _inner_type(annotation: object) -> Any:  # noqa: ANN401  annotations are any object
    while get_origin(annotation) in (Required, NotRequired, Annotated):
        annotation = get_args(annotation)[0]
    return annotation


def _factory(annotation: object) -> Callable[[], Any]:
    origin = get_origin(annotation) or annotation
    factory = CONCRETE_TYPES.get(origin, origin)
    return factory if isinstance(factory, type) else _no_default


def _no_default() -> object:
    raise TypeError("no value yet")


def _name(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
