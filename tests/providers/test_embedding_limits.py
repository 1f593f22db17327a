"""Embeddings under rate limiters: every provider, sync and async."""

from __future__ import annotations

import time
from typing import Any

import pytest

from foldline.exceptions import RateLimitError
from foldline.providers.bedrock import BedrockEmbeddings
from foldline.providers.google import GoogleGenerativeAIEmbeddings
from foldline.providers.openai import OpenAIEmbeddings
from foldline.providers.vertex import VertexAIEmbeddings
from foldline.rate_limiters import InMemoryRateLimiter, Quota
from tests.servers import FaultServer, json_answer

pytestmark = pytest.mark.timing

VECTOR = [0.5, 0.25]


def openai_model(server: FaultServer, **options: Any) -> Any:
    return OpenAIEmbeddings(base_url=f"{server.url}/v1", api_key="k", max_retries=0, **options)


def openai_answer(count: int, tokens: int) -> dict[str, Any]:
    rows = [{"index": place, "embedding": VECTOR} for place in range(count)]
    return {"data": rows, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


def gemini(server: FaultServer, **options: Any) -> tuple[Any, float | None]:
    path = "/models/gemini-embedding-001:batchEmbedContents"
    server.script(path, json_answer({"embeddings": [{"values": VECTOR}]}))
    model = GoogleGenerativeAIEmbeddings(base_url=server.url, api_key="k", **options)
    return model, None


def vertex(server: FaultServer, **options: Any) -> tuple[Any, float | None]:
    embeddings = {"values": VECTOR, "statistics": {"token_count": 17, "truncated": False}}
    path = (
        "/v1/projects/p/locations/us-central1/publishers/google/models/text-embedding-005:predict"
    )
    server.script(path, json_answer({"predictions": [{"embeddings": embeddings}]}))
    model = VertexAIEmbeddings(
        project="p", location="us-central1", base_url=server.url, api_key="k", **options
    )
    return model, 17


def titan(server: FaultServer, **options: Any) -> tuple[Any, float | None]:
    path = "/model/amazon.titan-embed-text-v2%3A0/invoke"
    server.script(path, json_answer({"embedding": VECTOR, "inputTextTokenCount": 17}))
    model = BedrockEmbeddings(base_url=server.url, api_key="k", region_name="us-east-1", **options)
    return model, 17


def cohere(server: FaultServer, **options: Any) -> tuple[Any, float | None]:
    path = "/model/cohere.embed-english-v3/invoke"
    headers = {"x-amzn-bedrock-input-token-count": "17"}
    server.script(path, json_answer({"embeddings": [VECTOR]}, headers=headers))
    model = BedrockEmbeddings(
        model="cohere.embed-english-v3",
        base_url=server.url,
        api_key="k",
        region_name="us-east-1",
        **options,
    )
    return model, 17


def openai(server: FaultServer, **options: Any) -> tuple[Any, float | None]:
    server.script("/v1/embeddings", json_answer(openai_answer(1, 17)))
    return openai_model(server, **options), 17


@pytest.mark.parametrize("make", [openai, gemini, vertex, titan, cohere])
def test_a_request_reserves_and_settles_by_what_the_provider_counted(
    call: Any, fault_server: FaultServer, make: Any
) -> None:
    limiter = InMemoryRateLimiter(requests_per_minute=1, tokens_per_minute=1_000, max_wait=0.01)
    model, tokens = make(fault_server, rate_limiter=limiter)

    assert call.run(model, "embed_query", "x" * 40) == VECTOR
    limiter.acquire(blocking=False)

    assert sum(limiter._state.used["tokens/60"].values()) == (10 if tokens is None else tokens)
    with pytest.raises(RateLimitError):
        call.run(model, "embed_query", "x")


def test_no_request_is_larger_than_the_limit(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(
        "/v1/embeddings", json_answer(openai_answer(2, 80)), json_answer(openai_answer(1, 40))
    )
    limiter = InMemoryRateLimiter(quotas=[Quota("tokens", 120, seconds=1)])
    texts = ["a" * 200, "b" * 200, "c" * 200]  # of fifty tokens each

    vectors = call.run(openai_model(fault_server, rate_limiter=limiter), "embed_documents", texts)

    assert len(vectors) == 3
    assert [
        len(request.json()["input"]) for request in fault_server.requests("/v1/embeddings")
    ] == [2, 1]


def test_a_text_that_never_fits_is_refused(call: Any, fault_server: FaultServer) -> None:
    limiter = InMemoryRateLimiter(tokens_per_minute=120)
    with pytest.raises(RateLimitError, match="never fits"):
        call.run(openai_model(fault_server, rate_limiter=limiter), "embed_query", "x" * 1_000)


def test_a_provider_may_stop_everybody(call: Any, fault_server: FaultServer) -> None:
    busy = json_answer({"error": {"message": "slow"}}, status=429, headers={"retry-after": "0.4"})
    fault_server.script("/v1/embeddings", busy, json_answer(openai_answer(1, 1)))
    limiter = InMemoryRateLimiter(requests_per_minute=10)
    model = openai_model(fault_server, rate_limiter=limiter).model_copy(update={"max_retries": 1})
    start = time.monotonic()

    call.run(model, "embed_query", "x")

    assert time.monotonic() - start >= 0.4
    assert limiter._state.hold > 0
    assert sum(limiter._state.used["requests/60"].values()) == 2


@pytest.mark.parametrize("usage", [None, [], {"total_tokens": "many"}, {"total_tokens": True}])
def test_a_count_that_is_odd_does_not_cost_the_vectors(
    call: Any, fault_server: FaultServer, usage: Any
) -> None:
    fault_server.script("/v1/embeddings", json_answer({**openai_answer(1, 1), "usage": usage}))
    limiter = InMemoryRateLimiter(tokens_per_minute=1_000)

    assert call.run(openai_model(fault_server, rate_limiter=limiter), "embed_query", "x") == VECTOR
