"""Tools: functions that a model may call. `@tool` makes one from a function; subclasses of `BaseTool` define `_run`."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.tools.base import (
        FILTERED_ARGS as FILTERED_ARGS,
        ArgsSchema as ArgsSchema,
        BaseTool as BaseTool,
        BaseToolkit as BaseToolkit,
        InjectedToolArg as InjectedToolArg,
        InjectedToolCallId as InjectedToolCallId,
        SchemaAnnotationError as SchemaAnnotationError,
        ToolException as ToolException,
        ToolTimeoutError as ToolTimeoutError,
        _get_runnable_config_param as _get_runnable_config_param,
        create_schema_from_function as create_schema_from_function,
        describe_validation_error as describe_validation_error,
        inject as inject,
        tools_by_name as tools_by_name,
    )
    from foldline.tools.convert import (
        convert_runnable_to_tool as convert_runnable_to_tool,
        tool as tool,
    )
    from foldline.tools.render import (
        ToolsRenderer as ToolsRenderer,
        render_text_description as render_text_description,
        render_text_description_and_args as render_text_description_and_args,
    )
    from foldline.tools.retriever import (
        RetrieverInput as RetrieverInput,
        create_retriever_tool as create_retriever_tool,
    )
    from foldline.tools.simple import Tool as Tool
    from foldline.tools.structured import StructuredTool as StructuredTool
    from foldline.utils.function_calling import (
        convert_to_openai_function as convert_to_openai_function,
        convert_to_openai_tool as convert_to_openai_tool,
    )
