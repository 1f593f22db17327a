"""Parsers from a model's answer to an agent's action, several actions, or its final answer.

A parse error raises `OutputParserException` with an observation for the model. Every pattern here is linear in the
text, which is untrusted.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from foldline._lazy import forward_names
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
forward_names(
    __name__,
    {
        "foldline.agents.classic.parsers": (
            "ConvoOutputParser OpenAIFunctionsAgentOutputParser ReActDocstoreOutputParser "
            "SelfAskOutputParser XMLAgentOutputParser"
        ),
    },
)

FINAL_ANSWER = "Final Answer:"
ACTION = re.compile(r"Action[ \t]{0,8}\d{0,4}[ \t]{0,8}:")
ACTION_INPUT = re.compile(r"Action[ \t]{0,8}\d{0,4}[ \t]{0,8}Input[ \t]{0,8}\d{0,4}[ \t]{0,8}:")
NO_ACTION = "Invalid Format: Missing 'Action:' after 'Thought:'"
NO_INPUT = "Invalid Format: Missing 'Action Input:' after 'Action:'"
ANSWER_AND_ACTION = "Parsing LLM output produced both a final answer and a parse-able action:"
CUT_REASONS = frozenset({"length", "content_filter", "error"})


class AgentOutputParser(BaseOutputParser[AgentAction | AgentFinish]):
    """Parses one action, or the final answer; a subclass implements `parse`."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        raise NotImplementedError


class MultiActionAgentOutputParser(BaseOutputParser[list[AgentAction] | AgentFinish]):
    """Parses several actions, or the final answer; a subclass implements `parse`."""

    def parse(self, text: str) -> list[AgentAction] | AgentFinish:
        """Parse the model's text."""
        raise NotImplementedError


def _parse_error(text: str, observation: str) -> OutputParserException:
    return OutputParserException(
        f"Could not parse LLM output: `{text}`",
        observation=observation,
        llm_output=text,
        send_to_llm=True,
    )


class ReActSingleInputOutputParser(AgentOutputParser):
    """Parses `Action: tool` and `Action Input: text`, or `Final Answer: text`."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        action = _find_action(text)
        if FINAL_ANSWER in text:
            if action is not None:
                raise _parse_error(text, ANSWER_AND_ACTION)
            return AgentFinish({"output": text.split(FINAL_ANSWER)[-1].strip()}, text)
        if action is None:
            raise _parse_error(text, NO_INPUT if ACTION.search(text) else NO_ACTION)
        name, tool_input = action
        return AgentAction(name, tool_input.strip(" ").strip('"'), text)

    @property
    def _type(self) -> str:
        return "react-single-input"


def _find_action(text: str) -> tuple[str, str] | None:
    """Return the name of the first action and its input; None if there is none."""
    for action in ACTION.finditer(text):
        action_input = ACTION_INPUT.search(text, action.end())
        if action_input is not None:
            return text[action.end() : action_input.start()].strip(), text[
                action_input.end() :
            ].strip("\n")
        return None
    return None


class _JsonActionParser(AgentOutputParser):
    """Parses a JSON object with `action` and `action_input` in a text."""

    def _parse_blob(self, text: str) -> AgentAction | AgentFinish:
        try:
            blob = parse_json_markdown(text, parser=_parse_complete)
        except (ValueError, OutputParserException) as error:
            raise _parse_error(
                text, f"Invalid Format: the answer is not a JSON object ({error})"
            ) from error
        blob = blob[0] if isinstance(blob, list) and len(blob) == 1 else blob
        if not isinstance(blob, dict) or "action" not in blob:
            raise _parse_error(
                text, 'Invalid Format: answer with {"action": ..., "action_input": ...}'
            )
        tool_input = blob.get("action_input")
        if blob["action"] == "Final Answer":
            return AgentFinish({"output": tool_input}, text)
        return AgentAction(
            str(blob["action"]), {} if tool_input is None else _tool_input(tool_input), text
        )

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        return self._parse_blob(text)


def _parse_complete(text: str) -> Json:
    """Parse lenient JSON, but reject an action that was cut off: it would run with incomplete input."""
    parser = PartialJson()
    parser.feed(text)
    if not parser.is_complete:
        raise JsonError("the JSON is cut off or malformed", text, len(text))
    return parser.value()


def _tool_input(value: object) -> str | dict[Any, Any]:
    return value if isinstance(value, str | dict) else json.dumps(value, ensure_ascii=False)


class JSONAgentOutputParser(_JsonActionParser):
    """Parses a JSON object, in a code block or not."""

    @property
    def _type(self) -> str:
        return "json-agent"


class ReActJsonSingleInputOutputParser(_JsonActionParser):
    """Parses an action as a JSON object in a code block, or `Final Answer: text`."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        has_final, has_blob = FINAL_ANSWER in text, "```" in text
        if has_blob and not has_final:
            return self._parse_blob(text)
        if not has_final:
            raise _parse_error(
                text, "Invalid Format: give an action in a ``` block, or 'Final Answer:'"
            )
        if has_blob and '"action"' in text:
            raise _parse_error(text, ANSWER_AND_ACTION)
        return AgentFinish({"output": text.split(FINAL_ANSWER)[-1].strip()}, text)

    @property
    def _type(self) -> str:
        return "react-json-single-input"


