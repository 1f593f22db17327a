"""The last step of structured output: answers become objects, and partial objects while they stream.

Slices are read by an incremental parser, so the work is linear in the answer. Each item that is yielded replaces the
one before; the last item is the validated object, all others are `Partial`. Fields are checked inside the call, as soon
as they are complete (`field_check`): what is wrong does not come here.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, create_model
from typing_extensions import TypedDict

from foldline._run import Run
from foldline.exceptions import StructuredOutputError, UsageError
from foldline.language_models.structured._output import StructuredCheck
from foldline.messages import AIMessage, AIMessageChunk
from foldline.runnables.base import Runnable
from foldline.runnables.utils import AddableDict
from foldline.utils.json import PartialJson

__all__ = [
    "Partial",
    "Schema",
]

Schema = TypeVar("Schema")


class Partial(Generic[Schema]):
    """An object of a schema while its answer streams: a field that has not begun is None, a text may still grow.

    It is an instance of the schema's class too, but none of its validators has run. The last item of a stream is
    complete, and no `Partial`.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)!r:.200})"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # noqa: ANN401  the field's type, or None


class RawAndParsed(TypedDict, Generic[Schema]):
    """The result of `with_structured_output(..., include_raw=True)`."""

    raw: AIMessage
    """The answer."""
    parsed: Schema | None
    """The object in the answer; None if it does not fit the schema."""
    parsing_error: BaseException | None
    """The error, if it does not fit."""


class StructuredParser(Runnable[AIMessage, Any]):
    """Reads messages by a schema."""

    _run_type: ClassVar[str | None] = "parser"

    def __init__(self, check: StructuredCheck, *, include_raw: bool) -> None:
        self.check = check
        self.include_raw = include_raw
        self.name: str = "StructuredParser"

    @property
    def OutputType(self) -> object:
        """The schema, if it is a type."""
        definition = self.check.schema.definition
        return (
            definition if isinstance(definition, type) and not self.include_raw else dict[str, Any]
        )

    async def _invoke_body(self, input: object, run: Run) -> object:
        if not isinstance(input, AIMessage):
            raise UsageError(
                f"structured output is read from an AIMessage, not from {type(input).__name__}"
            )
        return self._read(input)

    async def _transform_body(
        self, inputs: AsyncGenerator[Any, None], run: Run
    ) -> AsyncGenerator[Any, None]:
        partial = _PartialObject(self.check)
        total: AIMessage | None = None
        async with aclosing(inputs) as chunks:
            async for chunk in chunks:
                total = chunk if total is None or _is_reset(chunk) else total + chunk
                if self.include_raw:
                    yield AddableDict(raw=chunk)
                elif (value := partial.feed(chunk)) is not None:
                    yield value
        if total is None:
            return
        final = self._read(total)
        if self.include_raw:
            yield AddableDict(parsed=final["parsed"], parsing_error=final["parsing_error"])
        elif final is not None:
            yield final

    def _read(self, message: AIMessage) -> Any:  # noqa: ANN401  an object of the schema, or the dict with the raw message
        answer = self.check.read(message)
        error: StructuredOutputError | None = None
        if answer.issues:
            error = self.check.error(message, answer.issues)
            if not self.include_raw:
                raise error
        if self.include_raw:
            return {"raw": message, "parsed": answer.value, "parsing_error": error}
        return answer.value


def _is_reset(chunk: object) -> bool:
    return isinstance(chunk, AIMessageChunk) and "reset" in chunk.response_metadata


