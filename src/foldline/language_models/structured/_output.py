"""Structured output: a schema of any kind, the options that request it, and how an answer is read by it. Pure.

`with_structured_output` binds a response format (or a tool) and a check to the model, and adds a parser after it. The
call retries: the check says what is wrong. What had to be repaired is listed in `repairs`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError

from foldline.exceptions import StructuredOutputError, UsageError
from foldline.language_models._call.call_options import ToolChoice
from foldline.language_models._call.policies.output_check import CHECKS, Verdict
from foldline.language_models.profile import ModelProfile
from foldline.language_models.structured._field_check import FieldCheck
from foldline.language_models.structured._schema_walk import (
    unknown_properties,
    unpack_strings,
    without_nulls,
)
from foldline.language_models.structured._tool_binding import check_flags, tool_name, tools_of
from foldline.messages import AIMessage
from foldline.messages._refusal import refusal_error, refusal_of
from foldline.protocol.events import Event
from foldline.utils._json_repair import GUESSES
from foldline.utils._schema_open import check_closable, open_objects, open_parts
from foldline.utils._signature_schema import is_typed_dict
from foldline.utils.function_calling import convert_to_json_schema, is_server_tool
from foldline.utils.json import JsonError, parse_strict, repair_json
from foldline.utils.json_schema import strict_schema, validate
from foldline.utils.pydantic import is_pydantic_v1_subclass, v1_schema

__all__ = [
    "Answer",
    "Method",
    "OutputSchema",
    "StructuredCheck",
    "is_native_schema",
    "structured_options",
]

Method = Literal["json_schema", "tool", "json_mode"]
METHODS: dict[str, str] = {
    "json_schema": "json_schema",
    "tool": "tool",
    "function_calling": "tool",
    "tool_calling": "tool",
    "json_mode": "json_mode",
    "auto": "auto",
}
JSON_MODE = "Answer with one JSON object and nothing else. It must fit this JSON Schema:\n"
FROM_TEXT = "took the answer from the text: the tool was not called"


@dataclasses.dataclass(slots=True)
class Answer:
    """An answer, read by a schema."""

    value: Any = None
    """The object; None if it could not be read."""
    issues: list[str] = dataclasses.field(default_factory=list)
    repairs: list[str] = dataclasses.field(default_factory=list)


class OutputSchema:
    """A schema of any kind: a Pydantic model, a dataclass, a TypedDict, or a JSON Schema with its references."""

    def __init__(self, schema: object, *, strict: bool | None = None) -> None:
        self.is_strict: bool = bool(strict)
        """Whether every property was required: null then stands for one that was left out."""
        if isinstance(schema, Mapping) and is_server_tool(schema):
            raise UsageError(f"{dict(schema)!r:.100} is a tool of the provider, not a schema")
        self.definition: Any = schema
        self.is_model: bool = isinstance(schema, type) and issubclass(schema, BaseModel)
        self.is_v1_model: bool = isinstance(schema, type) and is_pydantic_v1_subclass(schema)
        self.is_dataclass = isinstance(schema, type) and dataclasses.is_dataclass(schema)
        self.json_schema: dict[str, Any] = _json_schema(schema)
        self.name: str = _name(self.json_schema.get("title")) or "Answer"
        self.description: Any | None = self.json_schema.get("description")

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.definition)

    def tool(self, *, strict: bool | None) -> dict[str, Any]:
        """Return the schema as a tool whose arguments are the answer."""
        parameters = {
            key: value
            for key, value in self.json_schema.items()
            if key not in ("title", "description")
        }
        function = {
            "name": self.name,
            "description": self.description or "",
            "parameters": parameters,
        }
        if strict is not None:
            function["strict"] = strict
            function["parameters"] = self._strict_form(parameters) if strict else parameters
        return {"type": "function", "function": function}

    def response_format(self, *, strict: bool | None) -> dict[str, Any]:
        """Return the schema as a native response format, in OpenAI's form."""
        json_schema: dict[str, Any] = {"name": self.name}
        if self.description:
            json_schema["description"] = self.description
        schema = {key: value for key, value in self.json_schema.items() if key != "title"}
        json_schema["schema"] = without_defaults(self._strict_form(schema)) if strict else schema
        if strict is not None:
            json_schema["strict"] = strict
        return {"type": "json_schema", "json_schema": json_schema}

    def _strict_form(self, schema: dict[str, Any]) -> dict[str, Any]:
        check_closable(schema, self.name)
        return strict_schema(schema)

    def read(self, value: object) -> Answer:
        """Validate a JSON value and build the object."""
        if self.is_strict:
            value = without_nulls(value, self.json_schema, self.json_schema)
        if self.is_model or self.is_dataclass:
            return self._validate(value)
        if self.is_v1_model:
            return self._validate_by_v1(value)
        issues = [str(issue) for issue in validate(value, self.json_schema)]
        return Answer(None if issues else value, issues)

    def _validate_by_v1(self, value: object) -> Answer:
        try:
            return Answer(self.definition.parse_obj(value))
        except ValueError as error:  # the ValidationError of Pydantic 1
            return Answer(None, [_issue(details) for details in getattr(error, "errors", list)()])

    def _validate(self, value: object) -> Answer:
        try:
            instance = (
                self.definition.model_validate(value)
                if self.is_model
                else self._adapter.validate_python(value)
            )
        except ValidationError as error:
            return Answer(
                None,
                [
                    _issue(details)
                    for details in error.errors(include_url=False, include_input=True)
                ],
            )
        unknown_paths = list(unknown_properties(value, self.json_schema, self.json_schema, ""))
        return Answer(
            instance,
            [],
            [f"left out {path}, which {self.name} does not have" for path in unknown_paths],
        )


