"""Names of LangChain's packages of providers that programs import: `custom_tool`, `ToolsOutputParser`."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from foldline.agents import create_agent
from foldline.exceptions import OutputParserException
from foldline.messages import AIMessage, ToolMessage
from foldline.outputs import ChatGeneration
from foldline.providers.anthropic import ToolsOutputParser
from foldline.providers.anthropic.output_parsers import extract_tool_calls
from foldline.providers.openai import ChatOpenAI, custom_tool
from tests.servers import json_answer
from tests.servers.vendors.openai import responses

# -- tools that take free text


def answer(*items):
    body = json.loads(responses({"model": "m", "input": "hi"})[1])
    return json_answer({**body, "output": list(items)} if items else body)


def test_a_custom_tool_takes_free_text(call, fault_server):
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: INT"}

    @custom_tool(format=grammar)
    def do_math(text: str) -> str:
        """Calculate."""
        return f"{text} = 27"

    tool_call = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_1",
        "name": "do_math",
        "input": "3^3",
    }
    fault_server.script("/v1/responses", answer(tool_call), answer())
    model = ChatOpenAI(
        model="gpt-5", api_key="k", base_url=f"{fault_server.url}/v1", use_responses_api=True
    )

    result = call.invoke(create_agent(model, [do_math]), {"messages": [("user", "3^3?")]})
    first, second = (request.json() for request in fault_server.requests())

    assert first["tools"] == [
        {"type": "custom", "name": "do_math", "description": "Calculate.", "format": grammar}
    ]
    assert [
        message.content for message in result["messages"] if isinstance(message, ToolMessage)
    ] == ["3^3 = 27"]
    assert second["input"][-1] == {
        "type": "custom_tool_call_output",
        "call_id": "call_1",
        "output": "3^3 = 27",
    }


def test_a_custom_tool_needs_no_options(call):
    @custom_tool
    async def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    assert (shout.name, shout.description) == ("shout", "Shout.")


# -- calls of Claude's


class Add(BaseModel):
    a: int


BLOCKS = [
    {"type": "text", "text": "I add."},
    {"type": "tool_use", "id": "t1", "name": "Add", "input": {"a": 1}},
]
CALL = {"name": "Add", "args": {"a": 1}, "id": "t1", "type": "tool_call"}


def parse(content=BLOCKS, calls=(), **options):
    message = AIMessage(content, tool_calls=list(calls))
    return ToolsOutputParser(**options).parse_result([ChatGeneration(message=message)])


def test_tool_calls_are_given_with_their_places():
    assert parse(calls=[CALL]) == [{**CALL, "index": 1}]
    assert parse() == [{**CALL, "index": 1}]
    assert parse(args_only=True, first_tool_only=True) == {"a": 1}
    assert parse(pydantic_schemas=[Add]) == [Add(a=1)]
    assert parse("no call") == []
    assert parse("no call", first_tool_only=True) is None
    assert extract_tool_calls(BLOCKS) == [CALL]


def test_calls_that_do_not_fit_are_named():
    with pytest.raises(OutputParserException, match="none of Add"):
        parse("", [{**CALL, "name": "Sub"}], pydantic_schemas=[Add])
    with pytest.raises(OutputParserException, match="do not fit"):
        parse("", [{**CALL, "args": {"a": "x"}}], pydantic_schemas=[Add])
