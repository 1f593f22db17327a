"""LangChain's metadata of an answer of chat completions, under the same names; programs read these keys."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from foldline.agents import create_agent
from foldline.messages import AIMessage, HumanMessage
from foldline.providers.openai import ChatOpenAI
from tests.providers.openai.test_whole_answers import ANSWER
from tests.providers.test_shared_http import CHAT, model
from tests.servers import FaultServer, json_answer

KEYS = [
    "finish_reason",
    "id",
    "logprobs",
    "model_name",
    "model_provider",
    "service_tier",
    "system_fingerprint",
    "token_usage",
]


@pytest.fixture
def answer(call: Any, fault_server: FaultServer) -> Any:
    def ask(body: dict[str, Any]) -> AIMessage:
        fault_server.script(CHAT, json_answer(body))
        return call.invoke(model(fault_server), "hi")

    return ask


def test_a_whole_answer_has_the_keys_of_langchain(answer: Any) -> None:
    message = answer(ANSWER)

    assert sorted(message.response_metadata) == KEYS
    assert message.additional_kwargs == {"refusal": None}
    assert message.response_metadata["logprobs"] is None
    assert message.response_metadata["system_fingerprint"] is None
    assert message.response_metadata["token_usage"] == ANSWER["usage"]


def test_counts_of_zero_that_only_openai_names_are_left_out(answer: Any) -> None:
    message = answer(ANSWER)

    assert message.usage_metadata == {
        "input_tokens": 9,
        "output_tokens": 12,
        "total_tokens": 21,
        "input_token_details": {"audio": 0, "cache_read": 0},
        "output_token_details": {"reasoning": 8},
    }


def test_a_refusal_stands_beside_the_content_too(answer: Any) -> None:
    body = copy.deepcopy(ANSWER)
    body["choices"][0]["message"] |= {"content": None, "refusal": "I will not."}

    message = answer(body)
    message_body = (
        ChatOpenAI(api_key="k").explain([HumanMessage("hi"), message]).body["messages"][1]
    )

    assert message.additional_kwargs == {"refusal": "I will not."}
    assert message_body["refusal"] == "I will not."
    assert len(message.content_blocks) == 1


def test_a_message_with_a_short_id_is_named_by_its_run_for_servers_repeat_those(
    call: Any, fault_server: FaultServer
) -> None:
    """Ollama draws the id of a completion from a thousand numbers; two turns of one agent may have the same."""
    tool_response = copy.deepcopy(ANSWER)
    function = {"name": "look", "arguments": "{}"}
    tool_response["choices"][0]["message"] |= {
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }

    def look() -> str:
        """Look."""
        return "nothing"

    fault_server.script(CHAT, json_answer(tool_response), json_answer(ANSWER))
    agent = create_agent(model(fault_server), [look])
    result = call.invoke(agent, {"messages": [("user", "hi")]})

    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert result["messages"][1].response_metadata["id"] == "chatcmpl-1"
