"""The base of the clients of providers' batch APIs: JSON over the model's connection, retries, results as JSON lines.

A request that creates a batch is sent once and never retried here: whether the provider accepted it is found out by
asking the provider (`find`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import wraps
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

from foldline._io import IO
from foldline.batches._batch_api import BatchAnswer
from foldline.exceptions import FoldlineError, ModelError, SecurityError
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.providers._endpoint import Endpoint
from foldline.providers._keys import resolve_key
from foldline.providers._wire import MALFORMED_PAYLOAD_ERRORS, malformed_payload
from foldline.transports import Request, Response, Timeouts, Transport
from foldline.transports.base import origin_of

__all__ = ["BatchClient", "checks_payload"]

C = TypeVar("C", bound="BatchClient")
P = ParamSpec("P")
T = TypeVar("T")
Row = Mapping[str, Any]

UPLOAD: Final = Timeouts(connect=10.0, first_byte=600.0, idle=120.0)
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The maximum length of a line of results, in bytes."""


def checks_payload(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Let a method raise `MalformedStreamError` for JSON that does not have the provider's format.

    The error is retryable: a batch whose creation was answered so may exist, and is looked for before it is sent again.
    """

    @wraps(method)
    async def checked(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(self, *args, **kwargs)
        except FoldlineError:
            raise
        except MALFORMED_PAYLOAD_ERRORS as error:
            failure = malformed_payload(self.endpoint._malformed, error)
            failure.is_retryable = True
            raise failure from error

    return checked


class BatchClient:
    """Sends requests about batches over the connection of a model."""

    retries: ClassVar[int] = 3

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint: Any = endpoint

    def headers(self) -> dict[str, str]:
        """Return the headers that every request of this provider has besides its key."""
        return {}

    async def ask(
        self,
        path: str,
        io: IO,
        *,
        method: str = "GET",
        body: bytes = b"",
        kind: str = "application/json",
        may_repeat: bool = True,
    ) -> Any:  # noqa: ANN401  the provider's JSON
        """Send a request and return the JSON of its answer."""

        async def make() -> Request:
            return await self._request(path, io, method, body, kind)

        return (await self.exchange(make, io, may_repeat=may_repeat))[0]

    async def exchange(
        self, make_request: Callable[[], Awaitable[Request]], io: IO, *, may_repeat: bool = True
    ) -> tuple[Any, Mapping[str, str]]:
        """Send a request; return the JSON of its answer, and its headers."""
        policy, attempt = RetryPolicy.of(self.retries if may_repeat else 0), 0
        while True:
            attempt += 1
            try:
                request = await make_request()
                async with self._open(request, io) as response:
                    await self._check(response, request)
                    text = await response.read()
                    answer = self.endpoint._parse(text) if text.strip() else {}
                    return answer, response.headers
            except ModelError as error:
                error.provider = error.provider or self.endpoint._provider
                error.model = error.model or self.endpoint._model_name
                if not policy.allows(error, attempt):
                    raise
                delay = policy.delay(attempt, error)
            await io.sleep(delay)

    async def lines(
        self, path: str, io: IO, read: Callable[[Row], BatchAnswer]
    ) -> AsyncGenerator[BatchAnswer, None]:
        """Yield the answers in JSON lines as they arrive.

        A line that cannot be read is skipped: its request counts as missing.
        """
        request = await self._request(path, io, "GET", b"", "")
        async with self._open(request, io) as response:
            await self._check(response, request)
            tail: list[bytes] = []
            size = 0
            async with aclosing(response.chunks()) as chunks:
                async for chunk in chunks:
                    first, *others = chunk.split(b"\n")
                    tail.append(first)
                    size += len(first)
                    if others:
                        lines = [b"".join(tail), *others]
                        tail = [lines.pop()]
                        size = len(tail[0])
                        for line in lines:
                            if (answer := self._read_line(line, read)) is not None:
                                yield answer
                    if size > MAX_LINE_BYTES:
                        raise self.endpoint._malformed(
                            "a line of the batch's results is longer than 64 MB"
                        )
            if (answer := self._read_line(b"".join(tail), read)) is not None:
                yield answer

    def _read_line(self, line: bytes, read: Callable[[Row], BatchAnswer]) -> BatchAnswer | None:
        if not line.strip():
            return None
        try:
            row = self.endpoint._parse(line)
        except ModelError:
            return None
        return self.read_row(row, read)

    def read_row(self, row: object, read: Callable[[Row], BatchAnswer]) -> BatchAnswer | None:
        """Return the answer in a row of results, or None if it does not have the provider's format."""
        try:
            return read(row) if isinstance(row, dict) else None
        except MALFORMED_PAYLOAD_ERRORS:
            return None

    def name_of(self, value: object) -> str:
        """Return an id or name that the provider sent; raise unless it is text."""
        if not isinstance(value, str) or not value:
            raise self.endpoint._malformed(
                f"{value!r:.40} is no id of a batch or file", is_retryable=True
            )
        return value

    async def _request(self, path: str, io: IO, method: str, body: bytes, kind: str) -> Request:
        endpoint = self.endpoint
        url = path if "://" in path else endpoint._url(path)
        if origin_of(url) != origin_of(endpoint._url("")):
            raise SecurityError(
                f"the batch names an address of another host, {origin_of(url)}: the key is not sent there"
            )
        key = await resolve_key(endpoint._key(), io)
        headers = endpoint._auth_headers(key) if key else {}
        if body and kind:
            headers["content-type"] = kind
        default_headers = {name.lower(): value for name, value in endpoint.default_headers.items()}
        request = Request(
            url=url,
            method=method,
            headers={**headers, **self.headers(), **default_headers},
            body=body,
            timeouts=UPLOAD,
            limits=endpoint.limits,
        )
        authorized: Request = await endpoint._authorize(request, io)
        return authorized

    def _open(self, request: Request, io: IO) -> AbstractAsyncContextManager[Response]:
        transport: Transport = self.endpoint._transport()
        return transport.open(request, blocking=io.blocking)

    async def _check(self, response: Response, request: Request) -> None:
        if response.status >= 400:
            raise self.endpoint._redact_error(
                self.endpoint._status_error(response, await response.read_error()), request
            )
