"""The code samples of the two seeds on messages: LangChain's architecture chapter and its guide to messages.

Samples that call a model are in the file of this name among the tests of models.
"""

from __future__ import annotations

import pytest

from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolCallChunk,
    ToolMessage,
    content,
    convert_to_messages,
)


def test_a_text_message_and_a_multimodal_message():
    text = HumanMessage(content="What is in this image?")
    multimodal = HumanMessage(
        content=[
            {"type": "text", "text": "What is in this image?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}},
        ]
    )

    assert text.text == multimodal.text == "What is in this image?"
    assert multimodal.content_blocks[1] == {
        "type": "image",
        "base64": "...",
        "mime_type": "image/png",
    }


def test_a_model_returns_tool_calls():
    message = AIMessage(
        content="",
        tool_calls=[ToolCall(name="get_weather", args={"city": "San Francisco"}, id="call_abc123")],
    )

    lines = [f"Tool: {call['name']}, Args: {call['args']}" for call in message.tool_calls]

    assert lines == ["Tool: get_weather, Args: {'city': 'San Francisco'}"]


def test_a_tool_result_is_linked_by_its_id():
    result = ToolMessage(content="72 degrees and sunny", tool_call_id="call_abc123")

    assert result.tool_call_id == "call_abc123"


def test_three_chunks_add_up():
    accumulated = (
        AIMessageChunk(content="Hello")
        + AIMessageChunk(content=" world")
        + AIMessageChunk(content="!")
    )

    assert accumulated.content == "Hello world!"


def test_tool_call_chunks_add_up():
    chunk1 = AIMessageChunk(
        content="",
        tool_call_chunks=[ToolCallChunk(name="get_weather", args='{"cit', id="call_1", index=0)],
    )
    chunk2 = AIMessageChunk(
        content="", tool_call_chunks=[ToolCallChunk(name=None, args='y": "SF"}', id=None, index=0)]
    )

    accumulated = chunk1 + chunk2

    assert accumulated.tool_calls == [
        ToolCall(name="get_weather", args={"city": "SF"}, id="call_1", type="tool_call")
    ]


def test_the_loop_that_adds_what_a_stream_yields():
    full_response = None
    for chunk in [AIMessageChunk("Why did "), AIMessageChunk("the chicken?")]:
        full_response = chunk if full_response is None else full_response + chunk

    assert full_response is not None
    assert full_response.text == "Why did the chicken?"


def test_a_system_and_a_human_message_take_their_text_first():
    messages = [
        SystemMessage("You are a poetry expert"),
        HumanMessage("Write a haiku about spring"),
        AIMessage("Cherry blossoms bloom..."),
    ]

    assert [message.type for message in messages] == ["system", "human", "ai"]


def test_dicts_in_openai_form_are_messages():
    messages = convert_to_messages(
        [
            {"role": "system", "content": "You are a poetry expert"},
            {"role": "user", "content": "Write a haiku about spring"},
            {"role": "assistant", "content": "Cherry blossoms bloom..."},
        ]
    )

    assert messages == [
        SystemMessage("You are a poetry expert"),
        HumanMessage("Write a haiku about spring"),
        AIMessage("Cherry blossoms bloom..."),
    ]


def test_a_detailed_persona_keeps_its_lines():
    persona = "\nYou are a senior TypeScript developer.\nBe concise but thorough.\n"

    assert SystemMessage(persona).text == persona


def test_metadata_of_a_human_message():
    message = HumanMessage(content="Hello!", name="alice", id="msg_123")

    assert (message.name, message.id) == ("alice", "msg_123")


def test_token_usage_with_details():
    usage = {
        "output_tokens": 304,
        "input_tokens": 8,
        "total_tokens": 312,
        "input_token_details": {"cache_read": 0},
        "output_token_details": {"reasoning": 256},
    }

    assert AIMessage("Hello!", usage_metadata=usage).usage_metadata == usage


def test_a_conversation_with_a_tool():
    ai_message = AIMessage(
        content=[],
        tool_calls=[
            {"name": "get_weather", "args": {"location": "San Francisco"}, "id": "call_123"}
        ],
    )
    tool_message = ToolMessage(content="Sunny, 72°F", tool_call_id="call_123")

    assert ai_message.tool_calls[0]["id"] == tool_message.tool_call_id


def test_an_artifact_stays_beside_the_content():
    artifact = {"document_id": "doc_123", "page": 0}
    message = ToolMessage(
        content="It was the best of times, it was the worst of times.",
        tool_call_id="call_123",
        name="search_books",
        artifact=artifact,
    )

    assert message.artifact == artifact
    assert "doc_123" not in message.text


def test_content_in_its_three_forms():
    native = HumanMessage(
        content=[
            {"type": "text", "text": "Hello, how are you?"},
            {"type": "image_url", "image_url": {"url": "https://example.com/image.jpg"}},
        ]
    )
    standard = HumanMessage(
        content_blocks=[
            {"type": "text", "text": "Hello, how are you?"},
            {"type": "image", "url": "https://example.com/image.jpg"},
        ]
    )

    assert HumanMessage("Hello, how are you?").text == standard.text
    assert native.content_blocks == standard.content_blocks == standard.content


def test_anthropic_thinking_is_read_as_reasoning():
    message = AIMessage(
        content=[
            {"type": "thinking", "thinking": "...", "signature": "WaUjzkyp..."},
            {"type": "text", "text": "...", "id": "msg_abc123"},
        ],
        response_metadata={"model_provider": "anthropic"},
    )

    assert message.content_blocks == [
        {"type": "reasoning", "reasoning": "...", "extras": {"signature": "WaUjzkyp..."}},
        {"type": "text", "text": "...", "id": "msg_abc123"},
    ]


def test_openai_reasoning_is_read_as_reasoning():
    message = AIMessage(
        content=[
            {
                "type": "reasoning",
                "id": "rs_abc123",
                "summary": [
                    {"type": "summary_text", "text": "summary 1"},
                    {"type": "summary_text", "text": "summary 2"},
                ],
            },
            {"type": "text", "text": "...", "id": "msg_abc123"},
        ],
        response_metadata={"model_provider": "openai"},
    )

    assert message.content_blocks == [
        {"type": "reasoning", "id": "rs_abc123", "reasoning": "summary 1"},
        {"type": "reasoning", "id": "rs_abc123", "reasoning": "summary 2"},
        {"type": "text", "text": "...", "id": "msg_abc123"},
    ]


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        (
            {"source_type": "url", "url": "https://example.com/a.jpg"},
            {"url": "https://example.com/a.jpg"},
        ),
        ({"source_type": "base64", "data": "AAAAIGZ0"}, {"base64": "AAAAIGZ0"}),
        ({"source_type": "id", "id": "file-abc123"}, {"file_id": "file-abc123"}),
        ({"data": "AAAA", "mimeType": "image/png"}, {"base64": "AAAA", "mime_type": "image/png"}),
        (
            {"fileId": "file-1", "mimeType": "image/png"},
            {"file_id": "file-1", "mime_type": "image/png"},
        ),
    ],
)
def test_older_and_javascript_spellings_of_an_image(fields, read):
    message = HumanMessage([{"type": "image", **fields}])

    assert message.content_blocks == [{"type": "image", **read}]


