"""`ToolsOutputParser`: the tool calls of an answer of Claude's, as dicts, as their arguments, or as Pydantic models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from foldline.exceptions import OutputParserException
from foldline.messages import AIMessage
from foldline.messages.tool import ToolCall
from foldline.output_parsers.base import BaseGenerationOutputParser
from foldline.outputs import ChatGeneration, Generation

__all__ = ["ToolsOutputParser", "extract_tool_calls"]


class ToolsOutputParser(BaseGenerationOutputParser[Any]):
    """Gives the tool calls of an answer, each with the place of its block in the content."""

    first_tool_only: bool = False
    args_only: bool = False
    pydantic_schemas: list[type[BaseModel]] | None = None
    """Models that calls are read into, by their names."""

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:  # noqa: ANN401  what the options say
        """Read the tool calls of the first candidate."""
        message = result[0].message if result and isinstance(result[0], ChatGeneration) else None
        found = [self._read(call) for call in _calls_of(message)]
        if self.first_tool_only:
            return found[0] if found else None
        return found

    def _read(self, call: dict[str, Any]) -> object:
        if self.pydantic_schemas:
            models = {model.__name__: model for model in self.pydantic_schemas}
            if call["name"] not in models:
                raise OutputParserException(
                    f"the model called {call['name']!r}, which is none of {', '.join(models)}"
                )
            try:
                return models[call["name"]](**call["args"])
            except ValidationError as error:
                raise OutputParserException(
                    f"the arguments for {call['name']!r} do not fit: {error}"
                ) from error
        return call["args"] if self.args_only else call


def _calls_of(message: object) -> list[dict[str, Any]]:
    if not isinstance(message, AIMessage):
        return []
    calls = message.tool_calls or extract_tool_calls(message.content)
    blocks: list[dict[str, Any]] = [dict(call) for call in calls]
    if isinstance(message.content, list):
        places = {
            block.get("id"): place
            for place, block in enumerate(message.content)
            if isinstance(block, dict) and block.get("type") == "tool_use"
        }
        blocks = [
            {**call, "index": places[call["id"]]} if call["id"] in places else call
            for call in blocks
        ]
    return blocks


def extract_tool_calls(content: str | list[str | dict[Any, Any]]) -> list[ToolCall]:
    """Return the calls that stand in content of Claude's."""
    return [
        ToolCall(name=block["name"], args=block["input"], id=block["id"], type="tool_call")
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and block.get("type") == "tool_use"
    ]
