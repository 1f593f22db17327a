"""What embeddings share: one body for both colours and both kinds of text; over HTTP also batches, retries, the checks.

A provider gives `_embed_some` (one batch), or over HTTP the request of a batch and how its answer reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from math import isfinite
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.embeddings.base import Embeddings
from foldline.exceptions import ModelError, UsageError
from foldline.language_models.call.retry import RetryPolicy
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._keys import resolve_key
from foldline.providers._wire import dump_body, is_error, request_id
from foldline.transports import Request

__all__ = ["BatchedEmbeddings", "HttpEmbeddings"]

Vectors = list[list[float]]


class BatchedEmbeddings(Embeddings):
    """Embeddings that are made batch by batch; a call can be interrupted between two."""

    chunk_size: int
    """Texts of one batch."""

    async def _embed_some(self, texts: list[str], io: IO, *, is_query: bool) -> Vectors:
        raise NotImplementedError

    async def _embed(self, texts: list[str], io: IO, *, is_query: bool = False) -> Vectors:
        size = self._batch_size()
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]

        async def embed_batch(batch: list[str]) -> Vectors:
            return await self._embed_some(batch, io, is_query=is_query)

        limit = self._concurrency()
        if limit == 1 or len(batches) < 2:
            return [vector for batch in batches for vector in await embed_batch(batch)]
        vectors: dict[int, Vectors] = {}
        outcomes = io.as_completed(embed_batch, batches, limit=limit)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                if outcome.error is not None:
                    raise outcome.error
                vectors[outcome.place] = outcome.value
        return [vector for place in sorted(vectors) for vector in vectors[place]]

    def _batch_size(self) -> int:
        return self.chunk_size

    def _concurrency(self) -> int:
        """Return how many batches may be under way at once."""
        return 1

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return drive(self._embed(texts, BLOCKING))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return await self._embed(texts, ASYNC)

    def embed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return drive(self._embed([text], BLOCKING, is_query=True))[0]

    async def aembed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return (await self._embed([text], ASYNC, is_query=True))[0]


class HttpEmbeddings(Endpoint, BatchedEmbeddings, BaseModel):
    """Embeddings behind an HTTP API."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        populate_by_name=True, extra="forbid", protected_namespaces=(), hide_input_in_errors=True
    )

    model: str = ""
    chunk_size: int = Field(default=512, ge=1)
    """Texts sent in one request."""
    max_concurrency: int = Field(default=1, ge=1)
    """Requests under way at once."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that LangChain's constructors accept."""

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: Any) -> Any:  # noqa: ANN401
        if not isinstance(values, dict):
            return values
        return {cls.aliases.get(name, name): value for name, value in values.items()}

    def _concurrency(self) -> int:
        return self.max_concurrency

    # -- what a provider writes: pure

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        """Give path and body of the request."""
        raise NotImplementedError

    def _decode(self, answer: Any) -> Vectors:  # noqa: ANN401
        """Read the vectors, in the order of the texts."""
        raise NotImplementedError

    def _extra_headers(self) -> dict[str, str]:
        return {}

    # -- the one body

    async def _embed_some(self, texts: list[str], io: IO, *, is_query: bool) -> Vectors:
        policy = RetryPolicy.of(2 if self.max_retries is None else self.max_retries)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._sent(texts, io, is_query=is_query)
            except ModelError as error:
                error.attempts = attempt
                if not policy.allows(error, attempt):
                    raise
                await io.sleep(policy.delay(attempt, error))

    async def _sent(self, texts: list[str], io: IO, *, is_query: bool) -> Vectors:
        sent = self._request(texts, await resolve_key(self._key(), io), is_query=is_query)
        sent = await self._authorize(sent, io)
        async with self._transport().open(sent, blocking=io.blocking) as response:
            if response.status >= 400:
                raise self._hidden(self._status_error(response, await response.read_error()), sent)
            answer = self._parse(await response.read())
            if is_error(answer):  # a gateway may send one with a good status
                error = self._stream_error(answer)
                error.request_id = request_id(response.headers) or error.request_id
                raise self._hidden(error, sent)
            return self._read(answer, len(texts))

    def _request(self, texts: list[str], key: str | None, *, is_query: bool) -> Request:
        if not self.model:
            raise UsageError(f'{type(self).__name__} has no model: pass model="…"')
        path, body = self._encode(texts, is_query=is_query)
        return Request(
            url=self._url(path),
            headers={
                "content-type": "application/json",
                "accept": "application/json",
                **(self._auth_headers(key) if key else {}),
                **self._extra_headers(),
                **self.default_headers,
            },
            body=dump_body(body),
            timeouts=self._timeouts(),
            limits=self.limits,
        )

    def _read(self, answer: Any, count: int) -> Vectors:  # noqa: ANN401
        try:
            vectors = self._decode(answer)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._malformed(f"the answer is no list of embeddings: {error!r:.100}") from error
        if len(vectors) != count:
            raise self._malformed(f"{count} texts were sent and {len(vectors)} vectors came back")
        if not all(isfinite(sum(vector)) for vector in vectors):
            raise self._malformed("a vector holds a number that is not finite")
        return vectors
