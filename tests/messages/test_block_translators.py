"""Providers' own content as standard blocks: nothing lost, and translating twice is translating once."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage, convert_to_openai_messages
from foldline.messages.block_translators import (
    CUSTOM_TRANSLATORS,
    get_translator,
    register_translator,
)
from tests.strategies import block_lists, json_objects

NATIVE = {
    "anthropic": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "secret"},
        {
            "type": "text",
            "text": "x",
            "citations": [
                {
                    "type": "web_search_result_location",
                    "url": "u",
                    "title": "t",
                    "cited_text": "q",
                    "encrypted_index": "e",
                }
            ],
        },
        {"type": "tool_use", "id": "1", "name": "n", "input": {"a": 1}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
        {"type": "mcp_tool_use", "id": "m", "name": "z", "server_name": "srv", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": True, "content": ["oops"]},
        {"type": "compaction", "content": "summary"},
    ],
    "openai": [
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": "a"}],
            "encrypted_content": "E",
        },
        {
            "type": "text",
            "text": "x",
            "annotations": [
                {"type": "url_citation", "url": "u", "title": "t"},
                {"type": "odd", "z": "9"},
            ],
        },
        {
            "type": "function_call",
            "name": "f",
            "arguments": '{"a":1}',
            "call_id": "c1",
            "id": "fc1",
        },
        {"type": "refusal", "refusal": "no"},
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "q"}},
        {"type": "code_interpreter_call", "id": "ci", "code": "1", "outputs": [{"logs": "x"}]},
        {"type": "image_generation_call", "id": "ig", "result": "B64", "output_format": "png"},
        {"type": "mcp_call", "id": "mc", "name": "n", "arguments": '{"k":2}', "output": "o"},
        {"type": "message", "id": "msg", "content": [{"type": "output_text", "text": "inner"}]},
    ],
    "google_genai": [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"text": "thought", "thought": True, "thoughtSignature": "ts"},
        {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "fs"},
        {"type": "executable_code", "executable_code": "print(1)", "language": "PYTHON", "id": "e"},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "boom"}},
        {"inlineData": {"mimeType": "image/png", "data": "AA"}},
        {"file_data": {"mime_type": "video/mp4", "file_uri": "gs://x"}},
        {"type": "media", "mime_type": "application/pdf", "data": "PDF"},
    ],
    "bedrock_converse": [
        {"type": "reasoning_content", "reasoning_content": {"text": "t", "signature": "s"}},
        {"reasoningContent": {"reasoningText": {"text": "u", "signature": "v"}}},
        {"reasoningContent": {"redactedContent": "zz"}},
        {"text": "plain"},
        {"toolUse": {"toolUseId": "t1", "name": "n", "input": {"a": 1}}},
        {"image": {"format": "png", "source": {"bytes": "AA"}}},
        {
            "document": {
                "format": "pdf",
                "name": "doc",
                "source": {"s3Location": {"uri": "s3://b/k"}},
            }
        },
        {"type": "guard_content", "guard_content": {"text": "g"}},
    ],
    "acme": [{"type": "hologram", "depth": "7"}, {"nothing": "known"}],
}


def leaves(value):
    """Every string in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)


RENAMED = {
    "thinking",
    "tool_use",
    "server_tool_use",
    "mcp_tool_use",
    "function_call",
    "media",
    "completed",
}


@pytest.mark.parametrize("provider", NATIVE)
def test_nothing_a_provider_said_is_lost(provider):
    content = NATIVE[provider]
    message = AIMessage(content, response_metadata={"model_provider": provider})

    leaf_text = " ".join(leaves(message.content_blocks))

    values = {
        leaf
        for block in content
        for key, value in block.items()
        if key != "type"
        for leaf in leaves(value)
    }
    missing = {value for value in values if value not in leaf_text}
    # Names of formats become mime types; types of inner items and arguments as text are read, not kept.
    assert missing <= {
        *RENAMED, "summary_text", "url_citation", "output_text", '{"a":1}', '{"k":2}', "OK",
    }  # fmt: skip


@pytest.mark.parametrize("provider", NATIVE)
def test_translating_twice_is_translating_once(provider):
    metadata = {"model_provider": provider}
    once = AIMessage(NATIVE[provider], response_metadata=metadata).content_blocks

    assert AIMessage(once, response_metadata=metadata).content_blocks == once
    assert AIMessage(once).content_blocks == once


