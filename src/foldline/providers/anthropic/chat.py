"""`ChatAnthropic`: the messages API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from foldline.exceptions import ModelError
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import ModelProfile, find_profile, register_profiles
from foldline.providers import _wire
from foldline.providers._counting import Counting
from foldline.providers._endpoint import Body, TimeoutOption
from foldline.providers._http import HttpChatModel
from foldline.providers._keys import Key, key_from_env
from foldline.providers._readable import Path
from foldline.providers._wire import WireDecoder, WireFailure
from foldline.providers.anthropic import (
    _profiles as profiles,
    _wire as wire,
    decode,
    encode,
    errors,
)
from foldline.providers.anthropic.errors import ERRORS

__all__ = [
    "ChatAnthropic",
]


PROVIDER = "anthropic"
ALIASES: dict[str, str] = {
    "model_name": "model",
    "anthropic_api_key": "api_key",
    "anthropic_api_url": "base_url",
    "max_tokens_to_sample": "max_tokens",
    "default_request_timeout": "timeout",
    "request_timeout": "timeout",
    "stop_sequences": "stop",
}
"""Other names that LangChain's constructor accepts -> field."""
SENT_FIELDS = (
    "model",
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "stop",
    "thinking",
    "effort",
    "reasoning_effort",
    "output_config",
    "betas",
    "mcp_servers",
    "context_management",
    "container",
    "service_tier",
    "inference_geo",
    "speed",
    "user",
    "cache_control",
)
"""Fields that are sent if they are set, under their own name or another."""
COUNT_FIELDS = ("model", "messages", "system", "tools", "tool_choice", "thinking", "mcp_servers", "output_config",
                "context_management", "cache_control")  # fmt: skip
"""Fields of a body that the endpoint that counts tokens accepts."""
URL_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL")


