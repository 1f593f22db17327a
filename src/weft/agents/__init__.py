"""Agents: models that call tools until they have an answer.

`create_agent` is the modern loop. The values of the older one (`AgentAction`, `AgentFinish`, …) are eager; everything
that runs is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily
from weft.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep

if TYPE_CHECKING:
    from weft.agents.agent import Agent, StateSnapshot
    from weft.agents.executor import AgentExecutor, AgentExecutorIterator
    from weft.agents.factory import create_agent
    from weft.agents.interrupts import Command, Interrupt, interrupt
    from weft.agents.output_parsers import AgentOutputParser, MultiActionAgentOutputParser
    from weft.agents.plans import (
        BaseMultiActionAgent,
        BaseSingleActionAgent,
        RunnableAgent,
        RunnableMultiActionAgent,
    )
    from weft.agents.recipes import (
        create_json_chat_agent,
        create_openai_tools_agent,
        create_react_agent,
        create_structured_chat_agent,
        create_tool_calling_agent,
    )
    from weft.agents.runtime import InjectedState, InjectedStore, Runtime, ToolRuntime
    from weft.agents.state import AgentState, add_messages
    from weft.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy

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

ELSEWHERE = {
    "Agent": ".agent",
    "AgentExecutor": ".executor",
    "AgentExecutorIterator": ".executor",
    "AgentOutputParser": ".output_parsers",
    "AgentState": ".state",
    "AutoStrategy": ".structured_output",
    "BaseMultiActionAgent": ".plans",
    "BaseSingleActionAgent": ".plans",
    "Command": ".interrupts",
    "InjectedState": ".runtime",
    "InjectedStore": ".runtime",
    "Interrupt": ".interrupts",
    "MultiActionAgentOutputParser": ".output_parsers",
    "ProviderStrategy": ".structured_output",
    "RunnableAgent": ".plans",
    "RunnableMultiActionAgent": ".plans",
    "Runtime": ".runtime",
    "StateSnapshot": ".agent",
    "ToolRuntime": ".runtime",
    "ToolStrategy": ".structured_output",
    "add_messages": ".state",
    "create_agent": ".factory",
    "create_json_chat_agent": ".recipes",
    "create_openai_tools_agent": ".recipes",
    "create_react_agent": ".recipes",
    "create_structured_chat_agent": ".recipes",
    "create_tool_calling_agent": ".recipes",
    "interrupt": ".interrupts",
}
"""Names of a higher layer -> the module that has them."""


__getattr__ = lazily(__name__, ELSEWHERE)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
