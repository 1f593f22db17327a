"""Embeddings of Gemini, against a scripted server."""

from __future__ import annotations

import pytest

from foldline.exceptions import MalformedStreamError, ModelAuthenticationError
from foldline.providers.google import GoogleGenerativeAIEmbeddings
from tests.servers.script import json_answer

PATH = "/models/gemini-embedding-001:batchEmbedContents"


def model_of(server, *answers, **fields) -> GoogleGenerativeAIEmbeddings:
    server.script(PATH, *answers)
    return GoogleGenerativeAIEmbeddings(
        **{"base_url": server.url, "api_key": "key", "max_retries": 0, **fields}
    )


def test_texts_are_sent_in_parts_and_vectors_come_in_order(fault_server, call):
    two, second = (
        {"embeddings": [{"values": [1, 0]}, {"values": [0, 1]}]},
        {"embeddings": [{"values": [1, 1]}]},
    )
    options = {"chunk_size": 2, "dimensions": 2, "max_concurrency": 1}  # answers come in turn
    model = model_of(fault_server, json_answer(two), json_answer(second), **options)

    assert call.run(model, "embed_documents", ["a", "b", "c"]) == [
        [1.0, 0.0],
        [0.0, 1.0],
        [1.0, 1.0],
    ]
    first = fault_server.requests()[0].json()["requests"][0]
    assert first == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "a"}]},
        "taskType": "RETRIEVAL_DOCUMENT",
        "outputDimensionality": 2,
    }


def test_a_query_is_embedded_as_one(fault_server, call):
    model = model_of(fault_server, json_answer({"embeddings": [{"values": [0.5]}]}))

    assert call.run(model, "embed_query", "a") == [0.5]
    assert fault_server.requests()[0].json()["requests"][0]["taskType"] == "RETRIEVAL_QUERY"


def test_errors_are_typed(fault_server, call):
    error = {
        "code": 400,
        "status": "INVALID_ARGUMENT",
        "message": "no",
        "details": [{"reason": "API_KEY_INVALID"}],
    }

    with pytest.raises(ModelAuthenticationError):
        call.run(model_of(fault_server, json_answer({"error": error}, 400)), "embed_query", "a")
    with pytest.raises(MalformedStreamError):
        call.run(model_of(fault_server, json_answer({"embeddings": []})), "embed_query", "a")