@given(block_lists)
def test_T56_standard_blocks_come_back_as_they_are(blocks):
    once = AIMessage(blocks).content_blocks
    standard_blocks = [block for block in blocks if block["type"] != "hologram"]

    assert [
        block for block in once if block.get("value", {}).get("type") != "hologram"
    ] == standard_blocks
    assert AIMessage(once).content_blocks == once


ODD = st.sampled_from(
    [
        None,
        0,
        True,
        "x",
        "",
        [],
        {},
        ["a"],
        {"url": 3},
        {"data": None},
        [{"text": 1}],
        "data:x",
        1.5,
    ]
)
KNOWN = sorted(
    {block["type"] for blocks in NATIVE.values() for block in blocks if "type" in block}
    | {"image", "audio", "video", "file", "text-plain", "tool_call", "tool_call_chunk", "reasoning"}
    | {"executable_code", "code_execution_result", "image_url", "input_audio", "document", "media"}
)
KEYS = sorted(
    {key for blocks in NATIVE.values() for block in blocks for key in block if key != "type"}
    | {"source_type", "extras", "file", "image_url", "input_audio", "mime_type", "args", "id"}
)


@given(
    st.sampled_from(KNOWN),
    st.dictionaries(st.sampled_from(KEYS), ODD, max_size=5),
    st.sampled_from([*NATIVE, None]),
)
def test_a_known_block_whose_fields_are_odd_is_read_or_kept(kind, fields, provider):
    message = AIMessage([{"type": kind, **fields}], response_metadata={"model_provider": provider})

    assert all(isinstance(block.get("type"), str) for block in message.content_blocks)
    with suppress(UsageError):  # what OpenAI has no place for; anything else fails this test
        convert_to_openai_messages([message])


@given(json_objects.filter(lambda value: "type" not in value), st.sampled_from([*NATIVE, None]))
def test_no_block_is_too_odd(block, provider):
    blocks = AIMessage([{"type": "odd", **block}], response_metadata={"model_provider": provider})

    assert blocks.content_blocks == [
        {"type": "non_standard", "value": {"type": "odd", **block}}
    ] or ("index" in block)


@pytest.mark.parametrize(
    ("native", "standard"),
    [
        (
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "reasoning", "reasoning": "t", "extras": {"signature": "s"}},
        ),
        (
            {"type": "tool_use", "id": "1", "name": "n", "input": {"a": 1}},
            {"type": "tool_call", "id": "1", "name": "n", "args": {"a": 1}},
        ),
        (
            {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": True},
            {
                "type": "server_tool_result",
                "tool_call_id": "m",
                "status": "error",
                "extras": {"block_type": "mcp_tool_result", "is_error": True},
            },
        ),
        (
            {"type": "redacted_thinking", "data": "D"},
            {"type": "non_standard", "value": {"type": "redacted_thinking", "data": "D"}},
        ),
        (
            {"type": "input_json_delta", "partial_json": '{"a', "index": 1},
            {"type": "tool_call_chunk", "id": None, "name": None, "args": '{"a', "index": 1},
        ),
    ],
)
def test_anthropic_blocks(native, standard):
    message = AIMessageChunk([native], response_metadata={"model_provider": "anthropic"})

    assert message.content_blocks == [standard]


def test_T18_hidden_openai_reasoning_has_no_reasoning_key():
    message = AIMessage(
        [{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "E"}],
        response_metadata={"model_provider": "openai"},
    )

    assert message.content_blocks == [
        {"type": "reasoning", "id": "rs", "extras": {"encrypted_content": "E"}}
    ]


def test_a_call_stands_where_the_content_has_it():
    content = [
        {"type": "text", "text": "a"},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c1", "id": "fc1"},
        {"type": "text", "text": "b"},
    ]
    call = {"name": "f", "args": {}, "id": "c1", "type": "tool_call"}
    message = AIMessage(content, tool_calls=[call], response_metadata={"model_provider": "openai"})

    assert [block["type"] for block in message.content_blocks] == ["text", "tool_call", "text"]
    assert message.content_blocks[1]["extras"] == {"item_id": "fc1"}


def test_calls_beside_plain_text_come_after_it():
    call = {"name": "f", "args": {}, "id": "c1", "type": "tool_call"}

    assert AIMessage("hi", tool_calls=[call]).content_blocks == [
        {"type": "text", "text": "hi"},
        call,
    ]
    assert AIMessage("", tool_calls=[call]).content_blocks == [call]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("provider", ["deepseek", "groq", "xai", None])
