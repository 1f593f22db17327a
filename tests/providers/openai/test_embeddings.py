"""OpenAIEmbeddings: batches, base64 and plain numbers, retries, errors, sync and async."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from foldline.embeddings import Embeddings
from foldline.exceptions import MalformedStreamError, ModelAuthenticationError
from foldline.providers.openai import AzureOpenAIEmbeddings, OpenAIEmbeddings
from tests.servers import Answer, FaultServer, json_answer


def rows(*vectors: list[float], is_packed: bool = True) -> dict[str, Any]:
    def encode_vector(vector: list[float]) -> Any:
        return (
            base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
            if is_packed
            else vector
        )

    data = [
        {"object": "embedding", "index": i, "embedding": encode_vector(v)}
        for i, v in enumerate(vectors)
    ]
    return {
        "object": "list",
        "data": data[::-1],
        "model": "m",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def model(server: FaultServer, **fields: Any) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(base_url=f"{server.url}/v1", api_key="sk-1", **fields)


@pytest.mark.parametrize("is_packed", [True, False])
def test_texts_become_vectors_in_order(
    call: Any, fault_server: FaultServer, is_packed: bool
) -> None:
    fault_server.script(
        "/v1/embeddings", json_answer(rows([1.0, 0.5], [0.0, 2.0], is_packed=is_packed))
    )
    embeddings = model(fault_server, dimensions=2)

    assert isinstance(embeddings, Embeddings)
    assert call.run(embeddings, "embed_documents", ["a", "b"]) == [[1.0, 0.5], [0.0, 2.0]]
    assert fault_server.requests()[0].json() == {
        "model": "text-embedding-ada-002", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 2,
    }  # fmt: skip


def test_many_texts_go_in_batches(call: Any, fault_server: FaultServer) -> None:
    fault_server.script("/v1/embeddings", json_answer(rows([1.0], [2.0])), json_answer(rows([3.0])))
    assert call.run(model(fault_server, chunk_size=2), "embed_documents", ["a", "b", "c"]) == [
        [1.0],
        [2.0],
        [3.0],
    ]
    assert call.run(model(fault_server), "embed_documents", []) == []


def test_a_query_is_one_vector_and_failures_are_tried_again(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(
        "/v1/embeddings",
        Answer(status=500, headers={"retry-after-ms": "1"}),
        json_answer(rows([1.0])),
    )
    assert call.run(model(fault_server), "embed_query", "a") == [1.0]
    assert fault_server.hits() == 2


def test_errors_are_typed(call: Any, fault_server: FaultServer) -> None:
    fault_server.script(
        "/v1/embeddings",
        json_answer({"error": {"code": "invalid_api_key", "message": "no"}}, status=401),
    )
    with pytest.raises(ModelAuthenticationError):
        call.run(model(fault_server), "embed_query", "a")
    for body in (rows([1.0], [2.0]), {"data": [{"index": 0}]}, []):
        fault_server.script("/v1/embeddings", json_answer(body))
        with pytest.raises(MalformedStreamError):
            call.run(model(fault_server), "embed_query", "a")


def test_azure_has_its_own_address_and_header(call: Any, fault_server: FaultServer) -> None:
    path = "/openai/deployments/mine/embeddings"
    fault_server.script(path, json_answer(rows([1.0])))
    embeddings = AzureOpenAIEmbeddings(
        azure_endpoint=fault_server.url,
        azure_deployment="mine",
        api_version="2024-10-21",
        api_key="k",
    )
    assert call.run(embeddings, "embed_query", "a") == [1.0]
    (request,) = fault_server.requests()
    assert (request.target, request.headers["api-key"]) == (f"{path}?api-version=2024-10-21", "k")
    assert request.json()["model"] == "mine"
