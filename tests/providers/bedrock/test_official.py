"""botocore's client as judge: it sends the bodies that we send, to the same paths, and reads the same answers."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.config import Config
from botocore.session import Session

from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers.bedrock import ChatBedrockConverse
from tests.providers.bedrock.answers import NAMES, decode_stream, events_of, message_of, whole_of
from tests.providers.bedrock.bodies import add, with_bytes
from tests.servers.bedrock import ACCESS_KEY, REGION, SECRET_KEY, BedrockStub

KEYS = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
MODELS = ["amazon.nova-pro-v1:0", "arn:aws:bedrock:eu-central-1:123456789012:prompt/ABCDEFGHIJ:1"]
KNOWN = [name for name in NAMES if name != "unknown-block"]


def client_of(stub: BedrockStub) -> Any:
    return Session().create_client(
        "bedrock-runtime",
        region_name=REGION,
        endpoint_url=stub.url,
        config=Config(retries={"total_max_attempts": 1}),
        **KEYS,
    )


def model_of(stub: BedrockStub, model: str) -> ChatBedrockConverse:
    settings = {"base_url": stub.url, "region_name": REGION, "max_retries": 0}
    return ChatBedrockConverse(model=model, **settings, **KEYS)


def text_of(content: list[Any]) -> str:
    """The text of an answer as botocore returns it."""
    return "".join(
        block.get("text", "")
        + "".join(part["text"] for part in block.get("citationsContent", {}).get("content", ()))
        for block in content
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_they_read_the_same_in_a_whole_answer(stub, name):
    stub.answer = whole_of(name)
    sdk_answer = client_of(stub).converse(modelId="m", messages=[])
    message = message_of(decode_stream(events_of(name)))

    content = sdk_answer["output"]["message"]["content"]
    assert text_of(content) == message.text
    calls = [block["toolUse"] for block in content if "toolUse" in block]
    client_calls = [call for call in calls if "type" not in call]
    assert [(call["toolUseId"], call["input"]) for call in client_calls] == [
        (call["id"], call["args"]) for call in message.tool_calls
    ]
    assert sdk_answer["metrics"] == message.response_metadata["metrics"]
    assert sdk_answer["usage"]["inputTokens"] == message.usage_metadata["input_tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_they_read_the_same_in_a_stream(stub, name):
    stub.events = events_of(name)
    stream = client_of(stub).converse_stream(modelId="m", messages=[])["stream"]
    sdk_events = list(stream)
    message = message_of(decode_stream(events_of(name)))

    assert [next(iter(event)) for event in sdk_events] == [kind for kind, _ in events_of(name)]
    deltas = [
        event["contentBlockDelta"]["delta"] for event in sdk_events if "contentBlockDelta" in event
    ]
    assert "".join(delta.get("text", "") for delta in deltas) == message.text
    stops = [event["messageStop"]["stopReason"] for event in sdk_events if "messageStop" in event]
    assert stops == [message.response_metadata["stopReason"]]


CONVERSATIONS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "plain": ([HumanMessage("Grüße 🎈")], {"stop": ["x"], "max_tokens": 5, "temperature": 0.5}),
    "media": (
        [
            SystemMessage([{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]),
            HumanMessage(
                [
                    {"type": "image", "base64": "AAEC", "mime_type": "image/png"},
                    {"type": "file", "base64": "AAEC", "mime_type": "application/pdf"},
                    {"type": "video", "url": "s3://bucket/film", "mime_type": "video/mp4"},
                ]
            ),
        ],
        {},
    ),
    "tools": (
        [
            HumanMessage("Add"),
            AIMessage("", tool_calls=[{"id": "t_1", "name": "add", "args": {"a": 1.5, "b": None}}]),
            ToolMessage([{"json": {"sum": [1, "zwei"]}}], tool_call_id="t_1"),
        ],
        {"tools": [add], "tool_choice": "add"},
    ),
    "fields": (
        [HumanMessage("Hi")],
        {
            "guardrailConfig": {"guardrailIdentifier": "g1", "guardrailVersion": "1"},
            "additional_model_request_fields": {"k": {"deep": [1, 2.5, True, None]}},
            "request_metadata": {"team": "a"},
            "service_tier": "flex",
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("model_id", MODELS)
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_they_send_what_we_send(stub, call, name, model_id):
    stub.answer = whole_of("text")
    messages, options = CONVERSATIONS[name]
    call.invoke(model_of(stub, model_id), messages, **options)
    foldline_request = stub.requests[-1]
    client_of(stub).converse(modelId=model_id, **with_bytes(foldline_request["body"]))
    sdk_request = stub.requests[-1]

    assert foldline_request["body"] == sdk_request["body"]
    assert foldline_request["path"] == sdk_request["path"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in KNOWN if whole_of(name)["output"]["message"]["content"]]
)
def test_they_send_back_what_we_send_back(stub, call, name):
    stub.answer = whole_of("text")
    message = message_of(decode_stream(events_of(name)))
    results = [ToolMessage("ok", tool_call_id=tool_call["id"]) for tool_call in message.tool_calls]
    call.invoke(model_of(stub, "m"), [HumanMessage("Hi"), message, *results, HumanMessage("On")])
    body = stub.requests[-1]["body"]
    client_of(stub).converse(modelId="m", **with_bytes(body))

    assert stub.requests[-1]["body"] == body
