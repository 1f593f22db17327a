"""What every provider over HTTP shares: the fields, the one body that sends and decodes, errors, `explain()`.

A provider gives pure things: `_encode` (request -> path and body), headers, a decoder, and a table of its error codes.
Only the body here waits. `stream` and `invoke` are the same body; an answer that comes whole is decoded by the same
decoder, fed once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import SecretStr

from weft._config import RunnableConfig
from weft._drive import drive
from weft._io import BLOCKING, IO
from weft._run import Run
from weft.exceptions import (
    ModelAuthenticationError,
    ModelError,
)
from weft.language_models.chat_models import BaseChatModel
from weft.language_models.request import ChatRequest
from weft.language_models.retry import RetryPolicy
from weft.outputs import ChatGeneration, ChatResult
from weft.protocol.events import Event
from weft.protocol.folded import Bounds
from weft.providers._endpoint import Body, Endpoint, dump_body
from weft.providers._foreign import ForeignBlocks
from weft.providers._keys import MASK, public_url, resolve_key
from weft.providers._reading import StreamReading, guarded
from weft.providers._wire import (
    ErrorTable,
    Failure,
    WireDecoder,
    request_id,
    retry_after,
)
from weft.transports import (
    Request,
    Response,
)
from weft.utils.json import dumps_canonical

if TYPE_CHECKING:
    from weft.providers._explain import Explained

__all__ = ["ErrorTable", "Failure", "HttpChatModel", "WireDecoder", "retry_after"]


class HttpChatModel(Endpoint, BaseChatModel):
    """A chat model behind an HTTP API."""

    foreign_blocks: ForeignBlocks = "convert"
    """What becomes of reasoning, server tools and the like that ANOTHER provider wrote: told as text ("convert"),
    left out ("drop") or an error ("refuse"). What was lost is in `response_metadata["lost"]`."""
    include_response_headers: bool = False
    """Put the response's headers into `response_metadata["headers"]`."""

    # -- what a provider writes: pure

    def _encode(self, request: ChatRequest) -> tuple[str, Body]:
        """Give path and body of the request; what is lost on the way goes to `request.notes`."""
        raise NotImplementedError

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        raise NotImplementedError

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        return {}

    def _is_end(self, data: str) -> bool:
        """Whether an SSE payload is the vendor's end marker and no JSON."""
        return data == "[DONE]"

    # -- the one body

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        async with _Asked(self, request, run) as asked, aclosing(asked.events()) as events:
            async for event in events:
                yield event

    async def _tell_events(
        self, request: ChatRequest, run: Run, hear: Callable[[Event], None]
    ) -> None:
        async with _Asked(self, request, run) as asked:
            if not asked.is_streamed:
                for event in await asked.whole():
                    hear(event)
                return
            async with aclosing(asked.events()) as events:
                async for event in events:
                    hear(event)

    def _is_streamed(self, request: ChatRequest, response: Response) -> bool:
        """Say how an answer is read: by what it says it is, else by what was asked for."""
        kind = response.headers.get("content-type", "")
        if kind == "application/json":
            return False
        kind = kind.split(";")[0].strip().lower()
        if kind == "text/html":
            raise self._malformed("the provider sent a web page: is base_url right?")
        return kind == "text/event-stream" or (request.stream and not kind.endswith("json"))

    def _more_metadata(self, request: ChatRequest, response: Response) -> Body:
        more: Body = {}
        if request.notes:
            more["lost"] = list(request.notes)
        if self.include_response_headers:
            more["headers"] = dict(response.headers)
        return more

    async def _http_request(self, request: ChatRequest, io: IO) -> Request:
        key = self._key()
        if type(key) is SecretStr:
            return self._composed(request, key.get_secret_value())
        return self._composed(request, await resolve_key(key, io))

    def _composed(self, request: ChatRequest, key: str | None) -> Request:
        """Put the request together; pure."""
        request.others.clear()  # an attempt before this one may have heard some
        path, body = self._encode(request)
        headers = self._auth_headers(key) if key else {}
        headers["content-type"] = "application/json"
        headers["accept"] = "text/event-stream" if request.stream else "application/json"
        if more := self._extra_headers(request):
            headers |= more
        if self.default_headers:
            headers |= {name.lower(): value for name, value in self.default_headers.items()}
        return Request(
            url=self._url(path),
            headers=headers,
            body=dump_body(body),
            timeouts=self._timeouts(),
            limits=self.limits,
        )

    async def _postprocess(self, request: ChatRequest, result: ChatResult, run: Run) -> ChatResult:
        if request.others:
            result.generations += [ChatGeneration(message=other) for other in request.others]
        return result

    # -- seeing what would be sent

    def explain(
        self,
        input: Any,  # noqa: ANN401
        config: RunnableConfig | None = None,
        *,
        stream: bool = False,
        **kwargs: Any,
    ) -> Explained:
        """Give the exact request without sending it, bound tools and options included; secrets are masked."""
        from weft.providers._explain import Explained, prepare  # noqa: PLC0415

        prepared = drive(prepare(self, input, BLOCKING, config, kwargs, stream=stream))
        sent = self._composed(prepared, MASK if self._has_key() else None)
        secret = self._secret_headers()
        headers = {
            name: MASK if name.lower() in secret else value for name, value in sent.headers.items()
        }
        tokens = self.get_num_tokens_from_messages(prepared.messages, tools=prepared.tools or None)
        return Explained(
            sent.method,
            public_url(sent.url),
            headers,
            json.loads(sent.body),
            tokens,
            list(prepared.notes),
        )

    def _has_key(self) -> bool:
        """Say whether a key would be sent; nobody is asked for it, and one that is missing counts."""
        try:
            return self._key() is not None
        except ModelAuthenticationError:
            return True

    @property
    def _provider(self) -> str:
        return self.provider_name

    @property
    def _unsaid_params(self) -> dict[str, Any]:
        """Headers and query may choose the model (gateways, betas); a digest, because they may be secret too."""
        if not self.default_headers and not self.default_query:
            return {}
        given = dumps_canonical([self.default_headers, self.default_query])
        return {"sent": sha256(given.encode()).hexdigest()}

    @property
    def _llm_type(self) -> str:
        return f"{self._provider}-chat"

    @property
    def _retry_policy(self) -> RetryPolicy:
        return RetryPolicy.of(self.retry_on_error if self.max_retries is None else self.max_retries)

    @property
    def _fold_limits(self) -> Bounds:
        return self.limits

    @property
    def lc_secrets(self) -> Mapping[str, str]:  # type: ignore[override]
        """The key is never written, only its name."""
        return {"api_key": self.key_variables[0]} if self.key_variables else {}


