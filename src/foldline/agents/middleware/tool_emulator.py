"""`LLMToolEmulator`: a model invents the results of tools; for tests of an agent whose tools do not exist yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, Handler
from foldline.agents.middleware.fallback import ModelOrName, as_model
from foldline.agents.requests import ToolCallRequest
from foldline.messages import HumanMessage, ToolMessage
from foldline.tools.base import BaseTool
from foldline.utils._options import check_options

__all__ = ["LLMToolEmulator"]

PROMPT = (
    "Play a tool that a program calls. Answer with what the tool would return, and nothing else.\n\n"
    "Tool: {name}\nWhat it does: {description}\nArguments: {arguments}"
)
DEFAULT_MODEL = "anthropic:claude-sonnet-4-5-20250929"


class LLMToolEmulator(AgentMiddleware):
    """Lets a model answer instead of some tools, or of all."""

    @check_options()
    def __init__(
        self,
        *,
        tools: Sequence[str | BaseTool] | None = None,
        model: ModelOrName | None = None,
    ) -> None:
        """Set the tools (None: all) and the model that emulates them."""
        self.emulated = (
            None
            if tools is None
            else {tool if isinstance(tool, str) else tool.name for tool in tools}
        )
        self.named_tools = frozenset(self.emulated or ())
        self._model = model

    @property
    def model(self) -> Any:  # noqa: ANN401  a chat model, or a runnable that wraps one
        """The model that emulates the tools; created on first use."""
        if self._model is None or isinstance(self._model, str):
            self._model = as_model(self._model or DEFAULT_MODEL)
        return self._model

    async def _around_tool(self, request: ToolCallRequest, handler: Handler, run: Run) -> object:
        call = request.tool_call
        if self.emulated is not None and call["name"] not in self.emulated:
            return await handler(request)
        description = request.tool.description if request.tool is not None else "not known"
        text = PROMPT.format(name=call["name"], description=description, arguments=call["args"])
        answer = await self.model._step([HumanMessage(text)], run.child())
        return ToolMessage(answer.content, tool_call_id=call["id"] or "", name=call["name"])
