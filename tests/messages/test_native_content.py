"""Content in the provider's words under "v0", standard blocks under "v1" and in `content_blocks`: every recording."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import ModelError
from foldline.messages import AIMessage, FunctionMessage, ToolMessage
from foldline.protocol.folded_message import FoldedMessage
from foldline.providers.bedrock._endpoint import PROVIDER as BEDROCK
from tests.providers import recordings
from tests.providers.recorded_models import MODELS

FOLDERS = {
    "openai": ("openai", "chat-"),
    "openai-responses": ("openai", "responses-"),
    "anthropic": ("anthropic", ""),
    "google": ("google", ""),
    "groq": ("openai_compatible", "groq-"),
    "deepseek": ("openai_compatible", "deepseek-"),
    "mistral": ("openai_compatible", "mistral-"),
}
CASES = [
    (provider, name)
    for provider, (folder, beginning) in FOLDERS.items()
    for name in recordings.names(folder, beginning, ".json")
    if name in recordings.names(folder, beginning)
]


def answers(provider: str, name: str, version: str) -> tuple[AIMessage, AIMessage]:
    """The answer that came whole, and the sum of the streamed one."""
    model = MODELS[provider](name, output_version=version)
    try:
        answer = model.invoke("Hi")
        chunks = list(model.stream("Hi"))
    except ModelError as error:
        pytest.skip(f"the recording is an error: {error}")
    return answer, sum(chunks[1:], chunks[0])


def without_index(value: Any) -> Any:
    if isinstance(value, list):
        return [without_index(item) for item in value]
    if isinstance(value, dict):
        return {key: without_index(item) for key, item in value.items() if key != "index"}
    return value


@pytest.mark.parametrize(("provider", "name"), CASES)
def test_content_blocks_are_the_same_whatever_the_content(provider: str, name: str):
    native, _ = answers(provider, name, "v0")
    standard, _ = answers(provider, name, "v1")

    assert without_index(native.content_blocks) == without_index(standard.content_blocks)
    assert native.text == standard.text
    assert native.tool_calls == standard.tool_calls


@pytest.mark.parametrize(("provider", "name"), CASES)
def test_the_sum_of_a_stream_is_in_the_same_words_as_the_whole(provider: str, name: str):
    whole_message, streamed_message = answers(provider, name, "v0")

    assert without_index(streamed_message.content_blocks) == without_index(
        AIMessage.model_validate(streamed_message.model_dump() | {"type": "ai"}).content_blocks
    )
    assert type(streamed_message.content) is type(whole_message.content)
    kinds = [
        [block["type"] if isinstance(block, dict) else "str" for block in message.content]
        for message in (whole_message, streamed_message)
        if isinstance(message.content, list)
    ]
    assert len(kinds) != 2 or kinds[0] == kinds[1]


@pytest.mark.parametrize(("provider", "name"), CASES)
def test_what_is_sent_back_is_the_same_whatever_the_content(provider: str, name: str):
    native, _ = answers(provider, name, "v0")
    standard, _ = answers(provider, name, "v1")
    model = MODELS[provider](name)

    results = [
        FunctionMessage("done", name=call["name"])
        if call["id"] is None
        else ToolMessage("done", tool_call_id=call["id"])
        for call in native.tool_calls
    ]
    bodies = [
        model.explain(["Hi", message, *results, "And?"]).body for message in (native, standard)
    ]

    assert bodies[0] == bodies[1]


def kinds_of(provider: str, name: str) -> Any:
    content = answers(provider, name, "v0")[0].content
    return content if isinstance(content, str) else [block["type"] for block in content]


def test_anthropic_says_thinking_and_tool_use():
    whole_message, streamed_message = answers("anthropic", "thinking", "v0")
    calls = kinds_of("anthropic", "tool-use")

    for message in (whole_message, streamed_message):
        assert [block["type"] for block in message.content] == ["thinking", "text"]
        assert message.content[0]["thinking"]
        assert message.content[0]["signature"]
    assert "tool_use" in calls
    assert "server_tool_use" in kinds_of("anthropic", "web-search")
    assert "redacted_thinking" in kinds_of("anthropic", "thinking-redacted")


def test_deepseek_and_groq_say_reasoning_beside_their_text():
    for provider, name in (("deepseek", "deepseek-reasoning"), ("groq", "groq-reasoning")):
        for message in answers(provider, name, "v0"):
            assert isinstance(message.content, str)
            assert message.content
            assert message.additional_kwargs["reasoning_content"]
            assert message.content_blocks[0]["type"] == "reasoning"


def test_responses_says_reasoning_items_with_summaries():
    for message in answers("openai-responses", "responses-reasoning-summaries", "v0"):
        item = message.content[0]
        assert item["type"] == "reasoning"
        assert [part["type"] for part in item["summary"]] == ["summary_text"] * len(item["summary"])


def test_gemini_says_thinking():
    assert kinds_of("google", "thinking")[0] == "thinking"


def test_converse_says_reasoning_content_and_tool_use():
    blocks: Any = [
        {"type": "reasoning", "reasoning": "So.", "extras": {"signature": "s"}},
        {"type": "text", "text": "Yes."},
        {"type": "tool_call", "id": "1", "name": "f", "args": {"a": 1}},
    ]
    metadata = {"model_provider": BEDROCK, "model_name": "m"}
    message = AIMessage.from_fold(FoldedMessage(blocks=blocks, metadata=metadata))

    assert message.content == [
        {"type": "reasoning_content", "reasoning_content": {"text": "So.", "signature": "s"}},
        {"type": "text", "text": "Yes."},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
    ]
    assert [block["type"] for block in message.content_blocks] == ["reasoning", "text", "tool_call"]


def test_plain_text_stays_a_string_everywhere():
    for provider, name in (("anthropic", "text"), ("openai", "chat-text"), ("google", "text")):
        whole_message, streamed_message = answers(provider, name, "v0")
        assert whole_message.content == streamed_message.content == whole_message.text