STRUCTURED_OPTIONS = (
    "method",
    "include_raw",
    "strict",
    "max_retries",
    "repair",
    "tools",
    "validate",
)
"""Parameters of `with_structured_output` besides the schema."""
SCHEMA_KEYWORDS = frozenset(
    {
        "$defs", "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "const", "definitions", "enum", "items",
        "oneOf", "patternProperties", "prefixItems", "properties", "required", "type",
    }
)  # fmt: skip
"""Keywords of which a JSON Schema of an answer has at least one."""


def _json_schema(schema: object) -> dict[str, Any]:
    if isinstance(schema, Mapping):
        if "name" in schema or isinstance(schema.get("function"), Mapping):
            return convert_to_json_schema(schema)
        if not schema:
            raise UsageError("an empty dict is not a schema: give a JSON Schema with properties")
        if SCHEMA_KEYWORDS.isdisjoint(schema):
            raise UsageError(
                f"{dict(schema)!r:.100} is not a JSON Schema: write "
                '{"title": ..., "type": "object", "properties": {...}}'
            )
        return dict(schema)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.model_json_schema()
    if isinstance(schema, type) and is_pydantic_v1_subclass(schema):
        return v1_schema(schema)
    if isinstance(schema, type) and dataclasses.is_dataclass(schema):
        return {"title": schema.__name__, **TypeAdapter(schema).json_schema()}
    if is_typed_dict(schema):
        return convert_to_json_schema(schema)
    raise UsageError(
        f"{schema!r:.100} is not a schema: give a Pydantic model, a dataclass, a TypedDict or a JSON Schema dict"
    )


def _name(title: object) -> str:
    name = "".join(
        char if (char.isalnum() and char.isascii()) or char in "_-" else "_"
        for char in str(title or "")
    )
    return name[:64]


