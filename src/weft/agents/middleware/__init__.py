"""Middleware for agents, one file each, under the names LangChain gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.agents.middleware.base import AgentMiddleware
    from weft.agents.middleware.call_limits import (
        ModelCallLimitExceededError,
        ModelCallLimitMiddleware,
        ToolCallLimitExceededError,
        ToolCallLimitMiddleware,
    )
    from weft.agents.middleware.context_editing import (
        ClearToolUsesEdit,
        ContextEdit,
        ContextEditingMiddleware,
    )
    from weft.agents.middleware.decorators import (
        after_agent,
        after_model,
        before_agent,
        before_model,
        dynamic_prompt,
        hook_config,
        wrap_model_call,
        wrap_tool_call,
    )
    from weft.agents.middleware.fallback import ModelFallbackMiddleware
    from weft.agents.middleware.human_in_the_loop import (
        Decision,
        HumanInTheLoopMiddleware,
        InterruptOnConfig,
    )
    from weft.agents.middleware.pii import PIIDetectionError, PIIMatch, PIIMiddleware, RedactionRule
    from weft.agents.middleware.retry import ModelRetryMiddleware, ToolRetryMiddleware
    from weft.agents.middleware.summarization import SummarizationMiddleware
    from weft.agents.requests import ModelRequest, ModelResponse, ToolCallRequest
    from weft.agents.runtime import Runtime
    from weft.agents.state import AgentState, OmitFromSchema, PrivateStateAttr

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "ClearToolUsesEdit",
    "ContextEdit",
    "ContextEditingMiddleware",
    "Decision",
    "HumanInTheLoopMiddleware",
    "InterruptOnConfig",
    "ModelCallLimitExceededError",
    "ModelCallLimitMiddleware",
    "ModelFallbackMiddleware",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryMiddleware",
    "OmitFromSchema",
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "PrivateStateAttr",
    "RedactionRule",
    "Runtime",
    "SummarizationMiddleware",
    "ToolCallLimitExceededError",
    "ToolCallLimitMiddleware",
    "ToolCallRequest",
    "ToolRetryMiddleware",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "hook_config",
    "wrap_model_call",
    "wrap_tool_call",
]

__getattr__ = lazily(
    __name__,
    {
        ".base": "AgentMiddleware",
        ".call_limits": "ModelCallLimitExceededError ModelCallLimitMiddleware ToolCallLimitExceededError "
        "ToolCallLimitMiddleware",
        ".context_editing": "ClearToolUsesEdit ContextEdit ContextEditingMiddleware",
        ".decorators": "after_agent after_model before_agent before_model dynamic_prompt hook_config "
        "wrap_model_call wrap_tool_call",
        ".fallback": "ModelFallbackMiddleware",
        ".human_in_the_loop": "Decision HumanInTheLoopMiddleware InterruptOnConfig",
        ".pii": "PIIDetectionError PIIMatch PIIMiddleware RedactionRule",
        ".retry": "ModelRetryMiddleware ToolRetryMiddleware",
        ".summarization": "SummarizationMiddleware",
        "weft.agents.requests": "ModelRequest ModelResponse ToolCallRequest",
        "weft.agents.runtime": "Runtime",
        "weft.agents.state": "AgentState OmitFromSchema PrivateStateAttr",
    },
)
