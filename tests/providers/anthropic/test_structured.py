"""Tools, structured output, prompt caching and thinking, as a user asks for them, down to the request."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from foldline.chat_models import init_chat_model
from foldline.exceptions import ModelTimeoutError
from foldline.providers.anthropic import ChatAnthropic
from foldline.tools import tool
from foldline.transports import Timeouts
from tests.providers.anthropic.recordings import whole_of
from tests.servers.script import Answer, json_answer

PATH = "/v1/messages"


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


def search(query: str) -> str:
    """Search the web."""
    return query


def answering(server, content, model="claude-opus-5", stop="end_turn", **fields) -> ChatAnthropic:
    server.script(PATH, json_answer({**whole_of("text"), "content": content, "stop_reason": stop}))
    return ChatAnthropic(
        **{"base_url": server.url, "api_key": "key", "model": model, "max_retries": 0, **fields}
    )


def test_a_schema_is_asked_for_natively_where_the_model_has_it(fault_server, call):
    model = answering(fault_server, [{"type": "text", "text": '{"name": "Ann", "age": 31}'}])

    assert call.invoke(model.with_structured_output(Person), "Ann is 31.") == Person(
        name="Ann", age=31
    )
    output_format = fault_server.requests(PATH)[0].json()["output_config"]["format"]
    assert output_format["type"] == "json_schema"
    assert output_format["schema"]["additionalProperties"] is False


def test_a_schema_is_asked_for_by_tool_elsewhere(fault_server, call):
    tool_use = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Person",
        "input": {"name": "Ann", "age": 31},
    }
    model = answering(fault_server, [tool_use], "claude-3-5-haiku-latest", "tool_use")

    assert call.invoke(model.with_structured_output(Person), "Ann is 31.") == Person(
        name="Ann", age=31
    )
    body = fault_server.requests(PATH)[0].json()
    assert body["tools"][0]["name"] == "Person"
    assert body["tool_choice"]["type"] in ("tool", "any")


def test_bound_tools_are_sent_and_odd_names_come_back(fault_server, call):
    tool = {"name": "files.read", "input_schema": {"type": "object"}}
    tool_use = {"type": "tool_use", "id": "toolu_1", "name": "files_read", "input": {}}
    model = answering(fault_server, [tool_use], stop="tool_use").bind_tools(
        [tool, search], tool_choice="auto"
    )

    assert call.invoke(model, "Read it.").tool_calls[0]["name"] == "files.read"
    assert [tool["name"] for tool in fault_server.requests(PATH)[0].json()["tools"]] == [
        "files_read",
        "search",
    ]


def test_what_a_tool_says_for_anthropic_alone_survives_binding(fault_server, call):
    mark = {"type": "ephemeral"}

    @tool(extras={"defer_loading": True, "input_examples": [{"city": "Bern"}]})
    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        return city

    custom_tool = {"name": "mine", "input_schema": {"type": "object"}, "cache_control": mark}
    server = {"type": "web_search_20250305", "name": "web_search", "cache_control": mark}
    model = answering(fault_server, [{"type": "text", "text": "Yes"}]).bind_tools(
        [get_weather, custom_tool, server]
    )
    call.invoke(model, "Hi")
    tools = fault_server.requests(PATH)[0].json()["tools"]

    assert (tools[0]["defer_loading"], tools[0]["input_examples"]) == (True, [{"city": "Bern"}])
    assert [tool.get("cache_control") for tool in tools[1:]] == [mark, mark]


def test_the_prompt_cache_is_marked_by_itself(fault_server, call):
    model = answering(fault_server, [{"type": "text", "text": "Yes"}], prompt_cache=True)
    call.invoke(model, [("system", "Long"), ("human", "Hi")], tools=[search])
    body = fault_server.requests(PATH)[0].json()

    marks = [body["tools"][-1], body["system"][-1], body["messages"][-1]["content"][-1]]
    assert [mark.get("cache_control") for mark in marks] == [{"type": "ephemeral"}] * 3


def test_effort_and_thinking_go_with_the_call(fault_server, call):
    model = answering(fault_server, [{"type": "text", "text": "Yes"}])
    message = call.invoke(model, "Hi", reasoning_effort="xhigh")
    body = fault_server.requests(PATH)[0].json()

    assert body["output_config"] == {"effort": "xhigh"}
    assert body["thinking"] == {"type": "adaptive"}
    assert message.response_metadata["reasoning_effort"] == "xhigh"


def test_what_was_lost_is_in_the_message(fault_server, call):
    model = answering(fault_server, [{"type": "text", "text": "Yes"}], temperature=0)

    assert call.invoke(model, "Hi").response_metadata["lost"] == [
        "claude-opus-5 does not take temperature: left out"
    ]


def test_F_T08_pings_are_no_progress(fault_server, call):
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    start = b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m"}}\n\n'
    pieces = [start, ("repeat", [40, 0.05, ping])]
    fault_server.script(
        PATH, Answer(pieces, headers={"content-type": "text/event-stream"}, framing="chunked")
    )
    model = ChatAnthropic(
        base_url=fault_server.url, api_key="key", max_retries=0, timeout=Timeouts(idle=0.4)
    )

    with pytest.raises(ModelTimeoutError) as excinfo:
        call.stream(model, "Hi")
    assert excinfo.value.phase == "idle"


def test_it_is_found_by_name(monkeypatch):
    model = init_chat_model("anthropic:claude-opus-5", api_key="key", max_tokens=5)

    assert type(model) is ChatAnthropic
    assert model.explain("Hi").body["max_tokens"] == 5
    assert type(init_chat_model("claude-opus-5", api_key="key")) is ChatAnthropic


@pytest.mark.slow
def test_a_real_server_fills_a_schema_by_tool(llama, call):
    class Weather(BaseModel):
        """The weather of a city."""

        city: str

    model = ChatAnthropic(
        base_url=llama.base_url,
        api_key=llama.api_key,
        model=llama.model,
        temperature=0,
        max_tokens=40,
    )
    runnable = model.with_structured_output(Weather, include_raw=True)
    result = call.invoke(
        runnable,
        [("system", "You are a helpful assistant."), ("human", "What is the weather in Paris?")],
    )

    assert result["raw"].usage_metadata["output_tokens"] > 0
    assert result["parsed"] is None or isinstance(result["parsed"], Weather)
    assert json.loads(result["raw"].model_dump_json())