class _PartialObject:
    """The object so far of a streamed answer."""

    def __init__(self, check: StructuredCheck) -> None:
        self._check = check
        schema = check.schema
        self._is_plain = not (schema.is_model or schema.is_dataclass or schema.is_v1_model)
        has_shape = schema.is_model or schema.is_dataclass
        self._shape = partial_model(schema.definition) if has_shape else None
        self._call: Any = None
        self._begin()

    def _begin(self) -> None:
        self._parser = PartialJson()
        self._has_begun = False
        self._last_value: Any = None

    def feed(self, chunk: object) -> object:
        """Return the object so far, if it has changed."""
        if _is_reset(chunk):
            self._begin()
        slices = self._slices(chunk)
        if not slices or self._parser.error is not None:
            return None
        for slice_ in slices:
            self._read(slice_)
        if not self._parser.has_value or self._parser.error is not None:
            return None
        value = self._parser.value()
        if value == self._last_value or not isinstance(value, dict):
            return None
        self._last_value = value
        return self._build(value)

    def _slices(self, chunk: object) -> list[str]:
        if self._check.method != "tool":
            return [text] if isinstance(chunk, AIMessage) and (text := str(chunk.text)) else []
        slices = []
        for part in getattr(chunk, "tool_call_chunks", ()):
            if part.get("name") == self._check.schema.name:
                self._call = part.get("index")
            if part.get("index") == self._call and part.get("args"):
                slices.append(part["args"])
        return slices

    def _read(self, slice_: str) -> None:
        if self._has_begun:
            self._parser.feed(slice_)
            return
        starts = [index for bracket in "{[" if (index := slice_.find(bracket)) >= 0]
        if starts:  # text before it may be a fence or a sentence: the final parse decides
            self._has_begun = True
            self._parser.feed(slice_, min(starts))

    def _build(self, value: dict[str, Any]) -> object:
        if self._is_plain:
            return value
        if self._shape is None:
            return None
        try:
            return _restore_dataclasses(self._shape.model_validate(value))
        except (ValueError, TypeError, AttributeError):  # a user's validator met a missing value
            return None


class _DataclassModel(BaseModel):
    """The model of a dataclass in which every field may be missing."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)
    foldline_dataclass: ClassVar[type]


def partial_model(schema: type) -> type[BaseModel] | None:
    """Return a model of a model or dataclass in which every field may be missing; None if that is impossible."""
    try:
        return cast("type[BaseModel]", _partial(schema, {}))
    except (TypeError, NameError):
        return None


def _partial(schema: Any, visited: dict[type, Any]) -> Any:  # noqa: ANN401  a model or a dataclass, and its partial model
    if schema in visited:
        return schema  # recursive: only complete objects inside
    visited[schema] = None
    if dataclasses.is_dataclass(schema):
        return _partial_dataclass(schema, visited)
    fields: dict[str, Any] = {}
    for name, info in schema.model_fields.items():
        partial_field = info._copy()
        annotation = _make_optional(info.annotation, visited)
        partial_field.annotation = cast("Any", Union[annotation, None])  # noqa: UP007
        partial_field.default = partial_field.default_factory = None
        partial_field.metadata = []
        fields[name] = (partial_field.annotation, partial_field)
    bases = (schema, Partial)
    return create_model(schema.__name__, __base__=bases, __module__=schema.__module__, **fields)


def _partial_dataclass(schema: Any, visited: dict[type, Any]) -> type[BaseModel]:  # noqa: ANN401  a dataclass, which has no base class
    hints = get_type_hints(schema)
    fields: dict[str, Any] = {
        field.name: (Union[_make_optional(hints[field.name], visited), None], None)  # noqa: UP007
        for field in dataclasses.fields(schema)
        if field.init
    }
    with warnings.catch_warnings():  # a field may have the name of a method of BaseModel
        warnings.simplefilter("ignore", UserWarning)
        shape = create_model(schema.__name__, __base__=_DataclassModel, **fields)
    shape.foldline_dataclass = type(schema.__name__, (schema, Partial), {"__slots__": ()})
    return shape


def _restore_dataclasses(value: object) -> object:
    """Convert partial models of dataclasses to dataclasses; missing fields are None; `__post_init__` is not called."""
    if isinstance(value, list):
        return [_restore_dataclasses(item) for item in value]
    if not isinstance(value, _DataclassModel):
        return value
    instance: Any = object.__new__(value.foldline_dataclass)
    for name in type(value).model_fields:
        object.__setattr__(instance, name, _restore_dataclasses(value.__dict__[name]))
    return instance


def _make_optional(annotation: object, visited: dict[type, Any]) -> Any:  # noqa: ANN401  annotations are any object
    if isinstance(annotation, type) and (
        issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)
    ):
        return _partial(annotation, visited)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is list and arguments:
        return list[_make_optional(arguments[0], visited)]  # type: ignore[misc]
    if origin is Union or str(origin) == "<class 'types.UnionType'>":
        optional_arguments = tuple(_make_optional(argument, visited) for argument in arguments)
        return Union[optional_arguments]  # noqa: UP007
    return annotation
