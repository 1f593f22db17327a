"""`ChatAnthropic`: the messages API. Only this file waits, and only for the count of tokens; the rest is `_http`'s."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field, model_validator

from weft._drive import drive
from weft._io import ASYNC, BLOCKING, IO
from weft._run import Run
from weft.exceptions import UsageError
from weft.language_models.profile import ModelProfile, find_profile
from weft.language_models.request import ChatRequest
from weft.messages import AIMessage
from weft.providers._http import HttpChatModel
from weft.providers._wire import ErrorTable, Failure, WireDecoder
from weft.providers.anthropic.decode import AnthropicDecoder
from weft.providers.anthropic.encode import (
    betas_of,
    encode_message,
    merge_settings,
    with_tool_extras,
)
from weft.providers.anthropic.errors import ERRORS, read_error
from weft.providers.anthropic.profiles import PROVIDER
from weft.providers.anthropic.wire import VERSION
from weft.runnables.base import Runnable

__all__ = ["ALIASES", "ChatAnthropic"]

Json = Any

ALIASES: dict[str, str] = {
    "model_name": "model",
    "anthropic_api_key": "api_key",
    "anthropic_api_url": "base_url",
    "max_tokens_to_sample": "max_tokens",
    "default_request_timeout": "timeout",
    "request_timeout": "timeout",
    "stop_sequences": "stop",
}
"""Other names that LangChain's constructor accepts."""
SENT = (
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
"""Fields that are sent, under their own name or another, where they are set."""
COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "mcp_servers", "output_config",
           "context_management", "cache_control")  # fmt: skip
"""What the endpoint that counts tokens takes of a body."""
URL_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL")


