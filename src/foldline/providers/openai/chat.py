"""`ChatOpenAI`: OpenAI's chat models, over chat completions or Responses, depending on the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import model_validator

from foldline import transports
from foldline.exceptions import ModelError
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import register_profiles
from foldline.messages import AIMessage, BaseMessage
from foldline.providers._completions.host import Host
from foldline.providers._completions.model import SENT_FIELDS, CompletionsModel
from foldline.providers._readable import Path
from foldline.providers._wire import WireDecoder
from foldline.providers.openai import (
    _decode as decode,
    _encode as encode,
    _host as host,
    _profiles as profiles,
)
from foldline.providers.openai._errors import ERRORS
from foldline.providers.openai._wire import SERVER_TOOL_TYPES

__all__ = ["ChatOpenAI"]


PROVIDER_NAMES = frozenset({"openai", "azure", "azure_openai"})
"""Values of `model_provider` in messages that OpenAI's models wrote."""
RESPONSES_PREFIXES = (
    "gpt-5-pro",
    "gpt-5.2-pro",
    "o1-pro",
    "o3-pro",
    "codex-",
    "computer-use-",
    "o3-deep",
    "o4-mini-deep",
)
"""Prefixes of models that chat completions do not serve."""


RESPONSES_FIELDS = (
    "background",
    "include",
    "max_tool_calls",
    "previous_response_id",
    "reasoning",
    "truncation",
)
"""Fields of the model that only Responses has."""

RESPONSES_ONLY: Final = frozenset(
    {
        "background",
        "context_management",
        "conversation",
        "include",
        "instructions",
        "max_tool_calls",
        "previous_response_id",
        "prompt",
        "reasoning",
        "text",
        "truncation",
    }
)
"""Parameters that only Responses has: setting one selects it."""


