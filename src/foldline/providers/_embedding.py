"""The base classes of embeddings: one body for sync and async, the checks of vectors, and retries over HTTP.

A provider implements `_embed_some` (one batch) or, over HTTP, `_encode` and `_decode`. A vector that is missing, empty,
of a different length than the others, or that contains anything but finite numbers is an error: stored, it would
silently corrupt an index.
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
from foldline.language_models._call.deadline import pause, wait_within_deadline
from foldline.language_models._call.policies.spending import Expectation
from foldline.language_models._call.policies.usage import time_left
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models.base import CHARACTERS_PER_TOKEN
from foldline.prices.table import find_prices
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._keys import resolve_key
from foldline.providers._limits import RequestPermit, observe_limits
from foldline.providers._wire import MALFORMED_PAYLOAD_ERRORS, dump_body, is_error_body, request_id
from foldline.rate_limiters import BaseRateLimiter
from foldline.tracers._trace_out import current_trace_headers
from foldline.transports import Request, Response
from foldline.utils.progress import Progress, ProgressOption, show_progress

if TYPE_CHECKING:  # imported only by programs that use one
    from foldline.rate_limiters.limiter import QuotaLimiter

__all__ = ["BatchedEmbeddings", "HttpEmbeddings", "check_texts", "order_rows", "read_vector"]

Vectors = list[list[float]]
LOADABLE_FIELDS = frozenset(
    {
        "api_key", "auto_truncate", "chunk_size", "dimensions", "encoding_format", "input_type", "max_concurrency",
        "max_retries", "model", "model_kwargs", "normalize", "output_dimensionality", "task_type", "title", "truncate",
        "user",
    }
)  # fmt: skip
"""Fields that serialized data may set. (A key comes from the caller's secrets.)"""
NUMBERS = frozenset({int, float})
MIXED_MODELS = (
    "several models answer under this name; vectors of different models cannot be compared"
)


class BatchedEmbeddings(Embeddings):
    """Embeddings computed batch by batch; a call can be interrupted between two batches."""

    chunk_size: int
    """Texts in one batch."""

    async def _embed_some(self, texts: list[str], io: IO, *, is_query: bool) -> Vectors:
        raise NotImplementedError

    def _malformed(self, message: str) -> MalformedStreamError:
        """Return the error for an answer that cannot be used."""
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
        with show_progress(progress, len(texts), "embedding") as progress_bar:
            return await self._embed_batches(texts, io, progress_bar, is_query=is_query)

    async def _prepare(self, io: IO) -> None:
        """Prepare a call before its first batch."""

    async def _embed_batches(
        self, texts: list[str], io: IO, progress_bar: Progress, *, is_query: bool
    ) -> Vectors:
        batches = self._batches(texts)

        async def embed_batch(batch: list[str]) -> Vectors:
            return await self._embed_batch(batch, io, is_query=is_query)

        vectors: dict[int, Vectors] = {}
        limit = self._concurrency()
        if limit == 1 or len(batches) < 2:
            for place, batch in enumerate(batches):
                vectors[place] = await embed_batch(batch)
                progress_bar.advance(len(batch))
        else:
            outcomes = io.as_completed(embed_batch, batches, limit=limit)
            async with aclosing(outcomes):
                async for outcome in outcomes:
                    if outcome.error is not None:
                        raise outcome.error
                    vectors[outcome.place] = outcome.value
                    progress_bar.advance(len(outcome.value))
        return self._check_lengths(
            [vector for place in sorted(vectors) for vector in vectors[place]]
        )

    async def _embed_batch(self, batch: list[str], io: IO, *, is_query: bool) -> Vectors:
        """Embed one batch, within the time limit of the surrounding usage scopes."""
        vectors = await wait_within_deadline(self._embed_some(batch, io, is_query=is_query), io)
        return self._check_count(vectors, len(batch))

    def _batches(self, texts: list[str]) -> list[list[str]]:
        size = self._batch_size()
        return [texts[start : start + size] for start in range(0, len(texts), size)]

    def _batch_size(self) -> int:
        return self.chunk_size

    def _concurrency(self) -> int:
        """Return how many batches may be in progress at once."""
        return 1

    def _check_count(self, vectors: Vectors, count: int) -> Vectors:
        if len(vectors) != count:
            raise self._malformed(f"{count} texts were sent and {len(vectors)} vectors came back")
        return vectors

    def _check_lengths(self, vectors: Vectors) -> Vectors:
        """Raise unless all vectors of a call have the same length, and the requested one."""
        lengths = {len(vector) for vector in vectors}
        if len(lengths) > 1:
            numbers = " and ".join(map(str, sorted(lengths)))
            raise self._malformed(f"the vectors of one call have {numbers} numbers: {MIXED_MODELS}")
        requested = self._requested_length()
        if requested is not None and lengths and lengths != {requested}:
            raise self._malformed(
                f"vectors of {requested} numbers were asked for and vectors of {lengths.pop()} came: "
                "this model has no choice of dimensions; leave the setting out"
            )
        return vectors

    def _requested_length(self) -> int | None:
        """Return the requested length of vectors, or None."""
        return None

    def embed_documents(
        self, texts: list[str], *, progress: ProgressOption = None
    ) -> list[list[float]]:
        """Embed texts that will be searched; `progress` shows a progress bar."""
        return drive(self._embed(texts, BLOCKING, progress=progress))

    async def aembed_documents(
        self, texts: list[str], *, progress: ProgressOption = None
    ) -> list[list[float]]:
        """Embed texts that will be searched; `progress` shows a progress bar."""
        return await self._embed(texts, ASYNC, progress=progress)

    def embed_query(self, text: str) -> list[float]:
        """Embed a search query."""
        return drive(self._embed([text], BLOCKING, is_query=True))[0]

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a search query."""
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
    """How many requests may be in progress at once."""
    rate_limiter: BaseRateLimiter | None = Field(default=None, exclude=True, repr=False)
    """Decides when a request may be sent."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that LangChain's constructors accept."""

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        return {cls.aliases.get(name, name): value for name, value in values.items()}

    @classmethod
    def loadable_fields(cls) -> frozenset[str]:
        """Return the arguments that `foldline.load` accepts from data: none that changes where requests go (F-Y01)."""
        fields = LOADABLE_FIELDS & cls.model_fields.keys()
        return fields | {alias for alias, field in cls.aliases.items() if field in fields}

    def _concurrency(self) -> int:
        return self.max_concurrency

    # -- what a provider writes: pure

    def _encode(self, texts: list[str], *, is_query: bool) -> tuple[str, Body]:
        """Return the path and body of the request."""
        raise NotImplementedError

    def _decode(self, answer: Body) -> Vectors:
        """Return the vectors of an answer, in the order of the texts."""
        raise NotImplementedError

    def _count(self, answer: Body, headers: Mapping[str, str]) -> int | None:
        """Return the number of tokens that an answer reports, or None."""
        return None

    def _extra_headers(self) -> dict[str, str]:
        return {}

    # -- limits

    def _batches(self, texts: list[str]) -> list[list[str]]:
        """Split texts so that no request is larger than the rate limiter's quota."""
        batches = super()._batches(texts)
        limiter = self.rate_limiter
        if limiter is None or not limiter.takes_reservations:
            return batches
        max_tokens = cast("QuotaLimiter", limiter).rules.most_tokens
        return [part for batch in batches for part in split_by_tokens(batch, max_tokens)]

    def _permit(self, texts: list[str], io: IO) -> RequestPermit:
        tokens = sum(map(count_tokens, texts))
        model_id = f"{self._provider}:{self._model_name}"
        prices = find_prices(self._provider, self._model_name)
        expected = Expectation(tokens, 0, None, prices, None, model_id)
        return RequestPermit(expected, self.rate_limiter, io)

    def _answer_tokens(self, answer: Body, headers: Mapping[str, str]) -> int | None:
        try:
            tokens = self._count(answer, headers)
        except MALFORMED_PAYLOAD_ERRORS:  # malformed usage must not lose the vectors
            return None
        return tokens if type(tokens) is int and tokens >= 0 else None

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
                delay, seconds_left = policy.delay(attempt, error), time_left()
                if not policy.allows(error, attempt) or (
                    seconds_left is not None and delay >= seconds_left
                ):
                    raise
            await pause(delay, io)

    async def _send_batch(self, texts: list[str], io: IO, *, is_query: bool) -> Vectors:
        async with self._permit(texts, io) as permit:
            return await self._exchange(texts, io, permit, is_query=is_query)

    async def _exchange(
        self, texts: list[str], io: IO, permit: RequestPermit, *, is_query: bool
    ) -> Vectors:
        request = self._request(texts, await resolve_key(self._key(), io), is_query=is_query)
        request = await self._authorize(request, io)
        permit.is_sent = True
        async with self._transport().open(request, blocking=io.blocking) as response:
            observe_limits(self.rate_limiter, response)
            try:
                if response.status >= 400:
                    raise self._status_error(response, await response.read_error())
                answer: Any = await self._receive(response)  # JSON, checked by `_read`
                vectors = self._check_count(self._read(answer), len(texts))
                permit.tokens = self._answer_tokens(answer, response.headers)
                return vectors
            except ModelError as error:
                error.request_id = error.request_id or request_id(response.headers)
                self._redact_error(error, request)
                raise

    async def _receive(self, response: Response) -> object:
        """Return the JSON of an answer."""
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
                **current_trace_headers(),
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
        except MALFORMED_PAYLOAD_ERRORS as error:
            raise self._malformed(f"the answer is no list of embeddings: {error!r:.100}") from error


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text: about four characters each."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def split_by_tokens(texts: list[str], max_tokens: float) -> Iterator[list[str]]:
    """Yield the texts in order, in groups of at most `max_tokens` tokens."""
    group: list[str] = []
    tokens = 0
    for text in texts:
        count = count_tokens(text)
        if group and tokens + count > max_tokens:
            yield group
            group, tokens = [], 0
        group.append(text)
        tokens += count
    if group:
        yield group


def read_vector(numbers: Sequence[Any]) -> list[float]:
    """Return a vector of an answer; raise ValueError unless it is a list of finite numbers."""
    if not isinstance(numbers, list) or not numbers:
        raise ValueError(f"a vector is a list of numbers, not {numbers!r:.40}")
    if not NUMBERS.issuperset(map(type, numbers)):
        value = next(number for number in numbers if type(number) not in NUMBERS)
        raise ValueError(f"{value!r:.40} in a vector is no number")
    vector = [float(number) for number in numbers]
    if not all(map(isfinite, vector)):
        raise ValueError("a vector holds NaN or infinity")
    return vector


def order_rows(rows: object) -> list[Any]:
    """Return rows sorted by `index`, which must be 0, 1, 2, …; rows without an index stay in their order."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError(f"rows are a list of objects, not {rows!r:.40}")
    places = [row.get("index") for row in rows]
    if all(place is None for place in places):
        return rows
    if {bool, float} & set(map(type, places)) or sorted(places) != list(range(len(rows))):
        raise ValueError(f"the places of the vectors are {places!r:.60}")
    return sorted(rows, key=lambda row: int(row["index"]))


def check_texts(texts: Iterable[object]) -> None:
    """Raise unless this is a list of strings. A single string would be iterated by character."""
    if isinstance(texts, str | bytes):
        raise UsageError(
            "embed_documents takes a list of texts: put the text in a list, or use embed_query"
        )
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"only text can be embedded, not {type(text).__name__} ({text!r:.40})")
