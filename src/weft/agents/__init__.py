"""Agents: models that call tools until they have an answer.

`create_agent` is the modern loop. The values of the older one (`AgentAction`, `AgentFinish`, …) are eager; everything
that runs is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish, AgentStep

if TYPE_CHECKING:
    from weft.agents.agent import Agent, StateSnapshot
    from weft.agents.factory import create_agent
    from weft.agents.interrupts import Command, Interrupt, interrupt
    from weft.agents.runtime import InjectedState, InjectedStore, Runtime, ToolRuntime
    from weft.agents.state import AgentState, add_messages
    from weft.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy

__all__ = [
    "Agent",
    "AgentAction",
    "AgentActionMessageLog",
    "AgentFinish",
    "AgentState",
    "AgentStep",
    "AutoStrategy",
    "Command",
    "InjectedState",
    "InjectedStore",
    "Interrupt",
    "ProviderStrategy",
    "Runtime",
    "StateSnapshot",
    "ToolRuntime",
    "ToolStrategy",
    "add_messages",
    "create_agent",
    "interrupt",
]

ELSEWHERE = {
    "Agent": "agent",
    "AgentState": "state",
    "AutoStrategy": "structured_output",
    "Command": "interrupts",
    "InjectedState": "runtime",
    "InjectedStore": "runtime",
    "Interrupt": "interrupts",
    "ProviderStrategy": "structured_output",
    "Runtime": "runtime",
    "StateSnapshot": "agent",
    "ToolRuntime": "runtime",
    "ToolStrategy": "structured_output",
    "add_messages": "state",
    "create_agent": "factory",
    "interrupt": "interrupts",
}
"""Names of a higher layer -> the module that has them."""


def __getattr__(name: str) -> Any:
    if name not in ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"weft.agents.{ELSEWHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
