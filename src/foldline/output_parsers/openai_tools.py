"""Parsers of tool calls: as dicts, by the name of a tool, or as objects of Pydantic models."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, SkipValidation, ValidationError

from foldline.exceptions import OutputParserException
from foldline.messages import AIMessage, InvalidToolCall
from foldline.messages.tool import invalid_tool_call, tool_call as create_tool_call
from foldline.output_parsers._refusals import check_refusal
from foldline.output_parsers.json import shorten
from foldline.output_parsers.transform import BaseCumulativeTransformOutputParser
from foldline.outputs import ChatGeneration, Generation
from foldline.utils._json_patch import make_patch
from foldline.utils.json import JsonError, parse_partial_json, parse_strict

__all__ = [
    "JsonOutputKeyToolsParser",
    "JsonOutputToolsParser",
    "PydanticToolsParser",
    "make_invalid_tool_call",
    "parse_tool_call",
    "parse_tool_calls",
]

Call = dict[str, Any]


def parse_tool_call(
    raw_tool_call: Call, *, partial: bool = False, strict: bool = False, return_id: bool = True
) -> Call | None:
    """Parse a call in OpenAI's form; return None if it has no function or (`partial`) no arguments to parse yet."""
    function = raw_tool_call.get("function")
    if not isinstance(function, dict):
        return None
    text = function.get("arguments")
    if partial:
        try:
            args = parse_partial_json(text, strict=strict) if isinstance(text, str) else None
        except JsonError:
            args = None
        if args is None:
            return None
    else:
        # OpenAI sends "" for a tool without parameters.
        args = (
            {}
            if text in (None, "")
            else _parse_arguments(function, cast("str", text), strict=strict)
        )
    call: Call = {"name": function.get("name") or "", "args": args or {}}
    if not return_id:
        return call
    return dict(create_tool_call(name=call["name"], args=call["args"], id=raw_tool_call.get("id")))


