"""`ChatBedrockConverse`: the Converse and ConverseStream APIs of AWS Bedrock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import ModelProfile, find_profile, register_profiles
from foldline.providers._counting import Counting
from foldline.providers._endpoint import Body, TimeoutOption
from foldline.providers._readable import Path
from foldline.providers._reading import Reading
from foldline.providers._wire import WireDecoder
from foldline.providers.bedrock import _profiles as profiles
from foldline.providers.bedrock._encode import (
    base_model_name,
    encode_converse,
    encode_model_path,
)
from foldline.providers.bedrock._endpoint import ENDPOINT_ALIASES, PROVIDER, AwsChatModel
from foldline.providers.bedrock._reading import FrameReading
from foldline.providers.bedrock._wire import STREAM_TYPE
from foldline.providers.bedrock.decode import BedrockDecoder

__all__ = [
    "ChatBedrock",
    "ChatBedrockConverse",
]

ALIASES: dict[str, str] = {
    **ENDPOINT_ALIASES,
    "stop_sequences": "stop",
    "guardrails": "guardrail_config",
    "base_model_id": "base_model",
    "request_timeout": "timeout",
}
"""Other names that LangChain's constructor accepts -> field."""
SENT_FIELDS = (
    "model",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stop",
    "reasoning_effort",
    "additional_model_request_fields",
    "additional_model_response_field_paths",
    "guardrail_config",
    "guard_last_turn_only",
    "output_config",
    "performance_config",
    "prompt_variables",
    "request_metadata",
    "service_tier",
)
"""Fields that are sent if they are set, under their own name or another."""
COUNT_FIELDS = ("messages", "system", "toolConfig", "additionalModelRequestFields")
"""Fields of a body that the operation that counts tokens accepts."""
PROVIDER_NAMES = frozenset({PROVIDER, "bedrock", "aws_bedrock", "amazon_bedrock"})
"""Values of `model_provider` in messages that Bedrock wrote."""


class ChatBedrockConverse(AwsChatModel, Counting):
    """Chat models on AWS Bedrock, over its Converse API.

    ```python
    from foldline.providers.bedrock import ChatBedrockConverse

    model = ChatBedrockConverse(model="us.amazon.nova-lite-v1:0", region_name="us-east-1", max_tokens=50)
    request = model.explain("Hello")
    print(request.url)
    #> https://bedrock-runtime.us-east-1.amazonaws.com/model/us.amazon.nova-lite-v1%3A0/converse
    print(request.body["messages"], request.body["inferenceConfig"])
    #> [{'role': 'user', 'content': [{'text': 'Hello'}]}] {'maxTokens': 50}
    ```
    """

    model: str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    """The id or ARN of a model, an inference profile, a prompt or a router."""
    base_model: str | None = None
    """The id of the model behind an ARN that does not contain it; used to find the profile."""
    top_k: int | None = None
    reasoning_effort: str | int | None = None
    """How much to think: a level or a number of tokens; converted to the form that this model accepts."""
    additional_model_request_fields: dict[str, Any] | None = None
    """Parameters of the model that Converse has no field for, sent unchanged."""
    additional_model_response_field_paths: list[str] | None = None
    """JSON pointers to further fields of the model's answer, returned in `response_metadata`."""
    guardrail_config: dict[str, Any] | None = None
    """`{"guardrailIdentifier": ..., "guardrailVersion": ..., "trace": "enabled"}`."""
    guard_last_turn_only: bool | None = None
    """Whether the guardrail checks only the last user turn."""
    output_config: dict[str, Any] | None = None
    performance_config: dict[str, Any] | str | None = None
    """`{"latency": "optimized"}`, or "optimized"."""
    prompt_variables: dict[str, Any] | None = None
    """The variables of a managed prompt, whose ARN is the `model`."""
    request_metadata: dict[str, str] | None = None
    """Names and values to filter invocation logs by."""
    service_tier: str | dict[str, Any] | None = None
    """"priority", "default", "flex" or "reserved"."""
    stream_usage: bool = True
    """Accepted for LangChain compatibility: this API always sends usage."""

    stream_type: ClassVar[str] = STREAM_TYPE
    provider_name: ClassVar[str] = PROVIDER
    if TYPE_CHECKING:  # other names of the fields, for type checkers
        stop_sequences: list[str] | str | None = None
        guardrails: dict[str, Any] | None = None
        base_model_id: str | None = None
        request_timeout: TimeoutOption = None

    aliases: ClassVar[Mapping[str, str]] = ALIASES
    block_paths: ClassVar[tuple[Path, ...]] = (("output", "message", "content"),)
    sent_fields: ClassVar[tuple[str, ...]] = SENT_FIELDS
    counted_field: ClassVar[str] = "inputTokens"

    _tool_name_pattern: ClassVar[str | None] = "[a-zA-Z0-9_-]"

    def _encode(self, request: ChatRequest) -> tuple[str, Body]:
        model = self._model_of(request)
        body = encode_converse(
            request,
            settings={**self._parameters(), "prompt_cache": self.prompt_cache},
            providers=PROVIDER_NAMES,
            policy=self.foreign_blocks,
            profile=self._profile_of(model),
        )
        operation = "converse-stream" if request.stream else "converse"
        return encode_model_path(model, operation), body

    def _model_of(self, request: ChatRequest) -> str:
        return str(request.options.get("model") or self.model)

    def _profile_of(self, model: str) -> ModelProfile | None:
        if model == self.model and self.profile is not None:
            return self.profile
        return find_profile(PROVIDER, base_model_name(model))

    def _resolve_model_profile(self) -> ModelProfile | None:
        return find_profile(PROVIDER, base_model_name(self.base_model or self.model))

    def _decoder(self, request: ChatRequest) -> WireDecoder:
        return BedrockDecoder(model=self._model_of(request), provider=self._provider)

    def _reading(self, decoder: WireDecoder) -> Reading:
        return FrameReading(decoder, self._stream_error, self._parse, self._malformed, self.limits)

    def _count_request(self, request: ChatRequest, body: Body) -> tuple[str, Body]:
        count_body = {name: body[name] for name in COUNT_FIELDS if name in body}
        path = encode_model_path(self._model_of(request), "count-tokens")
        return path, {"input": {"converse": count_body}}


ChatBedrock = ChatBedrockConverse
"""LangChain's older name."""

register_profiles(PROVIDER, lambda: profiles.PROFILES)
