"""The structured final answer of an agent: how it is asked for, and how an answer is read.

- `ToolStrategy`: the schema is one more tool, and calling it is the answer; works with every model that calls tools.
- `ProviderStrategy`: the provider's own structured output.
- a bare schema (`AutoStrategy`): the provider's where the model's profile says it has it, else the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

from foldline.exceptions import StructuredOutputError, UsageError
from foldline.language_models.structured.output import OutputSchema
from foldline.messages import AIMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.utils.json import JsonError, parse_strict

__all__ = [
    "Answered",
    "AutoStrategy",
    "MultipleStructuredOutputsError",
    "ProviderReader",
    "ProviderStrategy",
    "ResponseFormat",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolReader",
    "ToolStrategy",
    "reader_of",
]

SchemaT = TypeVar("SchemaT")
HandleErrors = (
    bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], str]
)
ANSWERED_ELSE = "Not run: the final answer was given in the same message."
MOST_ERRORS = 3
"""Answers in a row that may not fit before the run ends with the error."""


class StructuredOutputValidationError(StructuredOutputError):
    """The answer does not fit the schema."""


class MultipleStructuredOutputsError(StructuredOutputError):
    """The model gave several final answers at once."""


@dataclass(frozen=True, slots=True)
class ToolStrategy(Generic[SchemaT]):
    """Ask for the answer as a call of a tool; a union of schemas makes one tool each."""

    schema: Any
    tool_message_content: str | None = None
    handle_errors: HandleErrors = True
    """What the model is told of an answer that does not fit: what was wrong (True), a text, or what a function says."""


@dataclass(frozen=True, slots=True)
class ProviderStrategy(Generic[SchemaT]):
    """Ask for the answer by the provider's structured output."""

    schema: Any
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class AutoStrategy(Generic[SchemaT]):
    """Ask for the answer in the way the model is best at."""

    schema: Any


ResponseFormat = ToolStrategy[Any] | ProviderStrategy[Any] | AutoStrategy[Any]


@dataclass(slots=True)
class Answered:
    """What reading a message gave: messages that answer its calls, and the answer if there is one."""

    messages: list[ToolMessage]
    value: Any = None
    error: StructuredOutputError | None = None
    """Why there is no answer although the model gave one."""


class ToolReader:
    """Reads answers that are tool calls."""

    def __init__(self, strategy: ToolStrategy[Any]) -> None:
        self.strategy = strategy
        schemas = [OutputSchema(one) for one in _variants(strategy.schema)]
        self.schemas = {schema.name: schema for schema in schemas}
        self.tools = [schema.tool(strict=None) for schema in schemas]

    def read(self, message: AIMessage) -> Answered | None:
        """Read a message; None where it gives no answer."""
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
        return Answered(
            [_reply(calls[0], content), *(_reply(call, ANSWERED_ELSE) for call in others)],
            answer.value,
        )

    def value(self, plain: object) -> object:
        """Make the answer out of JSON again."""
        for schema in self.schemas.values():
            answer = schema.read(plain)
            if not answer.issues:
                return answer.value
        return plain

    def _failed(self, calls: list[Any], error: StructuredOutputError) -> Answered:
        said = self._error_text(error)
        if said is None:
            return Answered([], error=error)
        return Answered([_reply(call, said, status="error") for call in calls], error=error)

    def _error_text(self, error: Exception) -> str | None:
        """What the model is told; None where the error ends the run."""
        handle = self.strategy.handle_errors
        if isinstance(handle, bool):
            return f"Error: {error}\nFix it and answer again." if handle else None
        if isinstance(handle, str):
            return handle
        if isinstance(handle, tuple) or (
            isinstance(handle, type) and issubclass(handle, Exception)
        ):
            return (
                f"Error: {error}\nFix it and answer again." if isinstance(error, handle) else None
            )
        return str(handle(error))  # type: ignore[call-arg]  # a function


class ProviderReader:
    """Reads answers that are the text of a message."""

    def __init__(self, strategy: ProviderStrategy[Any]) -> None:
        self.strategy = strategy
        self.schema = OutputSchema(strategy.schema, strict=strategy.strict)
        self.format = self.schema.response_format(strict=strategy.strict)

    def read(self, message: AIMessage) -> Answered | None:
        """Read a message; None where it calls tools instead."""
        if message.tool_calls or message.invalid_tool_calls:
            return None
        text = str(message.text)
        try:
            answer = self.schema.read(parse_strict(text))
            issues = answer.issues
        except JsonError as error:
            issues = [f"the answer is no JSON: {error.reason}"]
        if issues:
            failure = StructuredOutputValidationError(
                f"the answer does not fit {self.schema.name}: {'; '.join(issues[:5])}"
            )
            failure.issues, failure.raw = issues, message
            return Answered([], error=failure)
        return Answered([], answer.value)

    def value(self, plain: object) -> object:
        """Make the answer out of JSON again."""
        answer = self.schema.read(plain)
        return plain if answer.issues else answer.value


def reader_of(
    response_format: object, profile: Mapping[str, Any] | None, *, has_tools: bool
) -> ToolReader | ProviderReader | None:
    """Return the reader for a response format, choosing the way where none was said."""
    if response_format is None:
        return None
    if isinstance(response_format, ToolStrategy):
        return ToolReader(response_format)
    if isinstance(response_format, ProviderStrategy):
        return ProviderReader(response_format)
    schema = (
        response_format.schema if isinstance(response_format, AutoStrategy) else response_format
    )
    known = profile or {}
    is_native = known.get("structured_output") and (
        not has_tools or known.get("structured_output_with_tools", True)
    )
    if is_native and len(_variants(schema)) == 1:
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
