"""`GoogleGenerativeAIEmbeddings`: Gemini's embedding models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pydantic import Field

from foldline._io import IO
from foldline.exceptions import ModelError
from foldline.providers._embedding import HttpEmbeddings, read_vector
from foldline.providers._endpoint import Body
from foldline.providers._wire import ErrorTable, WireFailure
from foldline.providers.google._encode import encode_model
from foldline.providers.google._endpoint import ENDPOINT_ALIASES, GoogleEndpoint
from foldline.providers.google.errors import ERRORS, read_error, with_delay
from foldline.transports import Response

__all__ = ["GoogleGenerativeAIEmbeddings"]

PROVIDER: Final = "google_genai"
ALIASES: Final = {**ENDPOINT_ALIASES, "dimensions": "output_dimensionality"}
SINGLE_TEXT_PREFIX: Final = "gemini-embedding"
"""Models whose name begins with this accept only one text per request on Vertex."""
MAX_TEXTS: Final = 250


class GoogleGenerativeAIEmbeddings(GoogleEndpoint, HttpEmbeddings):
    """Embeddings of Gemini, of the Gemini API or of Vertex.

    ```python
    from foldline.providers.google import GoogleGenerativeAIEmbeddings

    print(GoogleGenerativeAIEmbeddings(output_dimensionality=256).model)
    #> gemini-embedding-001
    ```
    """

    model: str = "gemini-embedding-001"
    task_type: str | None = None
    """The use of the vectors; default: RETRIEVAL_DOCUMENT for documents, RETRIEVAL_QUERY for queries."""
    output_dimensionality: int | None = None
    title: str | None = None
    """The title of the documents (Vertex only)."""
    auto_truncate: bool | None = None
    """Whether a text that is too long is truncated (the default) or refused (Vertex only)."""
    chunk_size: int = Field(default=100, ge=1)
    """Texts sent in one request."""
    max_concurrency: int = Field(default=8, ge=1)
    """How many requests may be in progress at once."""

    batches: ClassVar[str] = "foldline.providers.google._batches:GoogleEmbeddingBatches"
    provider_name: ClassVar[str] = PROVIDER
    error_table: ClassVar[ErrorTable] = ERRORS
    aliases: ClassVar[Mapping[str, str]] = ALIASES

    def _batch_api(self) -> Any:  # noqa: ANN401  see `Endpoint`
        return None if self._is_vertex() else super()._batch_api()

    async def _prepare(self, io: IO) -> None:
        await self._load_project(io)

    def _batch_size(self) -> int:
        if not self._is_vertex():
            return self.chunk_size
        return 1 if self.model.startswith(SINGLE_TEXT_PREFIX) else min(self.chunk_size, MAX_TEXTS)

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        path = encode_model(self.model)
        task = self.task_type or ("RETRIEVAL_QUERY" if is_query else "RETRIEVAL_DOCUMENT")
        if self._is_vertex():
            return f"{path}:predict", self._prediction(texts, task)
        options: Body = {"model": path, "taskType": task}
        if self.output_dimensionality is not None:
            options["outputDimensionality"] = self.output_dimensionality
        requests = [{**options, "content": {"parts": [{"text": text}]}} for text in texts]
        return f"{path}:batchEmbedContents", {"requests": requests}

    def _prediction(self, texts: list[str], task: str) -> Body:
        has_title = self.title is not None and task == "RETRIEVAL_DOCUMENT"
        title = {"title": self.title} if has_title else {}
        body: Body = {
            "instances": [{"content": text, "task_type": task, **title} for text in texts]
        }
        options = {
            "outputDimensionality": self.output_dimensionality,
            "autoTruncate": self.auto_truncate,
        }
        if parameters := {name: value for name, value in options.items() if value is not None}:
            body["parameters"] = parameters
        return body

    def _decode(self, answer: Body) -> list[list[float]]:
        if self._is_vertex():
            return [
                read_vector(embedding["embeddings"]["values"])
                for embedding in answer["predictions"]
            ]
        return [read_vector(embedding["values"]) for embedding in answer["embeddings"]]

    def _count(self, answer: Body, headers: Mapping[str, str]) -> int | None:
        if not self._is_vertex():
            count = answer.get("tokenCount")  # only in batches
            return None if count is None else int(count)
        statistics = [(row["embeddings"].get("statistics") or {}) for row in answer["predictions"]]
        return sum(int(row["token_count"]) for row in statistics)

    def _requested_length(self) -> int | None:
        return self.output_dimensionality

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        return with_delay(super()._status_error(response, body), body)

    def _stream_error(self, body: object) -> ModelError:
        return with_delay(super()._stream_error(body), body)

    def _read_error(self, body: object) -> WireFailure:
        return read_error(body)