def test_reasoning_beside_the_content_comes_first(provider, key):
    message = AIMessage(
        "x", additional_kwargs={key: "hm"}, response_metadata={"model_provider": provider}
    )

    assert message.content_blocks == [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "x"},
    ]


def test_tools_that_groq_ran_are_server_tools():
    executed_tool = {"index": 0, "type": "python", "arguments": '{"code":"1"}', "output": "1"}
    message = AIMessage("x", additional_kwargs={"executed_tools": [executed_tool]})

    assert message.content_blocks[:2] == [
        {"type": "server_tool_call", "id": "0", "name": "code_interpreter", "args": {"code": "1"}},
        {"type": "server_tool_result", "tool_call_id": "0", "status": "success", "output": "1"},
    ]


def test_gemini_sources_are_citations_of_the_text():
    grounding = {
        "grounding_chunks": [{"web": {"uri": "u", "title": "t"}}],
        "grounding_supports": [
            {
                "segment": {"start_index": 0, "end_index": 1, "text": "x"},
                "grounding_chunk_indices": [0],
            }
        ],
    }
    message = AIMessage(
        "x", response_metadata={"model_provider": "google_genai", "grounding_metadata": grounding}
    )

    citation = message.content_blocks[0]["annotations"][0]

    assert (citation["url"], citation["title"], citation["cited_text"]) == ("u", "t", "x")


@pytest.mark.parametrize(
    ("native", "standard"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
            {"type": "image", "url": "https://x/y.png", "extras": {"detail": "low"}},
        ),
        ({"type": "image_url", "image_url": "https://x"}, {"type": "image", "url": "https://x"}),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            {"type": "image", "base64": "AA", "mime_type": "image/png"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "D", "format": "wav"}},
            {"type": "audio", "base64": "D", "mime_type": "audio/wav"},
        ),
        ({"type": "file", "file": {"file_id": "f"}}, {"type": "file", "file_id": "f"}),
        (
            {
                "type": "file",
                "file": {"filename": "n", "file_data": "data:application/pdf;base64,AA"},
            },
            {
                "type": "file",
                "base64": "AA",
                "mime_type": "application/pdf",
                "extras": {"filename": "n"},
            },
        ),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AA"},
            },
            {"type": "image", "base64": "AA", "mime_type": "image/png"},
        ),
        (
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
            {"type": "image", "file_id": "f"},
        ),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"},
                "title": "t",
            },
            {
                "type": "file",
                "base64": "AA",
                "mime_type": "application/pdf",
                "extras": {"title": "t"},
            },
        ),
        (
            {"type": "document", "source": {"type": "text", "data": "words"}, "title": "t"},
            {"type": "text-plain", "text": "words", "mime_type": "text/plain", "title": "t"},
        ),
        (
            {"type": "file", "source_type": "text", "text": "words"},
            {"type": "text-plain", "text": "words"},
        ),
        (
            {
                "type": "image",
                "source_type": "base64",
                "data": "AA",
                "mime_type": "image/png",
                "x": 1,
            },
            {"type": "image", "base64": "AA", "mime_type": "image/png", "extras": {"x": 1}},
        ),
    ],
)
def test_what_people_send_is_read_in_every_providers_words(native, standard):
    assert HumanMessage([native]).content_blocks == [standard]


def test_bytes_are_encoded():
    image = {"image": {"format": "png", "source": {"bytes": b"x"}}}

    assert HumanMessage([image]).content_blocks[0]["base64"] == "eA=="


def test_a_program_may_register_a_translator():
    def shout(message):
        return [{"type": "text", "text": message.text.upper()}]

    register_translator("acme-loud", shout, shout)
    try:
        message = AIMessage("hi", response_metadata={"model_provider": "acme-loud"})
        assert message.content_blocks == [{"type": "text", "text": "HI"}]
    finally:
        del CUSTOM_TRANSLATORS["acme-loud"]


def test_translators_are_found_by_name():
    translator = get_translator("anthropic")

    assert translator is not None
    assert translator["translate_content"](AIMessage([{"type": "thinking", "thinking": "t"}])) == [
        {"type": "reasoning", "reasoning": "t"}
    ]
    assert get_translator("nobody") is None
