"""Tool calls and function calls out of answers: as dicts, by name, as objects, while they stream."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from foldline.exceptions import OutputParserException, UsageError
from foldline.messages import AIMessage, AIMessageChunk
from foldline.output_parsers import (
    JsonOutputKeyToolsParser,
    JsonOutputToolsParser,
    PydanticToolsParser,
)
from foldline.output_parsers.openai_functions import (
    JsonKeyOutputFunctionsParser,
    JsonOutputFunctionsParser,
    OutputFunctionsParser,
    PydanticAttrOutputFunctionsParser,
    PydanticOutputFunctionsParser,
)
from foldline.output_parsers.openai_tools import (
    make_invalid_tool_call,
    parse_tool_call,
    parse_tool_calls,
)

pytestmark = pytest.mark.timing


class add(BaseModel):
    a: int


class stop_now(BaseModel):
    model_config = ConfigDict(title="halt")


CALLS = AIMessage(
    "",
    tool_calls=[
        {"name": "add", "args": {"a": 1}, "id": "1"},
        {"name": "halt", "args": {}, "id": "2"},
    ],
)
BROKEN = AIMessage(
    "", invalid_tool_calls=[{"name": "add", "args": '{"a": ', "id": "1", "error": "cut off"}]
)


def stream_call(arguments: str, size: int = 4) -> list[AIMessageChunk]:
    pieces = [arguments[i : i + size] for i in range(0, len(arguments), size)]
    first = {"name": "add", "args": "", "id": "1", "index": 0}
    remaining_slices = [{"name": None, "args": piece, "id": None, "index": 0} for piece in pieces]
    return [AIMessageChunk("", tool_call_chunks=[chunk]) for chunk in [first, *remaining_slices]]


def test_calls_as_dicts(call):
    assert call.invoke(JsonOutputToolsParser(), CALLS) == [
        {"args": {"a": 1}, "type": "add"},
        {"args": {}, "type": "halt"},
    ]
    assert call.invoke(JsonOutputToolsParser(return_id=True), CALLS)[0] == {
        "args": {"a": 1},
        "id": "1",
        "type": "add",
    }
    assert call.invoke(JsonOutputToolsParser(first_tool_only=True), CALLS) == {
        "args": {"a": 1},
        "type": "add",
    }
    assert call.invoke(JsonOutputToolsParser(), AIMessage("text")) == []


def test_calls_of_one_tool(call):
    assert call.invoke(JsonOutputKeyToolsParser(key_name="add"), CALLS) == [{"a": 1}]
    assert call.invoke(JsonOutputKeyToolsParser(key_name="halt", first_tool_only=True), CALLS) == {}
    assert call.invoke(JsonOutputKeyToolsParser(key_name="no", first_tool_only=True), CALLS) is None
    assert (
        call.invoke(JsonOutputKeyToolsParser(key_name="add", return_id=True), CALLS)[0]["id"] == "1"
    )


def test_calls_as_objects(call):
    parser = PydanticToolsParser(tools=[add, stop_now])

    assert call.invoke(parser, CALLS) == [add(a=1), stop_now()]
    assert call.invoke(PydanticToolsParser(tools=[add], first_tool_only=True), CALLS) == add(a=1)
    assert (
        call.invoke(PydanticToolsParser(tools=[add], first_tool_only=True), AIMessage("x")) is None
    )
    assert call.invoke(parser, AIMessage("x")) == []
    with pytest.raises(OutputParserException, match="'halt'"):
        call.invoke(PydanticToolsParser(tools=[add]), CALLS)
    message = AIMessage("", tool_calls=[{"name": "add", "args": {"a": "z"}, "id": "1"}])
    with pytest.raises(OutputParserException, match="do not fit") as excinfo:
        call.invoke(parser, message)
    assert excinfo.value.llm_output == '{"a": "z"}'


def test_calls_so_far_stream(call):
    arguments = '{"a": 12, "b": "xyz"}'

    assert call.transform(JsonOutputToolsParser(), stream_call(arguments))[-1] == [
        {"args": {"a": 12, "b": "xyz"}, "type": "add"}
    ]
    keyed = call.transform(
        JsonOutputKeyToolsParser(key_name="add", first_tool_only=True), stream_call(arguments)
    )
    assert keyed == [{}, {"a": 12}, {"a": 12, "b": ""}, {"a": 12, "b": "xyz"}]
    assert call.transform(
        PydanticToolsParser(tools=[add], first_tool_only=True), stream_call(arguments)
    ) == [add(a=12)]
    patches = call.transform(
        JsonOutputToolsParser(diff=True, first_tool_only=True), stream_call('{"a": 12}')
    )
    assert patches[-1] == [{"op": "add", "path": "/args/a", "value": 12}]


def test_F_U01_a_call_that_cannot_be_read_is_an_error_not_an_empty_list(call):
    for parser in (
        JsonOutputToolsParser(),
        JsonOutputKeyToolsParser(key_name="add"),
        PydanticToolsParser(tools=[add]),
    ):
        with pytest.raises(OutputParserException, match="cut off") as excinfo:
            call.invoke(parser, BROKEN)
        assert excinfo.value.llm_output == '{"a": '


def test_text_has_no_calls(call):
    for parser in (JsonOutputToolsParser(), JsonOutputFunctionsParser(), OutputFunctionsParser()):
        with pytest.raises(OutputParserException, match="text"):
            call.invoke(parser, "x")
    for parser in (JsonOutputToolsParser(), JsonOutputFunctionsParser()):
        with pytest.raises(NotImplementedError):
            parser.parse("x")


def test_calls_in_openais_form_are_read_strictly_or_as_far_as_they_go():
    def raw(arguments: Any) -> dict[str, Any]:
        return {"id": "1", "function": {"name": "add", "arguments": arguments}}

    assert parse_tool_call(raw('{"a":'), partial=True) == {
        "name": "add",
        "args": {},
        "id": "1",
        "type": "tool_call",
    }
    assert parse_tool_call(raw(None), partial=True) is None
    assert parse_tool_call(raw("nope"), partial=True) is None
    assert parse_tool_call(raw(None), return_id=False) == {"name": "add", "args": {}}
    assert parse_tool_call(raw('{"a": "x\ny"}'))["args"] == {"a": "x\ny"}
    assert parse_tool_call({"id": "1"}) is None
    for wrong, strict in (
        ('{"a":', False),
        ("[1]", False),
        ('{"a": "x\ny"}', True),
        ("[" * 100_000, False),
    ):
        with pytest.raises(OutputParserException):
            parse_tool_call(raw(wrong), strict=strict)
    with pytest.raises(OutputParserException) as excinfo:
        parse_tool_calls([raw("{x"), raw("{}"), raw("{y")])
    assert excinfo.value.llm_output == "{x\n{y"
    assert make_invalid_tool_call(raw("{x"), "why")["error"] == "why"
    older = AIMessage("", additional_kwargs={"tool_calls": [raw('{"a": 1}')]})
    assert JsonOutputToolsParser().invoke(older) == [{"args": {"a": 1}, "type": "add"}]
    chunk = AIMessageChunk("", additional_kwargs={})
    chunk.additional_kwargs["tool_calls"] = [raw('{"a": 1}')]
    assert JsonOutputToolsParser().invoke(chunk) == [{"args": {"a": 1}, "type": "add"}]


def test_F_U07_streaming_calls_cost_what_they_are_long():
    def cost(items: int) -> float:
        best = 1e9
        for _ in range(3):
            chunks = stream_call(json.dumps({"items": [{"n": i} for i in range(items)]}), 5)
            start = time.process_time()
            for _ in JsonOutputToolsParser().transform(iter(chunks)):
                pass
            best = min(best, time.process_time() - start)
        return best

    assert cost(400) / cost(100) < 4 * 2.5


FUNCTION = AIMessage(
    "", additional_kwargs={"function_call": {"name": "add", "arguments": '{"a": 1}'}}
)


def test_function_calls(call):
    assert call.invoke(OutputFunctionsParser(), FUNCTION) == '{"a": 1}'
    assert call.invoke(OutputFunctionsParser(args_only=False), FUNCTION)["name"] == "add"
    assert call.invoke(JsonOutputFunctionsParser(), FUNCTION) == {"a": 1}
    assert call.invoke(JsonOutputFunctionsParser(args_only=False), FUNCTION) == {
        "name": "add",
        "arguments": {"a": 1},
    }
    assert call.invoke(JsonKeyOutputFunctionsParser(key_name="a"), FUNCTION) == 1
    assert call.invoke(PydanticOutputFunctionsParser(pydantic_schema=add), FUNCTION) == add(a=1)
    assert call.invoke(
        PydanticOutputFunctionsParser(pydantic_schema={"add": add}), FUNCTION
    ) == add(a=1)
    assert (
        call.invoke(PydanticAttrOutputFunctionsParser(pydantic_schema=add, attr_name="a"), FUNCTION)
        == 1
    )


def test_function_calls_stream(call):
    pieces = ["", '{"a": 1', '2, "b"', ': "x"}']
    chunks = [
        AIMessageChunk("", additional_kwargs={"function_call": {"arguments": piece}})
        for piece in pieces
    ]

    assert call.transform(JsonOutputFunctionsParser(), chunks) == [
        {"a": 1},
        {"a": 12},
        {"a": 12, "b": "x"},
    ]
    assert call.transform(JsonOutputFunctionsParser(diff=True), chunks)[1] == [
        {"op": "replace", "path": "/a", "value": 12}
    ]
    assert call.transform(JsonKeyOutputFunctionsParser(key_name="b"), chunks) == ["x"]


def test_wrong_function_calls_are_typed_errors(call):
    cut_off = AIMessage(
        "", additional_kwargs={"function_call": {"name": "add", "arguments": '{"a": '}}
    )
    cases = [
        (OutputFunctionsParser(), AIMessage("x"), "no function call"),
        (JsonOutputFunctionsParser(), AIMessage("x"), "no function call"),
        (JsonOutputFunctionsParser(), cut_off, "not JSON"),
        (JsonOutputFunctionsParser(strict=True), cut_off, "not JSON"),
        (JsonKeyOutputFunctionsParser(key_name="z"), FUNCTION, "'z'"),
        (PydanticOutputFunctionsParser(pydantic_schema=add), cut_off, "do not fit"),
        (PydanticOutputFunctionsParser(pydantic_schema={"other": add}), FUNCTION, "'add'"),
    ]
    for parser, message, error_text in cases:
        with pytest.raises(OutputParserException, match=error_text) as excinfo:
            call.invoke(parser, message)
        assert excinfo.value.llm_output is not None
    with pytest.raises((ValidationError, UsageError), match="args_only"):
        PydanticOutputFunctionsParser(pydantic_schema={"add": add}, args_only=True)
