"""What every provider over HTTP shares: the fields, the one body that sends and decodes, errors, `explain()`.

A provider gives pure things: `_encode` (request -> path and body), headers, a decoder, and a table of its error codes.
Only the body here waits. `stream` and `invoke` are the same body; an answer that comes whole is decoded by the same
decoder, fed once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlencode

from pydantic import Field, PrivateAttr, SecretStr

from weft._drive import drive
from weft._io import BLOCKING, IO
from weft._run import Run
from weft._sse import SSEDecoder
from weft.exceptions import (
    MalformedStreamError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelError,
    UsageError,
    WeftError,
)
from weft.language_models.chat_models import BaseChatModel
from weft.language_models.request import ChatRequest
from weft.language_models.retry import RetryPolicy
from weft.outputs import ChatGeneration, ChatResult
from weft.protocol.events import Event
from weft.providers._foreign import ForeignBlocks
from weft.providers._keys import Key, SecretKey, key_from_env, missing_key, resolve_key
from weft.providers._wire import (
    ErrorTable,
    Failure,
    WireDecoder,
    error_class,
    read_failure,
    request_id,
    retry_after,
)
from weft.transports import HttpOptions, Limits, Request, Response, Timeouts, Transport, default_transport
from weft.transports._default import transport_for
from weft.utils.json import JsonError, parse_wire

__all__ = ["ErrorTable", "Explained", "Failure", "HttpChatModel", "WireDecoder", "retry_after"]

Body = dict[str, Any]
ODD = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What a decoder may stumble with over JSON that is not of the vendor's shape."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The exact request a call would send; secrets are masked."""

    method: str
    url: str
    headers: dict[str, str]
    body: Body
    tokens: int
    """About how many input tokens the messages and tools are."""
    notes: list[str] = field(default_factory=list)
    """What was changed or left out on the way: lossy conversions, applied effort, renamed tools."""


