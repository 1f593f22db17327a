"""The steps an agent took, in the form its prompt takes: text, messages, or tool messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline.agents.output_parsers import ToolAgentAction
from foldline.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, ToolMessage
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, _as_text

__all__ = [
    "format_log_to_messages",
    "format_log_to_str",
    "format_to_openai_function_messages",
    "format_to_openai_tool_messages",
    "format_to_tool_messages",
    "format_xml",
]

Steps = Sequence[tuple[AgentAction, Any]]
XML_TAGS = ("tool", "tool_input", "observation", "final_answer")


def format_log_to_str(
    intermediate_steps: Steps,
    observation_prefix: str = "Observation: ",
    llm_prefix: str = "Thought: ",
) -> str:
    """Write the steps as the text of thoughts and observations."""
    return "".join(
        f"{action.log}\n{observation_prefix}{observation}\n{llm_prefix}"
        for action, observation in intermediate_steps
    )


def format_log_to_messages(
    intermediate_steps: Steps, template_tool_response: str = "{observation}"
) -> list[BaseMessage]:
    """Write the steps as turns of a chat: what the model said, and what came of it as the user's words."""
    messages: list[BaseMessage] = []
    for action, observation in intermediate_steps:
        said = template_tool_response.replace("{observation}", str(observation))
        messages += [AIMessage(action.log), HumanMessage(said)]
    return messages


def format_to_tool_messages(intermediate_steps: Steps) -> list[BaseMessage]:
    """Write the steps as the messages that asked for them and the tools' messages; each message once."""
    messages: list[BaseMessage] = []
    for action, observation in intermediate_steps:
        if not isinstance(action, ToolAgentAction):
            messages.append(AIMessage(action.log))
            continue
        for asked in action.message_log:
            if not any(asked is one or asked == one for one in messages):
                messages.append(asked)
        messages.append(
            ToolMessage(
                _as_text(observation), tool_call_id=action.tool_call_id or "", name=action.tool
            )
        )
    return messages


format_to_openai_tool_messages = format_to_tool_messages


def format_to_openai_function_messages(intermediate_steps: Steps) -> list[BaseMessage]:
    """Write the steps as the messages that asked for a function and the functions' answers."""
    messages: list[BaseMessage] = []
    for action, observation in intermediate_steps:
        if isinstance(action, AgentActionMessageLog):
            answer = FunctionMessage(_as_text(observation), name=action.tool)
            messages += [*action.message_log, answer]
        else:
            messages.append(AIMessage(action.log))
    return messages


def format_xml(intermediate_steps: Steps) -> str:
    """Write the steps as tags; tags inside a tool's input or answer are written in brackets."""
    return "".join(
        f"<tool>{_bracketed(action.tool)}</tool>"
        f"<tool_input>{_bracketed(_as_text(action.tool_input))}</tool_input>"
        f"<observation>{_bracketed(_as_text(observation))}</observation>"
        for action, observation in intermediate_steps
    )


def _bracketed(text: str) -> str:
    for tag in XML_TAGS:
        text = text.replace(f"<{tag}>", f"[[{tag}]]").replace(f"</{tag}>", f"[[/{tag}]]")
    return text


def plain_tags(text: str) -> str:
    """Read what `format_xml` wrote in brackets."""
    for tag in XML_TAGS:
        text = text.replace(f"[[{tag}]]", f"<{tag}>").replace(f"[[/{tag}]]", f"</{tag}>")
    return text
