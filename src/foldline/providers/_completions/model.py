"""`CompletionsModel`: the base of chat models of OpenAI and compatible hosts.

The fields are LangChain's, under all the names it accepts. A field that is not set is not sent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from foldline.language_models._call.request import ChatRequest
from foldline.providers._completions import decode, encode
from foldline.providers._completions.host import Host
from foldline.providers._endpoint import TimeoutOption
from foldline.providers._http import HttpChatModel
from foldline.providers._keys import Key, SecretKey, chosen_key, missing_key
from foldline.providers._readable import Path
from foldline.providers._wire import WireDecoder

__all__ = ["ALIASES", "CompletionsModel"]


ALIASES: dict[str, str] = {
    "model_name": "model",
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "openai_organization": "organization",
    "max_completion_tokens": "max_tokens",
    "request_timeout": "timeout",
    "stop_sequences": "stop",
}
"""Other names that LangChain's constructors accept -> field."""
SENT_FIELDS = (
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
"""Fields that are sent under their own name if they are set."""


class CompletionsModel(HttpChatModel):
    """A chat model over the chat-completions API."""

    n: int | None = None
    """The number of answers; `generate` returns all of them."""
    seed: int | None = None
    """A number that makes answers repeatable, as far as the provider can."""
    presence_penalty: float | None = None
    """From -2 to 2: above 0, words that occurred already become less likely."""
    frequency_penalty: float | None = None
    """From -2 to 2: above 0, words become less likely the more often they occurred."""
    logit_bias: dict[str, int] | None = None
    """Token id -> from -100 (never) to 100 (always)."""
    logprobs: bool | None = None
    """Whether the log probabilities of the tokens are returned."""
    top_logprobs: int | None = None
    """How many alternatives of each token are returned with their log probabilities."""
    parallel_tool_calls: bool | None = None
    """Whether an answer may call several tools."""
    reasoning_effort: str | None = None
    """How much a reasoning model thinks: "low", "medium", "high" and the like."""
    service_tier: str | None = None
    """The provider's class of service: price and speed."""
    user: str | None = None
    """An id of the end user."""
    stream_usage: bool = True
    """Whether to request the usage of streams."""
    extra_body: dict[str, Any] | None = None
    """Parameters that are added to the body last and override all others."""

    if TYPE_CHECKING:  # other names of the fields, for type checkers
        model_name: str = ""
        openai_api_key: Key = None
        openai_api_base: str | None = None
        max_completion_tokens: int | None = None
        request_timeout: TimeoutOption = None
        stop_sequences: list[str] | str | None = None

    aliases: ClassVar[Mapping[str, str]] = ALIASES
    block_paths: ClassVar[tuple[Path, ...]] = (
        ("choices", 0, "message", "content"),
        ("choices", 0, "message", "tool_calls"),
    )
    sent_fields: ClassVar[tuple[str, ...]] = SENT_FIELDS
    _tool_name_pattern: ClassVar[str | None] = "[A-Za-z0-9_-]"

    @property
    def _host(self) -> Host:
        raise NotImplementedError

    @property
    def _own_providers(self) -> frozenset[str]:
        """Values of `model_provider` in messages of this provider."""
        return frozenset({self._provider})

    @property
    def _provider(self) -> str:
        return self._host.name

    def _key(self) -> SecretKey | None:
        host = self._host
        key = chosen_key(self.api_key, host.keys)
        if key is None and host.needs_key:
            raise missing_key(self._provider, host.keys)
        return key

    def _root_url(self) -> str:
        if self.base_url:
            return self.base_url
        host = self._host
        variable_url = next(
            (url for name in host.url_variables if (url := os.environ.get(name))), None
        )
        return variable_url or host.base_url

    def _parameters(self) -> dict[str, Any]:
        parameters = super()._parameters()
        if isinstance(parameters.get("stop"), str):
            parameters["stop"] = [parameters["stop"]]
        if not self.stream_usage:
            parameters["stream_usage"] = False
        if self.extra_body:
            parameters["extra_body"] = {**self.extra_body, **parameters.get("extra_body", {})}
        return parameters

    def _encode(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        body = encode.encode_completion(
            request,
            self._host,
            settings=self._parameters(),
            providers=self._own_providers,
            policy=self.foreign_blocks,
        )
        return "chat/completions", body

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        audio = request.options.get("audio") or self.model_kwargs.get("audio") or {}
        return decode.CompletionsDecoder(
            self._host,
            self._stream_error,
            model=request.options.get("model") or self.model,
            others=request.others,
            audio_format=audio.get("format") if audio and isinstance(audio, Mapping) else None,
        )
