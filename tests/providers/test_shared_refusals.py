"""A refusal in the history goes to every provider: in its own form or as text, never lost and never an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldline.messages import AIMessage, HumanMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatDeepSeek, ChatGroq, ChatMistral
from tests.servers import FaultServer, json_answer

MODELS: dict[str, Any] = {
    "openai": lambda: ChatOpenAI(model="gpt-5", api_key="k", use_responses_api=False),
    "responses": lambda: ChatOpenAI(model="gpt-5", api_key="k", use_responses_api=True),
    "anthropic": lambda: ChatAnthropic(model="claude-sonnet-5", api_key="k"),
    "google": lambda: ChatGoogle(model="gemini-3", api_key="k"),
    "bedrock": lambda: ChatBedrockConverse(
        model="amazon.nova-pro-v1:0",
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="s",
    ),
    "deepseek": lambda: ChatDeepSeek(model="deepseek-chat", api_key="k"),
    "groq": lambda: ChatGroq(model="llama", api_key="k"),
    "mistral": lambda: ChatMistral(model="mistral-large", api_key="k"),
}
WRITERS = (None, "openai", "anthropic", "google_genai")


def body_of(model: str, message: AIMessage) -> Any:
    history = [HumanMessage("Go"), message, HumanMessage("Why?")]
    return MODELS[model]().explain(history).body


@pytest.mark.parametrize("policy", ["convert", "drop", "refuse"])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("model", MODELS)
def test_the_words_of_a_refusal_are_sent_whoever_wrote_them(model, writer, policy):
    metadata = {"model_provider": writer} if writer else {}
    message = AIMessage([{"type": "refusal", "refusal": "I won't."}], response_metadata=metadata)
    history = [HumanMessage("Go"), message, HumanMessage("Why?")]
    chat = MODELS[model]().model_copy(update={"foreign_blocks": policy})

    text = json.dumps(chat.explain(history).body)

    is_comment = model == "anthropic" and writer == "anthropic"  # its words are in stop_details
    assert text.count("I won't.") == (0 if is_comment else 1)


@pytest.mark.parametrize("model", MODELS)
def test_a_refusal_without_words_sends_nothing_of_itself(model):
    message = AIMessage([{"type": "text", "text": "So"}, {"type": "refusal", "refusal": ""}])

    text = json.dumps(body_of(model, message))

    assert "refusal" not in text
    assert '"So"' in text


def test_openai_takes_it_in_its_own_form() -> None:
    message = AIMessage([{"type": "refusal", "refusal": "I won't.", "id": "msg_1"}])

    assert body_of("openai", message)["messages"][1]["refusal"] == "I won't."
    (item,) = [item for item in body_of("responses", message)["input"] if item.get("id")]
    assert item["content"] == [{"type": "refusal", "refusal": "I won't."}]


@pytest.mark.parametrize("version", ["v0", "v1"])
def test_a_completion_that_a_filter_left_empty_is_a_refusal(
    call: Any, fault_server: FaultServer, version: str
) -> None:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": ""},
        "finish_reason": "content_filter",
    }
    answer = {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice]}
    fault_server.script("/chat/completions", json_answer(answer))
    model = ChatDeepSeek(model="m", api_key="k", base_url=fault_server.url, max_retries=0)

    message = call.invoke(model, "Hi", output_version=version)

    assert message.content_blocks == [
        {"type": "refusal", "refusal": "", "extras": {"finish_reason": "content_filter"}}
    ]
    assert message.finish_reason == "content_filter"
