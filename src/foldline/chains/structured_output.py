"""Runnables that give an answer in a form: `create_structured_output_runnable`, `create_openai_fn_runnable`.

They are LangChain's older ones; `model.with_structured_output(schema)` chooses the way itself and checks the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeGuard

from pydantic import BaseModel, create_model

from foldline.exceptions import UsageError
from foldline.output_parsers.json import JsonOutputParser
from foldline.output_parsers.openai_functions import (
    JsonOutputFunctionsParser,
    PydanticAttrOutputFunctionsParser,
    PydanticOutputFunctionsParser,
)
from foldline.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from foldline.output_parsers.pydantic import PydanticOutputParser
from foldline.prompts.base import BasePromptTemplate
from foldline.runnables.base import Runnable
from foldline.utils.function_calling import convert_to_openai_function, convert_to_openai_tool

__all__ = [
    "create_openai_fn_runnable",
    "create_structured_output_runnable",
    "get_openai_output_parser",
]

Schema = Mapping[str, Any] | type[BaseModel] | Callable[..., Any]
Model = Runnable[Any, Any]
Prompt = BasePromptTemplate[Any] | None
Parser = Runnable[Any, Any] | None
FORMATTER = "output_formatter"
PURPOSE = "Give the answer to the user in this form; always use it."


def create_structured_output_runnable(
    output_schema: Schema,
    llm: Model,
    prompt: Prompt = None,
    *,
    output_parser: Parser = None,
    enforce_function_usage: bool = True,
    return_single: bool = True,
    mode: Literal["openai-functions", "openai-tools", "openai-json"] = "openai-functions",
    **kwargs: Any,
) -> Model:
    """Make a runnable that answers in a form: by a function, by a tool, or in JSON mode.

    In JSON mode the prompt may have the variable `output_schema`, which is filled in.
    """
    enforces = kwargs.pop("enforce_single_function_usage", enforce_function_usage)
    if mode == "openai-tools":
        if kwargs:
            raise TypeError(f"openai-tools takes no {', '.join(sorted(kwargs))}")
        return _by_tool(output_schema, llm, prompt, output_parser, enforces, return_single)
    if mode == "openai-functions":
        return _by_function(output_schema, llm, prompt, output_parser, enforces, kwargs)
    if mode == "openai-json":
        if enforces:
            raise UsageError(
                'mode="openai-json" calls no function: say enforce_function_usage=False'
            )
        return _by_json(output_schema, llm, prompt, output_parser, kwargs)
    raise UsageError(f'mode={mode!r}: "openai-functions", "openai-tools" or "openai-json"')


def create_openai_fn_runnable(
    functions: Sequence[Schema],
    llm: Model,
    prompt: Prompt = None,
    *,
    enforce_single_function_usage: bool = True,
    output_parser: Parser = None,
    **llm_kwargs: Any,
) -> Model:
    """Make a runnable that has the model call one of the functions and gives what it was called with."""
    if not functions:
        raise UsageError(
            "create_openai_fn_runnable needs a function: a dict, a model or a function"
        )
    schemas = [convert_to_openai_function(function) for function in functions]
    options: dict[str, Any] = {"functions": schemas, **llm_kwargs}
    if len(schemas) == 1 and enforce_single_function_usage:
        options["function_call"] = {"name": schemas[0]["name"]}
    parser = output_parser or get_openai_output_parser(functions)
    return _chain(prompt, llm.bind(**options), parser)


def get_openai_output_parser(functions: Sequence[Schema]) -> Runnable[Any, Any]:
    """Return the parser that fits functions: of models where they are models, else of JSON."""
    first = functions[0]
    if not _is_model(first):
        return JsonOutputFunctionsParser(args_only=len(functions) <= 1)
    if len(functions) == 1:
        return PydanticOutputFunctionsParser(pydantic_schema=first)
    by_name = {convert_to_openai_function(function)["name"]: function for function in functions}
    return PydanticOutputFunctionsParser(pydantic_schema=by_name)


def _by_tool(
    schema: Schema,
    llm: Model,
    prompt: Prompt,
    parser: Parser,
    enforces: bool,  # noqa: FBT001
    single: bool,  # noqa: FBT001
) -> Model:
    tool = convert_to_openai_tool(schema)
    name = tool["function"]["name"]
    options: dict[str, Any] = {"tools": [tool]}
    if enforces:
        options["tool_choice"] = {"type": "function", "function": {"name": name}}
    if parser is None:
        parser = (
            PydanticToolsParser(tools=[schema], first_tool_only=single)
            if _is_model(schema)
            else JsonOutputKeyToolsParser(key_name=name, first_tool_only=single)
        )
    return _chain(prompt, llm.bind(**options), parser)


def _by_function(
    schema: Schema,
    llm: Model,
    prompt: Prompt,
    parser: Parser,
    enforces: bool,  # noqa: FBT001
    options: dict[str, Any],
) -> Model:
    function: Any
    if isinstance(schema, Mapping):
        function = {"name": FORMATTER, "description": PURPOSE, "parameters": dict(schema)}
    else:
        fields: dict[str, Any] = {"output": (schema, ...)}
        function = create_model("OutputFormatter", __doc__=PURPOSE, **fields)
        parser = parser or PydanticAttrOutputFunctionsParser(
            pydantic_schema=function, attr_name="output"
        )
    return create_openai_fn_runnable(
        [function],
        llm,
        prompt,
        output_parser=parser,
        enforce_single_function_usage=enforces,
        **options,
    )


def _by_json(
    schema: Schema, llm: Model, prompt: Prompt, parser: Parser, options: dict[str, Any]
) -> Model:
    json_schema: Any = schema
    if _is_model(schema):
        parser = parser or PydanticOutputParser(pydantic_object=schema)
        json_schema = convert_to_openai_function(schema)["parameters"]
    if prompt is not None and "output_schema" in prompt.input_variables:
        prompt = prompt.partial(output_schema=json.dumps(json_schema, indent=2))
    bound = llm.bind(response_format={"type": "json_object"}, **options)
    return _chain(prompt, bound, parser or JsonOutputParser())


def _chain(prompt: Prompt, model: Model, parser: Runnable[Any, Any]) -> Model:
    return model | parser if prompt is None else prompt | model | parser


def _is_model(schema: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(schema, type) and issubclass(schema, BaseModel)
