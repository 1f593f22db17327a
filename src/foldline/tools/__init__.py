"""Tools: functions that a model may call. `@tool` makes one from a function; subclasses of `BaseTool` define `_run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.tools.base import (
        FILTERED_ARGS,
        ArgsSchema,
        BaseTool,
        BaseToolkit,
        InjectedToolArg,
        InjectedToolCallId,
        SchemaAnnotationError,
        ToolException,
        ToolTimeoutError,
        _get_runnable_config_param,
        create_schema_from_function,
        describe_validation_error,
        inject,
        tools_by_name,
    )
    from foldline.tools.convert import convert_runnable_to_tool, tool
    from foldline.tools.render import (
        ToolsRenderer,
        render_text_description,
        render_text_description_and_args,
    )
    from foldline.tools.retriever import RetrieverInput, create_retriever_tool
    from foldline.tools.simple import Tool
    from foldline.tools.structured import StructuredTool
    from foldline.utils.function_calling import convert_to_openai_function, convert_to_openai_tool

__all__ = [
    "FILTERED_ARGS",
    "ArgsSchema",
    "BaseTool",
    "BaseToolkit",
    "InjectedToolArg",
    "InjectedToolCallId",
    "RetrieverInput",
    "SchemaAnnotationError",
    "StructuredTool",
    "Tool",
    "ToolException",
    "ToolTimeoutError",
    "ToolsRenderer",
    "_get_runnable_config_param",
    "convert_runnable_to_tool",
    "convert_to_openai_function",
    "convert_to_openai_tool",
    "create_retriever_tool",
    "create_schema_from_function",
    "describe_validation_error",
    "inject",
    "render_text_description",
    "render_text_description_and_args",
    "tool",
    "tools_by_name",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "ArgsSchema BaseTool BaseToolkit FILTERED_ARGS InjectedToolArg InjectedToolCallId "
        "SchemaAnnotationError ToolException ToolTimeoutError _get_runnable_config_param "
        "create_schema_from_function describe_validation_error inject tools_by_name",
        ".convert": "convert_runnable_to_tool tool",
        ".render": "ToolsRenderer render_text_description render_text_description_and_args",
        ".retriever": "RetrieverInput create_retriever_tool",
        ".simple": "Tool",
        ".structured": "StructuredTool",
        "foldline.utils.function_calling": "convert_to_openai_function convert_to_openai_tool",
    },
)
