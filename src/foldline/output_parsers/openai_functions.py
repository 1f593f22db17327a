"""Parsers of function calls, OpenAI's form before tool calls: one `function_call` among the additional kwargs."""

from __future__ import annotations

import json
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ValidationError, model_validator

from foldline.exceptions import OutputParserException, UsageError
from foldline.output_parsers._refusals import check_refusal
from foldline.output_parsers.base import BaseGenerationOutputParser
from foldline.output_parsers.json import shorten
from foldline.output_parsers.transform import BaseCumulativeTransformOutputParser
from foldline.outputs import ChatGeneration, Generation
from foldline.utils._json_patch import make_patch
from foldline.utils.json import JsonError, parse_partial_json, parse_strict

__all__ = [
    "JsonKeyOutputFunctionsParser",
    "JsonOutputFunctionsParser",
    "OutputFunctionsParser",
    "PydanticAttrOutputFunctionsParser",
    "PydanticOutputFunctionsParser",
]


def _function_call(result: list[Generation]) -> dict[str, Any] | None:
    generation = result[0]
    if not isinstance(generation, ChatGeneration):
        raise OutputParserException(
            "function calls are read from a chat model's message, and this is text",
            llm_output=generation.text,
        )
    call = generation.message.additional_kwargs.get("function_call")
    return dict(call) if isinstance(call, dict) else None


def _require_function_call(result: list[Generation]) -> dict[str, Any]:
    check_refusal(result)
    call = _function_call(result)
    if call is None:
        raise OutputParserException(
            "there is no function call in the model's answer", llm_output=result[0].text
        )
    return call


class OutputFunctionsParser(BaseGenerationOutputParser[Any]):
    """Returns the function call of an answer, its arguments as text."""

    args_only: bool = True
    """Whether to return the arguments only, without the name."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> object:
        """Parse the function call of the first candidate."""
        call = _require_function_call(result)
        return call.get("arguments") if self.args_only else call


class JsonOutputFunctionsParser(BaseCumulativeTransformOutputParser[Any]):
    """Returns the function call of an answer, its arguments as JSON."""

    _rejects_refusals: ClassVar[bool] = True
    strict: bool = False
    """Whether arguments must be strict JSON: no raw line breaks in strings."""
    args_only: bool = True
    """Whether to return the arguments only, without the name."""

    @property
    def _type(self) -> str:
        return "json_functions"

    def _diff(self, prev: object, next: object) -> object:
        return make_patch(prev, next)

    def parse(self, text: str) -> object:
        """Raise `NotImplementedError`: text has no function call."""
        raise NotImplementedError("function calls are read from messages, not from text")

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> object:
        """Parse the function call of the first candidate; with `partial`, None if nothing can be parsed yet."""
        call = _function_call(result) if partial else _require_function_call(result)
        if call is None:
            return None
        text = call.get("arguments") or ""
        try:
            if partial:
                arguments = parse_partial_json(text, strict=self.strict)
            else:
                arguments = parse_strict(text) if self.strict else json.loads(text, strict=False)
        except (JsonError, ValueError, TypeError, RecursionError) as error:
            if partial:
                return None
            raise OutputParserException(
                f"the arguments of the function call are not JSON ({error}): {shorten(str(text))}",
                llm_output=str(text),
            ) from error
        return arguments if self.args_only else {**call, "arguments": arguments}


class JsonKeyOutputFunctionsParser(JsonOutputFunctionsParser):
    """Returns one of the arguments of a function call."""

    key_name: str
    """The name of the argument."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> object:
        """Return the argument of the first candidate's function call."""
        arguments = cast("dict[str, object] | None", super().parse_result(result, partial=partial))
        if arguments is None:
            return None
        if partial:
            return arguments.get(self.key_name)
        if self.key_name not in arguments:
            raise OutputParserException(
                f"the function call has no argument {self.key_name!r}, only {sorted(arguments)}",
                llm_output=json.dumps(arguments, default=str),
            )
        return arguments[self.key_name]


class PydanticOutputFunctionsParser(OutputFunctionsParser):
    """Returns the arguments of a function call as an object of a Pydantic model."""

    pydantic_schema: type[BaseModel] | dict[str, type[BaseModel]]
    """The model; or, with `args_only=False`, the models by the names of the functions."""

    @model_validator(mode="before")
    @classmethod
    def validate_schema(cls, values: object) -> object:
        """Set `args_only` by the kind of schema; raise `UsageError` if the two contradict each other."""
        if not isinstance(values, dict):
            return values
        schema = values.get("pydantic_schema")
        is_single_model = isinstance(schema, type) and issubclass(schema, BaseModel)
        if "args_only" not in values:
            return {**values, "args_only": is_single_model}
        if values["args_only"] and isinstance(schema, dict):
            raise UsageError("several models need the name of the function: use args_only=False")
        return values

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> object:
        """Parse the function call of the first candidate."""
        call = _require_function_call(result)
        text = call.get("arguments") or ""
        model = self.pydantic_schema
        if isinstance(model, dict):
            name = call.get("name")
            if name not in model:
                raise OutputParserException(
                    f"the model called {name!r}, which is not one of {sorted(model)}",
                    llm_output=text,
                )
            model = model[name]
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            raise OutputParserException(
                f"the arguments of the function call do not fit: {error}\nThey were: {shorten(text)}",
                llm_output=text,
            ) from error


class PydanticAttrOutputFunctionsParser(PydanticOutputFunctionsParser):
    """One field of the object that is built from a function call's arguments."""

    attr_name: str
    """The field."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> object:
        """Return the field of the first candidate's object."""
        return getattr(super().parse_result(result), self.attr_name)