class ChatAnthropic(HttpChatModel):
    """Chat models of Anthropic, or of any host that speaks its messages API.

    ```python
    from weft.providers.anthropic import ChatAnthropic

    model = ChatAnthropic(model="claude-sonnet-5", api_key="...", max_tokens=200)
    print(model.explain("Hello").body["messages"])
    #> [{'role': 'user', 'content': 'Hello'}]
    ```
    """

    model: str = "claude-sonnet-5"
    max_tokens: int | None = None
    """Most tokens of an answer; by default what the model can."""
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    stop: list[str] | str | None = None
    thinking: dict[str, Any] | None = None
    """`{"type": "adaptive"}`, or `{"type": "enabled", "budget_tokens": 2000}` for older models."""
    effort: str | None = None
    """How thorough an answer is: "low" to "max"; sent as `output_config.effort`."""
    reasoning_effort: str | int | None = None
    """How much to think, a word or a number of tokens, in the form that this model takes."""
    output_config: dict[str, Any] | None = None
    betas: list[str] | None = None
    """Further betas; those that tools and options need are named without it."""
    mcp_servers: list[dict[str, Any]] | None = None
    context_management: dict[str, Any] | None = None
    container: str | dict[str, Any] | None = None
    reuse_last_container: bool = False
    """Run code where the last answer ran its code."""
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    user: str | None = None
    """An id of your user, sent as `metadata.user_id`."""
    cache_control: dict[str, Any] | None = None
    """A mark on the last block that can be cached, set by Anthropic."""
    streaming: bool = False
    """Ask for a stream also under `invoke`."""
    stream_usage: bool = True
    """LangChain's: usage always comes with this API."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the body."""

    provider_name: ClassVar[str] = PROVIDER
    key_variables: ClassVar[Sequence[str]] = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    error_table: ClassVar[ErrorTable] = ERRORS

    _tool_name_pattern: ClassVar[str | None] = "[a-zA-Z0-9_-]"

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: Json) -> Json:
        if not isinstance(values, dict):
            return values
        read: dict[str, Json] = {}
        for name, value in values.items():
            field = str(ALIASES.get(name, name))
            if field in read and read[field] != value and None not in (value, read[field]):
                raise UsageError(
                    f"{cls.__name__}: {name} and {field} mean the same: give one of them"
                )
            if field not in read or value is not None:
                read[field] = value
        headers = dict(read.get("default_headers") or {})
        named = next(
            (headers.pop(name) for name in list(headers) if name.lower() == "anthropic-beta"), None
        )
        if named:  # so that it adds to the betas that tools need, instead of replacing them
            read |= {
                "default_headers": headers,
                "betas": [*(read.get("betas") or ()), *named.split(",")],
            }
        return _with_unknown(cls, read)

    @property
    def model_name(self) -> str:
        """The model's id, under LangChain's older name."""
        return self.model

    def _root_url(self) -> str:
        found = self.base_url or next(
            (url for name in URL_VARIABLES if (url := os.environ.get(name))), None
        )
        return (found or "https://api.anthropic.com").rstrip("/").removesuffix("/v1")

    def _auth_headers(self, key: str) -> dict[str, str]:
        is_token = self.api_key is None and not os.environ.get("ANTHROPIC_API_KEY")
        return {"authorization": f"Bearer {key}"} if is_token and key else {"x-api-key": key}

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        betas = betas_of(merge_settings(self._parameters(), request), request)
        return {
            "anthropic-version": VERSION,
            **({"anthropic-beta": ",".join(betas)} if betas else {}),
        }

    def _parameters(self) -> dict[str, Json]:
        fields = {name: getattr(self, name) for name in SENT}
        return {
            **{name: value for name, value in fields.items() if value is not None},
            **self.model_kwargs,
        }

    def _request(self, value: Json, run: Run, *, stream: bool) -> ChatRequest:
        request = super()._request(value, run, stream=stream)
        for alias, name in ALIASES.items():
            if alias in request.options:
                request.options[name] = request.options.pop(alias)
        if request.options.get("stop") and not request.stop:
            request = request.replace(stop=request.options.pop("stop"))
        if self.streaming and not self._streaming_disabled(request.options):
            request = request.replace(stream=True)
        return request

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Give the model tools; what a tool says for Anthropic alone (`cache_control`, `defer_loading`, …) is kept."""
        if not isinstance(tools, str | Mapping):
            tools = [with_tool_extras(tool, kwargs.get("strict")) for tool in tools]
        return super().bind_tools(tools, **kwargs)

    def _known(self, model: str | None) -> ModelProfile | None:
        return self.profile if model in (None, self.model) else find_profile(PROVIDER, model)

    def _encode(self, request: ChatRequest) -> tuple[str, dict[str, Json]]:
        body = encode_message(
            request,
            settings={
                **self._container(request),
                **self._parameters(),
                "prompt_cache": self.prompt_cache,
            },
            providers=frozenset({self._provider, PROVIDER}),
            policy=self.foreign_blocks,
            profile=self._known(request.options.get("model") or self.model),
        )
        return "v1/messages", body

    def _container(self, request: ChatRequest) -> dict[str, Json]:
        if not self.reuse_last_container:
            return {}
        used = (
            message.response_metadata.get("container") for message in reversed(request.messages)
        )
        last = next((one for one in used if isinstance(one, dict) and one.get("id")), None)
        return {"container": last["id"]} if last else {}

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        model = request.options.get("model") or self.model
        return AnthropicDecoder(self._stream_error, model=model, provider=self._provider)

    def _read_error(self, body: Json) -> Failure:
        return read_error(body)

    # -- counting tokens, exactly

    def count_tokens_exactly(self, input: Json, **kwargs: Any) -> int:
        """Let Anthropic count the input tokens of a call: messages, tools, images, documents. Opens a connection."""
        return drive(self._counted(input, BLOCKING, kwargs))

    async def acount_tokens_exactly(self, input: Json, **kwargs: Any) -> int:
        """Let Anthropic count the input tokens of a call: messages, tools, images, documents. Opens a connection."""
        return await self._counted(input, ASYNC, kwargs)

    async def _counted(self, input: Json, io: IO, kwargs: dict[str, Any]) -> int:
        request = self._request(input, Run.root(io, None, kwargs), stream=False)
        sent = await self._http_request(request, io)
        body = {name: value for name, value in json.loads(sent.body).items() if name in COUNTED}
        sent = replace(
            sent, url=self._url("v1/messages/count_tokens"), body=json.dumps(body).encode()
        )
        async with self._transport().open(sent, blocking=io.blocking) as response:
            if response.status >= 400:
                raise self._status_error(response, await response.read_error())
            data = self._parse(await response.read())
        if not isinstance(data, dict) or not isinstance(data.get("input_tokens"), int):
            raise self._malformed("the answer has no input_tokens: does this host count tokens?")
        return int(data["input_tokens"])

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**self._parameters(), "base_url": self.base_url, "provider": self._provider}

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Models can be written and read again; keys are left out."""
        return True


def _with_unknown(cls: type[ChatAnthropic], read: dict[str, Json]) -> dict[str, Json]:
    """Send what the constructor does not know as it is, and say so."""
    unknown = {name: read.pop(name) for name in list(read) if name not in cls.model_fields}
    if not unknown:
        return read
    warnings.warn(
        f"{cls.__name__} does not know {', '.join(sorted(unknown))}: sent as they are, in model_kwargs",
        UserWarning,
        stacklevel=5,
    )
    return {**read, "model_kwargs": {**unknown, **(read.get("model_kwargs") or {})}}
