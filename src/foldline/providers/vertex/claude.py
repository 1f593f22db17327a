"""`ChatAnthropicVertex`: Claude on Vertex, over rawPredict and the messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote

from foldline._io import IO
from foldline.exceptions import ModelError, UsageError
from foldline.language_models._call.request import ChatRequest
from foldline.providers._endpoint import Body
from foldline.providers._keys import Key
from foldline.providers._wire import WireFailure
from foldline.providers.anthropic import chat as anthropic_chat, errors as anthropic_errors
from foldline.providers.anthropic._cloud import CloudClaude
from foldline.providers.google import errors as google_errors
from foldline.providers.google._endpoint import ENDPOINT_ALIASES, GoogleEndpoint
from foldline.transports import Request, Response

__all__ = ["ChatAnthropicVertex"]

ALIASES: Final = {
    **anthropic_chat.ALIASES,
    **ENDPOINT_ALIASES,
    "max_output_tokens": "max_tokens",
}


class ChatAnthropicVertex(GoogleEndpoint, CloudClaude):
    """Claude on Vertex.

    ```python
    from foldline.providers.vertex import ChatAnthropicVertex

    model = ChatAnthropicVertex(model="claude-sonnet-4-5@20250929", project="mine", location="us-east5", max_tokens=50)
    request = model.explain("Hello")
    print(request.url.rpartition("/publishers/")[2])
    #> anthropic/models/claude-sonnet-4-5@20250929:rawPredict
    print(request.body["anthropic_version"], request.body["max_tokens"])
    #> vertex-2023-10-16 50
    ```
    """

    model: str = "claude-sonnet-5"
    vertexai: bool | None = True

    provider_name: ClassVar[str] = "google_anthropic_vertex"
    key_variables: ClassVar[Sequence[str]] = ()
    project_variables: ClassVar[Sequence[str]] = (
        "ANTHROPIC_VERTEX_PROJECT_ID",
        *GoogleEndpoint.project_variables,
    )
    location_variables: ClassVar[Sequence[str]] = (
        "CLOUD_ML_REGION",
        *GoogleEndpoint.location_variables,
    )
    vertex_url_variable: ClassVar[str] = "ANTHROPIC_VERTEX_BASE_URL"
    publisher: ClassVar[str] = "anthropic"
    error_table: ClassVar[Mapping[str, type[ModelError]]] = {
        **anthropic_errors.ERRORS,
        **google_errors.ERRORS,
    }
    if TYPE_CHECKING:  # other names of the fields, for type checkers
        google_api_key: Key = None
        access_token: Key = None
        project_id: str | None = None
        region: str | None = None
        api_endpoint: str | None = None
        additional_headers: dict[str, str] = {}
        max_output_tokens: int | None = None

    aliases: ClassVar[Mapping[str, str]] = ALIASES
    api_version: ClassVar[str] = "vertex-2023-10-16"

    def _is_vertex(self) -> bool:
        return True

    def _is_express(self) -> bool:
        return False  # Claude always needs a project

    def _encode(self, request: ChatRequest) -> tuple[str, Body]:
        model = self._model_of(request)
        if not model.strip():
            raise UsageError("Vertex needs the id of a model: model='claude-sonnet-4-5@20250929'")
        method = "streamRawPredict" if request.stream else "rawPredict"
        return f"models/{quote(model, safe='@')}:{method}", self._encode_body(request)

    def _extra_headers(self, request: ChatRequest) -> dict[str, str]:
        betas = self._betas(request)
        return {"anthropic-beta": ",".join(betas)} if betas else {}

    async def _http_request(self, request: ChatRequest, io: IO) -> Request:
        await self._load_project(io)
        return await super()._http_request(request, io)

    def _count_request(self, request: ChatRequest, body: Body) -> tuple[str, Body]:
        count_body = self._counted_body(body)
        version = body["anthropic_version"]
        model = self._model_of(request)
        return "models/count-tokens:rawPredict", {
            "anthropic_version": version,
            "model": model,
            **count_body,
        }

    def _read_error(self, body: object) -> WireFailure:
        error = body.get("error") if isinstance(body, dict) else None
        is_anthropic_error = isinstance(error, dict) and "type" in error
        return (
            anthropic_errors.read_error(body)
            if is_anthropic_error
            else google_errors.read_error(body)
        )

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        return google_errors.with_delay(super()._status_error(response, body), body)
