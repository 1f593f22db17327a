"""What embeddings share: one body for sync and async and both kinds of text; the checks of vectors; over HTTP retries.

A provider gives `_embed_some` (one batch), or over HTTP the request of a batch and how its answer reads. A vector that
is missing, empty, of another length than its neighbours, or holds what is no finite number is an error, never a result:
it would spoil an index without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.embeddings.base import Embeddings
from foldline.exceptions import MalformedStreamError, ModelError, UsageError
from foldline.language_models.base import CHARACTERS_PER_TOKEN
from foldline.language_models.call.deadline import pause, wait_within_deadline
from foldline.language_models.call.meter import RequestMeter
from foldline.language_models.call.retry import RetryPolicy
from foldline.language_models.policies.spending import Expectation
from foldline.language_models.policies.usage import time_left
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._keys import resolve_key
from foldline.providers._limits import observe_limits
from foldline.providers._wire import ODD, dump_body, is_error_body, request_id
from foldline.rate_limiters import BaseRateLimiter
from foldline.transports import Request, Response
from foldline.utils.progress import Progress, ProgressOption, show_progress

if TYPE_CHECKING:  # loaded by those who make one
    from foldline.rate_limiters.limiter import QuotaLimiter

__all__ = ["BatchedEmbeddings", "HttpEmbeddings", "check_texts", "order_rows", "read_vector"]

Vectors = list[list[float]]
NUMBERS = frozenset({int, float})
MIXED = "several models answer under this name; vectors of different models cannot be compared"


class BatchedEmbeddings(Embeddings):
    """Embeddings that are made batch by batch; a call can be interrupted between two."""

    chunk_size: int
    """Texts of one batch."""

    async def _embed_some(self, texts: list[str], io: IO, *, is_query: bool) -> Vectors:
        raise NotImplementedError

    def _malformed(self, message: str) -> MalformedStreamError:
        """Return the error of an answer that cannot be used."""
        raise NotImplementedError

    async def _embed(
        self,
        texts: list[str],
        io: IO,
        *,
        is_query: bool = False,
        progress: ProgressOption = None,
    ) -> Vectors:
        check_texts(texts)
        await self._prepare(io)
        with show_progress(progress, len(texts), "embedding") as shown:
            return await self._embed_shown(texts, io, shown, is_query=is_query)

    async def _prepare(self, io: IO) -> None:
        """Do what a call needs before its first batch."""

    async def _embed_shown(
        self, texts: list[str], io: IO, shown: Progress, *, is_query: bool
    ) -> Vectors:
        batches = self._batches(texts)

        async def embed_batch(batch: list[str]) -> Vectors:
            return await self._embed_batch(batch, io, is_query=is_query)

        vectors: dict[int, Vectors] = {}
        limit = self._concurrency()
        if limit == 1 or len(batches) < 2:
            for place, batch in enumerate(batches):
                vectors[place] = await embed_batch(batch)
                shown.advance(len(batch))
        else:
            outcomes = io.as_completed(embed_batch, batches, limit=limit)
            async with aclosing(outcomes):
                async for outcome in outcomes:
                    if outcome.error is not None:
                        raise outcome.error
                    vectors[outcome.place] = outcome.value
                    shown.advance(len(outcome.value))
        return self._check_lengths(
            [vector for place in sorted(vectors) for vector in vectors[place]]
        )

    async def _embed_batch(self, batch: list[str], io: IO, *, is_query: bool) -> Vectors:
        """Embed one batch, no longer than the usage scopes around the call allow."""
        vectors = await wait_within_deadline(self._embed_some(batch, io, is_query=is_query), io)
        return self._check_count(vectors, len(batch))

    def _batches(self, texts: list[str]) -> list[list[str]]:
        size = self._batch_size()
        return [texts[start : start + size] for start in range(0, len(texts), size)]

    def _batch_size(self) -> int:
        return self.chunk_size

    def _concurrency(self) -> int:
        """Return how many batches may be under way at once."""
        return 1

    def _check_count(self, vectors: Vectors, count: int) -> Vectors:
        if len(vectors) != count:
            raise self._malformed(f"{count} texts were sent and {len(vectors)} vectors came back")
        return vectors

    def _check_lengths(self, vectors: Vectors) -> Vectors:
        """Raise unless all vectors of a call are of one length, and of the one that was asked for."""
        lengths = {len(vector) for vector in vectors}
        if len(lengths) > 1:
            found = " and ".join(map(str, sorted(lengths)))
            raise self._malformed(f"the vectors of one call have {found} numbers: {MIXED}")
        wanted = self._requested_length()
        if wanted is not None and lengths and lengths != {wanted}:
            raise self._malformed(
                f"vectors of {wanted} numbers were asked for and vectors of {lengths.pop()} came: "
                "this model has no choice of dimensions; leave the setting out"
            )
        return vectors

    def _requested_length(self) -> int | None:
        """Return how many numbers a vector must have, where that was asked for."""
        return None

    def embed_documents(
        self, texts: list[str], *, progress: ProgressOption = None
    ) -> list[list[float]]:
        """Embed texts that will be searched; `progress` shows how many are done."""
        return drive(self._embed(texts, BLOCKING, progress=progress))

    async def aembed_documents(
        self, texts: list[str], *, progress: ProgressOption = None
    ) -> list[list[float]]:
        """Embed texts that will be searched; `progress` shows how many are done."""
        return await self._embed(texts, ASYNC, progress=progress)

    def embed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return drive(self._embed([text], BLOCKING, is_query=True))[0]

    async def aembed_query(self, text: str) -> list[float]:
        """Embed what is searched for."""
        return (await self._embed([text], ASYNC, is_query=True))[0]


class HttpEmbeddings(Endpoint, BatchedEmbeddings, BaseModel):
    """Embeddings behind an HTTP API."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        populate_by_name=True,
        extra="forbid",
        protected_namespaces=(),
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )

    model: str = ""
    chunk_size: int = Field(default=512, ge=1)
    """Texts sent in one request."""
    max_concurrency: int = Field(default=1, ge=1)
    """Requests under way at once."""
    rate_limiter: BaseRateLimiter | None = Field(default=None, exclude=True, repr=False)
    """Says when a request may be sent."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that LangChain's constructors accept."""

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        return {cls.aliases.get(name, name): value for name, value in values.items()}

    def _concurrency(self) -> int:
        return self.max_concurrency

    # -- what a provider writes: pure

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        """Return path and body of the request."""
        raise NotImplementedError

    def _decode(self, answer: Body) -> Vectors:
        """Read the vectors, in the order of the texts."""
        raise NotImplementedError

    def _count(self, answer: Body, headers: Mapping[str, str]) -> int | None:
        """Return the tokens that an answer says were sent; None where it says nothing of them."""
        return None

    def _extra_headers(self) -> dict[str, str]:
        return {}

    # -- limits

    def _batches(self, texts: list[str]) -> list[list[str]]:
        """Split texts so that no request is larger than what the rate limiter lets through at all."""
        batches = super()._batches(texts)
        limiter = self.rate_limiter
        if limiter is None or not limiter.takes_reservations:
            return batches
        most = cast("QuotaLimiter", limiter).rules.most_tokens
        return [part for batch in batches for part in split_by_tokens(batch, most)]

    def _meter(self, texts: list[str], io: IO) -> RequestMeter:
        tokens = sum(map(count_tokens, texts))
        where = f"{self._provider}:{self._model_name}"
        expected = Expectation(tokens, 0, None, None, None, where)
        return RequestMeter(expected, io, self.rate_limiter, None)

    def _usage(self, answer: Body, headers: Mapping[str, str]) -> dict[str, int] | None:
        try:
            tokens = self._count(answer, headers)
        except ODD:  # what is odd in it must not cost the vectors
            return None
        return {"total_tokens": tokens} if type(tokens) is int else None

    # -- the one body

    async def _embed_some(self, texts: list[str], io: IO, *, is_query: bool) -> Vectors:
        policy = RetryPolicy.of(2 if self.max_retries is None else self.max_retries)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._send_batch(texts, io, is_query=is_query)
            except ModelError as error:
                error.attempts = attempt
                error.provider = error.provider or self._provider
                error.model = error.model or self._model_name
                delay, left = policy.delay(attempt, error), time_left()
                if not policy.allows(error, attempt) or (left is not None and delay >= left):
                    raise
            await pause(delay, io)

    async def _send_batch(self, texts: list[str], io: IO, *, is_query: bool) -> Vectors:
        if self.rate_limiter is None:
            return await self._exchange(texts, io, None, is_query=is_query)
        async with self._meter(texts, io) as meter:
            return await self._exchange(texts, io, meter, is_query=is_query)

    async def _exchange(
        self, texts: list[str], io: IO, meter: RequestMeter | None, *, is_query: bool
    ) -> Vectors:
        sent = self._request(texts, await resolve_key(self._key(), io), is_query=is_query)
        sent = await self._authorize(sent, io)
        async with self._transport().open(sent, blocking=io.blocking) as response:
            observe_limits(meter, response)
            try:
                if response.status >= 400:
                    raise self._status_error(response, await response.read_error())
                answer: Any = await self._receive(response)  # JSON, which `_read` may find odd
                vectors = self._check_count(self._read(answer), len(texts))
                if meter is not None:
                    meter.usage = self._usage(answer, response.headers)
                return vectors
            except ModelError as error:
                error.request_id = error.request_id or request_id(response.headers)
                self._hidden(error, sent)
                raise

    async def _receive(self, response: Response) -> object:
        """Read the JSON of an answer."""
        body = await response.read()
        if not body.strip():
            raise self._malformed("the answer is empty", is_retryable=True)
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind == "text/html":
            raise self._malformed("the provider sent a web page: is base_url right?")
        return self._parse(body)

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

    def _read(self, answer: Body) -> Vectors:
        if is_error_body(answer):
            raise self._stream_error(answer)
        try:
            return self._decode(answer)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._malformed(f"the answer is no list of embeddings: {error!r:.100}") from error