class _Asked:
    """One request under way: sent when entered; what fails inside is told with all that was heard of it."""

    __slots__ = (
        "_decoder", "_model", "_more", "_opening", "_request", "_response", "_run", "_sent", "is_streamed",
    )  # fmt: skip

    def __init__(self, model: HttpChatModel, request: ChatRequest, run: Run) -> None:
        self._model = model
        self._request = request
        self._run = run

    async def __aenter__(self) -> Self:
        model, request, io = self._model, self._request, self._run.io
        self._sent = sent = await model._http_request(request, io)
        self._opening = opening = model._transport().open(sent, blocking=io.blocking)
        self._response = response = await opening.__aenter__()
        try:
            # Not before: of five hundred calls that wait, each would hold a decoder with nothing to decode.
            self._decoder = model._decoder(request)
            if response.status >= 400:
                raise model._status_error(response, await response.read_error())
            self._more = model._more_metadata(request, response)
            self.is_streamed = model._is_streamed(request, response)
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                self._explain(error)
        finally:
            await self._opening.__aexit__(kind, error, trace)

    def _explain(self, error: BaseException) -> None:
        decoder = getattr(self, "_decoder", None)  # none where it could not be made
        heard = getattr(decoder, "heard", None)
        if heard is not None:
            self._request.note(**heard())
        if isinstance(error, ModelError):
            self._model._hidden(error, self._sent)
            error.request_id = error.request_id or request_id(self._response.headers)

    async def whole(self) -> list[Event]:
        """Read an answer that comes in one piece."""
        model, body = self._model, await self._response.read()
        if not body.strip():
            raise model._malformed("the answer is empty", is_retryable=True)
        data = model._parse(body)
        if isinstance(data, dict) and not data.get("id") and _is_error(data):
            raise model._stream_error(data)
        events = guarded(model._malformed, self._decoder.whole, data)
        return [self._with_more(event) for event in events] if self._more else events

    async def events(self) -> AsyncGenerator[Event, None]:
        """Read an answer that comes as an event stream, or else at once."""
        if not self.is_streamed:
            for event in await self.whole():
                yield event
            return
        model, response, more = self._model, self._response, self._more
        reading = StreamReading(
            self._decoder, model._is_end, model._parse, model._malformed, model.limits
        )
        async with aclosing(response.chunks(progress_only=True)) as chunks:
            async for chunk in chunks:
                for event in reading.feed(chunk):
                    response.progress()
                    yield self._with_more(event) if more else event
                if reading.is_over:
                    response.conclude()  # some servers leave the connection open
        for event in reading.end():
            yield self._with_more(event) if more else event

    def _with_more(self, event: Event) -> Event:
        if event["event"] == "message-finish":
            event["metadata"] = {**event.get("metadata", {}), **self._more}
        return event


def _is_error(data: Body) -> bool:
    """Say whether a whole answer tells of an error; some gateways send the event of a stream as the body."""
    return bool(data.get("error")) or data.get("type") == "error"
