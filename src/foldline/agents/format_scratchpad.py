"""Formats the steps of an agent for its prompt: text, messages, or tool messages. No I/O."""

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
    """Return the steps as the text of thoughts and observations."""
    return "".join(
        f"{action.log}\n{observation_prefix}{observation}\n{llm_prefix}"
        for action, observation in intermediate_steps
    )


def format_log_to_messages(
    intermediate_steps: Steps, template_tool_response: str = "{observation}"
) -> list[BaseMessage]:
    """Return the steps as a chat: each answer of the model, and each observation as a user message."""
    messages: list[BaseMessage] = []
    for action, observation in intermediate_steps:
        response = template_tool_response.replace("{observation}", str(observation))
        messages += [AIMessage(action.log), HumanMessage(response)]
    return messages


def format_to_tool_messages(intermediate_steps: Steps) -> list[BaseMessage]:
    """Return the steps as the model's messages and the tool messages; each message once."""
    messages: list[BaseMessage] = []
    for action, observation in intermediate_steps:
        if not isinstance(action, ToolAgentAction):
            messages.append(AIMessage(action.log))
            continue
        for model_message in action.message_log:
            if not any(
                model_message is message or model_message == message for message in messages
            ):
                messages.append(model_message)
        messages.append(
            ToolMessage(
                _as_text(observation), tool_call_id=action.tool_call_id or "", name=action.tool
            )
        )
    return messages


format_to_openai_tool_messages = format_to_tool_messages


def format_to_openai_function_messages(intermediate_steps: Steps) -> list[BaseMessage]:
    """Return the steps as the model's messages and the function messages."""
    messages: list[BaseMessage] = []
    for action, observation in intermediate_steps:
        if isinstance(action, AgentActionMessageLog):
            answer = FunctionMessage(_as_text(observation), name=action.tool)
            messages += [*action.message_log, answer]
        else:
            messages.append(AIMessage(action.log))
    return messages


def format_xml(intermediate_steps: Steps) -> str:
    """Return the steps as tags; tags inside a tool's input or output are replaced by brackets."""
    return "".join(
        f"<tool>{_escape_tags(action.tool)}</tool>"
        f"<tool_input>{_escape_tags(_as_text(action.tool_input))}</tool_input>"
        f"<observation>{_escape_tags(_as_text(observation))}</observation>"
        for action, observation in intermediate_steps
    )


def _escape_tags(text: str) -> str:
    for tag in XML_TAGS:
        text = text.replace(f"<{tag}>", f"[[{tag}]]").replace(f"</{tag}>", f"[[/{tag}]]")
    return text


def plain_tags(text: str) -> str:
    """Return a text with the brackets of `format_xml` replaced by tags."""
    for tag in XML_TAGS:
        text = text.replace(f"[[{tag}]]", f"<{tag}>").replace(f"[[/{tag}]]", f"</{tag}>")
    return text
