"""`GoogleGenerativeAIEmbeddings`: text to vectors by Gemini."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from foldline.exceptions import ModelError
from foldline.providers._embedding import HttpEmbeddings, read_vector
from foldline.providers._endpoint import Body
from foldline.providers._wire import ErrorTable, Failure
from foldline.providers.google.chat import PROVIDER, SECRET, auth_headers, root_url
from foldline.providers.google.encode import encode_model
from foldline.providers.google.errors import ERRORS, read_error, with_delay
from foldline.transports import Response

__all__ = ["GoogleGenerativeAIEmbeddings"]

ALIASES = {
    "google_api_key": "api_key",
    "model_name": "model",
    "dimensions": "output_dimensionality",
}


class GoogleGenerativeAIEmbeddings(HttpEmbeddings):
    """Embeddings of Gemini.

    ```python
    from foldline.providers.google import GoogleGenerativeAIEmbeddings

    print(GoogleGenerativeAIEmbeddings(output_dimensionality=256).model)
    #> gemini-embedding-001
    ```
    """

    model: str = "gemini-embedding-001"
    task_type: str | None = None
    """What the vectors are for; by default RETRIEVAL_DOCUMENT for documents and RETRIEVAL_QUERY for queries."""
    output_dimensionality: int | None = None
    chunk_size: int = Field(default=100, ge=1)
    """Texts sent in one request."""

    provider_name: ClassVar[str] = PROVIDER
    key_variables: ClassVar[Sequence[str]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    error_table: ClassVar[ErrorTable] = ERRORS
    aliases: ClassVar[Mapping[str, str]] = ALIASES

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        path = encode_model(self.model)
        task = self.task_type or ("RETRIEVAL_QUERY" if is_query else "RETRIEVAL_DOCUMENT")
        one: Body = {"model": path, "taskType": task}
        if self.output_dimensionality is not None:
            one["outputDimensionality"] = self.output_dimensionality
        asked = [{**one, "content": {"parts": [{"text": text}]}} for text in texts]
        return f"{path}:batchEmbedContents", {"requests": asked}

    def _decode(self, answer: Any) -> list[list[float]]:  # noqa: ANN401
        return [read_vector(one["values"]) for one in answer["embeddings"]]

    def _wanted_length(self) -> int | None:
        return self.output_dimensionality

    def _root_url(self) -> str:
        return root_url(self.base_url, None, "global")

    def _auth_headers(self, key: str) -> dict[str, str]:
        return auth_headers(key, self._root_url())

    def _secret_headers(self) -> set[str]:
        return super()._secret_headers() | SECRET

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        return with_delay(super()._status_error(response, body), body)

    def _stream_error(self, body: Any) -> ModelError:  # noqa: ANN401
        return with_delay(super()._stream_error(body), body)

    def _read_error(self, body: Any) -> Failure:  # noqa: ANN401
        return read_error(body)
