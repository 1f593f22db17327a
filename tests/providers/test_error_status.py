"""The class of an error whose body contradicts the HTTP status, on every wire."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelPermissionDeniedError,
    ModelQuotaError,
    ModelRateLimitError,
)
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogleGenerativeAI
from foldline.providers.openai import ChatOpenAI, OpenAIEmbeddings
from foldline.providers.openai_compatible import ChatMistralAI
from tests.servers import json_answer

AT_ONCE = RetryPolicy(max_retries=2, initial=0.001, jitter=False)
WIRES: dict[str, tuple[Any, str, str, str, dict[str, Any]]] = {
    "completions": (ChatOpenAI, "/v1", "/chat/completions", "server_error", {}),
    "responses": (ChatOpenAI, "/v1", "/responses", "server_error", {"use_responses_api": True}),
    "mistral": (ChatMistralAI, "/v1", "/chat/completions", "internal_server_error", {}),
    "anthropic": (ChatAnthropic, "", "/v1/messages", "api_error", {}),
    "google": (ChatGoogleGenerativeAI, "/v1beta", "/models/m:generateContent", "INTERNAL", {}),
}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelInvalidRequestError),
        (401, ModelAuthenticationError),
        (402, ModelQuotaError),
        (403, ModelPermissionDeniedError),
        (404, ModelNotFoundError),
        (413, ModelInvalidRequestError),
        (422, ModelInvalidRequestError),
    ],
)
@pytest.mark.parametrize("wire", WIRES)
def test_F_H04_a_fault_of_the_caller_is_one_request_though_the_body_blames_the_server(
    call: Any, fault_server: Any, wire: str, status: int, kind: type[Exception]
) -> None:
    cls, root, path, word, fields = WIRES[wire]
    body = {"error": {"message": "no", "type": word, "status": word}}
    fault_server.script(root + path, json_answer(body, status=status))
    model = cls(
        model="m", api_key="k", base_url=fault_server.url + root, retry_on_error=AT_ONCE, **fields
    )

    with pytest.raises(kind) as caught:
        call.invoke(model, "Hi")

    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.is_retryable) == (status, False)
    assert fault_server.hits(root + path) == 1


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, {"type": "server_error"}, ModelRateLimitError),
        (429, {"type": "server_error", "code": "insufficient_quota"}, ModelQuotaError),
        (429, {"code": "engine_overloaded"}, ModelOverloadedError),
        (403, {"code": "rate_limit_exceeded"}, ModelRateLimitError),
        (400, {"code": "invalid_api_key"}, ModelAuthenticationError),
        (401, {"type": "server_error", "code": "invalid_api_key"}, ModelAuthenticationError),
        (401, {"type": "timeout"}, ModelAuthenticationError),
        (500, {"type": "server_error"}, ModelAPIError),
        (503, {"type": "server_error", "code": "overloaded"}, ModelOverloadedError),
    ],
)
def test_a_word_that_agrees_with_the_status_makes_the_class_more_specific(
    call: Any, fault_server: Any, status: int, error: dict[str, Any], kind: type[Exception]
) -> None:
    fault_server.script(
        "/v1/chat/completions", json_answer({"error": {"message": "no", **error}}, status=status)
    )
    model = ChatOpenAI(model="m", api_key="k", base_url=fault_server.url + "/v1", max_retries=0)

    with pytest.raises(kind) as caught:
        call.invoke(model, "Hi")

    assert type(caught.value) is kind


def test_embeddings_read_the_status_before_the_word(call: Any, fault_server: Any) -> None:
    body = {"error": {"message": "no", "type": "server_error"}}
    fault_server.script("/v1/embeddings", json_answer(body, status=401))
    model = OpenAIEmbeddings(model="m", api_key="k", base_url=fault_server.url + "/v1")

    with pytest.raises(ModelAuthenticationError):
        call.run(model, "embed_query", "Hi")

    assert fault_server.hits("/v1/embeddings") == 1
