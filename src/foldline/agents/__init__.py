"""Agents: models that call tools until they have an answer.

`create_agent` is the modern loop. The values of the older one (`AgentAction`, `AgentFinish`, …) are eager; everything
that runs is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazily
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep

if TYPE_CHECKING:
    from foldline.agents.agent import Agent, StateSnapshot
    from foldline.agents.executor import AgentExecutor, AgentExecutorIterator
    from foldline.agents.factory import create_agent
    from foldline.agents.output_parsers import AgentOutputParser, MultiActionAgentOutputParser
    from foldline.agents.plans import (
        BaseMultiActionAgent,
        BaseSingleActionAgent,
        RunnableAgent,
        RunnableMultiActionAgent,
    )
    from foldline.agents.recipes import (
        create_json_chat_agent,
        create_openai_tools_agent,
        create_react_agent,
        create_structured_chat_agent,
        create_tool_calling_agent,
    )
    from foldline.agents.runtime import InjectedState, InjectedStore, Runtime, ToolRuntime
    from foldline.agents.state import AgentState, add_messages
    from foldline.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
    from foldline.workflows.interrupts import Command, Interrupt, interrupt

__all__ = [
    "Agent",
    "AgentAction",
    "AgentActionMessageLog",
    "AgentExecutor",
    "AgentExecutorIterator",
    "AgentFinish",
    "AgentOutputParser",
    "AgentState",
    "AgentStep",
    "AutoStrategy",
    "BaseMultiActionAgent",
    "BaseSingleActionAgent",
    "Command",
    "InjectedState",
    "InjectedStore",
    "Interrupt",
    "MultiActionAgentOutputParser",
    "ProviderStrategy",
    "RunnableAgent",
    "RunnableMultiActionAgent",
    "Runtime",
    "StateSnapshot",
    "ToolRuntime",
    "ToolStrategy",
    "add_messages",
    "create_agent",
    "create_json_chat_agent",
    "create_openai_tools_agent",
    "create_react_agent",
    "create_structured_chat_agent",
    "create_tool_calling_agent",
    "interrupt",
]


__getattr__ = lazily(
    __name__,
    {
        ".agent": "Agent StateSnapshot",
        ".executor": "AgentExecutor AgentExecutorIterator",
        ".factory": "create_agent",
        "foldline.workflows.interrupts": "Command Interrupt interrupt",
        ".output_parsers": "AgentOutputParser MultiActionAgentOutputParser",
        ".plans": "BaseMultiActionAgent BaseSingleActionAgent RunnableAgent "
        "RunnableMultiActionAgent",
        ".recipes": "create_json_chat_agent create_openai_tools_agent create_react_agent "
        "create_structured_chat_agent create_tool_calling_agent",
        ".runtime": "InjectedState InjectedStore Runtime ToolRuntime",
        ".state": "AgentState add_messages",
        ".structured_output": "AutoStrategy ProviderStrategy ToolStrategy",
    },
)
