"""The structured final answer, by a tool call or by the provider."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from foldline.agents import ProviderStrategy, ToolStrategy, create_agent
from foldline.agents.checkpoint import SqliteSaver
from foldline.exceptions import ModelRefusalError, StructuredOutputError
from foldline.messages import AIMessage, ToolMessage
from foldline.testing import Call, Finish, ScriptedChatModel
from tests.agents.conftest import add


class Weather(BaseModel):
    """The weather."""

    city: str
    degrees: int


@dataclass
class Apology:
    """When there is no answer."""

    why: str


OSLO = {"city": "Oslo", "degrees": 4}


def scripted(*turns, **kwargs):
    return ScriptedChatModel(script=list(turns), **kwargs)


def test_the_answer_is_a_call_of_the_schemas_tool(call):
    model = scripted([Call("add", {"a": 1, "b": 3})], [Call("Weather", OSLO)])
    agent = create_agent(model, [add], response_format=ToolStrategy(Weather))

    state = call.invoke(agent, "?")

    assert state["structured_response"] == Weather(**OSLO)
    assert isinstance(state["messages"][-1], ToolMessage)
    assert {tool["function"]["name"] for tool in model.requests[0].options["tools"]} == {
        "add",
        "Weather",
    }
    assert model.requests[0].options["tool_choice"] is not None


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
def test_a_refusal_ends_the_agent_with_its_error_and_is_asked_once(call, strategy):
    refusal = {"type": "refusal", "refusal": "I will not."}
    model = scripted(AIMessage([refusal], finish_reason="refusal"), is_cyclic=True)

    with pytest.raises(ModelRefusalError, match="I will not") as caught:
        call.invoke(create_agent(model, response_format=strategy(Weather)), "?")

    assert caught.value.raw_message.content_blocks == [refusal]
    assert len(model.requests) == 1


def test_a_refusal_of_an_agent_without_a_schema_is_its_answer(call):
    refusal = {"type": "refusal", "refusal": "I will not."}
    model = scripted(AIMessage([refusal], finish_reason="refusal"))

    assert call.invoke(create_agent(model), "?")["messages"][-1].content_blocks == [refusal]


def test_a_bare_schema_chooses_by_the_models_profile(call):
    by_tool = create_agent(scripted([Call("Weather", OSLO)]), response_format=Weather)
    model = scripted('{"city": "Oslo", "degrees": 4}', profile={"structured_output": True})
    native = create_agent(model, response_format=Weather)

    assert call.invoke(by_tool, "?")["structured_response"] == Weather(**OSLO)
    assert call.invoke(native, "?")["structured_response"] == Weather(**OSLO)
    assert model.requests[0].options["response_format"]["json_schema"]["name"] == "Weather"


def test_a_union_offers_one_tool_each(call):
    agent = create_agent(
        scripted([Call("Apology", {"why": "no idea"})]),
        response_format=ToolStrategy(Weather | Apology),
    )

    assert call.invoke(agent, "?")["structured_response"] == Apology("no idea")


def test_an_answer_that_does_not_fit_is_asked_for_again(call):
    model = scripted([Call("Weather", {"city": "Oslo"})], [Call("Weather", OSLO)])
    state = call.invoke(create_agent(model, response_format=ToolStrategy(Weather)), "?")

    assert state["structured_response"] == Weather(**OSLO)
    assert "degrees: Field required" in state["messages"][2].text
    assert state["messages"][2].status == "error"


def test_an_answer_that_never_fits_ends_with_a_typed_error_and_its_history(call):
    model = scripted([Call("Weather", {"city": "Oslo"})], is_cyclic=True)

    with pytest.raises(StructuredOutputError, match="does not fit Weather") as excinfo:
        call.invoke(create_agent(model, response_format=ToolStrategy(Weather)), "?")

    assert len(model.requests) == 3
    assert len(excinfo.value.messages) == 5
    assert excinfo.value.raw.tool_calls


def test_a_providers_answer_that_is_no_json_is_asked_for_again_then_raised(call):
    model = scripted("It is cold", '{"city": "Oslo", "degrees": 4}')
    agent = create_agent(model, response_format=ProviderStrategy(Weather))

    assert call.invoke(agent, "?")["structured_response"] == Weather(**OSLO)
    with pytest.raises(StructuredOutputError, match="not JSON"):
        call.invoke(
            create_agent(scripted("no", is_cyclic=True), response_format=ProviderStrategy(Weather)),
            "?",
        )


def test_errors_may_be_raised_at_once_or_said_in_other_words(call):
    incomplete_call = [Call("Weather", {"city": "Oslo"})]
    strict = create_agent(
        scripted(incomplete_call), response_format=ToolStrategy(Weather, handle_errors=False)
    )
    kind = create_agent(
        scripted(incomplete_call, [Call("Weather", OSLO)]),
        response_format=ToolStrategy(Weather, handle_errors=lambda error: "once more, please"),
    )

    with pytest.raises(StructuredOutputError):
        call.invoke(strict, "?")
    assert call.invoke(kind, "?")["messages"][2].text == "once more, please"


def test_two_answers_at_once_are_asked_for_again(call):
    model = scripted([Call("Weather", OSLO), Call("Weather", OSLO)], [Call("Weather", OSLO)])
    state = call.invoke(create_agent(model, response_format=ToolStrategy(Weather)), "?")

    assert "one final answer" in state["messages"][2].text
    assert state["structured_response"] == Weather(**OSLO)


def test_other_calls_beside_the_answer_are_not_run(call):
    model = scripted([Call("Weather", OSLO), Call("add", {"a": 1, "b": 1})])
    state = call.invoke(create_agent(model, [add], response_format=ToolStrategy(Weather)), "?")

    assert state["structured_response"] == Weather(**OSLO)
    assert "Not run" in state["messages"][-1].text


def test_an_answer_that_was_cut_is_not_taken(call):
    model = scripted([Call("Weather", OSLO), Finish("length")], [Call("Weather", OSLO)])
    state = call.invoke(create_agent(model, response_format=ToolStrategy(Weather)), "?")

    assert "was not run" in state["messages"][2].text
    assert state["structured_response"] == Weather(**OSLO)


def test_the_answer_is_kept_in_a_thread_and_read_back_as_what_it_was(call, tmp_path):
    saver = SqliteSaver(tmp_path / "agents.db")
    config = {"configurable": {"thread_id": "1"}}
    agent = create_agent(
        scripted([Call("Weather", OSLO)]), response_format=ToolStrategy(Weather), checkpointer=saver
    )
    call.invoke(agent, "?", config)

    assert call.run(agent, "get_state", config).values["structured_response"] == Weather(**OSLO)
