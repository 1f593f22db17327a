"""Runs a tool call: applies the timeout, converts handled errors to text, and makes the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from foldline._io import OutOfTime
from foldline._run import Run
from foldline.exceptions import ToolException, UsageError, is_invalid_resume
from foldline.tools._content import as_message
from foldline.tools.errors import ToolTimeoutError

if TYPE_CHECKING:
    from foldline.tools.base import BaseTool

__all__ = ["answer"]


async def answer(tool: BaseTool, arguments: object, call_id: str | None, run: Run) -> object:
    """Call a tool; return its output, as a message if the call has an id."""
    artifact, status = None, "success"
    try:
        output = await _call_in_time(tool, arguments, call_id, run)
        if tool.response_format == "content_and_artifact":
            output, artifact = _pair(tool.name, output)
    except ValidationError as error:
        if not tool.handle_validation_error or is_invalid_resume(error):
            raise
        output, status = _validation_error_text(tool, error), "error"
    except ToolException as error:
        if not tool.handle_tool_error:
            raise
        output, status = _tool_error_text(tool, error), "error"
    return as_message(
        output,
        name=tool.name,
        call_id=call_id,
        artifact=artifact,
        status=status,
        limit=tool.max_output,
    )


async def _call_in_time(tool: BaseTool, arguments: object, call_id: str | None, run: Run) -> object:
    if tool.timeout is None:
        return await tool._plan.call(arguments, call_id, run)
    try:
        return await run.io.bounded(tool.timeout, tool._plan.call(arguments, call_id, run))
    except OutOfTime as error:
        raise ToolTimeoutError(
            f"{tool.name} took longer than its {tool.timeout:g} s and was stopped"
        ) from error


def _tool_error_text(tool: BaseTool, error: ToolException) -> object:
    handler = tool.handle_tool_error
    if callable(handler):
        return handler(error)
    if isinstance(handler, str):
        return handler
    return error.args[0] if error.args else "Tool execution error"


def _validation_error_text(tool: BaseTool, error: ValidationError) -> object:
    handler = tool.handle_validation_error
    if callable(handler):
        return handler(error)
    return handler if isinstance(handler, str) else "Tool input validation error"


def _pair(name: str, output: object) -> tuple[Any, Any]:
    if not isinstance(output, tuple) or len(output) != 2:
        raise UsageError(
            f'{name} has response_format="content_and_artifact" and must return a pair (content, artifact), '
            f"not {type(output).__name__}"
        )
    return output
