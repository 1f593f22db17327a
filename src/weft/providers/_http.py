"""What every provider over HTTP shares: the fields, the one body that sends and decodes, errors, `explain()`.

A provider gives four pure things: `_encode` (request -> path and body), `_headers`, a decoder, and a table of its error
codes. Only the body here waits. `stream` and `invoke` are the same body; an answer that comes whole is decoded by the
same decoder, fed once.
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from urllib.parse import urlencode

from pydantic import Field, PrivateAttr, SecretStr

from weft._drive import drive
from weft._io import BLOCKING, IO
from weft._run import Run
from weft._sse import SSEDecoder
from weft.exceptions import (
    MalformedStreamError,
    ModelError,
    ModelStatusError,
    status_error_class,
)
from weft.language_models.chat_models import BaseChatModel
from weft.language_models.request import ChatRequest
from weft.language_models.retry import RetryPolicy
from weft.protocol.events import Event
from weft.providers._keys import Key, key_from_env, missing_key, resolve_key
from weft.transports import (
    HttpOptions,
    Limits,
    PyreqwestTransport,
    Request,
    Response,
    Timeouts,
    Transport,
    default_transport,
)
from weft.utils.json import JsonError, parse_wire

JSON_TYPES = ("application/json", "text/json")
REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")
ErrorTable = Mapping[str, type[ModelError]]


class WireDecoder(Protocol):
    """Turns one answer of a vendor into events. Fed dicts; does no I/O."""

    def feed(self, data: Any, event: str) -> list[Event]:
        """Take one payload of the stream; `event` is the SSE event name."""

    def whole(self, data: Any) -> list[Event]:
        """Take an answer that came in one piece: the same events as its stream would give."""

    def end(self) -> list[Event]:
        """The bytes ended: give the last events, or raise `StreamTruncatedError` if the vendor never said so."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The exact request a call would send; secrets are masked."""

    method: str
    url: str
    headers: dict[str, str]
    body: dict[str, Any]
    tokens: int
    """About how many input tokens the messages and tools are."""
    notes: list[str] = field(default_factory=list)
    """What was changed or left out on the way: lossy conversions, applied effort, renamed tools."""


