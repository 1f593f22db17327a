"""The embedding endpoints that faults are injected into: how each is made, where it asks, and what a good answer is."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from foldline.providers._embedding import HttpEmbeddings
from foldline.providers.bedrock import BedrockEmbeddings
from foldline.providers.google import GoogleGenerativeAIEmbeddings
from foldline.providers.openai import AzureOpenAIEmbeddings, OpenAIEmbeddings
from tests.servers.script import Answer, json_answer

TEXTS = ["one", "two", "three"]
VECTORS = [[1.0, 0.5], [0.25, 2.0], [-1.0, 0.125]]
"""What the server means by them; every number is exact as float32."""
KEY = "sk-canary-embeddings"
PROJECT = "/v1/projects/p/locations/global/publishers/google"
Rows = Sequence[Any]


@dataclass(frozen=True)
class EmbeddingWire:
    """One endpoint of one vendor."""

    name: str
    make: Callable[..., HttpEmbeddings]
    """`make(base_url, **fields)`."""
    path: str
    body: Callable[[Rows], Any]
    """The JSON of an answer with these vectors, whatever they are."""
    error: Callable[[int], Any]
    """The JSON of an error, sent under any status."""
    batch: int = 3
    """Texts of one request."""

    def model(self, base_url: str, **fields: Any) -> HttpEmbeddings:
        settings = {"api_key": KEY, "max_retries": 1, "chunk_size": self.batch, **fields}
        return self.make(base_url, **settings)

    def good(self) -> list[Answer]:
        """The answers to a call with `TEXTS`, in turn."""
        if self.batch > 1:
            return [json_answer(self.body(VECTORS))]
        return [json_answer(self.body([vector])) for vector in VECTORS]


def _openai_rows(rows: Rows) -> Any:
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    return {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1}}


def _packed_rows(rows: Rows) -> Any:
    return _openai_rows([pack(row) if isinstance(row, list) else row for row in rows])


def pack(vector: Any) -> Any:
    """Base64 of float32 numbers, where they are numbers; else as it is."""
    if any(isinstance(number, bool) for number in vector):
        return vector
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    except (struct.error, OverflowError, TypeError):
        return vector


def _openai_error(status: int) -> Any:
    return {"error": {"message": "it broke", "type": None, "code": status}}


def _google_error(status: int) -> Any:
    return {"error": {"code": status, "message": "it broke"}}


def _aws_error(status: int) -> Any:
    return {"message": "it broke"}


def _openai(base_url: str, **fields: Any) -> HttpEmbeddings:
    return OpenAIEmbeddings(model="m", base_url=f"{base_url}/v1", **fields)


def _azure(base_url: str, **fields: Any) -> HttpEmbeddings:
    return AzureOpenAIEmbeddings(
        azure_endpoint=base_url, azure_deployment="m", api_version="v", **fields
    )


def _google(base_url: str, **fields: Any) -> HttpEmbeddings:
    return GoogleGenerativeAIEmbeddings(model="m", base_url=base_url, **fields)


def _vertex(base_url: str, **fields: Any) -> HttpEmbeddings:
    return GoogleGenerativeAIEmbeddings(
        model="m",
        base_url=f"{base_url}{PROJECT}",
        vertexai=True,
        project="p",
        max_concurrency=1,
        **fields,
    )


def _titan(base_url: str, **fields: Any) -> HttpEmbeddings:
    fields.setdefault("max_concurrency", 1)  # so that answers come in turn
    return BedrockEmbeddings(base_url=base_url, region_name="eu-central-1", **fields)


def _cohere(base_url: str, **fields: Any) -> HttpEmbeddings:
    return BedrockEmbeddings(
        model="cohere.embed-v4", base_url=base_url, region_name="eu-central-1", **fields
    )


EMBEDDING_WIRES = {
    wire.name: wire
    for wire in (
        EmbeddingWire("openai", _openai, "/v1/embeddings", _openai_rows, _openai_error),
        EmbeddingWire("openai-base64", _openai, "/v1/embeddings", _packed_rows, _openai_error),
        EmbeddingWire(
            "azure", _azure, "/openai/deployments/m/embeddings", _openai_rows, _openai_error
        ),
        EmbeddingWire(
            "google", _google, "/models/m:batchEmbedContents",
            lambda rows: {"embeddings": [{"values": row} for row in rows]}, _google_error,
        ),
        EmbeddingWire(
            "vertex", _vertex, f"{PROJECT}/models/m:predict",
            lambda rows: {"predictions": [{"embeddings": {"values": row}} for row in rows]}, _google_error,
        ),
        EmbeddingWire(
            "titan", _titan, "/model/amazon.titan-embed-text-v2%3A0/invoke",
            lambda rows: {"embedding": rows[0]} if rows else {}, _aws_error, batch=1,
        ),
        EmbeddingWire(
            "cohere", _cohere, "/model/cohere.embed-v4/invoke",
            lambda rows: {"embeddings": {"float": list(rows)}}, _aws_error,
        ),
    )
}  # fmt: skip