class ChatOpenAI(CompletionsModel):
    """Chat models of OpenAI, and of every server with the same API.

    ```python
    from foldline.providers.openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-5-mini", api_key="sk-...", temperature=1)
    sent = model.explain("Hello")
    print(sent.url, sent.body["messages"], sent.headers["authorization"])
    #> https://api.openai.com/v1/chat/completions [{'role': 'user', 'content': 'Hello'}] ***
    ```
    """

    model: str = "gpt-5-mini"
    organization: str | None = None
    """The organization that is billed."""
    project: str | None = None
    """The project that is billed."""
    use_responses_api: bool | None = None
    """True: Responses. False: chat completions. None: Responses if a call needs something that only it has."""
    reasoning: dict[str, Any] | None = None
    """`{"effort": "low", "summary": "auto"}`; Responses only."""
    verbosity: str | None = None
    """How long answers are: "low", "medium" or "high"."""
    store: bool | None = None
    """Whether OpenAI stores the response."""
    include: list[str] | None = None
    """Additional fields of a response: `["reasoning.encrypted_content"]`; Responses only."""
    truncation: str | None = None
    """"auto": the middle of a conversation that is too long is dropped; Responses only."""
    previous_response_id: str | None = None
    """The stored response that this one continues; Responses only."""
    use_previous_response_id: bool = False
    """Whether to send only new messages, with the id of the last stored response."""
    background: bool | None = None
    """Whether the response is made in the background; Responses only."""
    max_tool_calls: int | None = None
    """The most calls of OpenAI's own tools; Responses only."""
    modalities: list[str] | None = None
    """The kinds of output: `["text", "audio"]`."""
    audio: dict[str, Any] | None = None
    """Voice and format of an audio answer: `{"voice": "alloy", "format": "wav"}`."""
    prediction: dict[str, Any] | None = None
    """Text that the answer probably contains, which makes it faster."""
    prompt_cache_key: str | None = None
    """Requests with the same key are likelier to share the prompt cache."""
    prompt_cache_retention: str | None = None
    """How long prompts stay cached: "in_memory" or "24h"."""
    safety_identifier: str | None = None
    """A stable id of the end user, hashed, for OpenAI's abuse checks."""

    if TYPE_CHECKING:  # other names of the fields, for type checkers
        openai_organization: str | None = None

    batches: ClassVar[str] = "foldline.providers.openai._batches:OpenAIBatches"
    key_variables: ClassVar[Sequence[str]] = ("OPENAI_API_KEY",)
    error_table: ClassVar[Mapping[str, type[ModelError]]] = ERRORS
    _prefers_strict: ClassVar[bool] = True
    block_paths: ClassVar[tuple[Path, ...]] = (("output",), *CompletionsModel.block_paths)
    sent_fields: ClassVar[tuple[str, ...]] = (
        *SENT_FIELDS,
        "audio",
        "background",
        "include",
        "max_tool_calls",
        "modalities",
        "prediction",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "store",
        "truncation",
        "verbosity",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_proxy(cls, values: object) -> object:
        if isinstance(values, dict) and (proxy := values.pop("openai_proxy", None)):
            values.setdefault("http", transports.HttpOptions(proxy=proxy))
        return values

    @property
    def _host(self) -> Host:
        return host.OPENAI

    @property
    def _own_providers(self) -> frozenset[str]:
        return PROVIDER_NAMES

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self.organization:
            headers["openai-organization"] = self.organization
        if self.project:
            headers["openai-project"] = self.project
        return headers

    def _uses_responses(self, request: ChatRequest) -> bool:
        if self.use_responses_api is not None:
            return self.use_responses_api
        model = str(request.options.get("model") or self.model)
        if model.startswith(RESPONSES_PREFIXES) or self.use_previous_response_id:
            return True
        fields, settings = self.__dict__, self.model_kwargs
        for name in RESPONSES_FIELDS:
            if fields[name] is not None:
                settings = {name: fields[name], **settings}
        return _needs_responses(request, settings, self._own_providers)

    def _encode(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        if not self._uses_responses(request):
            return super()._encode(request)
        body = encode.encode_response(
            request,
            self._host,
            settings=self._parameters(),
            providers=self._own_providers,
            policy=self.foreign_blocks,
            use_previous=self.use_previous_response_id,
        )
        return "responses", body

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        if not self._uses_responses(request):
            return super()._decoder(request)
        model = request.options.get("model") or self.model
        return decode.ResponsesDecoder(self._stream_error, provider=self._provider, model=model)


register_profiles("openai", lambda: profiles.PROFILES)


def _needs_responses(
    request: ChatRequest, settings: Mapping[str, Any], providers: frozenset[str]
) -> bool:
    """Whether a request needs Responses; `providers` are the values of `model_provider` of its answers."""
    if settings or request.options:
        options = {**settings, **request.options}
        if any(options[name] is not None for name in options.keys() & RESPONSES_ONLY):
            return True
        tools = [tool for tool in options.get("tools") or () if isinstance(tool, Mapping)]
        if any(tool.get("type") in SERVER_TOOL_TYPES for tool in tools):
            return True
    for message in request.messages:
        if not isinstance(message.content, str) and (
            _has_items(message, providers) or _has_stored_image(message.content)
        ):
            return True
    return False


def _has_stored_image(content: list[str | dict[str, Any]]) -> bool:
    """Whether content has an image by file id, in any format: chat completions do not accept it."""
    return any(
        isinstance(block, dict)
        and block.get("type") in ("image", "input_image")
        and (block.get("file_id") or block.get("fileId") or block.get("source_type") == "id")
        for block in content
    )


def _has_items(message: BaseMessage, providers: frozenset[str]) -> bool:
    """Whether a message is an answer of Responses, whose items chat completions cannot accept."""
    if not isinstance(message, AIMessage):
        return False
    provider = message.response_metadata.get("model_provider")
    is_signed = provider is not None and provider in providers
    return is_signed and str(message.response_metadata.get("id") or "").startswith("resp_")
