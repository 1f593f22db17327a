"""Parsers from what a model said to what an agent does: an action, several, or the end.

What does not parse raises `OutputParserException` with an observation that tells the model what was wrong. Every
pattern here is linear in the text, which a model, and so a stranger, wrote.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from foldline._lazy import Loader, lazy_exports
from foldline.exceptions import OutputParserException
from foldline.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from foldline.output_parsers.base import BaseOutputParser
from foldline.outputs import ChatGeneration, Generation
from foldline.outputs.agent import AgentAction, AgentActionMessageLog, AgentFinish
from foldline.utils.json import Json, JsonError, PartialJson, parse_json_markdown

__all__ = [
    "AgentOutputParser",
    "JSONAgentOutputParser",
    "MultiActionAgentOutputParser",
    "ReActJsonSingleInputOutputParser",
    "ReActSingleInputOutputParser",
    "StructuredChatOutputParser",
    "ToolAgentAction",
    "ToolsAgentOutputParser",
]

# The parsers of the older agents, under LangChain's path too.
__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".classic.parsers": "ConvoOutputParser OpenAIFunctionsAgentOutputParser "
        "ReActDocstoreOutputParser SelfAskOutputParser XMLAgentOutputParser"
    },
)

FINAL = "Final Answer:"
ACTION = re.compile(r"Action[ \t]{0,8}\d{0,4}[ \t]{0,8}:")
ACTION_INPUT = re.compile(r"Action[ \t]{0,8}\d{0,4}[ \t]{0,8}Input[ \t]{0,8}\d{0,4}[ \t]{0,8}:")
NO_ACTION = "Invalid Format: Missing 'Action:' after 'Thought:'"
NO_INPUT = "Invalid Format: Missing 'Action Input:' after 'Action:'"
BOTH = "Parsing LLM output produced both a final answer and a parse-able action:"
CUT = frozenset({"length", "content_filter", "error"})


class AgentOutputParser(BaseOutputParser[AgentAction | AgentFinish]):
    """Reads one action, or the end; a subclass writes `parse`."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        raise NotImplementedError


class MultiActionAgentOutputParser(BaseOutputParser[list[AgentAction] | AgentFinish]):
    """Reads several actions, or the end; a subclass writes `parse`."""

    def parse(self, text: str) -> list[AgentAction] | AgentFinish:
        """Read what the model said."""
        raise NotImplementedError


def _unreadable(text: str, observation: str) -> OutputParserException:
    return OutputParserException(
        f"Could not parse LLM output: `{text}`",
        observation=observation,
        llm_output=text,
        send_to_llm=True,
    )


class ReActSingleInputOutputParser(AgentOutputParser):
    """Reads `Action: tool` and `Action Input: text`, or `Final Answer: text`."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        found = _action_in(text)
        if FINAL in text:
            if found is not None:
                raise _unreadable(text, BOTH)
            return AgentFinish({"output": text.split(FINAL)[-1].strip()}, text)
        if found is None:
            raise _unreadable(text, NO_INPUT if ACTION.search(text) else NO_ACTION)
        name, given = found
        return AgentAction(name, given.strip(" ").strip('"'), text)

    @property
    def _type(self) -> str:
        return "react-single-input"


def _action_in(text: str) -> tuple[str, str] | None:
    """Find the first action and what it is to be called with."""
    for found in ACTION.finditer(text):
        given = ACTION_INPUT.search(text, found.end())
        if given is not None:
            return text[found.end() : given.start()].strip(), text[given.end() :].strip("\n")
        return None
    return None


class _JsonBlob(AgentOutputParser):
    """Reads a JSON object with `action` and `action_input` out of a text."""

    def _of_blob(self, text: str) -> AgentAction | AgentFinish:
        try:
            said = parse_json_markdown(text, parser=_parse_whole)
        except (ValueError, OutputParserException) as error:
            raise _unreadable(
                text, f"Invalid Format: the answer is no JSON object ({error})"
            ) from error
        said = said[0] if isinstance(said, list) and len(said) == 1 else said
        if not isinstance(said, dict) or "action" not in said:
            raise _unreadable(
                text, 'Invalid Format: answer with {"action": ..., "action_input": ...}'
            )
        given = said.get("action_input")
        if said["action"] == "Final Answer":
            return AgentFinish({"output": given}, text)
        return AgentAction(str(said["action"]), {} if given is None else _input_of(given), text)

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        return self._of_blob(text)


def _parse_whole(text: str) -> Json:
    """Parse as leniently as models write, but refuse an action that was cut off: it would run with half its input."""
    parser = PartialJson()
    parser.feed(text)
    if not parser.is_complete:
        raise JsonError("the JSON is cut off or malformed", text, len(text))
    return parser.value()


def _input_of(given: object) -> str | dict[Any, Any]:
    return given if isinstance(given, str | dict) else json.dumps(given, ensure_ascii=False)


class JSONAgentOutputParser(_JsonBlob):
    """Reads a JSON object, in a code block or not."""

    @property
    def _type(self) -> str:
        return "json-agent"


class ReActJsonSingleInputOutputParser(_JsonBlob):
    """Reads an action as a JSON object in a code block, or `Final Answer: text`."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        has_final, has_blob = FINAL in text, "```" in text
        if has_blob and not has_final:
            return self._of_blob(text)
        if not has_final:
            raise _unreadable(
                text, "Invalid Format: give an action in a ``` block, or 'Final Answer:'"
            )
        if has_blob and '"action"' in text:
            raise _unreadable(text, BOTH)
        return AgentFinish({"output": text.split(FINAL)[-1].strip()}, text)

    @property
    def _type(self) -> str:
        return "react-json-single-input"


