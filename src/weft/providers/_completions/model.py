"""`CompletionsModel`: a chat model on the chat-completions wire; hosts and OpenAI are built on it.

The fields are LangChain's, under all the names it accepts. What is not set is not sent.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, model_validator

from weft.exceptions import UsageError
from weft.language_models.request import ChatRequest
from weft.providers._completions.decode import CompletionsDecoder
from weft.providers._completions.encode import encode_completion
from weft.providers._completions.host import Host
from weft.providers._http import HttpChatModel
from weft.providers._keys import SecretKey, key_from_env, missing_key
from weft.providers._wire import WireDecoder

__all__ = ["ALIASES", "CompletionsModel"]

Json = Any

ALIASES: dict[str, str] = {
    "model_name": "model",
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "openai_organization": "organization",
    "max_completion_tokens": "max_tokens",
    "request_timeout": "timeout",
    "stop_sequences": "stop",
}
"""Other names that LangChain's constructors accept."""
SENT = (
    "model",
    "temperature",
    "top_p",
    "max_tokens",
    "n",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "parallel_tool_calls",
    "reasoning_effort",
    "service_tier",
    "user",
)
"""Fields that are sent under their own name where they are set."""


class CompletionsModel(HttpChatModel):
    """What every chat model on this wire has."""

    model_config = ConfigDict(populate_by_name=True, hide_input_in_errors=True)

    model: str = ""
    """The model's id."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """The most tokens of the answer."""
    n: int | None = None
    """How many answers `invoke` and `generate` ask for; `generate` gives them all."""
    seed: int | None = None
    stop: list[str] | str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, int] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    service_tier: str | None = None
    user: str | None = None
    streaming: bool = False
    """Ask for a stream also under `invoke`."""
    stream_usage: bool = True
    """Ask for the usage of streams."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the body."""
    extra_body: dict[str, Any] | None = None
    """Parameters that are put into the body last, over all others."""

    sent_fields: ClassVar[tuple[str, ...]] = SENT
    _tool_name_pattern: ClassVar[str | None] = "[A-Za-z0-9_-]"

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: Json) -> Json:
        if not isinstance(values, dict):
            return values
        read: dict[str, Json] = {}
        for name, value in values.items():
            field = ALIASES.get(str(name)) or str(name)
            if field in read and read[field] != value and value is not None:
                raise UsageError(f"{cls.__name__}: {name} and {field} mean the same: give one")
            if field not in read or value is not None:
                read[field] = value
        unknown = [name for name in read if name not in cls.model_fields]
        if unknown:
            warnings.warn(
                f"{cls.__name__} does not know {', '.join(sorted(unknown))}: sent as they are, in model_kwargs",
                UserWarning,
                stacklevel=4,
            )
            extra = {name: read.pop(name) for name in unknown}
            read["model_kwargs"] = {**extra, **(read.get("model_kwargs") or {})}
        return read

    @property
    def model_name(self) -> str:
        """The model's id, under LangChain's older name."""
        return self.model

    @property
    def _host(self) -> Host:
        raise NotImplementedError

    @property
    def _own_providers(self) -> frozenset[str]:
        """The names under which messages of this provider are signed."""
        return frozenset({self._provider})

    @property
    def _provider(self) -> str:
        return self._host.name

    def _key(self) -> SecretKey | None:
        host = self._host
        key = self.api_key if self.api_key is not None else key_from_env(host.keys)
        if key is None and host.needs_key:
            raise missing_key(self._provider, host.keys)
        return key

    def _root_url(self) -> str:
        if self.base_url:
            return self.base_url
        host = self._host
        found = next((url for name in host.url_variables if (url := os.environ.get(name))), None)
        return found or host.base_url

    def _parameters(self) -> dict[str, Json]:
        """Give the parameters that this model's fields set."""
        own = self.__dict__
        said = {name: value for name in self.sent_fields if (value := own[name]) is not None}
        if isinstance(said.get("stop"), str):
            said["stop"] = [said["stop"]]
        if not self.stream_usage:
            said["stream_usage"] = False
        if self.extra_body:
            said["extra_body"] = self.extra_body
        return {**said, **self.model_kwargs}

    def _request(self, value: Json, run: Any, *, stream: bool) -> ChatRequest:  # noqa: ANN401
        request = super()._request(value, run, stream=stream)
        given = request.options
        for alias, name in ALIASES.items():
            if alias in given:
                given[name] = given.pop(alias)
        if self.streaming and not self._streaming_disabled(given):
            n = given.get("n", self.n)
            request = request.replace(stream=request.stream or not n or n == 1)
        return request

    def _encode(self, request: ChatRequest) -> tuple[str, dict[str, Json]]:
        body = encode_completion(
            request,
            self._host,
            settings=self._parameters(),
            providers=self._own_providers,
            policy=self.foreign_blocks,
        )
        return "chat/completions", body

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        audio = request.options.get("audio") or self.model_kwargs.get("audio") or {}
        return CompletionsDecoder(
            self._host,
            self._stream_error,
            model=request.options.get("model") or self.model,
            others=request.others,
            audio_format=audio.get("format") if isinstance(audio, Mapping) else None,
        )

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**self._parameters(), "base_url": self.base_url, "provider": self._provider}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:  # noqa: ANN401
        params = super()._get_ls_params(stop, **kwargs)
        params["ls_temperature"] = kwargs.get("temperature", self.temperature)
        params["ls_max_tokens"] = kwargs.get("max_tokens", self.max_tokens)
        return params

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Models can be written and read again; keys are left out."""
        return True
