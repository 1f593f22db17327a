"""Text models of providers: a prompt in, text out. `WireLLM` turns two bodies into `BaseLLM`'s four methods.

A provider writes `_answers` (the answers of several prompts) and `_text_pieces` (one answer, streamed). Over HTTP it
writes only pure functions: the body of a request, and the decoding of an answer and of a stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, cast

from pydantic import ConfigDict, Field, SkipValidation, model_validator

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive, drive_each
from foldline._run import Run
from foldline.exceptions import ModelError, StreamTruncatedError, UsageError
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.language_models.base import Retrying
from foldline.language_models.llms import BaseLLM
from foldline.outputs import GenerationChunk, LLMResult
from foldline.protocol.folded_message import Bounds
from foldline.providers._completions.wire import decode_usage
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._http import HARMLESS_FIELDS
from foldline.providers._keys import resolve_key
from foldline.providers._limits import observe_limits
from foldline.providers._names import read_names
from foldline.providers._text_reading import TextDecoder, TextReading
from foldline.providers._wire import digest, dump_body, guarded, request_id
from foldline.tracers._trace_out import current_trace_headers
from foldline.transports import Request, Response

__all__ = ["HttpLLM", "WireLLM"]


class WireLLM(BaseLLM):
    """A text model over two bodies, each written once for sync and async."""

    streaming: bool = False
    """Whether `invoke` requests a stream too, so that handlers receive each token."""
    max_concurrency: int = Field(default=8, ge=1, exclude=True)
    """How many requests of a batch may be in progress at once."""

    _reports_finish_reason: ClassVar[bool] = True
    prompts_per_request: ClassVar[int] = 1
    """How many prompts the vendor accepts in one request."""

    async def _answers(
        self, prompts: list[str], stop: list[str] | None, options: Body, io: IO
    ) -> LLMResult:
        """Answer at most `prompts_per_request` prompts."""
        raise NotImplementedError

    def _text_pieces(
        self, prompt: str, stop: list[str] | None, options: Body, io: IO
    ) -> AsyncGenerator[GenerationChunk, None]:
        raise NotImplementedError

    def _answer_count(self, options: Body) -> int:
        """Return how many answers are requested; more than one cannot be streamed."""
        return 1

    # -- what a call needs of its model

    def _request(self, value: object, run: Run, *, stream: bool) -> ChatRequest:
        request = super()._request(value, run, stream=stream)
        if request.options.get("streaming", self.streaming):
            request.stream = stream or self._answer_count(request.options) == 1
        return request

    def _request_size(self) -> int | None:
        cls = type(self)
        is_own = cls._generate is WireLLM._generate and cls._agenerate is WireLLM._agenerate
        return self.prompts_per_request if is_own else None

    def _request_concurrency(self) -> int:
        return self.max_concurrency

    def _output_limit(self, options: Body) -> int | None:
        limit = super()._output_limit(options)
        return None if limit is None else limit * self._answer_count(options)

    def _read_usage(self, output: Mapping[str, Any] | None) -> dict[str, Any] | None:
        counts = (output or {}).get("token_usage")
        return decode_usage(counts) if isinstance(counts, dict) else None

    # -- BaseLLM's methods

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> LLMResult:
        return drive(self._generate_body(prompts, stop, kwargs, BLOCKING))

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> LLMResult:
        return await self._generate_body(prompts, stop, kwargs, ASYNC)

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> Iterator[GenerationChunk]:
        return drive_each(self._stream_chunks(prompt, stop, run_manager, kwargs, BLOCKING))

    def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> AsyncIterator[GenerationChunk]:
        return self._stream_chunks(prompt, stop, run_manager, kwargs, ASYNC)

    # -- the bodies

    async def _generate_body(
        self, prompts: list[str], stop: list[str] | None, options: Body, io: IO
    ) -> LLMResult:
        options.pop("streaming", None)
        size, results = self.prompts_per_request, []
        for start in range(0, len(prompts), size):
            result = await self._answers(prompts[start : start + size], stop, options, io)
            result.llm_output = {**(result.llm_output or {}), "model_provider": self._provider}
            results.append(result)
        if len(results) == 1:
            return results[0]
        return LLMResult(
            generations=[answers for result in results for answers in result.generations],
            llm_output=self._combine_llm_outputs([result.llm_output for result in results]),
        )

    async def _stream_chunks(
        self,
        prompt: str,
        stop: list[str] | None,
        manager: Any,  # noqa: ANN401  the run manager of the call's mode
        options: Body,
        io: IO,
    ) -> AsyncGenerator[GenerationChunk, None]:
        options.pop("streaming", None)
        if self._answer_count(options) != 1:
            raise UsageError("several answers cannot be streamed: use generate, or n=1")
        async with aclosing(self._text_pieces(prompt, stop, options, io)) as pieces:
            async for piece in pieces:
                if manager is not None:
                    awaitable = manager.on_llm_new_token(piece.text, chunk=piece)
                    if awaitable is not None:
                        await awaitable
                yield piece

    def _stream_output(self, total: GenerationChunk) -> Body:
        usage = (total.generation_info or {}).get("token_usage")
        output = {"model_name": self._model_name, "model_provider": self._provider}
        return {**output, **({"token_usage": usage} if usage else {})}


class HttpLLM(Endpoint, WireLLM):
    """A text model behind an HTTP API. A field that is not set is not sent."""

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
    stop: list[str] | str | None = None
    """Texts at which the answer ends."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the request, sent as they are."""
    retry_on_error: SkipValidation[Retrying] = Field(default=2, exclude=True)
    """Whether and how a failed request is retried before anything was delivered."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that LangChain's constructor accepts -> field."""
    sent_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that are sent if they are set, under their own name or another."""
    line_framed: ClassVar[bool] = False
    """Whether a stream is JSON lines instead of server-sent events."""

    # -- what a provider writes: pure

    def _encode(self, prompts: list[str], options: Body, *, stream: bool) -> tuple[str, Body]:
        """Return the path and body of the request; `options` are the model's settings and the call's."""
        raise NotImplementedError

    def _decode(self, answer: Body, prompts: list[str], options: Body) -> LLMResult:
        """Decode an answer that is not streamed."""
        raise NotImplementedError

    def _decoder(self) -> TextDecoder:
        """Return the decoder of a stream."""
        raise NotImplementedError

    def _extra_headers(self) -> dict[str, str]:
        return {}

    # -- the settings

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: object) -> object:
        return read_names(cls, values, cls.aliases)

    @property
    def _retry_policy(self) -> RetryPolicy:
        return RetryPolicy.of(self.retry_on_error if self.max_retries is None else self.max_retries)

    @property
    def _fold_limits(self) -> Bounds:
        return self.limits

    def _output_limit(self, options: Body) -> int | None:
        names = {self.aliases.get(name, name): value for name, value in options.items()}
        return super()._output_limit(names)

    @property
    def model_name(self) -> str:
        """The model's id, under LangChain's older name."""
        return self.model

    def _options(self, stop: list[str] | None, options: Body) -> Body:
        """Return the model's settings, overridden by the options of a call."""
        fields = {name: getattr(self, name) for name in self.sent_fields}
        call_options = {self.aliases.get(name, name): value for name, value in options.items()}
        merged = {
            **fields,
            **self.model_kwargs,
            **{k: v for k, v in call_options.items() if v is not None},
        }
        merged["stop"] = stop or merged.get("stop")
        if isinstance(merged["stop"], str):
            merged["stop"] = [merged["stop"]]
        return {name: value for name, value in merged.items() if value is not None}

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**self._options(None, {}), "base_url": self.base_url, "provider": self._provider}

    @property
    def _untraced_params(self) -> dict[str, Any]:
        if not self.default_headers and not self.default_query:
            return {}
        return {"sent": digest([self.default_headers, self.default_query])}

    @property
    def _llm_type(self) -> str:
        return str(self._provider)

    @classmethod
    def loadable_fields(cls) -> frozenset[str]:
        """Return the arguments that `foldline.load` accepts from data: none that changes where requests go."""
        fields = {*cls.sent_fields, *HARMLESS_FIELDS} & cls.model_fields.keys()
        aliases = {alias for alias, field in cls.aliases.items() if field in fields}
        return frozenset(fields | aliases)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: models can be serialized; keys are left out."""
        return True

    @property
    def lc_secrets(self) -> Mapping[str, str]:  # type: ignore[override]
        """The environment variable of the key; the key itself is never serialized."""
        return {"api_key": self.key_variables[0]} if self.key_variables else {}

    # -- the bodies

    async def _answers(
        self, prompts: list[str], stop: list[str] | None, options: Body, io: IO
    ) -> LLMResult:
        options = self._options(stop, options)
        request = await self._http_request(prompts, options, io, stream=False)
        async with self._transport().open(request, blocking=io.blocking) as response:
            observe_limits(self.rate_limiter, response)
            try:
                await self._check_status(response)
                body = await response.read()
                if not body.strip():
                    raise self._malformed("the answer is empty", is_retryable=True)
                answer = self._parse(body)
                if isinstance(answer, dict) and answer.get("error"):
                    raise self._stream_error(answer)
                # If it is no object, it is malformed, and `_decode` fails.
                body_of_answer = cast("Body", answer)
                return guarded(self._malformed, self._decode, body_of_answer, prompts, options)
            except ModelError as error:
                raise self._complete_error(error, request, response) from error.__cause__

    async def _text_pieces(
        self, prompt: str, stop: list[str] | None, options: Body, io: IO
    ) -> AsyncGenerator[GenerationChunk, None]:
        request = await self._http_request([prompt], self._options(stop, options), io, stream=True)
        async with self._transport().open(request, blocking=io.blocking) as response:
            observe_limits(self.rate_limiter, response)
            reading = TextReading(
                self._decoder(), self._parse, self._malformed, self.limits, by_line=self.line_framed
            )
            try:
                await self._check_status(response)
                self._check_kind(response)
                async with aclosing(response.chunks(progress_only=True)) as chunks:
                    async for chunk in chunks:
                        for piece in reading.feed(chunk):
                            response.progress()
                            yield piece
                        if reading.fault is not None:
                            raise reading.fault
                        if reading.is_over:
                            response.conclude()
                for piece in reading.end():
                    yield piece
                if not reading.is_over:
                    raise StreamTruncatedError(
                        "the stream ended before the provider said that the answer is complete",
                        provider=self._provider,
                        model=self._model_name,
                    )
            except ModelError as error:
                raise self._complete_error(error, request, response) from error.__cause__

    async def _http_request(
        self, prompts: list[str], options: Body, io: IO, *, stream: bool
    ) -> Request:
        path, body = self._encode(prompts, options, stream=stream)
        key = await resolve_key(self._key(), io)
        headers = {
            **current_trace_headers(),
            **(self._auth_headers(key) if key else {}),
            "content-type": "application/json",
            "accept": "text/event-stream"
            if stream and not self.line_framed
            else "application/json",
            **self._extra_headers(),
            **{name.lower(): value for name, value in self.default_headers.items()},
        }
        request = Request(
            url=self._url(path),
            headers=headers,
            body=dump_body(body),
            timeouts=self._timeouts(),
            limits=self.limits,
        )
        return await self._authorize(request, io)

    # -- errors

    async def _check_status(self, response: Response) -> None:
        if response.status >= 400:
            raise self._status_error(response, await response.read_error())

    def _check_kind(self, response: Response) -> None:
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind == "text/html":
            raise self._malformed("the provider sent a web page: is base_url right?")

    def _complete_error(
        self, error: ModelError, request: Request, response: Response
    ) -> ModelError:
        """Add the request's id to an error and remove secrets from it."""
        error.request_id = error.request_id or request_id(response.headers)
        return self._redact_error(error, request)
