"""`ProviderToolSearchMiddleware`: tools that the provider looks up when the model needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, ModelHandler
from foldline.agents.requests import ModelRequest, ModelResponse
from foldline.exceptions import UsageError
from foldline.runnables.binding import RunnableBindingBase
from foldline.tools.base import BaseTool
from foldline.utils._options import check_options

__all__ = ["ProviderToolSearchMiddleware"]

SEARCH_TOOLS: Final[dict[str, dict[str, Any]]] = {
    "anthropic": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "openai": {"type": "tool_search"},
}
"""The provider -> the tool with which its models search."""


class ProviderToolSearchMiddleware(AgentMiddleware):
    """Leaves the schemas of some tools to the provider's own search, so that a request stays small.

    These are the tools named in `searchable_tools`, and those that say `extras={"defer_loading": True}` themselves.
    Anthropic and OpenAI search tools; a model of another provider is refused where there is something to search.
    """

    @check_options()
    def __init__(self, *, searchable_tools: Sequence[str | BaseTool] | None = None) -> None:
        """Name the tools, or give them."""
        tools_or_names = searchable_tools or ()
        names = {tool if isinstance(tool, str) else tool.name for tool in tools_or_names}
        self.searchable_tool_names = names
        self.named_tools = frozenset(names)

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        return await handler(self._prepared(request))

    def _prepared(self, request: ModelRequest) -> ModelRequest:
        tools = [self._deferred(tool) for tool in request.tools]
        if not any(map(_is_deferred, tools)):
            return request
        provider = _provider_of(request.model)
        search = SEARCH_TOOLS.get(provider)
        if search is None:
            raise UsageError(
                f"{provider or type(request.model).__name__} has no search for tools ({', '.join(SEARCH_TOOLS)} have): "
                "leave ProviderToolSearchMiddleware out, or choose tools with LLMToolSelectorMiddleware"
            )
        kinds = [tool.get("type") for tool in tools if isinstance(tool, dict)]
        added = [] if search["type"] in kinds else [dict(search)]
        return request.override(tools=[*tools, *added])

    def _deferred(self, tool: Any) -> Any:  # noqa: ANN401  a tool, or a provider's own as a dict
        if not isinstance(tool, BaseTool) or tool.name not in self.searchable_tool_names:
            return tool
        return tool.model_copy(update={"extras": {**(tool.extras or {}), "defer_loading": True}})


def _is_deferred(tool: object) -> bool:
    return isinstance(tool, BaseTool) and (tool.extras or {}).get("defer_loading") is True


def _provider_of(model: object) -> str:
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    return str(getattr(model, "_provider", ""))