class StructuredChatOutputParser(_JsonBlob):
    """Reads an action as a JSON object, in a code block or not; a text without one is the answer, code and all."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Read what the model said."""
        if '"action"' in text:
            return self._of_blob(text)
        return AgentFinish({"output": text}, text)

    @property
    def _type(self) -> str:
        return "structured_chat"


class ToolAgentAction(AgentActionMessageLog):
    """An action that is a tool call of a message."""

    tool_call_id: str | None = None
    """The call's id."""


class ToolsAgentOutputParser(MultiActionAgentOutputParser):
    """Reads the tool calls of a message, whole and strictly parsed ones alone (E5); without any it is the answer."""

    @property
    def _type(self) -> str:
        return "tools-agent-output-parser"

    def parse_result(
        self, result: list[Generation], *, partial: bool = False
    ) -> list[AgentAction] | AgentFinish:
        """Read a message."""
        first = result[0]
        if not isinstance(first, ChatGeneration):
            raise OutputParserException("this parser reads the messages of chat models, not text")
        return actions_of(first.message)

    def parse(self, text: str) -> list[AgentAction] | AgentFinish:
        """Refuse: a text has no tool calls."""
        raise OutputParserException("this parser reads the messages of chat models, not text")


def actions_of(message: BaseMessage) -> list[AgentAction] | AgentFinish:
    """Return the actions a message asks for, or the end."""
    if not isinstance(message, AIMessage):
        raise OutputParserException(
            f"expected the message of a model, not {type(message).__name__}"
        )
    if isinstance(message, AIMessageChunk):  # the sum of a stream
        message = cast("AIMessage", message_chunk_to_message(message))
    text = str(message.text)
    is_cut = message.finish_reason in CUT or message.status == "incomplete"
    if message.invalid_tool_calls or (message.tool_calls and is_cut):
        broken = [
            str(one.get("name")) for one in (*message.invalid_tool_calls, *message.tool_calls)
        ]
        why = "the answer was cut off" if is_cut else "the arguments are no JSON object"
        raise _unreadable(
            text, f"Not run: {', '.join(broken)} ({why}). Call again with complete arguments."
        )
    if not message.tool_calls:
        return AgentFinish({"output": text}, text)
    actions: list[AgentAction] = []
    for call in message.tool_calls:
        said = f"responded: {text}\n" if text else "\n"
        given = (
            call["args"].get("__arg1", call["args"])
            if set(call["args"]) == {"__arg1"}
            else call["args"]
        )
        log = f"\nInvoking: `{call['name']}` with `{given}`\n{said}\n"
        actions.append(
            ToolAgentAction(
                tool=call["name"],
                tool_input=given,
                log=log,
                message_log=[message],
                tool_call_id=call["id"],
            )
        )
    return actions
