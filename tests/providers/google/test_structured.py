"""Tools and structured output of Gemini, as a user asks for them, down to the request."""

from __future__ import annotations

from pydantic import BaseModel

from foldline.chat_models import init_chat_model
from foldline.providers.google import ChatGoogle
from tests.providers.google.recordings import whole_of
from tests.servers.script import json_answer

PATH = "/models/gemini-2.5-flash:generateContent"


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


def search(query: str) -> str:
    """Search the web."""
    return query


def answering(server, *parts) -> ChatGoogle:
    response = whole_of("text")
    response["candidates"][0]["content"]["parts"] = list(parts)
    server.script(PATH, json_answer(response))
    return ChatGoogle(base_url=server.url, api_key="key", max_retries=0)


def test_a_schema_is_asked_for_natively(fault_server, call):
    model = answering(fault_server, {"text": '{"name": "Ann", "age": 31}'})

    assert call.invoke(model.with_structured_output(Person), "Ann is 31.") == Person(
        name="Ann", age=31
    )
    config = fault_server.requests()[0].json()["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["required"] == ["name", "age"]


def test_a_schema_can_be_asked_for_by_tool(fault_server, call):
    model = answering(
        fault_server, {"functionCall": {"name": "Person", "args": {"name": "Ann", "age": 31}}}
    )
    runnable = model.with_structured_output(Person, method="function_calling")

    assert call.invoke(runnable, "Ann is 31.") == Person(name="Ann", age=31)
    assert fault_server.requests()[0].json()["toolConfig"]["functionCallingConfig"]["mode"] == "ANY"


def test_bound_tools_are_declared(fault_server, call):
    model = answering(
        fault_server, {"functionCall": {"name": "search", "args": {"query": "x"}}}
    ).bind_tools([search, {"google_search": {}}])

    assert call.invoke(model, "Search x").tool_calls[0]["args"] == {"query": "x"}
    functions, googles = fault_server.requests()[0].json()["tools"]
    assert functions["functionDeclarations"][0]["name"] == "search"
    assert googles == {"googleSearch": {}}


def test_it_is_found_by_name():
    assert type(init_chat_model("google:gemini-2.5-pro", api_key="key")) is ChatGoogle
    assert type(init_chat_model("google_genai:gemini-2.5-pro", api_key="key")) is ChatGoogle
