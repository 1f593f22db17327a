"""`LLMToolSelectorMiddleware`: a model chooses the tools that the agent's model is offered, where there are many."""

from __future__ import annotations

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, ModelHandler
from foldline.agents.middleware.fallback import as_model
from foldline.agents.requests import ModelRequest, ModelResponse
from foldline.exceptions import UsageError
from foldline.language_models.chat_models import BaseChatModel
from foldline.messages import HumanMessage, SystemMessage
from foldline.tools.base import BaseTool

__all__ = ["LLMToolSelectorMiddleware"]

SYSTEM_PROMPT = (
    "Choose the tools that help to answer the user's last message, the most helpful first."
)


class LLMToolSelectorMiddleware(AgentMiddleware):
    """Asks a model which tools are of use, and offers only those; tools of providers always stay."""

    def __init__(
        self,
        *,
        model: str | BaseChatModel | None = None,
        system_prompt: str = SYSTEM_PROMPT,
        max_tools: int | None = None,
        always_include: list[str] | None = None,
    ) -> None:
        """Choose with `model`, by default the agent's own; `always_include` names tools that stay and do not count."""
        self.model = None if model is None else as_model(model)
        self.system_prompt = system_prompt
        self.max_tools = max_tools
        self.always_include = list(always_include or ())
        self.named_tools = frozenset(self.always_include)

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        named = {one.name: one for one in request.tools if isinstance(one, BaseTool)}
        offered = {name: one for name, one in named.items() if name not in self.always_include}
        if not offered:
            return await handler(request)
        chosen = await self._choose(request, offered, run)
        tools = [
            one
            for one in request.tools
            if not isinstance(one, BaseTool)
            or one.name in chosen
            or one.name in self.always_include
        ]
        return await handler(request.override(tools=tools))

    async def _choose(
        self, request: ModelRequest, offered: dict[str, BaseTool], run: Run
    ) -> list[str]:
        question = next(
            (one for one in reversed(request.messages) if isinstance(one, HumanMessage)), None
        )
        if question is None:
            raise UsageError("No user message found in request messages: tools are chosen by it")
        described = "\n".join(f"- {name}: {one.description}" for name, one in offered.items())
        limit = "" if self.max_tools is None else f"\nChoose at most {self.max_tools}."
        system = SystemMessage(f"{self.system_prompt}{limit}\n\nThe tools:\n{described}")
        schema = {
            "title": "ToolSelection",
            "description": "The tools that help.",
            "type": "object",
            "properties": {
                "tools": {"type": "array", "items": {"type": "string", "enum": list(offered)}}
            },
            "required": ["tools"],
        }
        model = self.model if self.model is not None else request.model
        answer = await model.with_structured_output(schema)._step([system, question], run.child())
        names = list(dict.fromkeys(answer["tools"]))
        return names if self.max_tools is None else names[: self.max_tools]