def test_extra_keys_may_stand_in_the_block_or_in_extras():
    block = {"type": "file", "base64": "AAAA", "mime_type": "application/pdf", "filename": "a.pdf"}
    nested = {
        "type": "file",
        "base64": "AAAA",
        "mime_type": "application/pdf",
        "extras": {"filename": "a.pdf"},
    }

    assert HumanMessage([block, nested]).content_blocks == [block, nested]


BLOCKS = [
    {"type": "text", "text": "Hello world", "annotations": []},
    {"type": "reasoning", "reasoning": "The user is asking about..."},
    {"type": "image", "url": "https://example.com/image.png", "mimeType": "image/png"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/mpeg"},
    {"type": "video", "fileId": "file-1", "mimeType": "video/mp4"},
    {"type": "file", "data": "AAAA", "mimeType": "application/pdf"},
    {"type": "text-plain", "text": "# Title", "title": "a", "mimeType": "text/markdown"},
    {"type": "tool_call", "name": "search", "args": {"query": "weather"}, "id": "call_123"},
    {"type": "tool_call_chunk", "name": "search", "args": '{"que', "id": "call_1", "index": 0},
    {"type": "invalid_tool_call", "name": "f", "args": "{", "id": "1", "error": "Invalid JSON"},
    {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {"query": "x"}},
    {"type": "server_tool_call_chunk", "id": "s2", "name": "web_search", "args": "{", "index": 1},
    {
        "type": "server_tool_result",
        "tool_call_id": "s1",
        "id": "r",
        "status": "success",
        "output": [],
    },
    {"type": "non_standard", "value": {"odd": True}},
]
PYTHON_SPELLING = {"mimeType": "mime_type", "fileId": "file_id", "data": "base64"}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["type"])
def test_every_block_of_the_reference_is_read_in_the_spelling_of_python(block):
    message = AIMessage(content=[block])
    read = {PYTHON_SPELLING.get(key, key): value for key, value in block.items()}

    assert message.content_blocks == [read]
    assert AIMessage(content=message.content_blocks).content_blocks == [read]


def test_blocks_are_typed_dicts_of_their_own_names():
    text: content.TextContentBlock = {"type": "text", "text": "Hello world"}
    image: content.ImageContentBlock = {
        "type": "image",
        "url": "https://example.com/image.png",
        "mime_type": "image/png",
    }

    assert HumanMessage(content_blocks=[text, image]).content == [text, image]
