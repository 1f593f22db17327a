"""Agents: models that call tools until they have an answer.

`create_agent` makes an agent. The data classes of the older agents (`AgentAction`, `AgentFinish`, …) are imported
eagerly; everything else is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep

if TYPE_CHECKING:
    from foldline.agents.agent import Agent, StateSnapshot
    from foldline.agents.classic.executor import AgentExecutor, AgentExecutorIterator
    from foldline.agents.classic.initialize import AgentType, initialize_agent
    from foldline.agents.classic.plans import (
        BaseMultiActionAgent,
        BaseSingleActionAgent,
        RunnableAgent,
        RunnableMultiActionAgent,
    )
    from foldline.agents.classic.recipes import (
        create_json_chat_agent,
        create_openai_functions_agent,
        create_openai_tools_agent,
        create_react_agent,
        create_self_ask_with_search_agent,
        create_structured_chat_agent,
        create_tool_calling_agent,
        create_xml_agent,
    )
    from foldline.agents.factory import create_agent
    from foldline.agents.output_parsers import AgentOutputParser, MultiActionAgentOutputParser
    from foldline.agents.runtime import InjectedState, InjectedStore, Runtime, ToolRuntime
    from foldline.agents.state import AgentState, StructuredAgentState, add_messages
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
    "AgentType",
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
    "StructuredAgentState",
    "ToolRuntime",
    "ToolStrategy",
    "add_messages",
    "create_agent",
    "create_json_chat_agent",
    "create_openai_functions_agent",
    "create_openai_tools_agent",
    "create_react_agent",
    "create_self_ask_with_search_agent",
    "create_structured_chat_agent",
    "create_tool_calling_agent",
    "create_xml_agent",
    "initialize_agent",
    "interrupt",
]


__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".agent": "Agent StateSnapshot",
        ".classic.executor": "AgentExecutor AgentExecutorIterator",
        ".factory": "create_agent",
        "foldline.workflows.interrupts": "Command Interrupt interrupt",
        ".output_parsers": "AgentOutputParser MultiActionAgentOutputParser",
        ".classic.plans": "BaseMultiActionAgent BaseSingleActionAgent RunnableAgent "
        "RunnableMultiActionAgent",
        ".classic.initialize": "AgentType initialize_agent",
        ".classic.recipes": "create_json_chat_agent create_openai_functions_agent "
        "create_openai_tools_agent create_react_agent create_self_ask_with_search_agent "
        "create_structured_chat_agent create_tool_calling_agent create_xml_agent",
        ".runtime": "InjectedState InjectedStore Runtime ToolRuntime",
        ".state": "AgentState StructuredAgentState add_messages",
        ".structured_output": "AutoStrategy ProviderStrategy ToolStrategy",
    },
)
