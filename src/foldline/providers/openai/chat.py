"""`ChatOpenAI`: OpenAI's chat models, over chat completions or Responses, whichever a call needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from pydantic import model_validator

from foldline import transports
from foldline.exceptions import ModelError
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.profile import register_profiles
from foldline.messages import AIMessage, BaseMessage
from foldline.providers._completions.host import Host
from foldline.providers._completions.model import SENT, CompletionsModel
from foldline.providers._readable import Path
from foldline.providers._wire import WireDecoder
from foldline.providers.openai import decode, encode, host, profiles
from foldline.providers.openai.errors import ERRORS
from foldline.providers.openai.wire import SERVER_TOOL_TYPES

__all__ = ["ChatOpenAI"]


OWN = frozenset({"openai", "azure", "azure_openai"})
"""Names under which answers of OpenAI's models are signed."""
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
"""Models that chat completions do not serve."""


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
"""Parameters that only Responses has: one that is set chooses it."""


class ChatOpenAI(CompletionsModel):
    """Chat models of OpenAI, and of every server that speaks its wire.

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
    project: str | None = None
    use_responses_api: bool | None = None
    """True: Responses. False: chat completions. None: Responses where a call asks for something only it has."""
    reasoning: dict[str, Any] | None = None
    """`{"effort": "low", "summary": "auto"}`; Responses only."""
    verbosity: str | None = None
    store: bool | None = None
    include: list[str] | None = None
    """What else a response should hold: `["reasoning.encrypted_content"]`; Responses only."""
    truncation: str | None = None
    previous_response_id: str | None = None
    use_previous_response_id: bool = False
    """Send only what is new, and the id of the stored response before it."""
    background: bool | None = None
    max_tool_calls: int | None = None
    modalities: list[str] | None = None
    audio: dict[str, Any] | None = None
    """Voice and format of a spoken answer: `{"voice": "alloy", "format": "wav"}`."""
    prediction: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None

    batches: ClassVar[str] = "foldline.providers.openai.batches:OpenAIBatches"
    key_variables: ClassVar[Sequence[str]] = ("OPENAI_API_KEY",)
    error_table: ClassVar[Mapping[str, type[ModelError]]] = ERRORS
    block_paths: ClassVar[tuple[Path, ...]] = (("output",), *CompletionsModel.block_paths)
    sent_fields: ClassVar[tuple[str, ...]] = (
        *SENT,
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
        return OWN

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
        own, said = self.__dict__, self.model_kwargs
        for name in RESPONSES_FIELDS:
            if own[name] is not None:
                said = {name: own[name], **said}
        return _needs_responses(request, said, self._own_providers)

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
    """Say whether something is asked for that chat completions cannot do; `providers` sign answers of Responses."""
    if settings or request.options:
        said = {**settings, **request.options}
        if any(said[name] is not None for name in said.keys() & RESPONSES_ONLY):
            return True
        tools = [tool for tool in said.get("tools") or () if isinstance(tool, Mapping)]
        if any(tool.get("type") in SERVER_TOOL_TYPES for tool in tools):
            return True
    for message in request.messages:
        if not isinstance(message.content, str) and (
            _has_items(message, providers) or _shows_stored_image(message.content)
        ):
            return True
    return False


def _shows_stored_image(content: list[str | dict[str, Any]]) -> bool:
    """See an image by the id of a stored file, in any spelling: chat completions take none."""
    return any(
        isinstance(block, dict)
        and block.get("type") in ("image", "input_image")
        and (block.get("file_id") or block.get("fileId") or block.get("source_type") == "id")
        for block in content
    )


def _has_items(message: BaseMessage, providers: frozenset[str]) -> bool:
    """See an answer of Responses: chat completions cannot take back its items."""
    if not isinstance(message, AIMessage):
        return False
    writer = message.response_metadata.get("model_provider")
    is_signed = writer is not None and writer in providers
    return is_signed and str(message.response_metadata.get("id") or "").startswith("resp_")
