"""Parsers of planning agents: an action, the final answer, or an error."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from foldline.agents import AgentAction, AgentFinish
from foldline.agents.output_parsers import (
    JSONAgentOutputParser,
    ReActJsonSingleInputOutputParser,
    ReActSingleInputOutputParser,
    StructuredChatOutputParser,
    ToolsAgentOutputParser,
)
from foldline.exceptions import OutputParserException
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import ChatGeneration, Generation

REACT, JSON = ReActSingleInputOutputParser(), JSONAgentOutputParser()
REACT_JSON, CHAT = ReActJsonSingleInputOutputParser(), StructuredChatOutputParser()
BLOB = '```json\n{"action": "look", "action_input": {"x": 1}}\n```'


@pytest.mark.parametrize(
    ("parser", "text", "tool", "tool_input"),
    [
        (REACT, "Thought: x\nAction: look up\nAction Input: here", "look up", "here"),
        (REACT, 'Action 1: look\nAction 1 Input: "here"', "look", "here"),
        (REACT, "Action: look\nAction Input: one\ntwo", "look", "one\ntwo"),
        (JSON, BLOB, "look", {"x": 1}),
        (JSON, '[{"action": "look", "action_input": "here"}]', "look", "here"),
        (JSON, '{"action": "look", "action_input": [1, 2]}', "look", "[1, 2]"),
        (JSON, '{"action": "look"}', "look", {}),
        (REACT_JSON, f"Thought: x\n{BLOB}", "look", {"x": 1}),
        (CHAT, f"I shall look.\n{BLOB}", "look", {"x": 1}),
        (CHAT, '{"action": "look", "action_input": "here"}', "look", "here"),
    ],
)
def test_an_action_is_read(parser, text, tool, tool_input):
    action = parser.parse(text)

    assert isinstance(action, AgentAction)
    assert (action.tool, action.tool_input, action.log) == (tool, tool_input, text)


@pytest.mark.parametrize(
    ("parser", "text", "output"),
    [
        (REACT, "I know.\nFinal Answer: 42 ", "42"),
        (JSON, '{"action": "Final Answer", "action_input": {"n": 42}}', {"n": 42}),
        (REACT_JSON, "Final Answer: it is ```code```", "it is ```code```"),
        (CHAT, "Just a text.", "Just a text."),
        (CHAT, "Run ```print(1)```", "Run ```print(1)```"),
        (CHAT, '{"colour": "red"}', '{"colour": "red"}'),
    ],
)
def test_the_answer_is_read(parser, text, output):
    assert parser.parse(text) == AgentFinish({"output": output}, text)


@pytest.mark.parametrize(
    ("parser", "text", "expected"),
    [
        (REACT, "nothing", "Missing 'Action:'"),
        (REACT, "Action: look", "Missing 'Action Input:'"),
        (REACT, "Action: look\nAction Input: x\nFinal Answer: y", "both"),
        (JSON, "{broken", "not a JSON object"),
        (JSON, '{"tool": "look"}', "answer with"),
        (REACT_JSON, "nothing", "in a ``` block"),
        (REACT_JSON, f"{BLOB}\nFinal Answer: y", "both"),
        (CHAT, '```json\n{"action": "look", ```', "not a JSON object"),
    ],
)
def test_what_cannot_be_read_is_said_for_the_model(parser, text, expected):
    with pytest.raises(OutputParserException) as excinfo:
        parser.parse(text)

    assert expected in str(excinfo.value.observation)
    assert excinfo.value.llm_output == text
    assert excinfo.value.send_to_llm


def test_tool_calls_are_read_from_messages_alone():
    parser = ToolsAgentOutputParser()
    calls = [{"name": "look", "args": {"x": 1}, "id": "c1"}]

    (action,) = parser.parse_result([ChatGeneration(message=AIMessage("", tool_calls=calls))])

    assert (action.tool, action.tool_input, action.tool_call_id) == ("look", {"x": 1}, "c1")
    for generation in (Generation(text="x"), ChatGeneration(message=HumanMessage("x"))):
        with pytest.raises(OutputParserException, match="message"):
            parser.parse_result([generation])
    with pytest.raises(OutputParserException, match="not text"):
        parser.parse("x")


PIECES = ["Action:", "Action Input:", "Final Answer:", "```", '{"action": ', "}", "\n", "x"]


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_words_are_read_or_refused_with_a_typed_error(text):
    for parser in (REACT, JSON, REACT_JSON, CHAT):
        with suppress(OutputParserException):
            assert isinstance(parser.parse(text), AgentAction | AgentFinish)