def _parse_arguments(function: Call, text: str, *, strict: bool) -> Call | None:
    try:
        args = parse_strict(text) if strict else json.loads(text, strict=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise OutputParserException(
            f"the arguments for {function.get('name')!r} are not JSON ({error}): {shorten(str(text))}",
            llm_output=str(text),
        ) from error
    if args is not None and not isinstance(args, dict):
        raise OutputParserException(
            f"the arguments for {function.get('name')!r} are no JSON object: {shorten(text)}",
            llm_output=text,
        )
    return args


def make_invalid_tool_call(raw_tool_call: Call, error_msg: str | None) -> InvalidToolCall:
    """Return an invalid tool call for a call that cannot be parsed, with the reason."""
    function = raw_tool_call.get("function") or {}
    return invalid_tool_call(
        name=function.get("name"),
        args=function.get("arguments"),
        id=raw_tool_call.get("id"),
        error=error_msg,
    )


def parse_tool_calls(
    raw_tool_calls: list[Call],
    *,
    partial: bool = False,
    strict: bool = False,
    return_id: bool = True,
) -> list[Call]:
    """Parse calls in OpenAI's form; raise one error that lists the problems of all calls."""
    calls, errors, texts = [], [], []
    for raw in raw_tool_calls:
        try:
            call = parse_tool_call(raw, partial=partial, strict=strict, return_id=return_id)
        except OutputParserException as error:
            errors.append(str(error))
            texts.append(error.llm_output or "")
            continue
        if call:
            calls.append(call)
    if errors:
        raise OutputParserException("\n\n".join(errors), llm_output="\n".join(texts))
    return calls


class JsonOutputToolsParser(BaseCumulativeTransformOutputParser[Any]):
    """Returns the tool calls of an answer as dicts: `{"type": name, "args": {...}}`.

    ```python
    from foldline.messages import AIMessage
    from foldline.output_parsers import JsonOutputToolsParser

    call = {"name": "add", "args": {"a": 1}, "id": "call_1"}
    print(JsonOutputToolsParser().invoke(AIMessage("", tool_calls=[call])))
    #> [{'args': {'a': 1}, 'type': 'add'}]
    ```
    """

    _rejects_refusals: ClassVar[bool] = True
    strict: bool = False
    """Whether arguments must be strict JSON: no raw line breaks in strings."""
    return_id: bool = False
    """Whether to include the ids of the calls."""
    first_tool_only: bool = False
    """Whether to return the first call only, not a list."""

    def _diff(self, prev: object, next: object) -> object:
        return make_patch(prev, next)

    def parse(self, text: str) -> object:
        """Raise `NotImplementedError`: text has no tool calls."""
        raise NotImplementedError("tool calls are read from messages, not from text")

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> object:
        """Return the tool calls of the first candidate."""
        calls = self._calls(result[0], partial=partial)
        if self.first_tool_only and calls:
            return calls[0]
        return calls

    def _calls(self, generation: Generation, *, partial: bool) -> list[Call]:
        if not isinstance(generation, ChatGeneration):
            raise OutputParserException(
                "tool calls are read from a chat model's message, and this is text",
                llm_output=generation.text,
            )
        check_refusal([generation], partial=partial)
        message = generation.message
        if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
            if not partial and not (self.first_tool_only and message.tool_calls):
                _check_invalid(message)
            calls = [dict(call) for call in message.tool_calls]
        else:
            raw = message.additional_kwargs.get("tool_calls") or []
            calls = parse_tool_calls(raw, partial=partial, strict=self.strict)
        return [self._output_call(call) for call in calls]

    def _output_call(self, call: Call) -> Call:
        output = {"args": call["args"]}
        if self.return_id:
            output["id"] = call.get("id")
        return {**output, "type": call["name"]}


def _check_invalid(message: AIMessage) -> None:
    if not message.invalid_tool_calls:
        return
    problems = [
        f"{call.get('name')!r}: {call.get('error') or 'its arguments are not a JSON object'}"
        for call in message.invalid_tool_calls
    ]
    raise OutputParserException(
        f"the model's tool calls cannot be read: {'; '.join(problems)}",
        llm_output="\n".join(call.get("args") or "" for call in message.invalid_tool_calls),
    )


class JsonOutputKeyToolsParser(JsonOutputToolsParser):
    """Returns the calls of one tool: the arguments only, or with `return_id` the complete calls."""

    key_name: str
    """The name of the tool."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> object:
        """Return the calls of the tool in the first candidate."""
        calls = [
            call
            for call in self._calls(result[0], partial=partial)
            if call["type"] == self.key_name
        ]
        outputs = calls if self.return_id else [call["args"] for call in calls]
        if self.first_tool_only:
            return outputs[0] if outputs else None
        return outputs


class PydanticToolsParser(JsonOutputToolsParser):
    """Returns the tool calls of an answer as objects of the models that were bound as tools."""

    tools: Annotated[list[type[BaseModel]], SkipValidation()]
    """The models; the name of a call selects its model."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> object:
        """Return the tool calls of the first candidate; with `partial`, those that are valid already."""
        calls = self._calls(result[0], partial=partial)
        if self.first_tool_only:
            calls = calls[:1]
        objects = []
        for call in calls:
            try:
                objects.append(self._object(call))
            except OutputParserException:
                if not partial:
                    raise
        if self.first_tool_only:
            return objects[0] if objects else None
        return objects

    def _object(self, call: Call) -> BaseModel:
        models = {_tool_name(model): model for model in self.tools}
        text = json.dumps(call["args"], ensure_ascii=False, default=str)
        if call["type"] not in models:
            raise OutputParserException(
                f"Unknown tool type: {call['type']!r}. The model was given these tools: {', '.join(models)}",
                llm_output=text,
            )
        try:
            return models[call["type"]].model_validate(call["args"])
        except ValidationError as error:
            raise OutputParserException(
                f"the arguments for {call['type']!r} do not fit: {error}\nThey were: {shorten(text)}",
                llm_output=text,
            ) from error


def _tool_name(model: type[BaseModel]) -> str:
    return model.model_config.get("title") or model.__name__
