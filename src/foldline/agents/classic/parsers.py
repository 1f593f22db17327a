"""Parsers of the older agents: OpenAI's functions, tags, follow-up questions, documents, conversation.

What does not parse raises `OutputParserException` with an observation that tells the model what was wrong. Every
pattern here is linear in the text, which a model, and so a stranger, wrote.
"""

from __future__ import annotations

import re
from typing import Any

from foldline.agents.format_scratchpad import plain_tags
from foldline.agents.output_parsers import AgentOutputParser, _action_in, _unreadable, actions_of
from foldline.exceptions import OutputParserException
from foldline.messages import AIMessage, BaseMessage
from foldline.outputs import ChatGeneration, Generation
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish
from foldline.utils.json import JsonError, parse_strict

__all__ = [
    "ConvoOutputParser",
    "OpenAIFunctionsAgentOutputParser",
    "ReActDocstoreOutputParser",
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
    """Reads the one function call of a message, in OpenAI's older form or as a tool call; without any it is the end."""

    @property
    def _type(self) -> str:
        return "openai-functions-agent"

    def parse_result(
        self, result: list[Generation], *, partial: bool = False
    ) -> AgentAction | AgentFinish:
        """Read a message."""
        first = result[0]
        if not isinstance(first, ChatGeneration):
            raise OutputParserException("this parser reads the messages of chat models, not text")
        return _function_of(first.message)

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Refuse: a text has no function call."""
        raise OutputParserException("this parser reads the messages of chat models, not text")


def _function_of(message: BaseMessage) -> AgentAction | AgentFinish:
    called = message.additional_kwargs.get("function_call")
    if not called or not isinstance(message, AIMessage):
        planned = actions_of(message)
        return planned[0] if isinstance(planned, list) else planned
    text = str(message.text)
    try:
        given: Any = parse_strict(called.get("arguments") or "{}")
    except JsonError as error:
        raise _unreadable(text, f"Not run: the arguments are no JSON ({error})") from error
    if isinstance(given, dict) and set(given) == {"__arg1"}:
        given = given["__arg1"]
    answer = f"responded: {text}\n" if text else "\n"
    log = f"\nInvoking: `{called['name']}` with `{given}`\n{answer}\n"
    return AgentActionMessageLog(
        tool=called["name"], tool_input=given, log=log, message_log=[message]
    )


class XMLAgentOutputParser(AgentOutputParser):
    """Reads `<tool>name</tool><tool_input>input`, or `<final_answer>text</final_answer>`."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        tool = _between(text, "tool")
        if tool is not None:
            given = _between(text, "tool_input", default="")
            return AgentAction(plain_tags(tool), plain_tags(given or ""), text)
        answer = _between(text, "final_answer")
        if answer is None:
            raise _unreadable(text, NO_TAG)
        return AgentFinish({"output": plain_tags(answer)}, text)

    @property
    def _type(self) -> str:
        return "xml-agent"


def _between(text: str, tag: str, default: str | None = None) -> str | None:
    """Return what stands in the last such tag; one that was stopped before its end reaches to the end of the text."""
    _, found, tail = text.rpartition(f"<{tag}>")
    return tail.partition(f"</{tag}>")[0].strip() if found else default


class SelfAskOutputParser(AgentOutputParser):
    """Reads a follow-up question from the last line, or the final answer."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        last = text.strip().split("\n")[-1]
        for mark in FOLLOW_UPS:
            if mark in last:
                return AgentAction("Intermediate Answer", last.split(mark)[-1].strip(), text)
        if SELF_ASK_END not in last:
            raise _unreadable(text, NO_FOLLOW_UP)
        return AgentFinish({"output": last.split(SELF_ASK_END)[-1].strip()}, text)

    @property
    def _type(self) -> str:
        return "self_ask"


class ReActDocstoreOutputParser(AgentOutputParser):
    """Reads `Search[term]`, `Lookup[term]` or `Finish[answer]` at the end of the text."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        found = DOCSTORE_ACTION.search(text.strip().split("\n")[-1])
        if found is None:
            raise _unreadable(text, NO_DOCSTORE_ACTION)
        name, given = found.groups()
        return (
            AgentFinish({"output": given}, text)
            if name == "Finish"
            else AgentAction(name, given, text)
        )

    @property
    def _type(self) -> str:
        return "react"


class ConvoOutputParser(AgentOutputParser):
    """Reads an action, or what is said behind the assistant's prefix as the answer."""

    ai_prefix: str = "AI"

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        mark = f"{self.ai_prefix}:"
        if mark in text:
            return AgentFinish({"output": text.split(mark)[-1].strip()}, text)
        found = _action_in(text)
        if found is None:
            raise _unreadable(text, f"Invalid Format: give an action, or '{mark} answer'")
        name, given = found
        return AgentAction(name, given.strip(" ").strip('"'), text)

    @property
    def _type(self) -> str:
        return "conversational"
