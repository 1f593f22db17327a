"""Embeddings of token ids, with LangChain's `OpenAIEmbeddings` and its defaults, in an environment of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serve import other_python
from tests.serve.process import ServeProcess

NAME = "text-embedding-3-small"
SCRIPT = """
import json, sys
from langchain_openai import OpenAIEmbeddings
model = OpenAIEmbeddings(model="text-embedding-3-small", base_url=sys.argv[1], api_key="none")
print(json.dumps(model.embed_documents(["one two", "three"])))
"""


@pytest.fixture
def tokens_server(tmp_path: Path) -> Iterator[ServeProcess]:
    """A server that can decode token ids."""
    process = ServeProcess(
        tmp_path, apps=[f"{NAME}=tests.serve.served:vectors", "vectors=tests.serve.served:vectors"]
    )
    tokenizer = other_python.tiktoken()
    path = os.pathsep.join([process.environment["PYTHONPATH"], tokenizer["PYTHONPATH"]])
    process.environment |= {**tokenizer, "PYTHONPATH": path}
    process.start()
    yield process
    process.stop()


@pytest.mark.slow
def test_S52_token_ids_of_a_known_model_are_decoded(tokens_server: ServeProcess) -> None:
    environment = {"TIKTOKEN_CACHE_DIR": other_python.tiktoken()["TIKTOKEN_CACHE_DIR"]}
    text = other_python.run(
        "python", "-c", SCRIPT, f"{tokens_server.url}/v1", environment=environment
    )
    # LangChain divides a vector by its length.
    vectors = json.loads(text)
    assert [[round(value / vector[2] / 2) for value in vector[:2]] for vector in vectors] == [
        [7, 1],
        [5, 0],
    ]
    one = {"model": NAME, "input": [606, 1403]}
    answer = httpx.post(f"{tokens_server.url}/v1/embeddings", json=one).json()
    assert answer["data"][0]["embedding"] == [7.0, 1.0, 0.5]
    for wrong in ([-1], [606, "x"], [[606], []], [[10**9]], [[]]):
        body = {"model": NAME, "input": wrong}
        assert httpx.post(f"{tokens_server.url}/v1/embeddings", json=body).status_code == 400
    unknown = httpx.post(
        f"{tokens_server.url}/v1/embeddings", json={"model": "vectors", "input": [1]}
    )
    assert unknown.status_code == 400


def test_S52_token_ids_that_cannot_be_decoded_are_an_error_with_the_way_out(
    server: ServeProcess,
) -> None:
    answer = httpx.post(f"{server.url}/v1/embeddings", json={"model": "vectors", "input": [[1, 2]]})
    assert answer.status_code == 400
    assert "check_embedding_ctx_length=False" in answer.json()["error"]["message"]
