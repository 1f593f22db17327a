"""Messages and addresses -> Converse, block by block."""

from __future__ import annotations

import pytest

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.bedrock._encode import base_model_name
from foldline.providers.bedrock._messages import encode_call_id
from tests.providers.bedrock.bodies import (
    CITED,
    CLAUDE,
    OWNER,
    PNG,
    add,
    body_of,
    check_body,
    explain,
    turn,
)


def test_system_prompt_turns_and_settings_have_their_places():
    messages = [
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        HumanMessage("there"),
        AIMessage("Yes"),
        HumanMessage("?"),
    ]
    body = body_of(messages, {"temperature": 0.5, "top_p": 0.9, "max_tokens": 9}, stop=["x"])

    assert body == {
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}, {"text": "there"}]},
            {"role": "assistant", "content": [{"text": "Yes"}]},
            {"role": "user", "content": [{"text": "?"}]},
        ],
        "inferenceConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxTokens": 9,
            "stopSequences": ["x"],
        },
    }


@pytest.mark.parametrize(
    ("block", "encoded"),
    [
        (PNG, {"image": {"format": "png", "source": {"bytes": "AAEC"}}}),
        (
            {"type": "image", "url": "data:image/jpeg;base64,AAEC"},
            {"image": {"format": "jpeg", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"type": "image", "url": "s3://bct/a", "mime_type": "image/png", "extras": OWNER},
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bct/a", **OWNER}}}},
        ),
        (
            {"type": "video", "base64": "AAEC", "mime_type": "video/3gpp"},
            {"video": {"format": "three_gp", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"type": "audio", "base64": "AAEC", "mime_type": "audio/wav"},
            {"audio": {"format": "wav", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"type": "file", "base64": "AAEC", "mime_type": "application/pdf", "extras": {"filename": "a_b.pdf"}},
            {"document": {"name": "a-b-pdf", "format": "pdf", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"type": "text-plain", "text": "N", "title": "T", "context": "C", "extras": {"citations": CITED}},
            {"document": {"name": "T", "format": "txt", "source": {"text": "N"}, "context": "C",
                          "citations": {"enabled": True}}},
        ),
        ({"guardContent": {"text": {"text": "x"}}}, {"guardContent": {"text": {"text": "x"}}}),
        ({"type": "guard_content", "text": "x"}, {"guardContent": {"text": {"text": "x"}}}),
        ({"cachePoint": {"type": "default"}}, {"cachePoint": {"type": "default"}}),
        (
            {"image": {"format": "png", "source": {"bytes": b"\x00\x01\x02"}}},
            {"image": {"format": "png", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}},
            {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}},
        ),
    ],
)  # fmt: skip
def test_every_kind_of_input_block(block, encoded):
    takes_all = {"video_inputs": True, "audio_inputs": True}

    assert turn({"type": "text", "text": "See"}, block, fields={"profile": takes_all}) == [
        {"text": "See"},
        encoded,
    ]


def test_documents_without_a_name_are_numbered():
    pdf = {"type": "file", "base64": "AAEC", "mime_type": "application/pdf"}

    assert [part["document"]["name"] for part in turn(pdf, pdf)] == ["document-1", "document-2"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "AAEC"},
        {"type": "file", "file_id": "f_1"},
        {"type": "file", "base64": "AAEC", "mime_type": "application/zip"},
        {"type": "reasoning", "reasoning": "x"},
    ],
)
def test_what_converse_has_no_form_for_is_refused(block):
    with pytest.raises(UsageError):
        explain([HumanMessage([block])])


def test_blank_text_is_not_sent():
    assert turn({"type": "text", "text": "  "}, {"type": "text", "text": "x"}) == [{"text": "x"}]


def test_a_call_and_its_results_of_every_kind():
    calls = [{"name": "f", "args": {"a": 1}, "id": "c 1"}, {"name": "g", "args": {}, "id": "c2"}]
    content = [
        {"type": "text", "text": "t"},
        {"json": {"n": 1}},
        PNG,
        {"type": "text-plain", "text": "d"},
    ]
    messages = [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=calls),
        HumanMessage("Quick!"),
        ToolMessage(content, tool_call_id="c 1"),
        ToolMessage("broken", tool_call_id="c2", status="error"),
    ]
    body = body_of(messages, tools=[{"toolSpec": {"name": "f", "inputSchema": {"json": {}}}}])

    assert body["messages"][1]["content"] == [
        {"toolUse": {"toolUseId": encode_call_id("c 1"), "name": "f", "input": {"a": 1}}},
        {"toolUse": {"toolUseId": "c2", "name": "g", "input": {}}},
    ]
    first, second, text = body["messages"][2]["content"]
    assert first["toolResult"]["toolUseId"] == encode_call_id("c 1")
    assert [next(iter(part)) for part in first["toolResult"]["content"]] == [
        "text",
        "json",
        "image",
        "document",
    ]
    assert second["toolResult"] == {
        "toolUseId": "c2",
        "content": [{"text": "broken"}],
        "status": "error",
    }
    assert text == {"text": "Quick!"}


def test_ids_of_calls_fit_the_api():
    long = "call_" + "x" * 100

    assert encode_call_id("a b/c").startswith("a_b_c-")
    assert len(encode_call_id(long)) == 64
    assert encode_call_id(long) == encode_call_id(long) != encode_call_id(long + "y")


def test_tools_that_were_used_are_described_though_none_is_bound():
    messages = [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
        ToolMessage("ok", tool_call_id="c"),
    ]
    explanation = explain(messages)

    check_body(explanation.body)
    assert explanation.body["toolConfig"]["tools"][0]["toolSpec"]["name"] == "f"
    assert any("without a schema" in note for note in explanation.notes)
    forbidden = explain(messages, tools=[add], tool_choice="none")
    assert "toolChoice" not in forbidden.body["toolConfig"]
    assert any("cannot forbid" in note for note in forbidden.notes)


# -- addresses


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("amazon.nova-pro-v1:0", "amazon.nova-pro-v1%3A0"),
        ("arn:aws:bedrock:us-east-1:1:prompt/us.x-y", "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aprompt%2Fus.x-y"),
        ("a?b#c d", "a%3Fb%23c%20d"),
    ],
)  # fmt: skip
def test_the_id_of_a_model_is_one_segment_of_the_path(model, path):
    root = "https://bedrock-runtime.us-east-1.amazonaws.com/model"

    assert explain("Hi", fields={"model": model}).url == f"{root}/{path}/converse"
    assert explain("Hi", True, {"model": model}).url == f"{root}/{path}/converse-stream"


def test_a_model_without_an_id_is_refused():
    with pytest.raises(UsageError, match="id of a model"):
        explain("Hi", fields={"model": " "})


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (CLAUDE, "anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("global.amazon.nova-2-lite-v1:0", "amazon.nova-2-lite-v1:0"),
        ("arn:aws:bedrock:us-east-1::foundation-model/meta.llama3-8b", "meta.llama3-8b"),
        ("amazon.nova-pro-v1:0", "amazon.nova-pro-v1:0"),
    ],
)
def test_the_name_behind_an_id(model, name):
    assert base_model_name(model) == name


def test_a_base_model_gives_its_profile_to_an_arn():
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    model = ChatBedrockConverse(model=arn, base_model_id=CLAUDE, region_name="us-east-1")

    assert model.profile["reasoning_family"] == "claude"
    assert model.explain("Hi", reasoning_effort="low").body["additionalModelRequestFields"][
        "thinking"
    ]
