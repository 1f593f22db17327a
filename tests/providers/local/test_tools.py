"""Requests with tools, made fit for a small model; and what llama.cpp leaves out, given back."""

from __future__ import annotations

import pytest

from foldline.exceptions import UsageError
from foldline.providers.local._tools import ArgumentFixer, bound_schema, encode_tools, route

pytestmark = pytest.mark.timing


def tool(name, description="", **properties):
    parameters = {"type": "object", "properties": properties}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


WEATHER = tool("get_weather", "Get the weather of a city.", city={"type": "string"})
ADD = tool("add", "Add two numbers.", a={"type": "number"}, b={"type": "number"})


def request(question="What is the weather in Paris?", **more):
    return {"messages": [{"role": "user", "content": question}], "tools": [WEATHER, ADD], **more}


def embed(texts):
    """Two axes: about the weather, about numbers."""
    return [[float("weather" in text.lower()), float("number" in text.lower())] for text in texts]


def test_an_auto_choice_is_made_by_meaning_and_pinned():
    body = encode_tools(request(), embed)

    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather"]
    assert body["tool_choice"] == "required"
    assert body["parallel_tool_calls"] is False
    assert body["messages"][-1] == {
        "role": "assistant",
        "content": '<tool_call>\n{"name": "get_weather", "arguments":',
    }


def test_a_question_near_no_tool_is_sent_without_tools():
    body = encode_tools(request("Who painted the Mona Lisa?"), embed)

    assert set(body) == {"messages"}
    assert body["messages"][-1]["role"] == "user"


def test_the_threshold_is_the_callers():
    assert "tools" not in encode_tools(request(), embed, threshold=1.5)


def test_a_named_tool_is_pinned_and_an_unknown_name_is_refused():
    choice = {"type": "function", "function": {"name": "add"}}
    body = encode_tools(request(tool_choice=choice))

    assert [tool["function"]["name"] for tool in body["tools"]] == ["add"]
    with pytest.raises(UsageError, match=r"'subtract'.*'get_weather', 'add'"):
        encode_tools(request(tool_choice={"type": "function", "function": {"name": "subtract"}}))


def test_required_takes_the_nearest_however_far():
    body = encode_tools(request("Hello!", tool_choice="required"), embed)

    assert len(body["tools"]) == 1


def test_required_without_embeddings_begins_a_call_of_any_tool():
    body = encode_tools(request(tool_choice="required"))

    assert len(body["tools"]) == 2
    assert body["messages"][-1]["content"] == "<tool_call>\n"


def test_none_and_no_tools_send_none():
    assert "tools" not in encode_tools(request(tool_choice="none"), embed)
    assert encode_tools({"messages": [], "tools": []}, embed) == {"messages": []}


def test_after_a_result_the_model_is_to_answer_not_to_call():
    options = request()
    options["messages"].append({"role": "tool", "tool_call_id": "1", "content": "sunny"})
    body = encode_tools(options, embed)

    assert body["tool_choice"] == "none"
    assert body["messages"][-1]["role"] == "tool"
    assert body["tools"]


def test_the_callers_request_is_left_as_it_was():
    original = request()
    encode_tools(original, embed)

    assert original == request()
    assert "maxLength" not in WEATHER["function"]["parameters"]["properties"]["city"]


def test_every_open_value_of_a_schema_gets_an_end():
    bounded = bound_schema(
        {
            "type": "object",
            "properties": {
                "free": {"type": "string"},
                "short": {"type": "string", "maxLength": 5},
                "one_of": {"type": "string", "enum": ["a"]},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "also": {"type": ["string", "null"]},
                "many": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
            },
            "$defs": {"Tag": {"type": "object", "properties": {"type": {"type": "string"}}}},
        }
    )

    properties = bounded["properties"]
    assert properties["free"]["maxLength"] == 80
    assert properties["short"]["maxLength"] == 5
    assert "maxLength" not in properties["one_of"]
    assert properties["maybe"]["anyOf"][0]["maxLength"] == 80
    assert properties["also"]["maxLength"] == 80
    assert properties["many"]["maxItems"] == 16
    assert bounded["$defs"]["Tag"]["properties"]["type"]["maxLength"] == 80
    assert bounded["additionalProperties"] is False


def test_a_tool_without_parameters_takes_none():
    bare = {"type": "function", "function": {"name": "ping"}}
    body = encode_tools(
        {"messages": [{"role": "user", "content": "x"}], "tools": [bare], "tool_choice": "required"}
    )

    assert body["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def chunks(*arguments, finish=None):
    for text in arguments:
        call = {"index": 0, "function": {"arguments": text} if text is not None else {"name": "f"}}
        yield {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": None}]}
    yield {"choices": [{"delta": {}, "finish_reason": finish}]}


def decode_message(stream):
    mender = ArgumentFixer()
    calls = [
        call
        for chunk in map(mender.feed, stream)
        for choice in chunk["choices"]
        for call in choice["delta"].get("tool_calls", [])
    ]
    return "".join(call["function"].get("arguments", "") for call in calls)


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        (['"', "city", '": 1}'], '{"city": 1}'),
        ([None, '"', "city", '": 1}'], '{"city": 1}'),
        (["{", '"city": 1}'], '{"city": 1}'),
        ([" ", "}"], " {}"),
        ([None], "{}"),
    ],
)
def test_the_brace_that_llama_cpp_swallows_comes_back(slices, expected):
    assert decode_message(chunks(*slices, finish="tool_calls")) == expected


def test_real_embeddings_route_as_a_person_would(embeddings):
    tools = [WEATHER, ADD, tool("send_email", "Send an email to a person.")]

    def choose_tool(question):
        return route(question, tools, embeddings.embed_now)

    assert choose_tool("Will it rain in Oslo tomorrow?") == "get_weather"
    assert choose_tool("What is 3 plus 4?") == "add"
    assert choose_tool("Write to tom@mail.net that I am late") == "send_email"
    assert choose_tool("Who painted the Mona Lisa?") is None
