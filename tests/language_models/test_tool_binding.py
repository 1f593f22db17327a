from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from foldline.exceptions import StructuredOutputError, UsageError
from foldline.language_models.structured._tool_binding import tools_of
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.runnables import RunnableBinding
from tests.language_models.scripted import KINDS, Speaking, calls, usage


def search(query: str, limit: int = 3) -> str:
    """Search the web.

    Args:
        query: What to look for.
    """
    return query


def other_search(query: str) -> str:
    """Search a shelf."""
    return query


other_search.__name__ = "search"


class Weather(BaseModel):
    """Tell the weather."""

    city: str


class Note(TypedDict):
    """Keep a note."""

    text: str


@dataclass
class Duck:
    name: str = "quack"
    description: str = "Quacks."
    args_schema: type[BaseModel] = Weather


ANTHROPIC = {
    "name": "clock",
    "description": "d",
    "input_schema": {"type": "object", "properties": {}},
}
OPENAI = {"type": "function", "function": {"name": "plain", "parameters": {"type": "object"}}}
SCHEMA = {"title": "Json", "type": "object", "properties": {"a": {"type": "integer"}}}
SERVER = {"type": "web_search_20250305", "name": "web_search"}


def test_every_form_of_tool_is_described_in_one_form():
    tools = tools_of([search, Weather, Note, Duck(), ANTHROPIC, OPENAI, SCHEMA, SERVER])

    names = [tool["function"]["name"] for tool in tools[:-1]]
    assert names == ["search", "Weather", "Note", "quack", "clock", "plain", "Json"]
    assert tools[0]["function"]["parameters"]["required"] == ["query"]
    assert tools[-1] == SERVER


def test_a_tool_is_described_once():
    assert tools_of([search])[0] is tools_of([search])[0]
    assert tools_of([search], strict=True)[0] is not tools_of([search])[0]


def test_a_tool_that_was_changed_is_described_again():
    duck = Duck()
    before = tools_of([duck])[0]
    duck.description = "Barks."

    assert tools_of([duck])[0]["function"]["description"] == "Barks."
    assert before["function"]["description"] == "Quacks."


def test_binding_gives_the_options_to_every_api(call):
    model = Speaking(answers=[calls(("search", {"query": "x"}))])
    bound = model.bind_tools([search], tool_choice="any", parallel_tool_calls=False, temperature=0)

    assert isinstance(bound, RunnableBinding)
    call.invoke(bound, "go")
    call.stream(bound, "go")
    call.stream_v2(bound, "go")

    for request in model.requests:
        assert request.options["tools"][0]["function"]["name"] == "search"
        assert request.options["tool_choice"] == "required"
        assert request.options["parallel_tool_calls"] is False
        assert request.options["temperature"] == 0


@pytest.mark.parametrize(
    ("tools", "options", "error_text"),
    [
        ([search], {"tool_choice": "nothere"}, "not among the tools: search"),
        ([search, other_search], {}, "two tools are named 'search'"),
        ([search], {"validate": "maybe"}, "validate='maybe'"),
        ("search", {}, "takes a list of tools"),
        ([], {"tool_choice": "required"}, "needs at least one tool"),
        ([7], {}, "cannot be described"),
    ],
)
def test_tools_bound_wrongly_say_so_at_once(tools, options, error_text):
    with pytest.raises(UsageError, match=error_text):
        Speaking(answers=["x"]).bind_tools(tools, **options)


def test_one_tool_in_two_forms_is_offered_once():
    tools = tools_of([search, search, Weather, Weather.model_json_schema()])

    assert [tool["function"]["name"] for tool in tools] == ["search", "Weather"]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_are_left_alone_unless_asked_for(call, kind):
    model = kind(answers=[calls(("unknown", {"x": 1}))])

    answer = call.invoke(model.bind_tools([search]), "go")

    assert answer.tool_calls[0]["name"] == "unknown"


@pytest.mark.parametrize("kind", KINDS)
def test_F_U06_calls_that_do_not_fit_are_marked_invalid(call, kind):
    message = calls(("search", {"query": "a"}), ("search", {"query": 7}), ("nope", {}))
    model = kind(answers=[message])

    answer = call.invoke(model.bind_tools([search], validate="invalid"), "go")

    assert [call["args"] for call in answer.tool_calls] == [{"query": "a"}]
    bad = {call["name"]: call for call in answer.invalid_tool_calls}
    assert bad["search"]["args"] == '{"query": 7}'
    assert "query" in bad["search"]["error"]
    assert "no tool named 'nope'" in bad["nope"]["error"]


def test_invalid_calls_are_invalid_in_the_events_too(call):
    model = Speaking(answers=[calls(("nope", {"a": 1}))])

    events = call.stream_v2(model.bind_tools([search], validate="invalid"), "go")

    types = [
        event["content"]["type"] for event in events if event["event"] == "content-block-finish"
    ]
    assert types == ["invalid_tool_call"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_does_not_fit_is_asked_for_again_with_what_was_wrong(call, kind):
    model = kind(
        answers=[
            calls(("search", {"query": 7}), usage_metadata=usage(10, 2)),
            calls(("search", {"query": "a"}), usage_metadata=usage(20, 3)),
        ]
    )

    answer = call.invoke(model.bind_tools([search], validate="retry"), "go")

    assert answer.tool_calls[0]["args"] == {"query": "a"}
    messages = model.requests[1].messages
    assert isinstance(messages[0], HumanMessage)
    assert isinstance(messages[1], AIMessage)
    assert isinstance(messages[2], ToolMessage)
    assert messages[2].tool_call_id == "call_0"
    assert "query" in messages[2].text
    assert answer.response_metadata["retries"] == 1
    assert answer.usage_metadata["total_tokens"] == 35


@pytest.mark.parametrize("kind", KINDS)
def test_required_with_no_call_is_asked_for_again(call, kind):
    model = kind(answers=["I would rather not.", calls(("search", {"query": "a"}))])

    answer = call.invoke(model.bind_tools([search], tool_choice="required", validate="retry"), "go")

    assert answer.tool_calls
    assert "must call a tool" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_tool_is_asked_for_again_and_then_given_up(call, kind):
    model = kind(answers=[calls(("nope", {}), usage_metadata=usage(1, 1))])

    with pytest.raises(StructuredOutputError, match="no tool named 'nope'") as excinfo:
        call.invoke(model.bind_tools([search], validate="retry"), "go")

    assert len(model.requests) == 3
    assert excinfo.value.usage["total_tokens"] == 6
    assert excinfo.value.raw.tool_calls[0]["name"] == "nope"


def test_a_stream_that_was_read_is_not_begun_again_by_itself():
    model = Speaking(answers=[calls(("nope", {}), text="well")])

    with pytest.raises(StructuredOutputError) as excinfo:
        list(model.bind_tools([search], validate="retry").stream("go"))

    assert len(model.requests) == 1
    assert excinfo.value.partial.text.strip() == "well"


def test_text_beside_calls_is_kept(call):
    model = Speaking(answers=[calls(("search", {"query": "a"}), text="Let me look.")])

    answer = call.invoke(model.bind_tools([search], validate="retry"), "go")

    assert answer.text.strip() == "Let me look."
    assert answer.tool_calls