class ChatAnthropic(Counting, HttpChatModel):
    """Chat models of Anthropic, or of any host that speaks its messages API.

    ```python
    from foldline.providers.anthropic import ChatAnthropic

    model = ChatAnthropic(model="claude-sonnet-5", api_key="...", max_tokens=200)
    print(model.explain("Hello").body["messages"])
    #> [{'role': 'user', 'content': 'Hello'}]
    ```
    """

    model: str = "claude-sonnet-5"
    top_k: int | None = None
    """Only this many of the likeliest words are chosen from."""
    thinking: dict[str, Any] | None = None
    """`{"type": "adaptive"}`, or `{"type": "enabled", "budget_tokens": 2000}` for older models."""
    effort: str | None = None
    """How thorough an answer is: "low" to "max"; sent as `output_config.effort`."""
    reasoning_effort: str | int | None = None
    """How much to think: a level or a number of tokens; converted to the form that this model accepts."""
    output_config: dict[str, Any] | None = None
    """Format and effort of the output, as the API takes them."""
    betas: list[str] | None = None
    """Additional betas; those that tools and options need are sent automatically."""
    mcp_servers: list[dict[str, Any]] | None = None
    """MCP servers that Anthropic connects to."""
    context_management: dict[str, Any] | None = None
    """What is removed from a long conversation, by Anthropic."""
    container: str | dict[str, Any] | None = None
    """The container in which code is run, or its id."""
    reuse_last_container: bool = False
    """Whether to run code in the container of the last answer."""
    service_tier: str | None = None
    """"auto" or "standard_only"."""
    inference_geo: str | None = None
    """Where the model runs."""
    speed: str | None = None
    """"fast" for faster answers at a higher price."""
    user: str | None = None
    """An id of the end user, sent as `metadata.user_id`."""
    cache_control: dict[str, Any] | None = None
    """Automatic caching: Anthropic marks the last cacheable block."""
    stream_usage: bool = True
    """Accepted for LangChain compatibility: this API always sends usage."""

    batches: ClassVar[str] = "foldline.providers.anthropic._batches:AnthropicBatches"
    provider_name: ClassVar[str] = PROVIDER
    key_variables: ClassVar[Sequence[str]] = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    error_table: ClassVar[Mapping[str, type[ModelError]]] = ERRORS
    if TYPE_CHECKING:  # other names of the fields, for type checkers
        model_name: str = ""
        anthropic_api_key: Key = None
        anthropic_api_url: str | None = None
        max_tokens_to_sample: int | None = None
        default_request_timeout: TimeoutOption = None
        request_timeout: TimeoutOption = None
        stop_sequences: list[str] | str | None = None

    aliases: ClassVar[Mapping[str, str]] = ALIASES
    block_paths: ClassVar[tuple[Path, ...]] = (("content",),)
    sent_fields: ClassVar[tuple[str, ...]] = SENT_FIELDS
    counted_field: ClassVar[str] = "input_tokens"

    _tool_name_pattern: ClassVar[str | None] = "[a-zA-Z0-9_-]"

    @model_validator(mode="before")
    @classmethod
    def _read_betas(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        headers = values.get("default_headers")
        if not isinstance(headers, Mapping):
            return values
        headers = dict(headers)
        beta_header = next(
            (headers.pop(name) for name in list(headers) if name.lower() == "anthropic-beta"), None
        )
        if not beta_header:
            return values
        # Moved to `betas`, so that it is merged with the betas that tools need instead of replacing them.
        betas = [*(values.get("betas") or ()), *beta_header.split(",")]
        return {**values, "default_headers": headers, "betas": betas}

    def _root_url(self) -> str:
        address = self.base_url or next(
            (url for name in URL_VARIABLES if (url := os.environ.get(name))), None
        )
        return (address or "https://api.anthropic.com").rstrip("/").removesuffix("/v1")

    def _auth_headers(self, key: str) -> dict[str, str]:
        is_token = self.api_key is None and key_from_env(self.key_variables[:1]) is None
        return {"authorization": f"Bearer {key}"} if is_token else {"x-api-key": key}

    def _secret_headers(self) -> set[str]:
        return super()._secret_headers() | {"authorization", "x-api-key"}

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        betas = self._betas(request)
        return {
            "anthropic-version": wire.VERSION,
            **({"anthropic-beta": ",".join(betas)} if betas else {}),
        }

    def _profile_for(self, model: str | None) -> ModelProfile | None:
        return self.profile if model in (None, self.model) else find_profile(PROVIDER, model)

    def _encode(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        body = encode.encode_message(
            request,
            settings={
                **self._container(request),
                **self._parameters(),
                "prompt_cache": self.prompt_cache,
            },
            providers=frozenset({self._provider, PROVIDER}),
            policy=self.foreign_blocks,
            profile=self._profile_for(self._model_of(request)),
        )
        return "v1/messages", body

    def _container(self, request: ChatRequest) -> dict[str, Any]:
        if not self.reuse_last_container:
            return {}
        containers = (
            message.response_metadata.get("container") for message in reversed(request.messages)
        )
        last = next(
            (
                container
                for container in containers
                if isinstance(container, dict) and container.get("id")
            ),
            None,
        )
        return {"container": last["id"]} if last else {}

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        return decode.AnthropicDecoder(
            self._stream_error, model=self._model_of(request), provider=self._writes_as
        )

    def _model_of(self, request: ChatRequest) -> str:
        return str(request.options.get("model") or self.model)

    def _betas(self, request: ChatRequest) -> list[str]:
        return encode.betas_of(_wire.merge_settings(self._parameters(), request), request)

    @property
    def _writes_as(self) -> str:
        """The provider name in the metadata of answers."""
        return self._provider

    def _read_error(self, body: object) -> WireFailure:
        return errors.read_error(body)

    def _count_request(self, request: ChatRequest, body: Body) -> tuple[str, Body]:
        return "v1/messages/count_tokens", {
            name: body[name] for name in COUNT_FIELDS if name in body
        }


register_profiles(PROVIDER, lambda: profiles.PROFILES)
