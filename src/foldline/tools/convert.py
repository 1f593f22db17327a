"""`@tool` and `as_tool`: make a tool from a function or a runnable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack, overload

from pydantic import BaseModel

from foldline._config import RunnableConfig
from foldline._io.waiting import is_async_callable
from foldline._traceback import entry_point
from foldline.callbacks.base import Callbacks
from foldline.exceptions import UsageError
from foldline.runnables.base import Runnable
from foldline.tools._schema import make_model, model_of
from foldline.tools.base import (
    ArgsSchema,
    BaseTool,
    HandleToolError,
    HandleValidationError,
    ResponseFormat,
)
from foldline.tools.simple import Tool
from foldline.tools.structured import StructuredTool
from foldline.utils._options import check_names
from foldline.utils._signature_schema import is_typed_dict, name_and_doc

__all__ = ["convert_runnable_to_tool", "tool"]

AnyRunnable = Runnable[Any, Any]
ToolSource = Callable[..., Any] | AnyRunnable


class ToolOptions(TypedDict, total=False):
    """Keyword arguments of `@tool`; those without a description are fields of `BaseTool`."""

    description: str | None
    """What it does; by default the docstring."""
    args_schema: ArgsSchema | None
    """Its arguments; by default those of the function."""
    infer_schema: bool
    """Whether to make the schema from the function (True); a function of one text needs no schema."""
    parse_docstring: bool
    """Whether the docstring describes the arguments, in Google's style."""
    error_on_invalid_docstring: bool
    """Whether to raise if the docstring does not match the function (True)."""
    return_direct: bool
    response_format: ResponseFormat
    extras: dict[str, Any] | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    callbacks: Callbacks
    verbose: bool
    handle_tool_error: HandleToolError
    handle_validation_error: HandleValidationError
    timeout: float | None
    max_output: int | None
    eager: bool
    run_once: bool


@overload
def tool(
    name_or_callable: Callable[..., Any] | AnyRunnable, **options: Unpack[ToolOptions]
) -> BaseTool: ...
@overload
def tool(
    name_or_callable: str, runnable: AnyRunnable, **options: Unpack[ToolOptions]
) -> BaseTool: ...
@overload
def tool(
    name_or_callable: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[ToolSource], BaseTool]: ...
@entry_point
def tool(
    name_or_callable: str | ToolSource | None = None,
    runnable: AnyRunnable | None = None,
    *args: object,
    **options: Unpack[ToolOptions],
) -> BaseTool | Callable[[ToolSource], BaseTool]:
    """Make a tool from a function or a runnable: `@tool`, `@tool("n")`, `@tool(return_direct=True)`, `tool("n", r)`.

    ```python
    from typing import Annotated

    from foldline.tools import tool

    @tool
    def weather(city: Annotated[str, "Where."], days: int = 1) -> str:
        "Say what the weather will be."
        return f"sunny in {city} for {days} days"

    print(weather.args["city"])
    #> {'description': 'Where.', 'title': 'City', 'type': 'string'}
    print(weather.invoke({"city": "Oslo", "days": "2"}))
    #> sunny in Oslo for 2 days
    ```
    """
    if args:
        raise UsageError(
            "@tool takes a name or a function, and a runnable; pass other options by name"
        )
    check_names("@tool", options, ToolOptions.__annotations__)

    def make(source: ToolSource, name: str | None = None) -> BaseTool:
        return _build_tool(source, name, **options)

    if runnable is not None:
        if not isinstance(name_or_callable, str):
            raise UsageError('a tool of a runnable needs a name: tool("name", runnable)')
        return make(runnable, name_or_callable)
    if name_or_callable is None:
        return make
    if isinstance(name_or_callable, str):
        name = name_or_callable
        return lambda source: make(source, name)
    return make(name_or_callable)


def _build_tool(
    source: ToolSource,
    name: str | None,
    *,
    description: str | None = None,
    args_schema: ArgsSchema | None = None,
    infer_schema: bool = True,
    parse_docstring: bool = False,
    error_on_invalid_docstring: bool = True,
    **fields: Any,
) -> BaseTool:
    if isinstance(source, Runnable) and not isinstance(source, BaseTool):
        return _tool_from_runnable(
            source, name or source.get_name(), description, args_schema, fields
        )
    function = _function_of(source)
    if not infer_schema and args_schema is None:
        return _tool_from_text_function(function, name, description, fields)
    is_async = is_async_callable(function)
    return StructuredTool.from_function(
        None if is_async else function,
        function if is_async else None,
        name=name,
        description=description,
        args_schema=args_schema,
        infer_schema=infer_schema,
        parse_docstring=parse_docstring,
        error_on_invalid_docstring=error_on_invalid_docstring,
        **fields,
    )


