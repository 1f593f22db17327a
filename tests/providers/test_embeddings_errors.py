"""Embeddings whose server tells of an error with a good status, or sends numbers that are none."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import MalformedStreamError, ModelError, ModelRateLimitError
from foldline.providers.google import GoogleGenerativeAIEmbeddings
from foldline.providers.openai import OpenAIEmbeddings
from tests.servers.script import Answer, json_answer

EXHAUSTED = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
LIMITED = {"error": {"code": "rate_limit_exceeded", "message": "slow down"}}


def google(server: Any, *answers: Answer, **fields: Any) -> Any:
    server.script("/models/gemini-embedding-001:batchEmbedContents", *answers)
    return GoogleGenerativeAIEmbeddings(
        **{"base_url": server.url, "api_key": "sk-canary", "max_retries": 0, **fields}
    )


def openai(server: Any, *answers: Answer, **fields: Any) -> Any:
    server.script("/v1/embeddings", *answers)
    return OpenAIEmbeddings(
        **{"base_url": f"{server.url}/v1", "api_key": "sk-canary", "max_retries": 0, **fields}
    )


@pytest.mark.parametrize(
    ("provider", "body"),
    [(google, EXHAUSTED), (google, [EXHAUSTED]), (openai, LIMITED)],
    ids=["google", "google in a list", "openai"],
)
def test_an_error_with_a_good_status_is_the_error_that_it_tells(call, fault_server, provider, body):
    model = provider(fault_server, json_answer(body))

    with pytest.raises(ModelRateLimitError, match="slow down"):
        call.run(model, "embed_documents", ["a"])


def test_such_an_error_is_tried_again(call, fault_server):
    good = json_answer({"embeddings": [{"values": [1.0]}]})
    model = google(fault_server, json_answer(EXHAUSTED), good, max_retries=1)

    assert call.run(model, "embed_query", "a") == [1.0]


@pytest.mark.parametrize("provider", [google, openai])
def test_such_an_error_does_not_show_the_key(call, fault_server, provider):
    model = provider(fault_server, json_answer({"error": {"message": "bad sk-canary"}}))

    with pytest.raises(ModelError) as excinfo:
        call.run(model, "embed_query", "a")

    assert "sk-canary" not in f"{excinfo.value} {excinfo.value.body}"


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_a_vector_of_numbers_that_are_not_finite_is_refused(call, fault_server, number):
    headers = {"content-type": "application/json"}
    content = b'{"embeddings": [{"values": [1.0, ' + number + b"]}]}"
    row = b'{"data": [{"index": 0, "embedding": [1.0, ' + number + b"]}]}"

    for model in (
        google(fault_server, Answer(content, headers=headers)),
        openai(fault_server, Answer(row, headers=headers)),
    ):
        with pytest.raises(MalformedStreamError):
            call.run(model, "embed_query", "a")
