"""`ChatGoogle`: Gemini's `generateContent` API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from foldline._io import IO
from foldline.exceptions import ModelError, UsageError
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import ModelProfile, find_profile, register_profiles
from foldline.providers._counting import Counting
from foldline.providers._endpoint import Body, TimeoutOption
from foldline.providers._http import HttpChatModel
from foldline.providers._keys import Key
from foldline.providers._readable import Path
from foldline.providers._wire import WireDecoder, WireFailure
from foldline.providers.google import _encode as encode, _profiles as profiles, decode, errors
from foldline.providers.google._endpoint import ENDPOINT_ALIASES, GoogleEndpoint
from foldline.providers.google.errors import ERRORS
from foldline.transports import Request, Response

__all__ = [
    "ChatGoogle",
    "ChatGoogleGenerativeAI",
]


PROVIDER = "google_genai"
ALIASES: dict[str, str] = {
    **ENDPOINT_ALIASES,
    "max_output_tokens": "max_tokens",
    "request_timeout": "timeout",
    "stop_sequences": "stop",
    "candidate_count": "n",
    "modalities": "response_modalities",
}
"""Other names that LangChain's constructor accepts -> field."""
SENT_FIELDS = (
    "model",
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "n",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "response_modalities",
    "response_mime_type",
    "response_schema",
    "thinking_budget",
    "thinking_level",
    "include_thoughts",
    "reasoning_effort",
    "media_resolution",
    "speech_config",
    "image_config",
    "safety_settings",
    "cached_content",
    "labels",
)
"""Fields that are sent if they are set."""
COUNT_FIELDS = ("contents", "systemInstruction", "tools", "generationConfig")
"""Fields of a body that Vertex accepts to count tokens."""
PROVIDER_NAMES = frozenset({PROVIDER, "google", "google_vertexai", "gemini"})
"""Values of `model_provider` in messages that Gemini wrote."""


class ChatGoogle(GoogleEndpoint, Counting, HttpChatModel):
    """Gemini models, of the Gemini API or of Vertex.

    ```python
    from foldline.providers.google import ChatGoogle

    model = ChatGoogle(model="gemini-3-flash", api_key="...", temperature=0.2)
    print(model.explain("Hello").body["contents"])
    #> [{'role': 'user', 'parts': [{'text': 'Hello'}]}]
    ```
    """

    model: str = "gemini-2.5-flash"
    top_k: int | None = None
    n: int | None = None
    """The number of answers; `generate` returns all of them."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_modalities: list[str] | None = None
    """The kinds of content in an answer: "TEXT", "IMAGE", "AUDIO"."""
    response_mime_type: str | None = None
    response_schema: dict[str, Any] | None = None
    """A schema in OpenAPI's format; for a JSON Schema or a class use `response_format`."""
    thinking_budget: int | None = None
    """The maximum of thinking tokens, for Gemini 2.5: 0 for none, -1 for automatic."""
    thinking_level: str | None = None
    """How much to think, for Gemini 3: "minimal", "low", "medium" or "high"."""
    include_thoughts: bool | None = None
    """Whether answers include summaries of the thoughts."""
    reasoning_effort: str | int | None = None
    """How much to think: a level or a number of tokens; converted to the form that this model accepts."""
    media_resolution: str | None = None
    speech_config: dict[str, Any] | None = None
    image_config: dict[str, Any] | None = None
    safety_settings: dict[Any, Any] | list[dict[str, Any]] | None = None
    """Category -> threshold: `{"HARM_CATEGORY_HARASSMENT": "BLOCK_ONLY_HIGH"}`."""
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    retry_malformed_calls: bool = False
    """Whether to retry when the model wrote a call that does not parse (MALFORMED_FUNCTION_CALL)."""

    batches: ClassVar[str] = "foldline.providers.google._batches:GoogleBatches"
    provider_name: ClassVar[str] = PROVIDER
    error_table: ClassVar[Mapping[str, type[ModelError]]] = ERRORS
    if TYPE_CHECKING:  # other names of the fields, for type checkers
        model_name: str = ""
        google_api_key: Key = None
        access_token: Key = None
        project_id: str | None = None
        region: str | None = None
        api_endpoint: str | None = None
        additional_headers: dict[str, str] = {}
        max_output_tokens: int | None = None
        request_timeout: TimeoutOption = None
        stop_sequences: list[str] | str | None = None
        candidate_count: int | None = None
        modalities: list[str] | None = None

    aliases: ClassVar[Mapping[str, str]] = ALIASES
    block_paths: ClassVar[tuple[Path, ...]] = (("candidates", 0, "content", "parts"),)
    sent_fields: ClassVar[tuple[str, ...]] = SENT_FIELDS
    counted_field: ClassVar[str] = "totalTokens"

    _tool_name_pattern: ClassVar[str | None] = "[a-zA-Z0-9_.:-]"

    def _encode(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        model = request.options.get("model") or self.model
        body = encode.encode_content(
            request,
            settings=self._parameters(),
            providers=PROVIDER_NAMES,
            policy=self.foreign_blocks,
            profile=self._profile_for(model),
        )
        if request.stream and ((body.get("generationConfig") or {}).get("candidateCount") or 1) > 1:
            raise UsageError(
                "several candidates cannot be streamed, for a stream is one message: use generate"
            )
        method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        return f"{encode.encode_model(model)}:{method}", body

    async def _http_request(self, request: ChatRequest, io: IO) -> Request:
        await self._load_project(io)
        return await super()._http_request(request, io)

    def _profile_for(self, model: str) -> ModelProfile | None:
        if model == self.model and self.profile is not None:
            return self.profile
        return find_profile(PROVIDER, model.rpartition("/")[2])

    def _resolve_model_profile(self) -> ModelProfile | None:
        return find_profile(PROVIDER, self.model.rpartition("/")[2])

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        return decode.GoogleDecoder(
            self._stream_error,
            model=request.options.get("model") or self.model,
            provider=self._provider,
            others=request.others,
            retries_malformed_calls=self.retry_malformed_calls,
        )

    def _batch_api(self) -> Any:  # noqa: ANN401  see `Endpoint`
        return None if self._is_vertex() else super()._batch_api()

    # -- errors

    def _read_error(self, body: object) -> WireFailure:
        return errors.read_error(body)

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        return errors.with_delay(super()._status_error(response, body), body)

    def _stream_error(self, body: object) -> ModelError:
        return errors.with_delay(super()._stream_error(body), body)

    def _count_request(self, request: ChatRequest, body: Body) -> tuple[str, Body]:
        path = encode.encode_model(request.options.get("model") or self.model)
        if self._is_vertex():
            return f"{path}:countTokens", {
                name: body[name] for name in COUNT_FIELDS if name in body
            }
        return f"{path}:countTokens", {"generateContentRequest": {"model": path, **body}}

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**super()._identifying_params, "project": self.project, "location": self.location}


ChatGoogleGenerativeAI = ChatGoogle
"""LangChain's name."""

register_profiles(PROVIDER, lambda: profiles.PROFILES)