def _issue(error: Mapping[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    return f"{path}: {error['msg']}" if path else str(error["msg"])


CUT_OFF = "the answer was cut off before its end"
CUT_REASONS = frozenset({"length", "content_filter"})


class StructuredCheck:
    """Reads answers by a schema, from where the method puts them; the call retries by it."""

    resets = True
    """A stream of partial objects may start over: each replaces the one before."""

    def __init__(
        self,
        schema: OutputSchema,
        method: Method,
        *,
        max_retries: int,
        repair: bool,
        gives_up_quietly: bool,
        tools: frozenset[str] = frozenset(),
        validate: Literal["fields", "end"] = "end",
    ) -> None:
        self.validate = validate
        self.schema = schema
        self.method = method
        self.max_retries = max_retries
        self.repair = repair
        self.gives_up_quietly = gives_up_quietly
        self.shares_retries = False
        """Whether `max_retries` is that of the call, and shared with failed requests."""
        self.tools = tools
        """Other tools that the model may call instead of answering."""

    def key(self) -> object:
        """Return what identifies this check."""
        return ["structured", self.method, self.schema.json_schema, self.repair]

    def judge(self, message: AIMessage) -> Verdict:
        """Return what is wrong with an answer."""
        answer = self.read(message)
        return Verdict(answer.issues, answer.repairs)

    def screen(self, call: object) -> str | None:
        """Return None: the answer is checked as a whole."""
        return None

    def watch(self) -> StructuredWatch | None:
        """Return what checks each field of an answer when it is complete; None if the finished answer alone counts."""
        if self.validate == "end" or self.gives_up_quietly or self.schema.is_v1_model:
            return None
        return StructuredWatch(self)

    def read(self, message: AIMessage) -> Answer:
        """Return the object in an answer."""
        if self.calls_others(message):
            return Answer()
        if (refusal := refusal_of(message)) is not None:
            return Answer(None, [f"the model refused: {refusal['refusal']}"])
        if self.method == "tool":
            calls = [call for call in message.tool_calls if call["name"] == self.schema.name]
            if not calls:
                return self._read_uncalled(message)
            answer = self._read_value(calls[0]["args"], [])
            if len(calls) > 1:
                answer.repairs.append(f"took the first of {len(calls)} answers")
            return answer
        if "json" in message.response_metadata:  # set by `ChatModel.process`
            return self._read_value(message.response_metadata["json"], [])
        return self._read_text(str(message.text), is_cut=self._is_cut(message))

    def calls_others(self, message: AIMessage) -> bool:
        """Return whether the model called another tool instead of answering."""
        return any(call["name"] in self.tools for call in message.tool_calls)

    def error(self, message: AIMessage, issues: list[str]) -> StructuredOutputError:
        """Return the error of an answer that does not fit, or of a refusal."""
        if (refusal := refusal_error(message)) is not None:
            return refusal
        error = StructuredOutputError(
            f"the answer does not fit {self.schema.name}: {'; '.join(issues[:5])}"
        )
        error.raw, error.issues, error.usage = message, issues, message.usage_metadata
        error.llm_output = str(message.text)
        return error

    def _read_uncalled(self, message: AIMessage) -> Answer:
        name = self.schema.name
        invalid_call = next(
            (call for call in message.invalid_tool_calls if call.get("name") in (name, None)), None
        )
        raw_text = (
            str(message.text) if invalid_call is None else str(invalid_call.get("args") or "")
        )
        answer = (
            self._read_text(raw_text) if raw_text.strip() and self.repair else Answer(None, ["-"])
        )
        if answer.issues and self._is_cut(message):
            return Answer(None, [CUT_OFF])
        if answer.issues:
            issues = "; ".join(issue for issue in answer.issues if issue != "-")
            return Answer(
                None,
                [
                    f"you must call the tool {name} with the answer"
                    + (f" ({issues})" if issues else "")
                ],
            )
        if invalid_call is None:
            answer.repairs.insert(0, FROM_TEXT)
        return answer

    def _read_text(self, text: str, *, is_cut: bool = False) -> Answer:
        """Read JSON; an unclosed end is never repaired, because that would invent a value (F-Y14)."""
        repairs: list[str] = []
        try:
            value = parse_strict(text)
        except JsonError as strict:
            if is_cut:
                return Answer(None, [CUT_OFF])
            if not self.repair:
                return Answer(None, [f"the answer is not JSON: {strict.reason}"])
            try:
                value, repairs = repair_json(text)
            except JsonError as error:
                return Answer(None, [f"the answer is not JSON: {error.reason}"])
            if not GUESSES.isdisjoint(repairs):
                return Answer(None, [CUT_OFF])
        return self._read_value(value, repairs)

    def _read_value(self, value: object, repairs: list[str]) -> Answer:
        answer = self.schema.read(value)
        if answer.issues and self.repair:
            schema = self.schema.json_schema
            unpacked_value, unpack_repairs = unpack_strings(value, schema, schema, "")
            if unpack_repairs:
                second_answer = self.schema.read(unpacked_value)
                if not second_answer.issues:
                    return Answer(
                        second_answer.value, [], [*repairs, *unpack_repairs, *second_answer.repairs]
                    )
        return Answer(answer.value, answer.issues, [*repairs, *answer.repairs])

    @staticmethod
    def _is_cut(message: AIMessage) -> bool:
        return message.finish_reason in CUT_REASONS or message.status == "incomplete"


class StructuredWatch:
    """Finds the object in the events of one answer, and checks its fields as they come."""

    def __init__(self, check: StructuredCheck) -> None:
        self._check = check
        schema = check.schema
        self._fields = FieldCheck(
            schema.definition,
            schema.json_schema,
            repairs=check.repair,
            skips_null=schema.is_strict,
        )
        self._index: int | None = None
        """The block that holds the answer."""

    @property
    def value(self) -> object:
        """The object so far."""
        return self._fields.value

    def feed(self, batch: Sequence[Event]) -> str | None:
        """Read the events of the answer; return what is wrong with a field, if it cannot be mended."""
        for event in batch:
            if event["event"] == "content-block-start" and self._index is None:
                content: Mapping[str, Any] = event["content"]
                if self._holds_answer(content):
                    self._index = event["index"]
            elif event["event"] == "content-block-delta" and event["index"] == self._index:
                delta: Mapping[str, Any] = event["delta"]
                text = delta.get("args" if self._check.method == "tool" else "text")
                if text and (issue := self._fields.feed(text)) is not None:
                    return issue
        return None

    def _holds_answer(self, block: Mapping[str, Any]) -> bool:
        if self._check.method == "tool":
            return block.get("name") == self._check.schema.name
        return block.get("type") == "text"


def choose_method(
    method: str, profile: ModelProfile | None, schema: object, *, has_tools: bool
) -> Method:
    """Return the method to use: as set, or by the model's profile and the schema."""
    if method not in METHODS:
        raise UsageError(
            f'method={method!r}: "auto", "json_schema", "tool" (or "function_calling") or "json_mode"'
        )
    chosen = METHODS[method]
    if chosen != "auto":
        return chosen  # type: ignore[return-value]
    profile = profile or {}
    if is_native_schema(profile, schema, has_tools=has_tools):
        return "json_schema"
    if profile.get("tool_calling", True):
        return "tool"
    return "json_mode" if not has_tools else "tool"


def is_native_schema(profile: Mapping[str, Any], schema: object, *, has_tools: bool) -> bool:
    """Return whether a model's native response format can describe a schema, in a request with these tools."""
    if not profile.get("structured_output"):
        return False
    if has_tools and not profile.get("structured_output_with_tools", True):
        return False
    if not profile.get("structured_output_closed"):
        return True
    return next(open_objects(_json_schema(schema)), None) is None


def without_defaults(node: object) -> object:
    """Return a strict schema without `default`, which is not allowed there: every property is required."""
    if isinstance(node, list):
        return [without_defaults(item) for item in node]
    if not isinstance(node, dict):
        return node
    cleaned = {key: without_defaults(value) for key, value in node.items() if key != "default"}
    properties = node.get("properties")
    if isinstance(properties, dict):  # one of which may be called `default`
        cleaned["properties"] = {key: without_defaults(value) for key, value in properties.items()}
    return cleaned


ANY_OBJECT = {"title": "answer", "type": "object"}


def _can_be_strict(schema: object) -> bool:
    """Return whether a class describes closed objects only, as a strict schema must."""
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return False
    return next(open_parts(schema.model_json_schema()), None) is None


def _check_values(max_retries: object, validate: object) -> None:
    if validate not in ("fields", "end"):
        raise UsageError(f'validate={validate!r:.80}: "fields", as they stream, or "end"')
    if type(max_retries) is not int or max_retries < 0:
        raise UsageError(f"max_retries={max_retries!r:.80}: a number from 0")


def structured_options(
    schema: object,
    profile: ModelProfile | None,
    *,
    method: str = "auto",
    include_raw: bool = False,
    strict: bool | None = None,
    max_retries: int = 0,
    repair: bool = True,
    tools: Sequence[Any] | None = None,
    validate: Literal["fields", "end"] = "fields",
    prefers_strict: bool = False,
) -> tuple[dict[str, Any], StructuredCheck]:
    """Return the call options that request the schema, and the check that reads answers by it."""
    check_flags("with_structured_output", include_raw=include_raw, strict=strict, repair=repair)
    is_any_object = schema is None
    if is_any_object:
        if method not in ("json_mode", "json_object"):
            raise UsageError(
                "with_structured_output needs a schema: give a Pydantic model, a TypedDict or a JSON Schema, "
                'or method="json_mode" for any JSON object'
            )
        schema = ANY_OBJECT
    if tools and not include_raw:
        raise UsageError(
            "with tools the answer may be a tool call: pass include_raw=True to see both"
        )
    _check_values(max_retries, validate)
    tool_descriptions = tools_of(tools or (), strict=strict)
    chosen = choose_method(method, profile, schema, has_tools=bool(tool_descriptions))
    if strict is None and prefers_strict and chosen == "json_schema" and _can_be_strict(schema):
        strict = True
    output_schema = OutputSchema(schema, strict=strict)
    names = frozenset(name for tool in tool_descriptions if (name := tool_name(tool)))
    check = StructuredCheck(
        output_schema,
        chosen,
        max_retries=max_retries,
        repair=repair,
        gives_up_quietly=include_raw,
        tools=names,
        validate=validate,
    )
    traced = {"kwargs": {"method": method, "strict": strict}, "schema": schema}
    options: dict[str, Any] = {CHECKS: [check], "ls_structured_output_format": traced}
    if tool_descriptions:
        options["tools"] = tool_descriptions
    if chosen == "tool":
        options |= _as_tool(output_schema, tool_descriptions, profile, strict=strict)
    elif chosen == "json_schema":
        options["response_format"] = output_schema.response_format(strict=strict)
    else:
        options["response_format"] = {"type": "json_object"}
        if is_any_object:
            return options, check
        options["instructions"] = JSON_MODE + json.dumps(
            output_schema.json_schema, ensure_ascii=False
        )
    return options, check


def _as_tool(
    schema: OutputSchema,
    tools: list[dict[str, Any]],
    profile: ModelProfile | None,
    *,
    strict: bool | None,
) -> dict[str, Any]:
    if schema.name in {tool_name(tool) for tool in tools}:
        raise UsageError(f"the schema and a tool are both named {schema.name!r}: rename one")
    options: dict[str, Any] = {"tools": [*tools, schema.tool(strict=strict)]}
    if (profile or {}).get("tool_choice", True):
        choice = ToolChoice("required") if tools else ToolChoice("tool", schema.name)
        options["tool_choice"] = choice.as_option()
    if not tools:
        options["parallel_tool_calls"] = False
    return options
