"""`ChatBedrockConverse` over HTTP: against a stub that checks signatures."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from foldline.chat_models import init_chat_model
from foldline.exceptions import (
    ModelAuthenticationError,
    SchemaError,
    UsageError,
)
from foldline.load import dumps, loads
from foldline.messages import HumanMessage
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers.bedrock import ChatBedrock, ChatBedrockConverse
from foldline.providers.bedrock._wire import STREAM_TYPE
from tests.providers.bedrock.answers import (
    NAMES,
    decode_stream,
    events_of,
    message_of,
    whole_of,
    without_index,
)
from tests.servers.bedrock import ACCESS_KEY, BEARER, REGION, SECRET_KEY, SESSION_TOKEN, BedrockStub

MODEL = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-v1:0"
KEYS = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
STREAM_PATH = "/model/m/converse-stream"
FRAMES = {"content-type": STREAM_TYPE}


def model_of(stub: BedrockStub, name: str = "text", **fields: Any) -> ChatBedrockConverse:
    stub.answer, stub.events = whole_of(name), events_of(name)
    settings = {"model": MODEL, "endpoint_url": stub.url, "region_name": REGION, "max_retries": 0}
    return ChatBedrockConverse(**{**settings, **KEYS, **fields})


@pytest.mark.parametrize("name", NAMES)
def test_invoke_and_stream_give_one_message(stub, call, name):
    model = model_of(stub, name)

    answer = call.invoke(model, "Hi")
    chunks = call.stream(model, "Hi")

    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert without_index(total) == without_index(answer)
    assert total.usage_metadata == answer.usage_metadata
    assert answer.response_metadata["request_id"] == "request-1"
    assert [request["path"].rpartition("/")[2] for request in stub.requests] == [
        "converse",
        "converse-stream",
    ]


def test_the_events_of_a_call_are_those_of_the_decoder(stub, call):
    events = call.stream_v2(model_of(stub, "citations"), "Hi")

    assert_valid_event_stream(events)
    assert (
        message_of(events).content_blocks
        == message_of(decode_stream(events_of("citations"))).content_blocks
    )


def test_streaming_asks_for_a_stream_under_invoke_too(stub, call):
    assert call.invoke(model_of(stub, streaming=True), "Hi").text == "Hello there."
    assert stub.requests[0]["path"].endswith("/converse-stream")
    assert stub.requests[0]["headers"]["accept"] == STREAM_TYPE


def test_a_session_token_a_query_and_text_beyond_ascii_are_signed(stub, call):
    model = model_of(stub, aws_session_token=SESSION_TOKEN, default_query={"b": "x y", "a": "1"})

    assert call.invoke(model, "Grüße 漢字 🎈").text == "Hello there."
    assert stub.requests[0]["headers"]["x-amz-security-token"] == SESSION_TOKEN
    assert stub.requests[0]["path"].endswith("/converse?b=x+y&a=1")


@pytest.mark.parametrize("model", ["amazon.nova-pro-v1:0", "a b/c?d=e&f", "modèle~1"])
def test_every_id_of_a_model_is_signed(stub, call, model):
    assert call.invoke(model_of(stub, model=model), "Hi").text == "Hello there."


def test_a_bearer_key_is_sent_as_one(stub, call, monkeypatch):
    settings = {"aws_access_key_id": None, "aws_secret_access_key": None}
    assert call.invoke(model_of(stub, api_key=BEARER, **settings), "Hi").text == "Hello there."

    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", BEARER)
    assert call.invoke(model_of(stub, **settings), "Hi").text == "Hello there."
    assert [request["headers"]["authorization"] for request in stub.requests] == [
        f"Bearer {BEARER}"
    ] * 2
    call.invoke(model_of(stub), "Hi")
    assert stub.requests[2]["headers"]["authorization"].startswith("AWS4")


def test_a_wrong_secret_is_an_authentication_error_that_shows_no_key(stub, call):
    model = model_of(stub, aws_secret_access_key="another-secret", aws_session_token="token-canary")
    with pytest.raises(ModelAuthenticationError) as excinfo:
        call.invoke(model, "Hi")

    representation = f"{excinfo.value} {excinfo.value.body} {excinfo.value!r}"
    assert "wrong signature" in representation
    assert not any(
        secret in representation
        for secret in (ACCESS_KEY, "token-canary", "another-secret", "Signature=a")
    )
    assert excinfo.value.request_id == "request-1"


def test_tokens_are_counted_by_bedrock(stub, call):
    model = model_of(stub)
    stub.answer = {"inputTokens": 14}

    assert (
        call.run(model, "count_tokens_exactly", [("system", "S"), ("human", "Hi")], max_tokens=5)
        == 14
    )
    (request,) = stub.requests
    assert request["path"].endswith("/count-tokens")
    assert request["body"] == {
        "input": {
            "converse": {
                "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
                "system": [{"text": "S"}],
            }
        }
    }


# -- secrets


def test_no_key_shows_anywhere():
    model = ChatBedrockConverse(
        model="m",
        region_name=REGION,
        aws_session_token="token-canary",
        api_key="bearer-canary",
        **KEYS,
    )
    allowed: dict[str, Any] = {
        "valid_namespaces": ["foldline"],
        "allowed_objects": [ChatBedrockConverse],
    }
    with pytest.raises(SchemaError, match="region_name"):  # data may not move a request (F-Y01)
        loads(dumps(model), **allowed)
    loaded_model = loads(dumps(model), **allowed, init_validator=None)
    copied_model = pickle.loads(pickle.dumps(model))

    texts = f"{model!r} {model} {dumps(model)} {model.explain('Hi')} {model.model_dump()} {pickle.dumps(model)!r}"
    for secret in (ACCESS_KEY, SECRET_KEY, "token-canary", "bearer-canary"):
        assert secret not in texts
    for other in (loaded_model, copied_model):
        assert (other.model, other.region_name, other.aws_access_key_id) == ("m", REGION, None)
    assert copy.deepcopy(model).aws_access_key_id == model.aws_access_key_id


def test_explain_shows_what_would_be_sent():
    explanation = ChatBedrockConverse(model="m", region_name=REGION, **KEYS).explain(
        "Hi", stream=True
    )

    assert (
        explanation.url == f"https://bedrock-runtime.{REGION}.amazonaws.com/model/m/converse-stream"
    )
    assert explanation.headers["authorization"] == "***"


def test_keys_of_another_half_are_refused():
    for fields in (
        {"aws_access_key_id": "a"},
        {"aws_secret_access_key": "s"},
        {"aws_session_token": "t"},
    ):
        with pytest.raises(ValueError, match="aws_"):
            ChatBedrockConverse(region_name=REGION, **fields)


# -- regions and addresses


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "bedrock-runtime.us-east-1.amazonaws.com"),
        ("us-gov-west-1", "bedrock-runtime.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ("us-iso-east-1", "bedrock-runtime.us-iso-east-1.c2s.ic.gov"),
        ("eusc-de-east-1", "bedrock-runtime.eusc-de-east-1.amazonaws.eu"),
    ],
)
def test_a_region_names_the_host(region, host):
    assert (
        f"//{host}/" in ChatBedrockConverse(model="m", region_name=region, **KEYS).explain("Hi").url
    )


def test_the_region_comes_from_the_environment(monkeypatch):
    model = ChatBedrockConverse(model="m", **KEYS)
    with pytest.raises(UsageError, match="AWS_REGION"):
        model.explain("Hi")

    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert "eu-west-3" in model.explain("Hi").url
    monkeypatch.setenv("AWS_REGION", "sa-east-1")
    assert "sa-east-1" in model.explain("Hi").url


@pytest.mark.parametrize(
    "region",
    [
        "evil.com/",
        "us-east-1.evil.com#",
        "us-east-1@evil.com",
        "",
        "US-EAST-1",
        "us east 1",
        "a" * 80,
    ],
)
def test_a_region_cannot_change_the_host(region, monkeypatch):
    with pytest.raises(ValueError, match="no AWS region"):
        ChatBedrockConverse(model="m", region_name=region, **KEYS)
    if region:
        monkeypatch.setenv("AWS_REGION", region)
        with pytest.raises(UsageError, match="no AWS region"):
            ChatBedrockConverse(model="m", **KEYS).explain("Hi")


def test_an_address_comes_from_the_environment(stub, call, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", stub.url)
    model_of(stub)
    model = ChatBedrockConverse(model="m", region_name=REGION, **KEYS)

    assert call.invoke(model, "Hi").text == "Hello there."


# -- names


@pytest.mark.parametrize("name", ["bedrock", "bedrock_converse", "aws", "bedrock-converse"])
def test_every_name_of_the_provider_leads_here(name):
    model = init_chat_model(f"{name}:us.amazon.nova-lite-v1:0", region_name=REGION)

    assert type(model) is ChatBedrockConverse is ChatBedrock
    assert model.model == "us.amazon.nova-lite-v1:0"


def test_names_of_langchain_are_taken():
    model = ChatBedrockConverse(
        model_id="m",
        endpoint_url="http://localhost:1",
        stop_sequences=["x"],
        guardrails={"a": 1},
        region="us-east-1",
    )

    assert (model.model, model.base_url, model.stop, model.region_name) == (
        "m",
        "http://localhost:1",
        ["x"],
        "us-east-1",
    )
    assert model.guardrail_config == {"a": 1}


def test_what_was_lost_on_the_way_is_said_with_the_answer(stub, call):
    message = call.invoke(model_of(stub), [HumanMessage("Hi"), ("system", "Now.")])

    assert "mid-conversation" in message.response_metadata["lost"][0]
