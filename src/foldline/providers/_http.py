"""What every provider over HTTP shares: the fields, the one body that sends and decodes, errors, `explain()`.

A provider gives pure things: `_encode` (request -> path and body), headers, a decoder, and a table of its error codes.
Only the body here waits. `stream` and `invoke` are the same body; an answer that comes whole is given to the same
decoder.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import ConfigDict, Field, SecretStr, model_validator

from foldline._config import RunnableConfig
from foldline._io import BLOCKING, IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline.exceptions import (
    MalformedStreamError,
    ModelAuthenticationError,
    ModelError,
    UsageError,
)
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.language_models.call.batch import Batch
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.call.retry import RetryPolicy
from foldline.outputs import ChatGeneration, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.folded import Bounds
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._explain import Explained, prepare
from foldline.providers._foreign import ForeignBlocks
from foldline.providers._keys import MASK, chosen_key, public_url, resolve_key
from foldline.providers._names import read_names
from foldline.providers._playback import PlaybackTransport
from foldline.providers._readable import Path, readable_blocks
from foldline.providers._reading import Reading, StreamReading
from foldline.providers._wire import (
    ODD,
    WireDecoder,
    digest,
    dump_body,
    guarded,
    is_error_body,
    merge_settings,
    request_id,
    retry_after,
)
from foldline.transports import Request, Response
from foldline.utils.spelling import in_snake_case
from foldline.utils.strings import suggestion
from foldline.utils.suggest import callers_level

__all__ = ["HttpChatModel"]


HARMLESS_FIELDS = frozenset(
    {
        "api_key", "disable_streaming", "extra_body", "foreign_blocks", "include_response_headers", "max_retries",
        "max_tokens", "model", "model_kwargs", "n", "name", "output_version", "stop", "stream_usage", "streaming",
        "temperature", "top_p", "use_previous_response_id", "use_responses_api",
    }
)  # fmt: skip
"""Fields besides those that are sent that data may set. (A key comes from the secrets that the caller allows.)"""


class HttpChatModel(Endpoint, BaseChatModel):
    """A chat model behind an HTTP API: the base class of every provider here, and of yours.

    A provider sets `provider_name`, `default_url` and `key_variables`, and writes two pure methods: `_encode` (path and
    body of a request) and `_decoder` (what turns the answer into events). Keys, retries, clocks, streams, errors,
    limits, caching and `explain` are here. docs/write-a-provider.md builds one.

    The fields are LangChain's, under all the names it accepts. What is not set is not sent.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        populate_by_name=True, hide_input_in_errors=True
    )

    model: str = ""
    """The model's id."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """Most tokens of an answer; by default what the model can."""
    stop: list[str] | str | None = None
    streaming: bool = False
    """Ask for a stream also under `invoke`."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the request, sent as they are."""

    foreign_blocks: ForeignBlocks = "convert"
    """What becomes of reasoning, server tools and the like that ANOTHER provider wrote: told as text ("convert"),
    left out ("drop") or an error ("refuse"). What was lost is in `response_metadata["lost"]`."""
    include_response_headers: bool = False
    """Put the response's headers into `response_metadata["headers"]`."""

    _makes_new_events: ClassVar[bool] = True
    stream_type: ClassVar[str] = "text/event-stream"
    """What the provider calls a stream in `content-type`."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that LangChain's constructors accept."""
    block_paths: ClassVar[tuple[Path, ...]] = ()
    """Where an answer that comes in one piece has its lists of blocks."""
    sent_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that are sent, under their own name or another, where they are set."""

    # -- what a provider writes: pure

    def _encode(self, request: ChatRequest) -> tuple[str, Body]:
        """Return path and body of the request; what is lost on the way goes to `request.notes`."""
        raise NotImplementedError

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        """Return what turns the answer to this request into events."""
        raise NotImplementedError

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        """Return headers that this request has beside the usual ones."""
        return {}

    def _is_end(self, data: str) -> bool:
        """Whether an SSE payload is the vendor's end marker and no JSON."""
        return data == "[DONE]" or (len(data) < 16 and data.strip() == "[DONE]")

    # -- the settings

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: object) -> object:
        if isinstance(values, dict):
            values = in_snake_case(cls.model_fields, values)
        return read_names(cls, values, cls.aliases)

    @property
    def model_name(self) -> str:
        """The model's id, under LangChain's older name."""
        return self.model

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401  the type depends on the attribute
            """Return a setting by another of its names: `openai_api_key`, `deployment_name`."""
            field = type(self).aliases.get(name)
            if field == "api_key":  # LangChain's models read the variable when they are made
                return chosen_key(self.api_key, self.key_variables)
            if field is not None and field in type(self).model_fields:
                return getattr(self, field)
            return super().__getattr__(name)

    def _parameters(self) -> Body:
        """Return the parameters that this model's fields set."""
        own = self.__dict__
        values = _values_of(type(self))(own)
        kept = own.get("_kept_parameters")
        if kept is None or kept[0] != values:
            # Of some thirty fields few are set. Which, is found anew only when one of them has changed.
            given = [name for name in self.sent_fields if own[name] is not None]
            kept = own["_kept_parameters"] = (values, given)
        said = {name: own[name] for name in kept[1]}
        return said | own["model_kwargs"] if own["model_kwargs"] else said

    def _request_settings(self, request: ChatRequest) -> Body:
        """Return the parameters of a request: the fields that are set, and over them the options of the call."""
        return merge_settings(self._parameters(), request)

    def _request(self, value: object, run: Run, *, stream: bool) -> ChatRequest:
        request = super()._request(value, run, stream=stream)
        if not (given := request.options) and request.stream is stream:
            return request
        for alias in given.keys() & self.aliases.keys():
            given[self.aliases[alias]] = given.pop(alias)
        if given.get("stop") and not request.stop:  # under another name
            request.stop = given.pop("stop")
        if request.stream and not stream:  # by `streaming`: several answers are no stream
            n = given.get("n", self.__dict__.get("n"))
            request.stream = not n or n == 1
        return request

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**self._parameters(), "base_url": self.base_url, "provider": self._provider}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:  # noqa: ANN401  the traces' TypedDict, with the vendor's own keys
        params = super()._get_ls_params(stop, **kwargs)
        params["ls_temperature"] = kwargs.get("temperature", self.temperature)
        params["ls_max_tokens"] = kwargs.get("max_tokens", self.max_tokens)
        return params

    @classmethod
    def loadable_fields(cls) -> frozenset[str]:
        """The arguments that data read by `foldline.load` may set: none that moves where a request goes (F-Y01)."""
        fields = {*cls.sent_fields, *HARMLESS_FIELDS} & cls.model_fields.keys()
        return frozenset(
            fields | {alias for alias, field in cls.aliases.items() if field in fields}
        )

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Models can be written and read again; keys are left out."""
        return True

    # -- the one body

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Batch, None]:
        sent = await self._http_request(request, run.io)
        if run.manager is not None:
            waiting = run.dispatch_now("on_model_request", (sent,), {})
            if waiting is not None:
                await waiting
        async with self._transport().open(sent, blocking=run.io.blocking) as response:
            decoder: WireDecoder | None = None
            if self.rate_limiter is not None:
                wait = retry_after(response.headers)
                self.rate_limiter.observe(
                    response.headers, status=response.status, retry_after=wait
                )
            try:
                # Not before: of five hundred calls that wait, each would hold a decoder with nothing to decode.
                decoder = self._decoder(request)
                if response.status >= 400:
                    raise self._status_error(response, await response.read_error())
                metadata = self._more_metadata(request, response)
                if not self._is_streamed(request, response):
                    events = await self._read_whole(response, decoder, request)
                    yield _with_metadata(events, metadata)
                    return
                async with aclosing(self._read_stream(response, decoder)) as batches:
                    async for batch in batches:
                        yield _with_metadata(batch, metadata)
            except BaseException as error:
                self._complete_error(error, request, sent, response, decoder)
                raise

    async def _read_whole(
        self, response: Response, decoder: WireDecoder, request: ChatRequest
    ) -> list[Event]:
        """Read an answer that comes in one piece."""
        body = await response.read()
        if not body.strip():
            raise self._malformed("the answer is empty", is_retryable=True)
        data = self._parse(body)
        if is_error_body(data) and not (isinstance(data, dict) and data.get("id")):
            raise self._stream_error(data)
        try:
            return guarded(self._malformed, decoder.whole, data)
        except MalformedStreamError:
            if not _partial_state_of(decoder).get("blocks"):
                readable = readable_blocks(
                    data, self.block_paths, lambda part: self._decoder(request).whole(part)
                )
                request.note(blocks=readable)
            raise

    async def _read_stream(
        self, response: Response, decoder: WireDecoder
    ) -> AsyncGenerator[list[Event], None]:
        """Read an answer that comes as an event stream; what one piece of the body says is one batch."""
        reading = self._reading(decoder)
        async with aclosing(response.chunks(progress_only=True)) as chunks:
            async for chunk in chunks:
                if batch := reading.feed(chunk):
                    response.progress()
                    yield batch
                if reading.fault is not None:
                    raise reading.fault
                if reading.is_over:
                    response.conclude()  # some servers leave the connection open
        if batch := reading.end():
            yield batch

    def _reading(self, decoder: WireDecoder) -> Reading:
        """Return what reads the bytes of a stream: server-sent events, unless a provider frames them otherwise."""
        return StreamReading(decoder, self._is_end, self._parse, self._malformed, self.limits)

    def _complete_error(
        self,
        error: BaseException,
        request: ChatRequest,
        sent: Request,
        response: Response,
        decoder: WireDecoder | None,
    ) -> None:
        """Note what was heard of an answer that broke off; add the request's id to the error, and take secrets out."""
        request.note(**_partial_state_of(decoder))
        if isinstance(error, ModelError):
            self._hidden(error, sent)
            error.request_id = request_id(response.headers) or error.request_id

    def _is_streamed(self, request: ChatRequest, response: Response) -> bool:
        """Say how an answer is read: by what it says it is, else by what was asked for."""
        kind = response.headers.get("content-type", "")
        if kind == "application/json":
            return False
        kind = kind.split(";")[0].strip().lower()
        if kind == "text/html":
            raise self._malformed("the provider sent a web page: is base_url right?")
        return kind == self.stream_type or (request.stream and not kind.endswith("json"))

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
            composed = self._composed(request, key.get_secret_value())
        else:
            composed = self._composed(request, await resolve_key(key, io))
        return await self._authorize(composed, io)

    def _composed(self, request: ChatRequest, key: str | None) -> Request:
        """Put the request together; pure."""
        request.others.clear()  # an attempt before this one may have heard some
        path, body = self._encode(request)
        for name in request.options:
            if name not in type(self).model_fields:
                _warn_misspelt(type(self), name)
        if not (request.options.get("model") or self.model):
            self._omit_model_name(body)
        headers = self._auth_headers(key) if key else {}
        headers["content-type"] = "application/json"
        headers["accept"] = self.stream_type if request.stream else "application/json"
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

    def _omit_model_name(self, body: Body) -> None:
        """Refuse a request without the name of a model; a server of one model, which needs none, takes it out."""
        raise UsageError(f'{type(self).__name__} has no model: pass model="…"')

    async def _postprocess(self, request: ChatRequest, result: ChatResult, run: Run) -> ChatResult:
        if request.others:
            result.generations += [ChatGeneration(message=other) for other in request.others]
        return result

    # -- as part of a batch

    async def _batch_request(
        self,
        input: object,
        io: IO,
        config: RunnableConfig | None,
        kwargs: Mapping[str, Any],
    ) -> tuple[str, Body, int]:
        """Return path and body of a request for the provider's batch, and about how many tokens it has."""
        prepared = (await prepare(self, input, io, config, kwargs)).replace(stream=False)
        path, body = self._encode(prepared)
        if not (prepared.options.get("model") or self.model):
            self._omit_model_name(body)
        return path, body, self.count_tokens(prepared.messages, prepared.tools).n

    def _replay(self, status: int, body: bytes) -> Self:
        """Copy this model as one whose request is answered with this, which came in a batch of the provider."""
        return self.model_copy(
            update={
                "transport": PlaybackTransport(status, body),
                "rate_limiter": None,
                "max_retries": 0,
                "streaming": False,
                "cache": False,
            }
        )

    # -- seeing what would be sent

    def explain(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        stream: bool = False,
        **kwargs: object,
    ) -> Explained:
        """Return the exact request without sending it, bound tools and options included; secrets are masked."""
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
        """Return whether a key would be sent; nobody is asked for it, and one that is missing counts."""
        try:
            return self._key() is not None
        except ModelAuthenticationError:
            return True

    @property
    def _provider(self) -> str:
        return self.provider_name

    @property
    def _untraced_params(self) -> dict[str, Any]:
        """Headers and query may choose the model (gateways, betas); a digest, because they may be secret too."""
        if not self.default_headers and not self.default_query:
            return {}
        return {"sent": digest([self.default_headers, self.default_query])}

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


