"""Histories that no provider accepts are refused before they are sent, on every wire, with place and way out."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.google import ChatGoogleGenerativeAI
from foldline.providers.local import ChatLlamaCpp
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatGroq, ChatMistralAI
from foldline.providers.vertex import ChatVertexAI

KEY = {"api_key": "k" * 20}
MODELS: dict[str, Any] = {
    "completions": ChatOpenAI(model="gpt-4o", **KEY),
    "responses": ChatOpenAI(model="gpt-4o", use_responses_api=True, **KEY),
    "anthropic": ChatAnthropic(model="claude-sonnet-4-5", **KEY),
    "google": ChatGoogleGenerativeAI(model="gemini-2.5-pro", **KEY),
    "vertex": ChatVertexAI(model="gemini-2.5-pro", project="p", location="us-central1"),
    "bedrock": ChatBedrockConverse(model="amazon.nova-pro-v1:0", region_name="us-east-1", **KEY),
    "mistral": ChatMistralAI(model="mistral-large-latest", **KEY),
    "groq": ChatGroq(model="llama-3.3-70b-versatile", **KEY),
}
every_wire = pytest.mark.parametrize("wire", MODELS)


def call_of(id: str = "c1", name: str = "look") -> dict[str, Any]:
    return {"name": name, "args": {}, "id": id, "type": "tool_call"}


CALL = AIMessage("", tool_calls=[call_of()])
RESULT = ToolMessage("found", tool_call_id="c1")
QUESTION = HumanMessage("Look.")


@pytest.mark.parametrize("after", [[HumanMessage("And?")], [AIMessage("done")], []])
@every_wire
def test_F_U09_a_call_without_its_result_is_refused(wire: str, after: list[Any]) -> None:
    with pytest.raises(UsageError) as caught:
        MODELS[wire].explain([QUESTION, CALL, *after])

    assert "messages[1] calls the tool 'look' (call 'c1')" in str(caught.value)
    assert "ToolMessage(..., tool_call_id='c1')" in str(caught.value)


@every_wire
def test_F_U09_one_of_two_results_is_not_enough(wire: str) -> None:
    both = AIMessage("", tool_calls=[call_of(), call_of("c2", "read")])

    with pytest.raises(UsageError, match=r"the tool 'read' \(call 'c2'\)"):
        MODELS[wire].explain([QUESTION, both, RESULT, HumanMessage("And?")])


@pytest.mark.parametrize("block", [
    {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
    {"type": "tool_call", "id": "c1", "name": "look", "args": {}},
])  # fmt: skip
@every_wire
def test_F_U09_a_call_in_the_content_needs_its_result_too(wire: str, block: Any) -> None:
    history = [QUESTION, {"role": "assistant", "content": [block]}]

    with pytest.raises(UsageError, match=r"messages\[1\] calls the tool 'look' \(call 'c1'\)"):
        MODELS[wire].explain([*history, HumanMessage("And?")])
    assert MODELS[wire].explain([*history, RESULT]).body


@every_wire
def test_F_U09_a_call_without_an_id_is_refused(wire: str) -> None:
    nameless = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": None}])

    with pytest.raises(UsageError, match=r"messages\[1\] calls the tool 'look' without an id"):
        MODELS[wire].explain([QUESTION, nameless, HumanMessage("And?")])


@every_wire
def test_F_U09_a_call_with_its_result_is_sent(wire: str) -> None:
    explained = MODELS[wire].explain([QUESTION, CALL, RESULT, HumanMessage("And?")])

    assert "found" in str(explained.body)


@every_wire
def test_an_empty_list_of_messages_is_refused(wire: str) -> None:
    with pytest.raises(UsageError, match="no message to send"):
        MODELS[wire].explain([])


def test_nothing_is_sent_of_a_history_that_is_refused(call: Any, fault_server: Any) -> None:
    model = ChatOpenAI(model="m", base_url=fault_server.url + "/v1", **KEY)

    for method in ("invoke", "stream", "stream_v2"):
        for messages in ([], [QUESTION, CALL, HumanMessage("And?")]):
            with pytest.raises(UsageError):
                getattr(call, method)(model, messages)

    assert fault_server.hits("/v1/chat/completions") == 0


@pytest.mark.parametrize(
    "result",
    [
        HumanMessage([{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]),
        HumanMessage([{"toolResult": {"toolUseId": "c1", "content": [{"text": "found"}]}}]),
        HumanMessage([{"type": "function_call_output", "call_id": "c1", "output": "found"}]),
        ChatMessage("found", role="user", additional_kwargs={"tool_call_id": "c1"}),
    ],
)
def test_F_U09_a_result_in_a_providers_own_format_counts(result: Any) -> None:
    assert MODELS["anthropic"].explain([QUESTION, CALL, result, HumanMessage("And?")]).body


def test_F_U09_a_call_of_the_providers_own_tool_needs_no_result_of_ours() -> None:
    server_call = {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {}}
    paused = AIMessage([server_call], response_metadata={"model_provider": "anthropic"})

    assert MODELS["anthropic"].explain([QUESTION, paused]).body["messages"]


@pytest.mark.parametrize("wire", ["completions", "responses", "anthropic", "google", "bedrock"])
def test_a_call_that_did_not_parse_is_left_out_with_a_note_unless_it_has_a_result(
    wire: str,
) -> None:
    broken = {"type": "invalid_tool_call", "id": "c1", "name": "look", "args": '{"a', "error": "x"}
    history = [QUESTION, AIMessage("hm", invalid_tool_calls=[broken])]

    left_out = MODELS[wire].explain([*history, HumanMessage("And?")])
    answered = MODELS[wire].explain([*history, RESULT])

    assert "look" not in str(left_out.body)
    assert "a tool call that did not parse was left out" in left_out.notes
    assert "look" in str(answered.body)


def test_responses_of_a_stored_turn_or_prompt_need_no_message() -> None:
    model = MODELS["responses"]

    assert model.explain([], previous_response_id="resp_1").body["input"] == []
    assert model.explain([], prompt={"id": "pmpt_1"}).body["prompt"] == {"id": "pmpt_1"}


def test_a_part_of_a_history_can_be_counted() -> None:
    parts = [[CALL], [RESULT], [SystemMessage("x"), QUESTION, CALL]]

    for model in (*MODELS.values(), ChatLlamaCpp(model="none.gguf")):
        for part in parts:
            assert model.count_tokens(part).n > 0
