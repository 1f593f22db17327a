"""Agents: models that call tools until they have an answer.

`create_agent` makes an agent. The data classes of the older agents (`AgentAction`, `AgentFinish`, …) are imported
eagerly; everything else is imported when it is first used.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.agents.agent import Agent as Agent, StateSnapshot as StateSnapshot
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
    from foldline.agents.factory import create_agent as create_agent
    from foldline.agents.output_parsers import (
        AgentOutputParser as AgentOutputParser,
        MultiActionAgentOutputParser as MultiActionAgentOutputParser,
    )
    from foldline.agents.runtime import (
        InjectedState as InjectedState,
        InjectedStore as InjectedStore,
        Runtime as Runtime,
        ToolRuntime as ToolRuntime,
    )
    from foldline.agents.state import (
        AgentState as AgentState,
        StructuredAgentState as StructuredAgentState,
        add_messages as add_messages,
    )
    from foldline.agents.structured_output import (
        AutoStrategy as AutoStrategy,
        ProviderStrategy as ProviderStrategy,
        ToolStrategy as ToolStrategy,
    )
    from foldline.outputs.agent import (
        AgentAction as AgentAction,
        AgentActionMessageLog as AgentActionMessageLog,
        AgentFinish as AgentFinish,
        AgentStep as AgentStep,
    )
    from foldline.workflows.interrupts import (
        Command as Command,
        Interrupt as Interrupt,
        interrupt as interrupt,
    )
