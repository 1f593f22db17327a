"""The agents of older programs: `create_react_agent` and others, `initialize_agent`, and `AgentExecutor`.

For new programs `foldline.agents.create_agent` is shorter and does more.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.agents.classic.executor import (
        AgentExecutor as AgentExecutor,
        AgentExecutorIterator as AgentExecutorIterator,
    )
    from foldline.agents.classic.initialize import (
        AgentType as AgentType,
        initialize_agent as initialize_agent,
    )
    from foldline.agents.classic.plans import (
        BaseMultiActionAgent as BaseMultiActionAgent,
        BaseSingleActionAgent as BaseSingleActionAgent,
        RunnableAgent as RunnableAgent,
        RunnableMultiActionAgent as RunnableMultiActionAgent,
    )
    from foldline.agents.classic.recipes import (
        create_json_chat_agent as create_json_chat_agent,
        create_openai_functions_agent as create_openai_functions_agent,
        create_openai_tools_agent as create_openai_tools_agent,
        create_react_agent as create_react_agent,
        create_self_ask_with_search_agent as create_self_ask_with_search_agent,
        create_structured_chat_agent as create_structured_chat_agent,
        create_tool_calling_agent as create_tool_calling_agent,
        create_xml_agent as create_xml_agent,
    )
