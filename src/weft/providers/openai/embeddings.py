"""`OpenAIEmbeddings`: text to vectors by OpenAI, and by every server that has `/embeddings`."""

from __future__ import annotations

import base64
import os
from array import array
from collections.abc import Sequence
from sys import byteorder
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from weft._drive import drive
from weft._io import ASYNC, BLOCKING, IO
from weft.embeddings import Embeddings
from weft.exceptions import MalformedStreamError, ModelError
from weft.language_models.retry import RetryPolicy
from weft.providers._endpoint import Body, Endpoint, dump_body
from weft.providers._keys import resolve_key
from weft.providers._wire import ErrorTable
from weft.providers.openai.errors import ERRORS
from weft.transports import Request

__all__ = ["OpenAIEmbeddings"]

ALIASES = {
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "openai_organization": "organization",
    "request_timeout": "timeout",
    "model_name": "model",
}


class OpenAIEmbeddings(Endpoint, Embeddings, BaseModel):
    """Embeddings of OpenAI.

    ```python
    from weft.providers.openai import OpenAIEmbeddings

    print(OpenAIEmbeddings(model="text-embedding-3-small", dimensions=256).model)
    #> text-embedding-3-small
    ```
    """

    model_config = ConfigDict(
        populate_by_name=True, extra="forbid", protected_namespaces=(), hide_input_in_errors=True
    )

    model: str = "text-embedding-3-small"
    dimensions: int | None = None
    chunk_size: int = Field(default=512, ge=1)
    """Texts sent in one request."""
    organization: str | None = None
    user: str | None = None
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    encoding_format: str = "base64"
    """How vectors travel: "base64" is a third of the size of "float"; servers that only know "float" are understood."""

    provider_name: ClassVar[str] = "openai"
    key_variables: ClassVar[Sequence[str]] = ("OPENAI_API_KEY",)
    error_table: ClassVar[ErrorTable] = ERRORS

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: Any) -> Any:  # noqa: ANN401
        if not isinstance(values, dict):
            return values
        return {ALIASES.get(name, name): value for name, value in values.items()}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return drive(self._embed(texts, BLOCKING))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return await self._embed(texts, ASYNC)

    def embed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return drive(self._embed([text], BLOCKING))[0]

    async def aembed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return (await self._embed([text], ASYNC))[0]

    async def _embed(self, texts: list[str], io: IO) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), self.chunk_size):
            vectors += await self._ask(texts[start : start + self.chunk_size], io)
        return vectors

    async def _ask(self, texts: list[str], io: IO) -> list[list[float]]:
        policy = RetryPolicy.of(2 if self.max_retries is None else self.max_retries)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._sent(texts, io)
            except ModelError as error:
                error.attempts = attempt
                if not policy.allows(error, attempt):
                    raise
                await io.sleep(policy.delay(attempt, error))

    async def _sent(self, texts: list[str], io: IO) -> list[list[float]]:
        sent = self._request(texts, await resolve_key(self._key(), io))
        async with self._transport().open(sent, blocking=io.blocking) as response:
            if response.status >= 400:
                raise self._hidden(self._status_error(response, await response.read_error()), sent)
            return self._read(self._parse(await response.read()), len(texts))

    def _request(self, texts: list[str], key: str | None) -> Request:
        headers = {"content-type": "application/json", "accept": "application/json"}
        if key:
            headers |= self._auth_headers(key)
        if self.organization:
            headers["openai-organization"] = self.organization
        return Request(
            url=self._url("embeddings"),
            headers={**headers, **self.default_headers},
            body=dump_body(self._body(texts)),
            timeouts=self._timeouts(),
            limits=self.limits,
        )

    def _body(self, texts: list[str]) -> Body:
        body: Body = {"model": self.model, "input": texts, "encoding_format": self.encoding_format}
        named = {"dimensions": self.dimensions, "user": self.user}
        return {
            **body,
            **{name: value for name, value in named.items() if value is not None},
            **self.model_kwargs,
        }

    def _read(self, answer: Any, count: int) -> list[list[float]]:  # noqa: ANN401
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = [_vector(row["embedding"]) for row in rows]
        except (KeyError, TypeError, ValueError) as error:
            raise self._malformed(f"the answer is no list of embeddings: {error!r:.100}") from error
        if len(vectors) != count:
            raise MalformedStreamError(
                f"{count} texts were sent and {len(vectors)} vectors came back",
                provider="openai",
                model=self.model,
            )
        return vectors

    def _root_url(self) -> str:
        given = (
            self.base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
        )
        return given or "https://api.openai.com/v1"


def _vector(embedding: Any) -> list[float]:  # noqa: ANN401  numbers, or base64 of them
    if not isinstance(embedding, str):
        return [float(number) for number in embedding]
    numbers = array("f", base64.b64decode(embedding, validate=True))
    if byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
