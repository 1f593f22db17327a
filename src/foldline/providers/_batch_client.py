"""The base of the clients of providers' batch APIs: JSON over the model's connection, retries, results as JSON lines.

A request that creates a batch is sent once and never retried here: whether the provider accepted it is found out by
asking the provider (`find`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, ClassVar, Final

from foldline._io import IO
from foldline.exceptions import ModelError
from foldline.language_models.call.retry import RetryPolicy
from foldline.providers._endpoint import Endpoint
from foldline.providers._keys import resolve_key
from foldline.transports import Request, Response, Timeouts, Transport

__all__ = ["BatchClient"]

UPLOAD: Final = Timeouts(connect=10.0, first_byte=600.0, idle=120.0)
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The maximum length of a line of results, in bytes."""


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

    async def lines(self, path: str, io: IO) -> AsyncGenerator[Any, None]:
        """Yield the JSON lines as they arrive. A line that is not JSON is skipped: its request counts as missing."""
        request = await self._request(path, io, "GET", b"", "")
        async with self._open(request, io) as response:
            await self._check(response, request)
            tail = b""
            async with aclosing(response.chunks()) as chunks:
                async for chunk in chunks:
                    *lines, tail = (tail + chunk).split(b"\n")
                    for line in lines:
                        if (row := self._row(line)) is not None:
                            yield row
                    if len(tail) > MAX_LINE_BYTES:
                        raise self.endpoint._malformed(
                            "a line of the batch's results is longer than 64 MB"
                        )
            if (row := self._row(tail)) is not None:
                yield row

    def _row(self, line: bytes) -> Mapping[str, Any] | None:
        if not line.strip():
            return None
        try:
            row = self.endpoint._parse(line)
        except ModelError:
            return None
        return row if isinstance(row, dict) else None

    async def _request(self, path: str, io: IO, method: str, body: bytes, kind: str) -> Request:
        endpoint = self.endpoint
        key = await resolve_key(endpoint._key(), io)
        headers = endpoint._auth_headers(key) if key else {}
        if body and kind:
            headers["content-type"] = kind
        default_headers = {name.lower(): value for name, value in endpoint.default_headers.items()}
        request = Request(
            url=path if "://" in path else endpoint._url(path),
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