class HttpChatModel(BaseChatModel):
    """A chat model behind an HTTP API."""

    api_key: Key = Field(default=None, exclude=True, repr=False)
    """The key: text, a secret, or a function (also async) that gives it. Default: the environment, at each call."""
    base_url: str | None = None
    """Where the API lives, if not at the provider's own address."""
    timeout: float | Timeouts | None = Field(default=None, exclude=True)
    """Seconds for the whole call, or each clock on its own (`weft.transports.Timeouts`)."""
    max_retries: int | None = Field(default=None, exclude=True)
    """How often a failed request is tried again; overrides `retry_on_error`."""
    default_headers: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Headers sent with every request."""
    default_query: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Query parameters sent with every request."""
    transport: Any = Field(default=None, exclude=True, repr=False)
    """Your own `weft.transports.Transport`; default: one shared by the process."""
    http: HttpOptions | None = Field(default=None, exclude=True)
    """Proxy, certificates, HTTP/2 and the like, for a transport of this model's own."""
    limits: Limits = Field(default_factory=Limits, exclude=True, repr=False)
    """How much is accepted from the server."""
    foreign_blocks: ForeignBlocks = "convert"
    """What becomes of reasoning, server tools and the like that ANOTHER provider wrote: told as text ("convert"),
    left out ("drop") or an error ("refuse"). What was lost is in `response_metadata["lost"]`."""
    include_response_headers: bool = False
    """Put the response's headers into `response_metadata["headers"]`."""

    provider_name: ClassVar[str] = "http"
    key_variables: ClassVar[Sequence[str]] = ()
    needs_key: ClassVar[bool] = True
    error_table: ClassVar[ErrorTable] = {}
    """Vendor code or type -> error class."""

    _own_transport: Transport | None = PrivateAttr(default=None)

    # -- what a provider writes: pure

    def _encode(self, request: ChatRequest) -> tuple[str, Body]:
        """Give path and body of the request; what is lost on the way goes to `request.notes`."""
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

    def _read_error(self, body: Any) -> Failure:  # noqa: ANN401
        """Find code, type and message in an error's JSON."""
        return read_failure(body)

    # -- the one body

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        sent = await self._http_request(request, run.io)
        decoder = self._decoder(request)
        async with self._transport().open(sent, blocking=run.io.blocking) as response:
            try:
                if response.status >= 400:
                    raise self._status_error(response, await response.read_error())
                more = self._more_metadata(request, response)
                read = self._decoded if self._is_streamed(request, response) else self._whole
                async with aclosing(read(response, decoder)) as events:
                    async for event in events:
                        if more and event["event"] == "message-finish":
                            event["metadata"] = {**event.get("metadata", {}), **more}
                        yield event
            except ModelError as error:
                error.request_id = error.request_id or request_id(response.headers)
                raise

    def _is_streamed(self, request: ChatRequest, response: Response) -> bool:
        """Say how an answer is read: by what it says it is, else by what was asked for."""
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind == "text/html":
            raise self._malformed("the provider sent a web page: is base_url right?")
        return kind == "text/event-stream" or (request.stream and not kind.endswith("json"))

    async def _whole(self, response: Response, decoder: WireDecoder) -> AsyncGenerator[Event, None]:
        body = await response.read()
        if not body.strip():
            raise self._malformed("the answer is empty", is_retryable=True)
        data = self._parse(body)
        if isinstance(data, dict) and data.get("error") and not data.get("id"):
            raise self._stream_error(data)
        for event in self._guarded(decoder.whole, data):
            yield event

    async def _decoded(self, response: Response, decoder: WireDecoder) -> AsyncGenerator[Event, None]:
        sse = SSEDecoder(self.limits.sse_line, self.limits.sse_event)
        is_marked = is_over = is_heard = False
        parse, feed, is_end, guarded = self._parse, decoder.feed, self._is_end, self._guarded
        async with aclosing(response.chunks(progress_only=True)) as chunks:
            async for chunk in chunks:
                if is_over:
                    continue  # read on to the end, so that the connection can be used again (F-S11)
                for name, data, _ in sse.feed(chunk):
                    if not data:
                        continue
                    is_heard = True
                    if is_end(data):
                        is_marked = is_over = True
                        for event in guarded(decoder.end, marked=True):
                            yield event
                        break
                    events = guarded(feed, parse(data), name)
                    if events:
                        response.progress()
                        for event in events:
                            yield event
        if is_marked:
            return
        if not is_heard:
            raise self._malformed("the answer is no event stream", is_retryable=True)
        sse.end()
        for event in guarded(decoder.end, marked=False):
            yield event

    def _guarded(self, hear: Any, *args: Any, **kwargs: Any) -> list[Event]:  # noqa: ANN401
        try:
            events: list[Event] = hear(*args, **kwargs)
        except WeftError:
            raise
        except ODD as error:
            raise self._malformed(f"the provider sent what its format has no place for: {error!r:.200}") from error
        return events

    def _parse(self, data: str | bytes) -> Any:  # noqa: ANN401
        try:
            return parse_wire(data, max_depth=self.limits.json_depth)
        except JsonError as error:
            raise self._malformed(f"the provider sent what is not JSON: {error}") from error

    def _more_metadata(self, request: ChatRequest, response: Response) -> Body:
        more: Body = {}
        if request.notes:
            more["lost"] = list(request.notes)
        if self.include_response_headers:
            more["headers"] = dict(response.headers)
        return more

    async def _http_request(self, request: ChatRequest, io: IO) -> Request:
        request.notes.clear()  # an attempt before this one may have told some
        request.others.clear()
        path, body = self._encode(request)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if request.stream else "application/json",
            **self._extra_headers(request),
            **{name.lower(): value for name, value in self.default_headers.items()},
        }
        key = await resolve_key(self._key(), io)
        if key:
            headers = {**self._auth_headers(key), **headers}
        return Request(
            url=self._url(path),
            headers=headers,
            body=_dumps(body),
            timeouts=self._timeouts(),
            limits=self.limits,
        )

    def _key(self) -> SecretKey | None:
        key = self.api_key if self.api_key is not None else key_from_env(self.key_variables)
        if key is None and self.needs_key:
            raise missing_key(self._provider, self.key_variables)
        return key

    def _url(self, path: str) -> str:
        root, _, query = self._root_url().partition("?")
        url = root.rstrip("/") + "/" + path.lstrip("/")
        query = "&".join(part for part in (query, urlencode(self.default_query)) if part)
        return f"{url}{'&' if '?' in url else '?'}{query}" if query else url

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
            self._own_transport = transport_for(self.http)
        return self._own_transport

    async def _postprocess(self, request: ChatRequest, result: ChatResult, run: Run) -> ChatResult:
        if request.others:
            result.generations += [ChatGeneration(message=other) for other in request.others]
        return result

    # -- errors

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        text = body.decode("utf-8", "replace")
        try:
            failure = self._read_error(parse_wire(text))
        except JsonError:
            failure = Failure()
        return self._failed(
            failure,
            status=response.status,
            body=text,
            request_id=request_id(response.headers),
            retry_after=retry_after(response.headers),
        )

    def _stream_error(self, body: Any) -> ModelError:  # noqa: ANN401
        """Build the typed error of a failure told inside an answer that began well (F-T04, F-T05)."""
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        return self._failed(self._read_error(body), body=text[: self.limits.error_body])

    def _failed(self, failure: Failure, *, status: int | None = None, **facts: Any) -> ModelError:
        status = status or failure.status
        # Told in the middle of a good answer and not known: the provider broke down.
        cls = error_class(failure, status, self.error_table) or ModelAPIError
        return cls(
            failure.message or (f"HTTP {status}" if status else "the provider reported an error"),
            provider=self._provider,
            model=self._model_name,
            status=status,
            code=failure.code or failure.kind,
            **facts,
        )

    def _malformed(self, message: str, **facts: Any) -> MalformedStreamError:
        return MalformedStreamError(message, provider=self._provider, model=self._model_name, **facts)

    # -- seeing what would be sent

    def explain(self, input: Any, *, stream: bool = False, **kwargs: Any) -> Explained:  # noqa: ANN401
        """Give the exact request without sending it; secrets are masked."""
        request = self._request(input, Run.blocking(None, kwargs), stream=stream)
        prepared = drive(self._preprocess(request, Run.blocking()))
        shown = self
        try:
            self._key()
        except ModelAuthenticationError:  # without a key there is still something to see
            shown = self.model_copy(update={"api_key": SecretStr("missing")})
        sent = drive(shown._http_request(prepared, BLOCKING))
        secret = {name.lower() for name in self._auth_headers("")} | {name.lower() for name in self.default_headers}
        headers = {name: "***" if name.lower() in secret else value for name, value in sent.headers.items()}
        tokens = self.get_num_tokens_from_messages(prepared.messages, tools=prepared.tools or None)
        return Explained(sent.method, sent.url, headers, json.loads(sent.body), tokens, list(prepared.notes))

    @property
    def _provider(self) -> str:
        return self.provider_name

    @property
    def _llm_type(self) -> str:
        return f"{self._provider}-chat"

    @property
    def _retry_policy(self) -> RetryPolicy:
        return RetryPolicy.of(self.retry_on_error if self.max_retries is None else self.max_retries)

    @property
    def lc_secrets(self) -> Mapping[str, str]:  # type: ignore[override]
        """The key is never written, only its name."""
        return {"api_key": self.key_variables[0]} if self.key_variables else {}


def _dumps(body: Body) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # a lone surrogate: kept, escaped
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from error
