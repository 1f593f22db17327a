"""`ValidationNode`: checks the arguments of tool calls against schemas and runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.messages import AIMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.runnables.base import Runnable
from foldline.tools.base import BaseTool
from foldline.tools.convert import tool as as_tool

__all__ = ["ValidationNode"]

FormatError = Callable[[BaseException, ToolCall, type[BaseModel]], str]


class ValidationNode(Runnable[Any, Any]):
    """A node that answers each tool call of the last message with its checked arguments, or with what is wrong."""

    def __init__(
        self,
        schemas: Sequence[BaseTool | type[BaseModel] | Callable[..., Any]],
        *,
        format_error: FormatError | None = None,
        name: str = "validation",
        tags: list[str] | None = None,
    ) -> None:
        """Take Pydantic models, tools or functions; `format_error` writes the answer to a call that does not fit."""
        self.schemas_by_name = dict(map(_named, schemas))
        self.name = name
        self.tags = tags
        self._format_error = format_error or _describe

    async def _invoke_body(self, input: object, run: Run) -> object:
        messages = input.get("messages") if isinstance(input, Mapping) else input
        last = messages[-1] if isinstance(messages, list) and messages else None
        if not isinstance(last, AIMessage):
            raise UsageError(
                f"{self.name} checks the tool calls of an AIMessage, and the last message is {type(last).__name__}"
            )
        answers = [self._check(call) for call in last.tool_calls]
        return answers if isinstance(input, list) else {"messages": answers}

    def _check(self, call: ToolCall) -> ToolMessage:
        schema = self.schemas_by_name.get(call["name"])
        if schema is None:
            raise UsageError(
                f"{self.name} has no schema for {call['name']!r}, one of {', '.join(self.schemas_by_name)}: add it"
            )
        answer: dict[str, Any] = {"name": call["name"], "tool_call_id": call["id"] or ""}
        try:
            return ToolMessage(schema.model_validate(call["args"]).model_dump_json(), **answer)
        except ValidationError as error:
            error_text = self._format_error(error, call, schema)
            return ToolMessage(error_text, additional_kwargs={"is_error": True}, **answer)


def _named(schema: object) -> tuple[str, type[BaseModel]]:
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.__name__, schema
    if isinstance(schema, BaseTool):
        tool = schema
    elif callable(schema):
        tool = as_tool(schema)
    else:
        raise UsageError(
            f"ValidationNode takes Pydantic models, tools and functions, not {type(schema).__name__}"
        )
    form = tool.args_schema
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        raise UsageError(
            f"ValidationNode needs a Pydantic model as the args_schema of {tool.name}, not {form!r:.60}"
        )
    return tool.name, form


def _describe(error: BaseException, call: ToolCall, schema: type[BaseModel]) -> str:
    return f"{error!r}\n\nRespond after fixing all validation errors."