def count_tokens(text: str) -> int:
    """Count about four characters as a token."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def split_by_tokens(texts: list[str], most: float) -> Iterator[list[str]]:
    """Yield the texts in order, together while they have no more than so many tokens."""
    part: list[str] = []
    tokens = 0
    for text in texts:
        count = count_tokens(text)
        if part and tokens + count > most:
            yield part
            part, tokens = [], 0
        part.append(text)
        tokens += count
    if part:
        yield part


def read_vector(numbers: Sequence[Any]) -> list[float]:
    """Read one vector as a provider sent it; raise ValueError unless it is a list of finite numbers."""
    if not isinstance(numbers, list) or not numbers:
        raise ValueError(f"a vector is a list of numbers, not {numbers!r:.40}")
    if not NUMBERS.issuperset(map(type, numbers)):
        odd = next(number for number in numbers if type(number) not in NUMBERS)
        raise ValueError(f"{odd!r:.40} in a vector is no number")
    vector = [float(number) for number in numbers]
    if not all(map(isfinite, vector)):
        raise ValueError("a vector holds NaN or infinity")
    return vector


def order_rows(rows: object) -> list[Any]:
    """Return rows by their `index`, each place once; rows that all have none are in order already."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError(f"rows are a list of objects, not {rows!r:.40}")
    places = [row.get("index") for row in rows]
    if all(place is None for place in places):
        return rows
    if {bool, float} & set(map(type, places)) or sorted(places) != list(range(len(rows))):
        raise ValueError(f"the places of the vectors are {places!r:.60}")
    return sorted(rows, key=lambda row: int(row["index"]))


def check_texts(texts: Iterable[object]) -> None:
    """Raise unless this is a list of texts; a single text is iterable too, letter by letter."""
    if isinstance(texts, str | bytes):
        raise UsageError(
            "embed_documents takes a list of texts: put the text in a list, or use embed_query"
        )
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"only text can be embedded, not {type(text).__name__} ({text!r:.40})")
