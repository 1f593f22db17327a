"""Middleware for agents, one file each, under LangChain's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.agents.middleware.base import AgentMiddleware
    from foldline.agents.middleware.call_limits import (
        ModelCallLimitExceededError,
        ModelCallLimitMiddleware,
        ToolCallLimitExceededError,
        ToolCallLimitMiddleware,
    )
    from foldline.agents.middleware.context_editing import (
        ClearToolUsesEdit,
        ContextEdit,
        ContextEditingMiddleware,
    )
    from foldline.agents.middleware.decorators import (
        after_agent,
        after_model,
        before_agent,
        before_model,
        dynamic_prompt,
        hook_config,
        wrap_model_call,
        wrap_tool_call,
    )
    from foldline.agents.middleware.execution import (
        BaseExecutionPolicy,
        DockerExecutionPolicy,
        HostExecutionPolicy,
    )
    from foldline.agents.middleware.fallback import ModelFallbackMiddleware
    from foldline.agents.middleware.file_search import FilesystemFileSearchMiddleware
    from foldline.agents.middleware.human_in_the_loop import (
        Decision,
        HumanInTheLoopMiddleware,
        InterruptOnConfig,
    )
    from foldline.agents.middleware.pii import (
        PIIDetectionError,
        PIIMatch,
        PIIMiddleware,
        RedactionRule,
    )
    from foldline.agents.middleware.provider_tool_search import ProviderToolSearchMiddleware
    from foldline.agents.middleware.retry import ModelRetryMiddleware, ToolRetryMiddleware
    from foldline.agents.middleware.shell import ShellToolMiddleware
    from foldline.agents.middleware.summarization import SummarizationMiddleware
    from foldline.agents.middleware.todo import PlanningState, Todo, TodoListMiddleware
    from foldline.agents.middleware.tool_emulator import LLMToolEmulator
    from foldline.agents.middleware.tool_error import ToolErrorMiddleware
    from foldline.agents.middleware.tool_selection import LLMToolSelectorMiddleware
    from foldline.agents.requests import (
        ExtendedModelResponse,
        ModelCallResult,
        ModelRequest,
        ModelResponse,
        ToolCallRequest,
    )
    from foldline.agents.runtime import Runtime
    from foldline.agents.state import (
        AgentState,
        InputAgentState,
        OmitFromSchema,
        OutputAgentState,
        PrivateStateAttr,
    )

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "BaseExecutionPolicy",
    "ClearToolUsesEdit",
    "ContextEdit",
    "ContextEditingMiddleware",
    "Decision",
    "DockerExecutionPolicy",
    "ExtendedModelResponse",
    "FilesystemFileSearchMiddleware",
    "HostExecutionPolicy",
    "HumanInTheLoopMiddleware",
    "InputAgentState",
    "InterruptOnConfig",
    "LLMToolEmulator",
    "LLMToolSelectorMiddleware",
    "ModelCallLimitExceededError",
    "ModelCallLimitMiddleware",
    "ModelCallResult",
    "ModelFallbackMiddleware",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryMiddleware",
    "OmitFromSchema",
    "OutputAgentState",
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "PlanningState",
    "PrivateStateAttr",
    "ProviderToolSearchMiddleware",
    "RedactionRule",
    "Runtime",
    "ShellToolMiddleware",
    "SummarizationMiddleware",
    "Todo",
    "TodoListMiddleware",
    "ToolCallLimitExceededError",
    "ToolCallLimitMiddleware",
    "ToolCallRequest",
    "ToolErrorMiddleware",
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

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "AgentMiddleware",
        ".call_limits": "ModelCallLimitExceededError ModelCallLimitMiddleware ToolCallLimitExceededError "
        "ToolCallLimitMiddleware",
        ".context_editing": "ClearToolUsesEdit ContextEdit ContextEditingMiddleware",
        ".decorators": "after_agent after_model before_agent before_model dynamic_prompt hook_config "
        "wrap_model_call wrap_tool_call",
        ".execution": "BaseExecutionPolicy DockerExecutionPolicy HostExecutionPolicy",
        ".fallback": "ModelFallbackMiddleware",
        ".file_search": "FilesystemFileSearchMiddleware",
        ".human_in_the_loop": "Decision HumanInTheLoopMiddleware InterruptOnConfig",
        ".pii": "PIIDetectionError PIIMatch PIIMiddleware RedactionRule",
        ".provider_tool_search": "ProviderToolSearchMiddleware",
        ".retry": "ModelRetryMiddleware ToolRetryMiddleware",
        ".shell": "ShellToolMiddleware",
        ".summarization": "SummarizationMiddleware",
        "foldline.agents.requests": "ExtendedModelResponse ModelCallResult ModelRequest ModelResponse "
        "ToolCallRequest",
        "foldline.agents.runtime": "Runtime",
        "foldline.agents.state": "AgentState InputAgentState OmitFromSchema OutputAgentState PrivateStateAttr",
        ".todo": "PlanningState Todo TodoListMiddleware",
        ".tool_selection": "LLMToolSelectorMiddleware",
        ".tool_emulator": "LLMToolEmulator",
        ".tool_error": "ToolErrorMiddleware",
    },
)
