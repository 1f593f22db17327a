"""`LLMToolSelectorMiddleware`: a model selects the tools for the agent's model if there are many."""

from __future__ import annotations

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, ModelHandler
from foldline.agents.middleware.fallback import ModelOrName, as_model
from foldline.agents.requests import ModelRequest, ModelResponse
from foldline.exceptions import UsageError
from foldline.messages import HumanMessage, SystemMessage
from foldline.tools.base import BaseTool
from foldline.utils._options import check_options

__all__ = ["LLMToolSelectorMiddleware"]

SYSTEM_PROMPT = (
    "Choose the tools that help to answer the user's last message, the most helpful first."
)


class LLMToolSelectorMiddleware(AgentMiddleware):
    """Asks a model which tools are useful, and passes only those on; tools of providers always stay."""

    @check_options(at_least={"max_tools": 1})
    def __init__(
        self,
        *,
        model: ModelOrName | None = None,
        system_prompt: str = SYSTEM_PROMPT,
        max_tools: int | None = None,
        always_include: list[str] | None = None,
    ) -> None:
        """Select with `model` (default: the agent's); tools in `always_include` stay and do not count."""
        self.model = None if model is None else as_model(model)
        self.system_prompt = system_prompt
        self.max_tools = max_tools
        self.always_include: list[str] = list(always_include or ())
        self.named_tools = frozenset(self.always_include)

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        by_name = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
        candidates = {
            name: tool for name, tool in by_name.items() if name not in self.always_include
        }
        if not candidates:
            return await handler(request)
        selected = await self._select(request, candidates, run)
        tools = [
            tool
            for tool in request.tools
            if not isinstance(tool, BaseTool)
            or tool.name in selected
            or tool.name in self.always_include
        ]
        return await handler(request.override(tools=tools))

    async def _select(
        self, request: ModelRequest, candidates: dict[str, BaseTool], run: Run
    ) -> list[str]:
        question = next(
            (item for item in reversed(request.messages) if isinstance(item, HumanMessage)), None
        )
        if question is None:
            raise UsageError("No user message found in request messages: tools are selected by it")
        tool_list = "\n".join(f"- {name}: {tool.description}" for name, tool in candidates.items())
        limit = "" if self.max_tools is None else f"\nChoose at most {self.max_tools}."
        system = SystemMessage(f"{self.system_prompt}{limit}\n\nThe tools:\n{tool_list}")
        schema = {
            "title": "ToolSelection",
            "description": "The tools that help.",
            "type": "object",
            "properties": {
                "tools": {"type": "array", "items": {"type": "string", "enum": list(candidates)}}
            },
            "required": ["tools"],
        }
        model = self.model if self.model is not None else request.model
        answer = await model.with_structured_output(schema)._step([system, question], run.child())
        names = list(dict.fromkeys(answer["tools"]))
        return names if self.max_tools is None else names[: self.max_tools]
