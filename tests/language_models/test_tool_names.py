from __future__ import annotations

import copy
import re

from hypothesis import given, strategies as st

from foldline.language_models._call.policies.tool_names import NameCodec
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from tests.language_models.scripted import Narrow, calls


@given(st.lists(st.text(min_size=1, max_size=90), max_size=12))
def test_codes_are_injective_reversible_and_fit(names):
    codec = NameCodec(names)
    wire = {name: codec.encode(name) for name in names}

    assert len(set(wire.values())) == len(wire)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", value) for value in wire.values())
    assert all(codec.decode(encoded) == name for name, encoded in wire.items())


def test_names_that_fit_stay_and_collisions_get_a_suffix():
    codec = NameCodec(["a.b", "a_b", "a b", "x" * 70, "x" * 71])

    assert codec.encode("a_b") == "a_b"
    assert codec.encode("a.b") == "a_b_2"
    assert codec.encode("a b") == "a_b_3"
    assert codec.encode("x" * 71) == "x" * 62 + "_2"


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def test_tools_choice_history_and_answers_are_encoded_and_decoded(call):
    history = [
        HumanMessage("read it"),
        AIMessage("", tool_calls=[{"id": "1", "name": "files.read", "args": {}}]),
        ToolMessage("text", tool_call_id="1", name="files.read"),
    ]
    before = copy.deepcopy(history)
    model = Narrow(answers=[calls(("files_read_2", {"a": 1}), text="ok")])
    bound = model.bind_tools([tool("files.read"), tool("files_read")], tool_choice="files.read")

    answer = call.invoke(bound, history)

    request = model.requests[0]
    assert [option["function"]["name"] for option in request.options["tools"]] == [
        "files_read_2",
        "files_read",
    ]
    assert request.options["tool_choice"]["function"]["name"] == "files_read_2"
    assert request.messages[1].tool_calls[0]["name"] == "files_read_2"
    assert request.messages[2].name == "files_read_2"
    assert answer.tool_calls[0]["name"] == "files.read"
    assert history == before


def test_streamed_calls_are_decoded_in_every_event(call):
    model = Narrow(answers=[calls(("a_b", {"x": 1}))])
    bound = model.bind_tools([tool("a.b")])

    events = call.stream_v2(bound, "go")

    names = [event["content"]["name"] for event in events if "name" in event.get("content", {})]
    assert names
    assert set(names) == {"a.b"}


def test_tools_the_provider_runs_keep_their_names(call):
    model = Narrow(answers=["done"])
    bound = model.bind_tools([{"type": "web.search", "name": "web search"}, tool("a b")])

    call.invoke(bound, "go")

    assert model.requests[0].options["tools"][0] == {"type": "web.search", "name": "web search"}
    assert model.requests[0].options["tools"][1]["function"]["name"] == "a_b"


def test_nothing_is_touched_where_every_name_fits(call):
    history = [HumanMessage("x")]
    model = Narrow(answers=["done"])

    call.invoke(model.bind_tools([tool("fine")]), history)

    assert model.requests[0].messages[0] is history[0]
