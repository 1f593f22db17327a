"""The agents of older programs: `create_react_agent` and others, `initialize_agent`, and `AgentExecutor`.

For new programs `foldline.agents.create_agent` is shorter and does more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
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

__all__ = [
    "AgentExecutor",
    "AgentExecutorIterator",
    "AgentType",
    "BaseMultiActionAgent",
    "BaseSingleActionAgent",
    "RunnableAgent",
    "RunnableMultiActionAgent",
    "create_json_chat_agent",
    "create_openai_functions_agent",
    "create_openai_tools_agent",
    "create_react_agent",
    "create_self_ask_with_search_agent",
    "create_structured_chat_agent",
    "create_tool_calling_agent",
    "create_xml_agent",
    "initialize_agent",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".executor": "AgentExecutor AgentExecutorIterator",
        ".initialize": "AgentType initialize_agent",
        ".plans": "BaseMultiActionAgent BaseSingleActionAgent RunnableAgent "
        "RunnableMultiActionAgent",
        ".recipes": "create_json_chat_agent create_openai_functions_agent "
        "create_openai_tools_agent create_react_agent create_self_ask_with_search_agent "
        "create_structured_chat_agent create_tool_calling_agent create_xml_agent",
    },
)