class StructuredChatOutputParser(_JsonActionParser):
    """Parses an action as a JSON object, in a code block or not; a text without one is the answer, unchanged."""

    def parse(self, text: str) -> AgentAction | AgentFinish:
        """Parse the model's text."""
        if '"action"' in text:
            return self._parse_blob(text)
        return AgentFinish({"output": text}, text)

    @property
    def _type(self) -> str:
        return "structured_chat"


class ToolAgentAction(AgentActionMessageLog):
    """An action that is a tool call of a message."""

    tool_call_id: str | None = None
    """The call's id."""


class ToolsAgentOutputParser(MultiActionAgentOutputParser):
    """Returns the tool calls of a message if they are complete and strict JSON (E5); without any it is the answer."""

    @property
    def _type(self) -> str:
        return "tools-agent-output-parser"

    def parse_result(
        self, result: list[Generation], *, partial: bool = False
    ) -> list[AgentAction] | AgentFinish:
        """Parse a message."""
        first = result[0]
        if not isinstance(first, ChatGeneration):
            raise OutputParserException("this parser reads the messages of chat models, not text")
        return actions_of(first.message)

    def parse(self, text: str) -> list[AgentAction] | AgentFinish:
        """Raise `OutputParserException`: a text has no tool calls."""
        raise OutputParserException("this parser reads the messages of chat models, not text")


def actions_of(message: BaseMessage) -> list[AgentAction] | AgentFinish:
    """Return the actions that a message asks for, or the final answer."""
    if not isinstance(message, AIMessage):
        raise OutputParserException(
            f"expected the message of a model, not {type(message).__name__}"
        )
    if isinstance(message, AIMessageChunk):  # the sum of a stream
        message = cast("AIMessage", message_chunk_to_message(message))
    text = str(message.text)
    is_cut = message.finish_reason in CUT_REASONS or message.status == "incomplete"
    if message.invalid_tool_calls or (message.tool_calls and is_cut):
        names = [
            str(call.get("name")) for call in (*message.invalid_tool_calls, *message.tool_calls)
        ]
        reason = "the answer was cut off" if is_cut else "the arguments are not a JSON object"
        raise _parse_error(
            text, f"Not run: {', '.join(names)} ({reason}). Call again with complete arguments."
        )
    if not message.tool_calls:
        return AgentFinish({"output": text}, text)
    actions: list[AgentAction] = []
    for call in message.tool_calls:
        response_log = f"responded: {text}\n" if text else "\n"
        tool_input = (
            call["args"].get("__arg1", call["args"])
            if set(call["args"]) == {"__arg1"}
            else call["args"]
        )
        log = f"\nInvoking: `{call['name']}` with `{tool_input}`\n{response_log}\n"
        actions.append(
            ToolAgentAction(
                tool=call["name"],
                tool_input=tool_input,
                log=log,
                message_log=[message],
                tool_call_id=call["id"],
            )
        )
    return actions
