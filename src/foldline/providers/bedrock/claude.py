"""Claude and OpenAI models on AWS through the vendors' APIs: InvokeModel with the messages API, and Mantle.

`ChatBedrockConverse` serves the same models through one API for all; these classes have the newest features.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from foldline.exceptions import ModelError
from foldline.language_models._call.request import ChatRequest
from foldline.providers._completions.host import Host
from foldline.providers._endpoint import Body
from foldline.providers._reading import Reading
from foldline.providers._wire import WireDecoder, WireFailure, dump_body, read_failure
from foldline.providers.anthropic import chat as anthropic_chat, errors as anthropic_errors
from foldline.providers.anthropic._cloud import CloudClaude
from foldline.providers.anthropic.chat import ChatAnthropic
from foldline.providers.bedrock._encode import base_model_name, encode_model_path
from foldline.providers.bedrock._endpoint import ENDPOINT_ALIASES, AwsChatModel
from foldline.providers.bedrock._reading import ChunkReading
from foldline.providers.bedrock._wire import STREAM_TYPE
from foldline.providers.bedrock.errors import ERRORS, read_error
from foldline.providers.openai import _errors as openai_errors
from foldline.providers.openai._host import OPENAI
from foldline.providers.openai.chat import ChatOpenAI

__all__ = ["ChatAnthropicBedrock", "ChatAnthropicMantle", "ChatOpenAIMantle"]

ALIASES: Final = {**anthropic_chat.ALIASES, **ENDPOINT_ALIASES}
CLAUDE_ERRORS: Final = {**anthropic_errors.ERRORS, **ERRORS}
MANTLE_SERVICE: Final = "bedrock-mantle"
MANTLE_VARIABLE: Final = "ANTHROPIC_BEDROCK_MANTLE_BASE_URL"
MANTLE: Final = replace(
    OPENAI,
    name="bedrock_mantle_openai",
    base_url="",
    keys=("AWS_BEARER_TOKEN_BEDROCK",),
    url_variables=(),
)
OPENAI_PATH_MODELS: Final = ("gpt-5", "gpt-6", "openai.gpt-5", "openai.gpt-6")
"""Prefixes of models that Mantle serves under /openai/v1 instead of /v1."""


class VendorModel(AwsChatModel):
    """A vendor's model on AWS: errors are in AWS's format or the vendor's."""

    def _read_error(self, body: object) -> WireFailure:
        if isinstance(body, dict) and isinstance(body.get("error"), dict):
            return self._read_vendor_error(body)
        return read_error(body)

    def _read_vendor_error(self, body: Body) -> WireFailure:
        return anthropic_errors.read_error(body)


class ChatAnthropicBedrock(VendorModel, CloudClaude):
    """Claude on AWS Bedrock, over InvokeModel and the messages API.

    ```python
    from foldline.providers.bedrock import ChatAnthropicBedrock

    model = ChatAnthropicBedrock(model="us.anthropic.claude-sonnet-4-6", region_name="us-east-1", max_tokens=50)
    request = model.explain("Hello")
    print(request.url)
    #> https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-6/invoke
    print(request.body["anthropic_version"], request.body["max_tokens"])
    #> bedrock-2023-05-31 50
    ```
    """

    model: str = "us.anthropic.claude-sonnet-4-6"
    """The id or ARN of a model or an inference profile."""
    base_model: str | None = None
    """The id of the model behind an ARN that does not contain it; used to find the profile."""

    stream_type: ClassVar[str] = STREAM_TYPE
    provider_name: ClassVar[str] = "anthropic_bedrock"
    if TYPE_CHECKING:  # other names of the fields, for type checkers
        base_model_id: str | None = None

    aliases: ClassVar[Mapping[str, str]] = {**ALIASES, "base_model_id": "base_model"}
    error_table: ClassVar[Mapping[str, type[ModelError]]] = CLAUDE_ERRORS
    counted_field: ClassVar[str] = "inputTokens"
    api_version: ClassVar[str] = "bedrock-2023-05-31"

    def _cloud_model_name(self, model: str) -> str:
        name = self.base_model if self.base_model and model == self.model else model
        return base_model_name(name).removeprefix("anthropic.")

    def _encode(self, request: ChatRequest) -> tuple[str, Body]:
        body = self._encode_body(request)
        body.pop("stream", None)  # it is in the path
        if betas := self._betas(request):
            body["anthropic_beta"] = betas
        operation = "invoke-with-response-stream" if request.stream else "invoke"
        return encode_model_path(self._model_of(request), operation), body

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        return {}  # none of the headers of Anthropic's own API

    def _reading(self, decoder: WireDecoder) -> Reading:
        return ChunkReading(decoder, self._stream_error, self._parse, self._malformed, self.limits)

    def _count_request(self, request: ChatRequest, body: Body) -> tuple[str, Body]:
        path = encode_model_path(self._model_of(request), "count-tokens")
        return path, {"input": {"invokeModel": {"body": b64encode(dump_body(body)).decode()}}}


class MantleModel(VendorModel):
    """A model on Mantle, where AWS serves the vendors' own APIs."""

    batches: ClassVar[str] = ""
    """Not supported: clouds have batch APIs of their own."""

    service: ClassVar[str] = MANTLE_SERVICE

    def _mantle_url(self) -> str:
        return f"https://bedrock-mantle.{self._region()}.api.aws"


class ChatAnthropicMantle(MantleModel, ChatAnthropic):
    """Claude on AWS Bedrock, over the messages API itself (Mantle).

    ```python
    from foldline.providers.bedrock import ChatAnthropicMantle

    model = ChatAnthropicMantle(model="anthropic.claude-opus-4-8", region_name="us-east-1")
    print(model.explain("Hello").url)
    #> https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages
    ```
    """

    model: str = "anthropic.claude-opus-4-8"

    provider_name: ClassVar[str] = "bedrock_mantle_anthropic"
    aliases: ClassVar[Mapping[str, str]] = ALIASES
    error_table: ClassVar[Mapping[str, type[ModelError]]] = CLAUDE_ERRORS

    @property
    def _writes_as(self) -> str:
        return anthropic_chat.PROVIDER

    def _root_url(self) -> str:
        url = self.base_url or os.environ.get(MANTLE_VARIABLE)
        return url or f"{self._mantle_url()}/anthropic"


class ChatOpenAIMantle(MantleModel, ChatOpenAI):
    """Models of OpenAI on AWS Bedrock, over chat completions and Responses (Mantle)."""

    model: str = "openai.gpt-oss-120b"

    provider_name: ClassVar[str] = MANTLE.name
    aliases: ClassVar[Mapping[str, str]] = {**ChatOpenAI.aliases, **ENDPOINT_ALIASES}
    error_table: ClassVar[Mapping[str, type[ModelError]]] = {**openai_errors.ERRORS, **ERRORS}

    @property
    def _host(self) -> Host:
        return MANTLE

    @property
    def _provider(self) -> str:
        return MANTLE.name

    @property
    def _own_providers(self) -> frozenset[str]:
        return super()._own_providers | {self.provider_name}

    def _read_vendor_error(self, body: Body) -> WireFailure:
        return read_failure(body)

    def _root_url(self) -> str:
        path = "/openai/v1" if self.model.startswith(OPENAI_PATH_MODELS) else "/v1"
        return self.base_url or self._mantle_url() + path
