"""The base of every chat model over HTTP: the fields, the body that sends and decodes, errors, `explain()`.

A provider writes pure functions: `_encode` (request -> path and body), headers, a decoder, and a table of error codes.
All I/O is here. `stream` and `invoke` share one body and one decoder.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

from pydantic import ConfigDict, Field, SecretStr, model_validator

from foldline._config import RunnableConfig
from foldline._io import BLOCKING, IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer, chat_result
from foldline.exceptions import (
    MalformedStreamError,
    ModelAuthenticationError,
    ModelError,
    UsageError,
)
from foldline.language_models._call.author import run_message_id
from foldline.language_models._call.request import CALL_OPTIONS, ChatRequest
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.fold import fold_complete
from foldline.protocol.folded_message import Bounds
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._explain import Explained, prepare
from foldline.providers._foreign_messages import ForeignBlocks
from foldline.providers._keys import MASK, chosen_key, public_url, resolve_key
from foldline.providers._limits import observe_limits
from foldline.providers._names import read_names
from foldline.providers._playback import PlaybackTransport
from foldline.providers._readable import Path, readable_blocks
from foldline.providers._reading import Reading, StreamReading
from foldline.providers._wire import (
    MALFORMED_PAYLOAD_ERRORS,
    WireDecoder,
    digest,
    dump_body,
    guarded,
    is_error_body,
    merge_settings,
    request_id,
)
from foldline.tracers._trace_out import trace_headers
from foldline.transports import Request, Response
from foldline.utils._spelling import in_snake_case
from foldline.utils._trace_context import TRACE

__all__ = ["HttpChatModel"]


HARMLESS_FIELDS = frozenset(
    {
        "api_key", "disable_streaming", "extra_body", "foreign_blocks", "include_response_headers", "max_retries",
        "max_tokens", "model", "model_kwargs", "n", "name", "output_version", "stop", "stream_usage", "streaming",
        "temperature", "top_p", "use_previous_response_id", "use_responses_api",
    }
)  # fmt: skip
"""Fields that serialized data may set, besides those that are sent. (A key comes from the caller's secrets.)"""


class HttpChatModel(Endpoint, BaseChatModel):
    """A chat model behind an HTTP API: the base class of every provider here, and of yours.

    A provider sets `provider_name`, `default_url` and `key_variables`, and writes two pure methods: `_encode` (path and
    body of a request) and `_decoder` (turns the answer into events). Keys, retries, timeouts, streams, errors, limits,
    caching and `explain` are here. docs/write-a-provider.md builds one.

    The fields are LangChain's, under all the names it accepts. A field that is not set is not sent.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        populate_by_name=True, hide_input_in_errors=True
    )

    model: str = ""
    """The model's id."""
    temperature: float | None = None
    """How random the answer is: 0 for the likeliest words; default: the model's."""
    top_p: float | None = None
    """Only the likeliest words whose probabilities add up to this are chosen from."""
    max_tokens: int | None = None
    """The maximum number of tokens of an answer; default: the model's limit."""
    stop: list[str] | str | None = None
    """Texts at which the answer ends."""
    streaming: bool = False
    """Whether `invoke` requests a stream too."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the request, sent as they are."""

    foreign_blocks: ForeignBlocks = "convert"
    """How reasoning, server tools and similar blocks of ANOTHER provider are sent: as text ("convert"), not at all
    ("drop"), or not, with an error ("refuse"). Losses are listed in `response_metadata["lost"]`."""
    include_response_headers: bool = False
    """Whether `response_metadata["headers"]` holds the response's headers."""

    _makes_new_events: ClassVar[bool] = True
    stream_type: ClassVar[str] = "text/event-stream"
    """The `content-type` of a stream."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that LangChain's constructors accept."""
    block_paths: ClassVar[tuple[Path, ...]] = ()
    """The paths of the lists of blocks in an answer that is not streamed."""
    sent_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that are sent if they are set, under their own name or another."""

    # -- what a provider writes: pure

    def _encode(self, request: ChatRequest) -> tuple[str, Body]:
        """Return the path and body of the request; losses are added to `request.notes`."""
        raise NotImplementedError

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        """Return the decoder of the answer to this request."""
        raise NotImplementedError

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        """Return additional headers for this request."""
        return {}

    def _is_end(self, data: str) -> bool:
        """Whether an SSE payload is the vendor's end marker instead of JSON."""
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
        """Return the parameters that are set in this model's fields."""
        fields = self.__dict__
        values = _values_of(type(self))(fields)
        cached = fields.get("_cached_parameters")
        if cached is None or cached[0] != values:
            # Few of about thirty fields are set; the list of those is recomputed only when a field has changed.
            names = [name for name in self.sent_fields if fields[name] is not None]
            cached = fields["_cached_parameters"] = (values, names)
        parameters = {name: fields[name] for name in cached[1]}
        return parameters | fields["model_kwargs"] if fields["model_kwargs"] else parameters

    def _request_settings(self, request: ChatRequest) -> Body:
        """Return the parameters of a request: the fields that are set, overridden by the options of the call."""
        return merge_settings(self._parameters(), request)

    def _request(self, value: object, run: Run, *, stream: bool) -> ChatRequest:
        request = super()._request(value, run, stream=stream)
        if not (options := request.options) and request.stream is stream:
            return request
        for alias in options.keys() & self.aliases.keys():
            options[self.aliases[alias]] = options.pop(alias)
        if options.get("stop") and not request.stop:  # passed under an alias
            request.stop = options.pop("stop")
        if request.stream and not stream:  # by `streaming`: several answers cannot be streamed
            n = options.get("n", self.__dict__.get("n"))
            request.stream = not n or n == 1
        return request

    def _option_names(self) -> Iterable[str]:
        known = (*self.sent_fields, *CALL_OPTIONS)
        return (*known, *(alias for alias, name in self.aliases.items() if name in known))

    def _accepts_option(self, name: str) -> bool:
        return (
            super()._accepts_option(name) or name in self.aliases or name in HOST_SPECIFIC_OPTIONS
        )

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
        """Return the arguments that `foldline.load` accepts from data: none that changes where requests go (F-Y01)."""
        fields = {*cls.sent_fields, *HARMLESS_FIELDS} & cls.model_fields.keys()
        return frozenset(
            fields | {alias for alias, field in cls.aliases.items() if field in fields}
        )

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: models can be serialized; keys are left out."""
        return True

    # -- the one body

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Batch, None]:
        http_request = await self._http_request(request, run.io)
        if TRACE.get() is not None:
            handlers = run.manager.handlers if run.manager is not None else ()
            headers = {**trace_headers(handlers, run.id), **http_request.headers}
            http_request = replace(http_request, headers=headers)
        if run.manager is not None:
            awaitable = run.dispatch_now("on_model_request", (http_request,), {})
            if awaitable is not None:
                await awaitable
        async with self._transport().open(http_request, blocking=run.io.blocking) as response:
            decoder: WireDecoder | None = None
            if self.rate_limiter is not None:
                observe_limits(self.rate_limiter, response)
            try:
                # Created only now, so that hundreds of waiting calls do not each hold an idle decoder.
                decoder = self._decoder(request)
                if response.status >= 400:
                    raise self._status_error(response, await response.read_error())
                metadata = self._extra_metadata(request, response)
                if not self._is_streamed(request, response):
                    body = await response.read()
                    events = _with_metadata(self._read_answer(body, decoder, request), metadata)
                    yield self._complete_answer(events, len(body), run) or events
                    return
                async with aclosing(self._read_stream(response, decoder)) as batches:
                    async for batch in batches:
                        yield _with_metadata(batch, metadata)
            except BaseException as error:
                self._complete_error(error, request, http_request, response, decoder)
                raise

    def _complete_answer(self, events: Batch, size: int, run: Run) -> CompleteAnswer | None:
        """Return an answer that is not streamed as its message; None if it must be folded to be read, or refused."""
        limits = self._fold_limits
        if not self._makes_new_events or size > min(limits.message, limits.tool_args):
            return None
        folded = fold_complete(cast("list[Event]", events), limits)
        if folded is None:
            return None
        if folded.id is None:
            folded.id = run_message_id(run)
        message = AIMessage.from_fold(folded, self._output_version)
        if self._output_version == "v0":
            message.response_metadata.pop("output_version", None)
        return CompleteAnswer(chat_result(message))

    def _read_answer(self, body: bytes, decoder: WireDecoder, request: ChatRequest) -> list[Event]:
        """Read an answer that is not streamed."""
        if not body.strip():
            raise self._malformed("the answer is empty", is_retryable=True)
        data = self._parse(body)
        if is_error_body(data) and not (isinstance(data, dict) and data.get("id")):
            raise self._stream_error(data)
        try:
            return guarded(self._malformed, decoder.decode_answer, data)
        except MalformedStreamError:
            if not _partial_state_of(decoder).get("blocks"):
                readable = readable_blocks(
                    data, self.block_paths, lambda part: self._decoder(request).decode_answer(part)
                )
                request.note(blocks=readable)
            raise

    async def _read_stream(
        self, response: Response, decoder: WireDecoder
    ) -> AsyncGenerator[list[Event], None]:
        """Read an answer that is an event stream; the events of one chunk of the body are one batch."""
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
        """Return the reader of a stream's bytes: server-sent events, unless a provider frames them differently."""
        return StreamReading(decoder, self._is_end, self._parse, self._malformed, self.limits)

    def _complete_error(
        self,
        error: BaseException,
        request: ChatRequest,
        http_request: Request,
        response: Response,
        decoder: WireDecoder | None,
    ) -> None:
        """Note the partial answer, add the request's id to the error, and remove secrets from it."""
        request.note(**_partial_state_of(decoder))
        if isinstance(error, ModelError):
            self._redact_error(error, http_request)
            error.request_id = request_id(response.headers) or error.request_id

    def _is_streamed(self, request: ChatRequest, response: Response) -> bool:
        """Whether to read an answer as a stream: by its content type, else by the request."""
        kind = response.headers.get("content-type", "")
        if kind == "application/json":
            return False
        kind = kind.split(";")[0].strip().lower()
        if kind == "text/html":
            raise self._malformed("the provider sent a web page: is base_url right?")
        return kind == self.stream_type or (request.stream and not kind.endswith("json"))

    def _extra_metadata(self, request: ChatRequest, response: Response) -> Body:
        metadata: Body = {}
        if request.notes:
            metadata["lost"] = list(request.notes)
        if self.include_response_headers:
            metadata["headers"] = dict(response.headers)
        return metadata

    async def _http_request(self, request: ChatRequest, io: IO) -> Request:
        key = self._key()
        if type(key) is SecretStr:
            http_request = self._build_request(request, key.get_secret_value())
        else:
            http_request = self._build_request(request, await resolve_key(key, io))
        return await self._authorize(http_request, io)

    def _build_request(self, request: ChatRequest, key: str | None) -> Request:
        """Build the HTTP request. Pure."""
        request.others.clear()  # left over from an earlier attempt
        path, body = self._encode(request)
        if not (request.options.get("model") or self.model):
            self._omit_model_name(body)
        headers = self._auth_headers(key) if key else {}
        headers["content-type"] = "application/json"
        headers["accept"] = self.stream_type if request.stream else "application/json"
        if extra_headers := self._extra_headers(request):
            headers |= extra_headers
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
        """Raise, because the request has no model name; hosts that serve a single model remove the field instead."""
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
        """Return the path and body of a request for the provider's batch API, and its estimated number of tokens."""
        prepared = (await prepare(self, input, io, config, kwargs)).replace(stream=False)
        path, body = self._encode(prepared)
        if not (prepared.options.get("model") or self.model):
            self._omit_model_name(body)
        return path, body, self.count_tokens(prepared.messages, prepared.tools).n

    def _replay(self, status: int, body: bytes) -> Self:
        """Return a copy of this model whose requests are answered with a result from the provider's batch API."""
        return self.model_copy(
            update={
                "transport": PlaybackTransport(status, body),
                "rate_limiter": None,
                "max_retries": 0,
                "streaming": False,
                "cache": False,
            }
        )

    # -- inspecting a request

    def explain(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        stream: bool = False,
        **kwargs: object,
    ) -> Explained:
        """Return the exact request without sending it, including bound tools and options; secrets are masked."""
        prepared = drive(prepare(self, input, BLOCKING, config, kwargs, stream=stream))
        http_request = self._build_request(prepared, MASK if self._has_key() else None)
        secret = self._secret_headers()
        headers = {
            name: MASK if name.lower() in secret else value
            for name, value in http_request.headers.items()
        }
        tokens = self.get_num_tokens_from_messages(prepared.messages, tools=prepared.tools or None)
        return Explained(
            http_request.method,
            public_url(http_request.url),
            headers,
            json.loads(http_request.body),
            tokens,
            list(prepared.notes),
        )

    def _has_key(self) -> bool:
        """Whether a key would be sent. Key functions are not called; a missing key counts as one."""
        try:
            return self._key() is not None
        except ModelAuthenticationError:
            return True

    @property
    def _provider(self) -> str:
        return self.provider_name

    @property
    def _untraced_params(self) -> dict[str, Any]:
        """A digest of headers and query: they may select the model (gateways, betas) and may be secret."""
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
        """The environment variable of the key; the key itself is never serialized."""
        return {"api_key": self.key_variables[0]} if self.key_variables else {}


@cache
def _values_of(cls: type[HttpChatModel]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Return a function that reads the values of the sent fields from a model's `__dict__`."""
    first, *others = cls.sent_fields or ("model",)
    return itemgetter(first, *others, "model")  # with two names or more, itemgetter returns a tuple


def _with_metadata(batch: list[Event], metadata: Body) -> list[Event]:
    """Add metadata to the end of the message, if it is in this batch."""
    for event in batch if metadata else ():
        if event["event"] == "message-finish":
            event["metadata"] = {**event.get("metadata", {}), **metadata}
    return batch


HOST_SPECIFIC_OPTIONS: Final = frozenset({"top_k", "top_a", "min_p"})
"""Options that only some hosts accept and that resemble other options."""


def _partial_state_of(decoder: WireDecoder | None) -> dict[str, Any]:
    """Return the usage, metadata and blocks that a decoder has read so far."""
    read_state = getattr(decoder, "partial_state", None)
    if read_state is None:
        return {}
    try:
        state: dict[str, Any] = read_state()
    except MALFORMED_PAYLOAD_ERRORS:  # malformed state must not hide the original error
        return {}
    return state