class HttpChatModel(BaseChatModel):
    """A chat model behind an HTTP API."""

    api_key: Key | None = Field(default=None, exclude=True, repr=False)
    """The key: a string, a secret, or a function (also async) that gives it. Default: the environment."""
    base_url: str | None = None
    """Where the API lives, if not at the provider's own address."""
    timeout: float | Timeouts | None = Field(default=None, exclude=True)
    """Seconds for the whole call, or each clock on its own (`weft.transports.Timeouts`)."""
    max_retries: int | None = Field(default=None, exclude=True)
    """How often a failed request is tried again; overrides `retry_on_error`."""
    default_headers: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Headers sent with every request."""
    default_query: dict[str, str] = Field(default_factory=dict, exclude=True)
    """Query parameters sent with every request."""
    transport: Any = Field(default=None, exclude=True, repr=False)
    """Your own `weft.transports.Transport`; default: one shared by the process."""
    http: HttpOptions | None = Field(default=None, exclude=True)
    """Proxy, certificates, HTTP/2 and the like, for a transport of this model's own."""
    limits: Limits = Field(default_factory=Limits, exclude=True)
    """How much is accepted from the server."""

    provider_name: ClassVar[str] = "http"
    key_variables: ClassVar[Sequence[str]] = ()
    needs_key: ClassVar[bool] = True
    error_table: ClassVar[ErrorTable] = {}
    """Vendor code or type -> error class."""

    _own_transport: Transport | None = PrivateAttr(default=None)

    # -- what a provider writes: pure

    def _encode(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        """Give path and body of the request."""
        raise NotImplementedError

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        raise NotImplementedError

    def _auth_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        return {}

    def _root_url(self) -> str:
        raise NotImplementedError

    def _is_end(self, data: str) -> bool:
        """Whether an SSE payload is the vendor's end marker and no JSON."""
        return data == "[DONE]"

    def _read_error(self, body: Any) -> tuple[str | None, str | None]:
        """Find (code, message) in an error's JSON."""
        error = body.get("error", body) if isinstance(body, dict) else body
        if isinstance(error, str):
            return None, error
        if not isinstance(error, dict):
            return None, None
        code = error.get("code") or error.get("type") or error.get("status")
        return (str(code) if code is not None else None), error.get("message")

    # -- the one body

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        sent = await self._http_request(request, run.io)
        decoder = self._decoder(request)
        async with self._transport().open(sent, blocking=run.io.blocking) as response:
            if response.status >= 400:
                raise self._status_error(response, await response.read_error())
            kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
            if kind in JSON_TYPES or not request.stream:
                for event in decoder.whole(self._parse(await response.read())):
                    yield event
                return
            async with aclosing(self._decoded(response, decoder)) as events:
                async for event in events:
                    yield event

    async def _decoded(self, response: Response, decoder: WireDecoder) -> AsyncGenerator[Event, None]:
        sse = SSEDecoder(self.limits.sse_line, self.limits.sse_event)
        seen = False
        async with aclosing(response.chunks(progress_only=True)) as chunks:
            async for chunk in chunks:
                for name, data, _ in sse.feed(chunk):
                    if not data or self._is_end(data):
                        seen = seen or bool(data)
                        continue
                    seen = True
                    events = decoder.feed(self._parse(data), name)
                    if events:
                        response.progress()
                    for event in events:
                        yield event
        sse.end()
        if not seen:
            raise MalformedStreamError("the answer is no event stream", is_retryable=True)
        for event in decoder.end():
            yield event

    def _parse(self, data: str | bytes) -> Any:
        try:
            return parse_wire(data, max_depth=self.limits.json_depth)
        except JsonError as error:
            raise MalformedStreamError(f"the provider sent what is not JSON: {error}") from error

    async def _http_request(self, request: ChatRequest, io: IO) -> Request:
        path, body = self._encode(request)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if request.stream else "application/json",
            **self._extra_headers(request),
            **self.default_headers,
        }
        key = await resolve_key(self._key(), io)
        if key:
            headers = {**self._auth_headers(key), **headers}
        return Request(
            url=self._url(path),
            headers=headers,
            body=json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass"),
            timeouts=self._timeouts(),
            limits=self.limits,
        )

    def _key(self) -> Key | None:
        key = self.api_key if self.api_key is not None else key_from_env(self.key_variables)
        if key is None and self.needs_key:
            raise missing_key(self._provider, self.key_variables)
        return key

    def _url(self, path: str) -> str:
        url = self._root_url().rstrip("/") + "/" + path.lstrip("/")
        if not self.default_query:
            return url
        return f"{url}{'&' if '?' in url else '?'}{urlencode(self.default_query)}"

    def _timeouts(self) -> Timeouts:
        if isinstance(self.timeout, Timeouts):
            return self.timeout
        return Timeouts() if self.timeout is None else Timeouts(total=float(self.timeout))

    def _transport(self) -> Transport:
        if self.transport is not None:
            chosen: Transport = self.transport
            return chosen
        if self.http is None:
            return default_transport()
        if self._own_transport is None:
            self._own_transport = PyreqwestTransport(self.http)
        return self._own_transport

    # -- errors

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        text = body.decode("utf-8", "replace")
        try:
            code, message = self._read_error(parse_wire(text))
        except JsonError:
            code, message = None, None
        return self._error(
            code,
            message or f"HTTP {response.status}",
            status=response.status,
            body=text,
            request_id=next((response.headers[h] for h in REQUEST_ID_HEADERS if h in response.headers), None),
            retry_after=retry_after(response.headers),
        )

    def _error(self, code: str | None, message: str, *, status: int | None = None, **facts: Any) -> ModelError:
        """Build the typed error of a vendor's code; the table first, then the status."""
        cls: type[ModelError] | None = self.error_table.get(code or "")
        if cls is None:
            cls = status_error_class(status) if status else ModelStatusError
        return cls(message, provider=self._provider, model=self._model_name, status=status, code=code, **facts)

    # -- seeing what would be sent

    def explain(self, input: Any, **kwargs: Any) -> Explained:
        """Give the exact request without sending it; secrets are masked."""
        request = self._request(input, Run.blocking(None, kwargs), stream=bool(kwargs.pop("stream", False)))
        prepared = drive(self._preprocess(request, Run.blocking()))
        try:
            sent = drive(self._http_request(prepared, BLOCKING))
        except ModelStatusError:
            # Without a key there is still something to see.
            masked = self.model_copy(update={"api_key": SecretStr("missing")})
            sent = drive(masked._http_request(prepared, BLOCKING))
        secret = self._auth_headers("\0")
        headers = {name: "***" if name in secret else value for name, value in sent.headers.items()}
        tokens = self.get_num_tokens_from_messages(prepared.messages, tools=prepared.tools or None)
        return Explained(sent.method, sent.url, headers, json.loads(sent.body), tokens)

    @property
    def _provider(self) -> str:
        return self.provider_name

    @property
    def _retry_policy(self) -> RetryPolicy:
        return RetryPolicy.of(self.retry_on_error if self.max_retries is None else self.max_retries)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read Retry-After: seconds, milliseconds or a date; None where absent or nonsense."""
    if (millis := headers.get("retry-after-ms")) is not None:
        return _number(millis, 0.001)
    given = headers.get("retry-after")
    if given is None:
        return None
    seconds = _number(given, 1.0)
    if seconds is not None:
        return seconds
    try:
        when = email.utils.parsedate_to_datetime(given)
    except (TypeError, ValueError):
        return None
    return max(0.0, when.timestamp() - time.time())


def _number(text: str, scale: float) -> float | None:
    try:
        value = float(text) * scale
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None

