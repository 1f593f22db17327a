"""Parsers of the older agents: OpenAI's functions, tags, follow-up questions, documents, conversation.

A parse error raises `OutputParserException` with an observation for the model. Every pattern here is linear in the
text, which is untrusted.
"""

from __future__ import annotations

import re
from typing import Any

from foldline.agents.format_scratchpad import plain_tags
from foldline.agents.output_parsers import AgentOutputParser, _find_action, _parse_error, actions_of
from foldline.exceptions import OutputParserException
from foldline.messages import AIMessage, BaseMessage
from foldline.outputs import ChatGeneration, Generation
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish
from foldline.utils.json import JsonError, parse_strict

__all__ = [
    "ConvoOutputParser",
    "OpenAIFunctionsAgentOutputParser",
    "SelfAskOutputParser",
    "XMLAgentOutputParser",
]

FOLLOW_UPS = ("Follow up:", "Followup:")
SELF_ASK_END = "So the final answer is:"
NO_FOLLOW_UP = f"Invalid Format: write 'Follow up: question' or '{SELF_ASK_END} answer'"
NO_TAG = "Invalid Format: write <tool>name</tool><tool_input>input</tool_input>, or <final_answer>"
DOCSTORE_ACTION = re.compile(r"([A-Za-z]{1,40})\[([^\n]*)\]\s*$")
NO_DOCSTORE_ACTION = (
    "Invalid Format: end with 'Action: Search[term]', 'Lookup[term]' or 'Finish[answer]'"
)


class OpenAIFunctionsAgentOutputParser(AgentOutputParser):
    """Returns the function call of a message, in OpenAI's older form or as a tool call; without any, the answer."""

    @property
    def _type(self) -> str:
        return "openai-functions-agent"

    def parse_result(
        self, result: list[Generation], *, partial: bool = False
    ) -> AgentAction | AgentFinish:
        """Parse a message."""
        first = result[0]
        if not isinstance(first, ChatGeneration):
            raise OutputParserException("this parser reads the messages of chat models, not text")
        return _action_of(first.message)

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Raise `OutputParserException`: a text has no function call."""
        raise OutputParserException("this parser reads the messages of chat models, not text")


def _action_of(message: BaseMessage) -> AgentAction | AgentFinish:
    function_call = message.additional_kwargs.get("function_call")
    if not function_call or not isinstance(message, AIMessage):
        actions = actions_of(message)
        return actions[0] if isinstance(actions, list) else actions
    text = str(message.text)
    try:
        arguments: Any = parse_strict(function_call.get("arguments") or "{}")
    except JsonError as error:
        raise _parse_error(text, f"Not run: the arguments are not JSON ({error})") from error
    if isinstance(arguments, dict) and set(arguments) == {"__arg1"}:
        arguments = arguments["__arg1"]
    answer = f"responded: {text}\n" if text else "\n"
    log = f"\nInvoking: `{function_call['name']}` with `{arguments}`\n{answer}\n"
    return AgentActionMessageLog(
        tool=function_call["name"], tool_input=arguments, log=log, message_log=[message]
    )


class XMLAgentOutputParser(AgentOutputParser):
    """Parses `<tool>name</tool><tool_input>input`, or `<final_answer>text</final_answer>`."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        tool = _tag_text(text, "tool")
        if tool is not None:
            tool_input = _tag_text(text, "tool_input", default="")
            return AgentAction(plain_tags(tool), plain_tags(tool_input or ""), text)
        answer = _tag_text(text, "final_answer")
        if answer is None:
            raise _parse_error(text, NO_TAG)
        return AgentFinish({"output": plain_tags(answer)}, text)

    @property
    def _type(self) -> str:
        return "xml-agent"


def _tag_text(text: str, tag: str, default: str | None = None) -> str | None:
    """Return the text of the last such tag; a tag without an end reaches to the end of the text."""
    _, opening, tail = text.rpartition(f"<{tag}>")
    return tail.partition(f"</{tag}>")[0].strip() if opening else default


class SelfAskOutputParser(AgentOutputParser):
    """Parses a follow-up question in the last line, or the final answer."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        last_line = text.strip().split("\n")[-1]
        for mark in FOLLOW_UPS:
            if mark in last_line:
                return AgentAction("Intermediate Answer", last_line.split(mark)[-1].strip(), text)
        if SELF_ASK_END not in last_line:
            raise _parse_error(text, NO_FOLLOW_UP)
        return AgentFinish({"output": last_line.split(SELF_ASK_END)[-1].strip()}, text)

    @property
    def _type(self) -> str:
        return "self_ask"


class ReActDocstoreOutputParser(AgentOutputParser):
    """Parses `Search[term]`, `Lookup[term]` or `Finish[answer]` at the end of the text."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        match = DOCSTORE_ACTION.search(text.strip().split("\n")[-1])
        if match is None:
            raise _parse_error(text, NO_DOCSTORE_ACTION)
        name, argument = match.groups()
        return (
            AgentFinish({"output": argument}, text)
            if name == "Finish"
            else AgentAction(name, argument, text)
        )

    @property
    def _type(self) -> str:
        return "react"


class ConvoOutputParser(AgentOutputParser):
    """Parses an action, or the text after the assistant's prefix as the answer."""

    ai_prefix: str = "AI"

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        prefix = f"{self.ai_prefix}:"
        if prefix in text:
            return AgentFinish({"output": text.split(prefix)[-1].strip()}, text)
        action = _find_action(text)
        if action is None:
            raise _parse_error(text, f"Invalid Format: write an action, or '{prefix} answer'")
        name, tool_input = action
        return AgentAction(name, tool_input.strip(" ").strip('"'), text)

    @property
    def _type(self) -> str:
        return "conversational"