@cache
def _values_of(cls: type[HttpChatModel]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Return what reads the fields that are sent off a model's values."""
    first, *rest = cls.sent_fields or ("model",)
    return itemgetter(first, *rest, "model")  # one name alone would give no tuple


def _with_metadata(batch: list[Event], metadata: Body) -> list[Event]:
    """Add metadata to the end of the message, if it is in this batch."""
    for event in batch if metadata else ():
        if event["event"] == "message-finish":
            event["metadata"] = {**event.get("metadata", {}), **metadata}
    return batch


def _plain_name(name: str) -> str:
    return name.replace("_", "").lower()


OF_SOME_HOSTS: Final = frozenset({"top_k", "top_a", "min_p"})
"""Options that some hosts of a wire know, and that look like others."""


@cache
def _warn_misspelt(model: type[HttpChatModel], name: str) -> None:
    """Warn once of an option that is nearly one that the model knows: it is sent as given."""
    if _plain_name(name) in {_plain_name(field) for field in model.sent_fields}:
        return  # in the words of the API: maxTokens
    if name not in {*model.aliases, *OF_SOME_HOSTS} and (
        near := suggestion(name, model.sent_fields)
    ):
        told = f"{model.__name__} does not know the option {name}{near}: it is sent as given"
        warnings.warn(told, UserWarning, stacklevel=callers_level())


def _partial_state_of(decoder: WireDecoder | None) -> dict[str, Any]:
    """Return what a decoder knows of an answer beside its events."""
    heard = getattr(decoder, "partial_state", None)
    if heard is None:
        return {}
    try:
        known: dict[str, Any] = heard()
    except ODD:  # what is odd in it must not hide the error that is told
        return {}
    return known
