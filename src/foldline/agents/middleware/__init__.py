"""Middleware for agents, one file each, under LangChain's names."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.agents.middleware.base import AgentMiddleware as AgentMiddleware
    from foldline.agents.middleware.call_limits import (
        ModelCallLimitExceededError as ModelCallLimitExceededError,
        ModelCallLimitMiddleware as ModelCallLimitMiddleware,
        ToolCallLimitExceededError as ToolCallLimitExceededError,
        ToolCallLimitMiddleware as ToolCallLimitMiddleware,
    )
    from foldline.agents.middleware.context_editing import (
        ClearToolUsesEdit as ClearToolUsesEdit,
        ContextEditingMiddleware as ContextEditingMiddleware,
    )
    from foldline.agents.middleware.decorators import (
        after_agent as after_agent,
        after_model as after_model,
        before_agent as before_agent,
        before_model as before_model,
        dynamic_prompt as dynamic_prompt,
        hook_config as hook_config,
        wrap_model_call as wrap_model_call,
        wrap_tool_call as wrap_tool_call,
    )
    from foldline.agents.middleware.execution import (
        DockerExecutionPolicy as DockerExecutionPolicy,
        HostExecutionPolicy as HostExecutionPolicy,
    )
    from foldline.agents.middleware.fallback import (
        ModelFallbackMiddleware as ModelFallbackMiddleware,
    )
    from foldline.agents.middleware.file_search import (
        FilesystemFileSearchMiddleware as FilesystemFileSearchMiddleware,
    )
    from foldline.agents.middleware.human_in_the_loop import (
        Decision as Decision,
        HumanInTheLoopMiddleware as HumanInTheLoopMiddleware,
        InterruptOnConfig as InterruptOnConfig,
    )
    from foldline.agents.middleware.pii import (
        PIIDetectionError as PIIDetectionError,
        PIIMatch as PIIMatch,
        PIIMiddleware as PIIMiddleware,
        RedactionRule as RedactionRule,
    )
    from foldline.agents.middleware.provider_tool_search import (
        ProviderToolSearchMiddleware as ProviderToolSearchMiddleware,
    )
    from foldline.agents.middleware.retry import (
        ModelRetryMiddleware as ModelRetryMiddleware,
        ToolRetryMiddleware as ToolRetryMiddleware,
    )
    from foldline.agents.middleware.shell import ShellToolMiddleware as ShellToolMiddleware
    from foldline.agents.middleware.summarization import (
        SummarizationMiddleware as SummarizationMiddleware,
    )
    from foldline.agents.middleware.todo import (
        PlanningState as PlanningState,
        Todo as Todo,
        TodoListMiddleware as TodoListMiddleware,
    )
    from foldline.agents.middleware.tool_emulator import LLMToolEmulator as LLMToolEmulator
    from foldline.agents.middleware.tool_error import ToolErrorMiddleware as ToolErrorMiddleware
    from foldline.agents.middleware.tool_selection import (
        LLMToolSelectorMiddleware as LLMToolSelectorMiddleware,
    )
    from foldline.agents.requests import (
        ExtendedModelResponse as ExtendedModelResponse,
        ModelCallResult as ModelCallResult,
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        ToolCallRequest as ToolCallRequest,
    )
    from foldline.agents.runtime import Runtime as Runtime
    from foldline.agents.state import (
        AgentState as AgentState,
        InputAgentState as InputAgentState,
        OmitFromSchema as OmitFromSchema,
        OutputAgentState as OutputAgentState,
    )
