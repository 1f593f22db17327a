"""The last step of structured output: answers become objects, and while they stream, partial objects.

Pieces are read by an incremental parser, so the work is linear in the answer. What is yielded replaces what was
yielded before; the last item is the checked object.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import (
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
from foldline.language_models.structured.output import StructuredCheck
from foldline.messages import AIMessage, AIMessageChunk
from foldline.runnables.base import Runnable
from foldline.runnables.utils import AddableDict
from foldline.utils.json import PartialJson

__all__ = ["RawAndParsed", "Schema", "StructuredParser", "partial_model"]

Schema = TypeVar("Schema")


class RawAndParsed(TypedDict, Generic[Schema]):
    """What `with_structured_output(..., include_raw=True)` gives."""

    raw: AIMessage
    """The answer."""
    parsed: Schema | None
    """The object that was read from it; None where it does not fit the schema."""
    parsing_error: BaseException | None
    """Why it does not fit."""


class StructuredParser(Runnable[AIMessage, Any]):
    """Reads messages by a schema."""

    _run_type: ClassVar[str | None] = "parser"

    def __init__(self, check: StructuredCheck, *, include_raw: bool) -> None:
        self.check = check
        self.include_raw = include_raw
        self.name: str = "StructuredParser"

    @property
    def OutputType(self) -> object:
        """The schema, where it is a type."""
        given = self.check.schema.given
        return given if isinstance(given, type) and not self.include_raw else dict[str, Any]

    async def _once(self, input: object, run: Run) -> object:
        if not isinstance(input, AIMessage):
            raise UsageError(
                f"structured output is read from an AIMessage, not from {type(input).__name__}"
            )
        return self._read(input)

    async def _flow(self, inputs: AsyncGenerator[Any, None], run: Run) -> AsyncGenerator[Any, None]:
        partial = _Partial(self.check)
        whole: AIMessage | None = None
        async with aclosing(inputs) as chunks:
            async for chunk in chunks:
                whole = chunk if whole is None or _is_reset(chunk) else whole + chunk
                if self.include_raw:
                    yield AddableDict(raw=chunk)
                elif (value := partial.feed(chunk)) is not None:
                    yield value
        if whole is None:
            return
        final = self._read(whole)
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


class _Partial:
    """The object so far of one streamed answer."""

    def __init__(self, check: StructuredCheck) -> None:
        self._check = check
        schema = check.schema
        self._is_plain = not (schema.is_model or schema.is_dataclass or schema.is_v1_model)
        has_shape = schema.is_model or schema.is_dataclass
        self._shape = partial_model(schema.given) if has_shape else None
        self._call: Any = None
        self._begin()

    def _begin(self) -> None:
        self._parser = PartialJson()
        self._has_begun = False
        self._last: Any = None

    def feed(self, chunk: object) -> object:
        """Return the object so far, if it has changed."""
        if _is_reset(chunk):
            self._begin()
        slices = self._slices(chunk)
        if not slices or self._parser.error is not None:
            return None
        for piece in slices:
            self._read(piece)
        if not self._parser.has_value or self._parser.error is not None:
            return None
        value = self._parser.value()
        if value == self._last or not isinstance(value, dict):
            return None
        self._last = value
        return self._build(value)

    def _slices(self, chunk: object) -> list[str]:
        if self._check.method != "tool":
            return [text] if isinstance(chunk, AIMessage) and (text := str(chunk.text)) else []
        found = []
        for part in getattr(chunk, "tool_call_chunks", ()):
            if part.get("name") == self._check.schema.name:
                self._call = part.get("index")
            if part.get("index") == self._call and part.get("args"):
                found.append(part["args"])
        return found

    def _read(self, piece: str) -> None:
        if self._has_begun:
            self._parser.feed(piece)
            return
        starts = [place for mark in "{[" if (place := piece.find(mark)) >= 0]
        if starts:  # before it a fence or a sentence: the end will tell
            self._has_begun = True
            self._parser.feed(piece, min(starts))

    def _build(self, value: dict[str, Any]) -> object:
        if self._is_plain:
            return value
        if self._shape is None:
            return None
        try:
            return _restore_dataclasses(self._shape.model_validate(value))
        except (
            ValueError,
            TypeError,
            AttributeError,
        ):  # a validator of the user's met what is not there yet
            return None


class _OfDataclass(BaseModel):
    """The shape of a dataclass in which everything may still be missing."""

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)
    foldline_made_of: ClassVar[type]


def partial_model(schema: type) -> type[BaseModel] | None:
    """Make a model of a model or dataclass in which everything may still be missing; None where that cannot be."""
    try:
        return cast("type[BaseModel]", _partial(schema, {}))
    except (TypeError, NameError):
        return None


def _partial(schema: Any, made: dict[type, Any]) -> Any:  # noqa: ANN401  a model or a dataclass, and the looser class made of it
    if schema in made:
        return schema  # inside itself: only whole ones
    made[schema] = None
    if dataclasses.is_dataclass(schema):
        return _partial_dataclass(schema, made)
    fields: dict[str, Any] = {}
    for name, info in schema.model_fields.items():
        loose = info._copy()
        loose.annotation = cast("Any", Union[_loosened(info.annotation, made), None])  # noqa: UP007
        loose.default, loose.default_factory, loose.metadata = None, None, []
        fields[name] = (loose.annotation, loose)
    return create_model(schema.__name__, __base__=schema, __module__=schema.__module__, **fields)


def _partial_dataclass(schema: Any, made: dict[type, Any]) -> type[BaseModel]:  # noqa: ANN401  a dataclass, which has no base class
    hints = get_type_hints(schema)
    fields: dict[str, Any] = {
        one.name: (Union[_loosened(hints[one.name], made), None], None)  # noqa: UP007
        for one in dataclasses.fields(schema)
        if one.init
    }
    with warnings.catch_warnings():  # a field may be called as a method of BaseModel is
        warnings.simplefilter("ignore", UserWarning)
        shape = create_model(schema.__name__, __base__=_OfDataclass, **fields)
    shape.foldline_made_of = schema
    return shape


def _restore_dataclasses(value: object) -> object:
    """Make dataclasses of their shapes; what is not there yet is None, and no `__post_init__` sees it."""
    if isinstance(value, list):
        return [_restore_dataclasses(one) for one in value]
    if not isinstance(value, _OfDataclass):
        return value
    whole: Any = object.__new__(value.foldline_made_of)
    for name in type(value).model_fields:
        object.__setattr__(whole, name, _restore_dataclasses(value.__dict__[name]))
    return whole


def _loosened(annotation: object, made: dict[type, Any]) -> Any:  # noqa: ANN401  annotations are any object
    if isinstance(annotation, type) and (
        issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)
    ):
        return _partial(annotation, made)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is list and arguments:
        return list[_loosened(arguments[0], made)]  # type: ignore[misc]
    if origin is Union or str(origin) == "<class 'types.UnionType'>":
        loose = tuple(_loosened(one, made) for one in arguments)
        return Union[loose]  # noqa: UP007
    return annotation
