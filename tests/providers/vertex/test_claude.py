"""Claude on Vertex through its own wire: rawPredict and streamRawPredict; the official client as judge."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import AnthropicVertex

from foldline.chat_models import init_chat_model
from foldline.exceptions import (
    MalformedStreamError,
    ModelAuthenticationError,
    ModelInvalidRequestError,
    ModelOverloadedError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    StreamTruncatedError,
)
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.vertex import ChatAnthropicVertex, ChatVertexAI
from tests.providers.anthropic.recordings import (
    PAIRS,
    decode_stream,
    message_of,
    stream_of,
    whole_of,
)
from tests.servers import sse_answer
from tests.servers.vertex import LOCATION, PROJECT

MODEL = "claude-sonnet-4-5@20250929"
TOKEN = "ya29.given-token"
ROOT = f"/v1/projects/{PROJECT}/locations/{LOCATION}/publishers/anthropic/models"


def model_of(url: str, **settings: Any) -> ChatAnthropicVertex:
    defaults = {
        "model": MODEL,
        "project": PROJECT,
        "location": LOCATION,
        "base_url": url,
        "max_retries": 0,
    }
    return ChatAnthropicVertex(**defaults | {"access_token": TOKEN} | settings)


@pytest.fixture
def vertex(stub):
    stub.valid.add(TOKEN)
    return stub


@pytest.mark.parametrize("name", PAIRS)
def test_answers_are_those_of_anthropic(call, vertex, name):
    vertex.answer, vertex.stream = whole_of(name), stream_of(name)
    expected = message_of(decode_stream(stream_of(name)))
    answer = call.invoke(model_of(vertex.url, output_version="v1"), "Hi")
    chunks = call.stream(model_of(vertex.url, output_version="v1"), "Hi")
    streamed_message = sum(chunks[1:], chunks[0])
    assert answer.content == expected.content
    assert streamed_message.text == expected.text
    assert streamed_message.usage_metadata == answer.usage_metadata == expected.usage_metadata
    assert answer.response_metadata["model_provider"] == "anthropic"


def test_the_body_names_the_version_and_the_path_the_model(call, vertex):
    vertex.answer, vertex.stream = whole_of("text"), stream_of("text")
    model = model_of(vertex.url, max_output_tokens=9, betas=["b-1"])
    call.invoke(model, "Hi")
    call.stream(model, "Hi")
    whole_request, stream_request = vertex.requests
    assert whole_request["path"] == f"{ROOT}/{MODEL}:rawPredict"
    assert stream_request["path"] == f"{ROOT}/{MODEL}:streamRawPredict"
    assert whole_request["body"] == {
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
    }
    assert stream_request["body"] == {**whole_request["body"], "stream": True}
    assert whole_request["headers"]["anthropic-beta"] == "b-1"
    assert whole_request["headers"]["authorization"] == f"Bearer {TOKEN}"
    assert "x-api-key" not in whole_request["headers"]


@pytest.mark.parametrize("name", ["a/../b", "m?x=1", "m:other", "m#f"])
def test_a_model_cannot_change_the_path(name):
    explanation = model_of("http://x", model=name).explain("Hi")
    assert "?" not in explanation.url
    assert "#" not in explanation.url
    assert explanation.url.count("/") == f"http://x{ROOT}/m:rawPredict".count("/")


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


CONVERSATIONS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "plain": ([HumanMessage("Grüße 🎈")], {"stop": ["x"], "temperature": 0.5}),
    "tools": (
        [
            HumanMessage("Add"),
            AIMessage("", tool_calls=[{"id": "t_1", "name": "add", "args": {"a": 1, "b": 2}}]),
            ToolMessage("3", tool_call_id="t_1"),
        ],
        {"tools": [add], "tool_choice": "add"},
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_they_send_what_we_send(call, vertex, name):
    vertex.answer = whole_of("text")
    messages, options = CONVERSATIONS[name]
    call.invoke(model_of(vertex.url, max_tokens=50), messages, **options)
    foldline_request = vertex.requests[-1]
    parameters = {"max_tokens", "messages"}
    body = {k: v for k, v in foldline_request["body"].items() if k in parameters}
    more = {k: v for k, v in foldline_request["body"].items() if k not in parameters}
    client = AnthropicVertex(
        region=LOCATION,
        project_id=PROJECT,
        access_token=TOKEN,
        base_url=f"{vertex.url}/v1",
        max_retries=0,
    )
    with client:
        client.messages.create(model=MODEL, extra_body=more, **body)
    sdk_request = vertex.requests[-1]
    assert (sdk_request["path"], sdk_request["body"]) == (
        foldline_request["path"],
        foldline_request["body"],
    )
    assert sdk_request["headers"]["authorization"] == foldline_request["headers"]["authorization"]


def test_what_it_wrote_is_its_own_for_anthropic_too(call, vertex):
    vertex.answer = whole_of("thinking")
    answer = call.invoke(model_of(vertex.url), "Hi")
    explanation = ChatAnthropic(model="claude-sonnet-4-5", api_key="k").explain(
        [HumanMessage("Hi"), answer, HumanMessage("On")]
    )
    assert explanation.body["messages"][1]["content"][0]["type"] == "thinking"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "no"}}, ModelPermissionDeniedError),
        (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow"}}, ModelRateLimitError),
        (429, [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow"}}], ModelRateLimitError),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, ModelOverloadedError),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "o"}}, ModelInvalidRequestError),
        (401, {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "who"}}, ModelAuthenticationError),
    ],
)  # fmt: skip
def test_errors_of_google_and_of_anthropic_are_typed(call, vertex, status, body, expected):
    vertex.status, vertex.answer = status, body
    with pytest.raises(expected) as excinfo:
        call.invoke(model_of(vertex.url), "Hi")
    assert TOKEN not in f"{excinfo.value} {excinfo.value.body}"


PATH = f"{ROOT}/{MODEL}:streamRawPredict"
BEGINNING = stream_of("text").partition(b"event: content_block_stop")[0]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (b"", StreamTruncatedError),
        (b'data: {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}\n\n', ModelOverloadedError),
        (b'data: {"error": {"code": 401, "status": "UNAUTHENTICATED"}}\n\n', ModelAuthenticationError),
        (b"data: [1]\n\n", MalformedStreamError),
        (b"data: {\n\n", MalformedStreamError),
    ],
)  # fmt: skip
def test_a_fault_in_the_stream_comes_after_what_was_said(call, fault_server, more, expected):
    fault_server.script(PATH, sse_answer([BEGINNING + more]))
    with pytest.raises(expected) as excinfo:
        call.stream(model_of(fault_server.url, max_retries=3), "Hi")
    assert excinfo.value.partial.text
    assert fault_server.hits(PATH) == 1


def test_names_lead_to_it():
    for model in (
        ChatVertexAI(model=MODEL, project="p"),
        ChatVertexAI(model_name=MODEL, project="p", max_output_tokens=5),
        init_chat_model(f"google_vertexai:{MODEL}", project="p"),
        init_chat_model(f"google_anthropic_vertex:{MODEL}", project="p"),
    ):
        assert type(model) is ChatAnthropicVertex
        assert model.model == MODEL
    assert type(ChatVertexAI(model="gemini-2.5-pro", project="p")) is ChatVertexAI


def test_profiles_are_those_of_anthropic():
    assert model_of("http://x").profile["reasoning"]["form"] == "budget"


@pytest.mark.parametrize("kind", [ChatVertexAI, ChatAnthropicVertex])
def test_models_are_written_and_read(kind):
    read = loads(
        dumps(kind(model="m", api_key="canary-key", temperature=0.5)), allowed_objects="all"
    )
    assert (type(read), read.model, read.api_key) == (kind, "m", None)
