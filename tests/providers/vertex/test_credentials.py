"""Credentials of Vertex: of google-auth, loaded from every source, refreshed in time, never shown."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import monotonic

import pytest
from google import genai
from google.oauth2 import service_account
from google.oauth2.credentials import Credentials as Given
from pydantic import ValidationError

from foldline.exceptions import (
    MissingExtraError,
    ModelAuthenticationError,
    ModelConnectionError,
    UsageError,
)
from foldline.load import dumps
from foldline.providers.google import ChatGoogle, _credentials as google_credentials
from foldline.providers.vertex import ChatAnthropicVertex, ChatVertexAI, VertexAIEmbeddings
from tests.servers.vertex import LOCATION, PRIVATE_KEY, PROJECT

pytestmark = [pytest.mark.timing, pytest.mark.slow]

GEMINI = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
    "modelVersion": "gemini-2.5-flash",
}
CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
MODELS = {
    "gemini": (ChatVertexAI, "gemini-2.5-flash", GEMINI),
    "claude": (ChatAnthropicVertex, "claude-sonnet-4-5", CLAUDE),
}


@pytest.fixture(params=sorted(MODELS))
def make(request, stub):
    """Make a model of either wire on the stub."""
    kind, model, answer = MODELS[request.param]
    stub.answer = answer

    def make_model(**settings):
        settings = {
            "model": model,
            "location": LOCATION,
            "max_retries": 0,
            "base_url": stub.url,
            **settings,
        }
        return kind(**settings)

    return make_model


def account(stub, **fields):
    return service_account.Credentials.from_service_account_info(stub.key_file(**fields))


def expire(credentials, seconds: float = -10.0) -> None:
    credentials.expiry = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=seconds)


def test_a_token_is_fetched_once_and_sent_with_every_call(call, stub, make, no_blocking):
    model = make(credentials=account(stub), project=PROJECT)
    for _ in range(3):
        assert call.invoke(model, "Hi").text == "Hello."
    assert len(stub.tokens) == 1
    assert {r["headers"]["authorization"] for r in stub.requests} == {f"Bearer {stub.tokens[0]}"}
    assert f"/v1/projects/{PROJECT}/locations/{LOCATION}/publishers/" in stub.requests[0]["path"]
    assert "x-goog-api-key" not in stub.requests[0]["headers"]


def test_a_key_file_is_given_by_fields_path_or_variable(call, stub, make, tmp_path, monkeypatch):
    file = tmp_path / "key.json"
    file.write_text(json.dumps(stub.key_file()))
    for credentials in (stub.key_file(), str(file), file):
        assert call.invoke(make(credentials=credentials, project=PROJECT), "Hi").text == "Hello."
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    assert call.invoke(make(project="other"), "Hi").text == "Hello."
    assert "/projects/other/" in stub.requests[-1]["path"]


def test_the_project_of_the_credentials_is_the_default(call, stub, make, monkeypatch):
    assert call.invoke(make(credentials=stub.key_file(), vertexai=True), "Hi").text == "Hello."
    assert f"/projects/{PROJECT}/" in stub.requests[-1]["path"]
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-the-variable")
    call.invoke(make(credentials=stub.key_file()), "Hi")
    assert "/projects/of-the-variable/" in stub.requests[-1]["path"]


def test_an_old_token_is_replaced(call, stub, make):
    credentials = account(stub)
    model = make(credentials=credentials, project=PROJECT)
    call.invoke(model, "Hi")
    expire(model._tokens._credentials)
    call.invoke(model, "Hi")
    assert [r["headers"]["authorization"][-1] for r in stub.requests] == ["1", "2"]


def test_many_calls_at_once_fetch_one_token(stub, make):
    stub.token_delay = 0.2
    model = make(credentials=account(stub), project=PROJECT)

    async def body():
        return await asyncio.gather(*(model.ainvoke("Hi") for _ in range(20)))

    assert {answer.text for answer in asyncio.run(body())} == {"Hello."}
    assert len(stub.tokens) == 1


def test_the_loop_goes_on_while_a_token_is_fetched(stub, make, no_blocking):
    stub.token_delay = 0.5
    model = make(credentials=account(stub), project=PROJECT)
    beats = []

    async def beat():
        while True:
            beats.append(monotonic())
            await asyncio.sleep(0.02)

    async def body():
        pulse = asyncio.create_task(beat())
        await model.ainvoke("Hi")
        pulse.cancel()

    asyncio.run(body())
    assert max(b - a for a, b in pairwise(beats)) < 0.4


def test_a_token_that_still_holds_is_used_while_no_new_one_can_be_had(call, stub, make):
    model = make(credentials=account(stub), project=PROJECT)
    call.invoke(model, "Hi")
    expire(model._tokens._credentials, 60.0)  # stale, but valid
    stub.token_status, stub.token_body = 400, {"error": "invalid_grant"}
    assert call.invoke(model, "Hi").text == "Hello."


def test_a_refused_account_is_an_authentication_error(call, stub, make):
    stub.token_status = 400
    stub.token_body = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
    with pytest.raises(ModelAuthenticationError, match="invalid_grant") as excinfo:
        call.invoke(make(credentials=account(stub), project=PROJECT, max_retries=2), "Hi")
    assert excinfo.value.provider in ("google_vertexai", "google_anthropic_vertex")
    assert PRIVATE_KEY[100:140] not in str(excinfo.value)
    assert stub.requests == []


ODD_TOKENS = [
    b"null", b"[]", b'"x"', b"5", b"{}", b"[" * 100_000, b'{"access_token": 5, "expires_in": "x"}',
    b'{"access_token": ["ya29.canary"]}', b'{"access_token": "t", "expires_in": 1e300}',
    b'{"access_token": "t", "expires_in": NaN}', b"\xff",
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body"),
    [*((200, body) for body in ODD_TOKENS), (400, b"[]"), (400, b"\xff")],
    ids=lambda value: repr(value)[:24],
)
def test_F_Y09_a_token_service_that_answers_nonsense_is_an_authentication_error(
    call, stub, make, status, body
):
    stub.token_status, stub.token_body = status, body
    model = make(credentials=stub.key_file())

    with pytest.raises(ModelAuthenticationError, match="gave no token") as caught:
        call.invoke(model, "Hi")
    assert "canary" not in f"{caught.value!r}{caught.value.__cause__!r}"

    stub.token_status, stub.token_body = 200, None
    assert call.invoke(model, "Hi").text == "Hello."


def test_a_token_endpoint_that_is_not_there_is_a_connection_error(call, stub, make):
    key_file = account(stub, token_uri="http://127.0.0.1:9/token")
    with pytest.raises(ModelConnectionError):
        call.invoke(make(credentials=key_file, project=PROJECT), "Hi")


def test_a_revoked_token_is_replaced_and_the_call_repeated(call, stub, make, monkeypatch):
    monkeypatch.setattr(google_credentials, "MIN_REJECTED_AGE", 0.0)
    model = make(credentials=account(stub), project=PROJECT, max_retries=1)
    call.invoke(model, "Hi")
    stub.valid.clear()
    assert call.invoke(model, "Hi").text == "Hello."
    assert len(stub.tokens) == 2


def test_a_new_token_that_is_refused_is_not_replaced_again(call, stub, make):
    model = make(credentials=account(stub), project=PROJECT, max_retries=3)
    call.invoke(model, "Hi")
    stub.valid.clear()
    with pytest.raises(ModelAuthenticationError) as excinfo:
        call.invoke(model, "Hi")
    assert len(stub.tokens) == 1
    assert stub.tokens[0] not in f"{excinfo.value} {excinfo.value.body}"


def test_a_project_that_pays_is_named(call, stub, make):
    paying = account(stub).with_quota_project("payer")
    call.invoke(make(credentials=paying, project=PROJECT), "Hi")
    assert stub.requests[-1]["headers"]["x-goog-user-project"] == "payer"


def test_a_function_that_gives_a_token_needs_no_google_auth(call, stub, make, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.auth", None)
    stub.valid.add("ya29.mine")
    model = make(api_key=lambda: "ya29.mine", project=PROJECT)
    assert call.invoke(model, "Hi").text == "Hello."


def test_without_google_auth_the_extra_is_named(call, make, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.auth", None)
    with pytest.raises(MissingExtraError, match=r"foldline\[google\]"):
        call.invoke(make(project=PROJECT), "Hi")


def test_without_credentials_it_is_said_how_to_give_them(call, make):
    with pytest.raises(ModelAuthenticationError, match="gcloud auth application-default login"):
        call.invoke(make(project=PROJECT), "Hi")


def test_a_broken_key_file_shows_nothing_of_itself(call, make, tmp_path):
    file = tmp_path / "key.json"
    file.write_text('{"private_key": "secret-canary"')
    with pytest.raises(ModelAuthenticationError) as excinfo:
        call.invoke(make(credentials=str(file), project=PROJECT), "Hi")
    assert "canary" not in repr(excinfo.value) + repr(excinfo.value.__cause__)


def test_no_project_says_how_to_name_one(make):
    with pytest.raises(UsageError, match="GOOGLE_CLOUD_PROJECT"):
        make().explain("Hi")


@pytest.mark.parametrize("value", ["a/b", "p?x=1", "..", "a b", "evil.com#", "", "p\n"])
@pytest.mark.parametrize("field", ["project", "location"])
def test_names_cannot_change_the_address(make, monkeypatch, field, value):
    with pytest.raises(ValidationError):
        make(**{"project": PROJECT, field: value})
    if value.strip() == value != "":
        monkeypatch.setenv(f"GOOGLE_CLOUD_{field.upper()}", value)
        with pytest.raises(UsageError, match="GOOGLE_CLOUD"):
            make(**{"project": PROJECT, field: None}).explain("Hi")


def test_credentials_are_neither_shown_nor_written(stub, make):
    model = make(credentials=stub.key_file(private_key="canary-key"), project=PROJECT)
    assert "canary" not in f"{model!r} {dumps(model)} {model.model_dump()} {pickle.dumps(model)!r}"
    assert pickle.loads(pickle.dumps(model)).project == PROJECT


def test_what_is_no_credential_is_refused(make):
    with pytest.raises(ValidationError, match="google-auth"):
        make(credentials=42)


def test_explain_shows_no_token(stub, make):
    model = make(credentials=account(stub), project=PROJECT)
    assert model.explain("Hi").headers.get("authorization", "***") == "***"
    assert stub.tokens == []


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"location": "global"}, "aiplatform.googleapis.com"),
        ({}, "aiplatform.googleapis.com"),
        ({"location": "us"}, "aiplatform.us.rep.googleapis.com"),
        ({"location": "us-east5"}, "us-east5-aiplatform.googleapis.com"),
    ],
)
def test_where_vertex_is(settings, host):
    for kind in (ChatVertexAI, ChatAnthropicVertex):
        explanation = kind(model="m", project="p", **settings).explain("Hi")
        assert explanation.url.startswith(f"https://{host}/v1/projects/p/locations/")


@pytest.mark.parametrize(
    ("endpoint", "root"),
    [
        ("http://machine:1", "http://machine:1/v1/projects/p/"),
        ("http://machine:1/v1", "http://machine:1/v1/projects/p/"),
        ("http://machine:1/v1beta1/", "http://machine:1/v1beta1/projects/p/"),
        (
            "us-east5-aiplatform.googleapis.com",
            "https://us-east5-aiplatform.googleapis.com/v1/projects/p/",
        ),
        ("http://gateway/vertex/publishers/x", "http://gateway/vertex/publishers/x/models/"),
    ],
)
def test_an_address_may_name_a_machine_a_version_or_all(monkeypatch, endpoint, root):
    for kind, variable in (
        (ChatVertexAI, "GOOGLE_VERTEX_BASE_URL"),
        (ChatAnthropicVertex, "ANTHROPIC_VERTEX_BASE_URL"),
    ):
        assert (
            kind(model="m", project="p", api_endpoint=endpoint).explain("Hi").url.startswith(root)
        )
        monkeypatch.setenv(variable, endpoint)
        assert kind(model="m", project="p").explain("Hi").url.startswith(root)


def test_the_transport_of_langchain_is_rest_or_an_error(make):
    assert make(project="p", transport="rest").transport is None
    with pytest.raises(ValidationError, match="REST is what is spoken"):
        make(project="p", transport="grpc")


def test_googles_client_asks_vertex_as_we_do(call, stub, monkeypatch):
    stub.answer = GEMINI
    credentials = account(stub)
    call.invoke(ChatVertexAI(
        model="gemini-2.5-flash", credentials=credentials, project=PROJECT, location=LOCATION,
        base_url=stub.url, temperature=0.5, max_tokens=9,
    ), [("system", "Be brief."), ("human", "Hi")])  # fmt: skip
    foldline_request = stub.requests[-1]
    client = genai.Client(
        vertexai=True, project=PROJECT, location=LOCATION,
        credentials=Given(foldline_request["headers"]["authorization"].removeprefix("Bearer ")),
        http_options=genai.types.HttpOptions(base_url=stub.url, api_version="v1"),
    )  # fmt: skip
    client.models.generate_content(
        model="gemini-2.5-flash",
        contents="Hi",
        config={"temperature": 0.5, "max_output_tokens": 9, "system_instruction": "Be brief."},
    )
    client.close()
    sdk_request = stub.requests[-1]
    assert sdk_request["path"] == foldline_request["path"]
    assert sdk_request["headers"]["authorization"] == foldline_request["headers"]["authorization"]
    for body in (foldline_request["body"], sdk_request["body"]):
        body["systemInstruction"].pop("role", None)
    assert sdk_request["body"] == foldline_request["body"]


def test_variables_choose_vertex(monkeypatch):
    assert "generativelanguage" in ChatGoogle(api_key="AIza1").explain("Hi").url
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-east5")
    assert "us-east5-aiplatform" in ChatGoogle().explain("Hi").url
    assert "generativelanguage" in ChatGoogle(vertexai=False, api_key="AIza1").explain("Hi").url


def test_a_key_of_vertex_needs_no_project(call, stub):
    stub.answer = GEMINI
    model = ChatVertexAI(api_key="AIza-express", base_url=stub.url)
    assert call.invoke(model, "Hi").text == "Hello."
    (request,) = stub.requests
    assert request["path"] == "/v1/publishers/google/models/gemini-2.5-flash:generateContent"
    assert request["headers"]["x-goog-api-key"] == "AIza-express"


def test_the_key_of_the_gemini_api_is_not_sent_to_vertex(call, stub, make, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza-of-another")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-another")
    call.invoke(make(credentials=account(stub), project=PROJECT), "Hi")
    assert "of-another" not in str(stub.requests[-1]["headers"])


def test_embeddings_of_vertex(call, stub):
    stub.answer = {"predictions": [{"embeddings": {"values": [1, 0.5]}}] * 2}
    model = VertexAIEmbeddings(
        credentials=account(stub), project=PROJECT, location=LOCATION, base_url=stub.url,
        dimensions=2, title="T", auto_truncate=False,
    )  # fmt: skip
    assert call.run(model, "embed_documents", ["a", "b"]) == [[1.0, 0.5]] * 2
    (request,) = stub.requests
    assert request["path"].endswith("/publishers/google/models/text-embedding-005:predict")
    assert request["body"] == {
        "instances": [
            {"content": text, "task_type": "RETRIEVAL_DOCUMENT", "title": "T"} for text in "ab"
        ],
        "parameters": {"outputDimensionality": 2, "autoTruncate": False},
    }


def test_embeddings_of_gemini_on_vertex_are_one_by_one(call, stub):
    stub.answer = {"predictions": [{"embeddings": {"values": [1]}}]}
    model = VertexAIEmbeddings(
        model="gemini-embedding-001", credentials=account(stub), project=PROJECT, base_url=stub.url
    )
    assert call.run(model, "embed_documents", ["a", "b", "c"]) == [[1.0]] * 3
    assert len(stub.requests) == 3
    assert call.run(model, "embed_query", "q") == [1.0]
    assert stub.requests[-1]["body"]["instances"][0]["task_type"] == "RETRIEVAL_QUERY"


def test_tokens_are_counted(call, stub, make):
    stub.answer = {"totalTokens": 7, "input_tokens": 7}
    model = make(credentials=account(stub), project=PROJECT)
    assert call.run(model, "count_tokens_exactly", [("system", "S"), ("human", "Hi")]) == 7
    request = stub.requests[-1]
    assert ("contents" in request["body"]) != ("messages" in request["body"])
    assert request["path"].endswith((":countTokens", "models/count-tokens:rawPredict"))
