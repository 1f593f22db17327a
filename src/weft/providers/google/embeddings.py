"""`GoogleGenerativeAIEmbeddings`: text to vectors by Gemini."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from weft._drive import drive
from weft._io import ASYNC, BLOCKING, IO
from weft.embeddings import Embeddings
from weft.exceptions import ModelError
from weft.language_models.retry import RetryPolicy
from weft.providers._endpoint import Endpoint, dump_body
from weft.providers._keys import resolve_key
from weft.providers._wire import ErrorTable, Failure
from weft.providers.google.chat import auth_headers, root_url
from weft.providers.google.encode import encode_model
from weft.providers.google.errors import ERRORS, read_error
from weft.providers.google.profiles import PROVIDER
from weft.transports import Request

__all__ = ["GoogleGenerativeAIEmbeddings"]

ALIASES = {
    "google_api_key": "api_key",
    "model_name": "model",
    "dimensions": "output_dimensionality",
}


class GoogleGenerativeAIEmbeddings(Endpoint, Embeddings, BaseModel):
    """Embeddings of Gemini.

    ```python
    from weft.providers.google import GoogleGenerativeAIEmbeddings

    print(GoogleGenerativeAIEmbeddings(output_dimensionality=256).model)
    #> gemini-embedding-001
    ```
    """

    model_config = ConfigDict(populate_by_name=True, extra="forbid", protected_namespaces=())

    model: str = "gemini-embedding-001"
    task_type: str | None = None
    """What the vectors are for; by default RETRIEVAL_DOCUMENT for documents and RETRIEVAL_QUERY for queries."""
    output_dimensionality: int | None = None
    chunk_size: int = Field(default=100, ge=1)
    """Texts sent in one request."""

    provider_name: ClassVar[str] = PROVIDER
    key_variables: ClassVar[Sequence[str]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    error_table: ClassVar[ErrorTable] = ERRORS

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: Any) -> Any:  # noqa: ANN401
        if not isinstance(values, dict):
            return values
        return {ALIASES.get(name, name): value for name, value in values.items()}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return drive(self._embed(texts, "RETRIEVAL_DOCUMENT", BLOCKING))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return await self._embed(texts, "RETRIEVAL_DOCUMENT", ASYNC)

    def embed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return drive(self._embed([text], "RETRIEVAL_QUERY", BLOCKING))[0]

    async def aembed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return (await self._embed([text], "RETRIEVAL_QUERY", ASYNC))[0]

    async def _embed(self, texts: list[str], task: str, io: IO) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self.chunk_size):
            vectors += await self._ask(texts[start : start + self.chunk_size], task, io)
        return vectors

    async def _ask(self, texts: list[str], task: str, io: IO) -> list[list[float]]:
        policy = RetryPolicy.of(2 if self.max_retries is None else self.max_retries)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._sent(texts, task, io)
            except ModelError as error:
                error.attempts = attempt
                if not policy.allows(error, attempt):
                    raise
                await io.sleep(policy.delay(attempt, error))

    async def _sent(self, texts: list[str], task: str, io: IO) -> list[list[float]]:
        sent = self._request(texts, task, await resolve_key(self._key(), io))
        async with self._transport().open(sent, blocking=io.blocking) as response:
            if response.status >= 400:
                raise self._hidden(self._status_error(response, await response.read_error()), sent)
            return self._read(self._parse(await response.read()), len(texts))

    def _request(self, texts: list[str], task: str, key: str | None) -> Request:
        path = encode_model(self.model)
        headers = {"content-type": "application/json", **(self._auth_headers(key) if key else {})}
        return Request(
            url=self._url(f"{path}:batchEmbedContents"),
            headers={**headers, **self.default_headers},
            body=dump_body({"requests": [self._one(text, task, path) for text in texts]}),
            timeouts=self._timeouts(),
            limits=self.limits,
        )

    def _one(self, text: str, task: str, path: str) -> dict[str, Any]:
        one: dict[str, Any] = {"model": path, "content": {"parts": [{"text": text}]}}
        one["taskType"] = self.task_type or task
        if self.output_dimensionality is not None:
            one["outputDimensionality"] = self.output_dimensionality
        return one

    def _read(self, answer: Any, count: int) -> list[list[float]]:  # noqa: ANN401
        try:
            vectors = [[float(value) for value in one["values"]] for one in answer["embeddings"]]
        except (KeyError, TypeError, ValueError) as error:
            raise self._malformed(f"the answer is no list of embeddings: {error!r:.100}") from error
        if len(vectors) != count:
            raise self._malformed(f"{count} texts were sent and {len(vectors)} vectors came back")
        return vectors

    def _root_url(self) -> str:
        return root_url(self.base_url, None, "global")

    def _auth_headers(self, key: str) -> dict[str, str]:
        return auth_headers(key, self._root_url())

    def _read_error(self, body: Any) -> Failure:  # noqa: ANN401
        return read_error(body)
