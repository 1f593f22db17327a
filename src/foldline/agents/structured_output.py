"""The structured final answer of an agent: how it is requested and read.

- `ToolStrategy`: the schema is a tool, and its call is the answer; works with every model that calls tools.
- `ProviderStrategy`: the provider's structured output.
- a plain schema (`AutoStrategy`): the provider's, if the model's profile says that it supports it, else the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Generic, TypeAlias, Union, get_args, get_origin

from typing_extensions import TypeVar

from foldline.exceptions import StructuredOutputError, UsageError
from foldline.language_models.structured._output import OutputSchema, is_native_schema
from foldline.messages import AIMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.utils.json import JsonError, parse_strict

__all__ = [
    "AutoStrategy",
    "MultipleStructuredOutputsError",
    "ProviderStrategy",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolStrategy",
]

SchemaT = TypeVar("SchemaT", default=Any)
Schema: TypeAlias = type[SchemaT] | UnionType | Mapping[str, Any]
"""A class, several of them (`A | B`), or a JSON Schema."""
HandleErrors = (
    bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], str]
)
NOT_RUN = "Not run: the final answer was given in the same message."
MAX_ERRORS = 3
"""Consecutive answers that may not match the schema before the run ends with the error."""


class StructuredOutputValidationError(StructuredOutputError):
    """The answer does not match the schema."""


class MultipleStructuredOutputsError(StructuredOutputError):
    """The model returned several final answers at once."""


@dataclass(frozen=True, slots=True)
class ToolStrategy(Generic[SchemaT]):
    """Request the answer as a tool call; each schema of a union is a tool."""

    schema: Schema[SchemaT]
    tool_message_content: str | None = None
    handle_errors: HandleErrors = True
    """The reply to an answer that does not match: the error (True), a text, or the result of a function."""


@dataclass(frozen=True, slots=True)
class ProviderStrategy(Generic[SchemaT]):
    """Request the answer with the provider's structured output."""

    schema: Schema[SchemaT]
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class AutoStrategy(Generic[SchemaT]):
    """Request the answer in the best way that the model supports."""

    schema: Schema[SchemaT]


ResponseFormat = ToolStrategy[Any] | ProviderStrategy[Any] | AutoStrategy[Any]


@dataclass(slots=True)
class AnswerReading:
    """The result of reading a message: replies to its calls, and the answer if there is one."""

    messages: list[ToolMessage]
    value: Any = None
    error: StructuredOutputError | None = None
    """Why the model's answer is not valid."""


class ToolReader:
    """Reads answers that are tool calls."""

    def __init__(self, strategy: ToolStrategy[Any]) -> None:
        self.strategy = strategy
        schemas = [OutputSchema(variant) for variant in _variants(strategy.schema)]
        self.schemas = {schema.name: schema for schema in schemas}
        self.tools = [schema.tool(strict=None) for schema in schemas]

    def read(self, message: AIMessage) -> AnswerReading | None:
        """Read a message; return None if it has no answer."""
        calls = [call for call in message.tool_calls if call["name"] in self.schemas]
        if not calls:
            return None
        if len(calls) > 1:
            names = ", ".join(call["name"] for call in calls)
            return self._failed(
                calls,
                MultipleStructuredOutputsError(f"give one final answer, not several ({names})"),
            )
        answer = self.schemas[calls[0]["name"]].read(calls[0]["args"])
        if answer.issues:
            error = StructuredOutputValidationError(
                f"the answer does not fit {calls[0]['name']}: {'; '.join(answer.issues[:5])}"
            )
            error.issues, error.raw = answer.issues, message
            return self._failed(calls, error)
        others = [call for call in message.tool_calls if call is not calls[0]]
        content = self.strategy.tool_message_content or f"The final answer is: {answer.value!r}"
        return AnswerReading(
            [_reply(calls[0], content), *(_reply(call, NOT_RUN) for call in others)],
            answer.value,
        )

    def value(self, json_value: object) -> object:
        """Return the answer for its JSON form."""
        for schema in self.schemas.values():
            answer = schema.read(json_value)
            if not answer.issues:
                return answer.value
        return json_value

    def _failed(self, calls: list[Any], error: StructuredOutputError) -> AnswerReading:
        reply_text = self._error_text(error)
        if reply_text is None:
            return AnswerReading([], error=error)
        return AnswerReading(
            [_reply(call, reply_text, status="error") for call in calls], error=error
        )

    def _error_text(self, error: Exception) -> str | None:
        """Return the reply to the model; None if the error ends the run."""
        handler = self.strategy.handle_errors
        if isinstance(handler, bool):
            return f"Error: {error}\nFix it and answer again." if handler else None
        if isinstance(handler, str):
            return handler
        if isinstance(handler, tuple) or (
            isinstance(handler, type) and issubclass(handler, Exception)
        ):
            return (
                f"Error: {error}\nFix it and answer again." if isinstance(error, handler) else None
            )
        return str(handler(error))  # type: ignore[call-arg]  # a function


class ProviderReader:
    """Reads answers that are the text of a message."""

    def __init__(self, strategy: ProviderStrategy[Any]) -> None:
        self.strategy = strategy
        self.schema = OutputSchema(strategy.schema, strict=strategy.strict)
        self.format: dict[str, Any] = self.schema.response_format(strict=strategy.strict)

    def read(self, message: AIMessage) -> AnswerReading | None:
        """Read a message; return None if it calls tools."""
        if message.tool_calls or message.invalid_tool_calls:
            return None
        text = str(message.text)
        try:
            answer = self.schema.read(parse_strict(text))
            issues = answer.issues
        except JsonError as error:
            issues = [f"the answer is not JSON: {error.reason}"]
        if issues:
            failure = StructuredOutputValidationError(
                f"the answer does not fit {self.schema.name}: {'; '.join(issues[:5])}"
            )
            failure.issues, failure.raw = issues, message
            return AnswerReading([], error=failure)
        return AnswerReading([], answer.value)

    def value(self, json_value: object) -> object:
        """Return the answer for its JSON form."""
        answer = self.schema.read(json_value)
        return json_value if answer.issues else answer.value


def reader_of(
    response_format: object, profile: Mapping[str, Any] | None, *, has_tools: bool
) -> ToolReader | ProviderReader | None:
    """Return the reader for a response format; for a plain schema, choose the strategy by the profile."""
    if response_format is None:
        return None
    if isinstance(response_format, ToolStrategy):
        return ToolReader(response_format)
    if isinstance(response_format, ProviderStrategy):
        return ProviderReader(response_format)
    schema: Any = (
        response_format.schema if isinstance(response_format, AutoStrategy) else response_format
    )
    has_one_schema = len(_variants(schema)) == 1
    if has_one_schema and is_native_schema(profile or {}, schema, has_tools=has_tools):
        return ProviderReader(ProviderStrategy(schema))
    return ToolReader(ToolStrategy(schema))


def _variants(schema: object) -> list[Any]:
    if get_origin(schema) in (Union, UnionType):
        return list(get_args(schema))
    if isinstance(schema, Mapping) and isinstance(schema.get("oneOf"), list):
        return list(schema["oneOf"])
    if schema is None:
        raise UsageError("response_format needs a schema")
    return [schema]


def _reply(call: ToolCall, content: str, status: str = "success") -> ToolMessage:
    return ToolMessage(content, tool_call_id=call["id"] or "", name=call["name"], status=status)