def _function_of(source: object) -> Callable[..., Any]:
    if isinstance(source, BaseTool):
        raise UsageError(f"{source.name} is a tool already")
    if not callable(source):
        raise UsageError(
            f"name_or_callable={source!r:.100}: a tool is made from a function or a runnable"
        )
    function: Callable[..., Any] = source
    return function


def _tool_from_text_function(
    function: Callable[..., Any], name: str | None, description: str | None, fields: dict[str, Any]
) -> Tool:
    function_name, doc = name_and_doc(function)
    if description is None and not doc:
        raise UsageError(
            f"{function_name}: Function must have either a docstring or description: write one, or pass description="
        )
    is_async = is_async_callable(function)
    return Tool(
        name=name or function_name,
        func=None if is_async else function,
        coroutine=function if is_async else None,
        description=f"{description or doc}".strip(),
        **fields,
    )


# -- runnables


def _call_functions(runnable: AnyRunnable) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def call(config: RunnableConfig, **kwargs: object) -> object:
        return runnable.invoke(kwargs, config)

    async def acall(config: RunnableConfig, **kwargs: object) -> object:
        return await runnable.ainvoke(kwargs, config)

    return call, acall


def _tool_from_runnable(
    runnable: AnyRunnable,
    name: str,
    description: str | None,
    args_schema: ArgsSchema | None,
    fields: dict[str, Any],
) -> BaseTool:
    input_schema = runnable.get_input_jsonschema()
    if args_schema is None and not _is_object(input_schema):
        raise UsageError(
            f"{name}: a tool takes named arguments, and this runnable takes "
            f"{input_schema.get('type', 'anything')}: set its type with with_types(input_type=…), "
            "pass args_schema=, or use as_tool()"
        )
    schema = args_schema if args_schema is not None else _schema_of(runnable, name, None)
    return _structured_tool(
        runnable, name, description or _input_description(runnable), schema, fields
    )


def _structured_tool(
    runnable: AnyRunnable,
    name: str,
    description: str,
    schema: Any,  # noqa: ANN401  a model, a TypedDict or a JSON Schema
    fields: dict[str, Any],
) -> StructuredTool:
    call, acall = _call_functions(runnable)
    return StructuredTool(
        name=name, description=description, func=call, coroutine=acall, args_schema=schema, **fields
    )


def convert_runnable_to_tool(
    runnable: AnyRunnable,
    args_schema: type[BaseModel] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    arg_types: dict[str, type] | None = None,
) -> BaseTool:
    """Make a tool from a runnable; one that takes a string becomes a `Tool`."""
    if args_schema is not None:
        runnable = runnable.with_types(input_type=args_schema)
    name = name or runnable.get_name()
    description = description or _input_description(runnable)
    if (
        args_schema is None
        and arg_types is None
        and runnable.get_input_jsonschema().get("type") == "string"
    ):
        return Tool(
            name=name, func=runnable.invoke, coroutine=runnable.ainvoke, description=description
        )
    return _structured_tool(
        runnable, name, description, args_schema or _schema_of(runnable, name, arg_types), {}
    )


def _schema_of(runnable: AnyRunnable, name: str, arg_types: dict[str, type] | None) -> object:
    """Return the argument schema of a runnable: `arg_types`, its TypedDict or model, or its input's JSON Schema."""
    if arg_types is not None:
        return make_model(name, {key: (kind, ...) for key, kind in arg_types.items()})
    if is_typed_dict(runnable.InputType):
        return model_of(runnable.InputType)
    model = runnable.get_input_schema()
    if not model.__pydantic_root_model__ and model.model_fields:
        return model
    input_schema = runnable.get_input_jsonschema()
    if _is_object(input_schema):
        return input_schema
    if "type" in input_schema:
        raise UsageError(
            f"{name}: a tool takes a string or named arguments, and this runnable takes "
            f"{input_schema['type']}: say which with "
            "arg_types={…} or args_schema="
        )
    return {"type": "object", "properties": {}, "additionalProperties": True}


def _is_object(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object" or "$ref" in schema or "properties" in schema


def _input_description(runnable: AnyRunnable) -> str:
    return f"Takes {runnable.get_input_jsonschema()}."
