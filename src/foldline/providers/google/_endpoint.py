"""`GoogleEndpoint`: a connection to the Gemini API or to Vertex: project, location, address, key or token.

All models on Vertex use it, Claude included. Tokens are in `credentials.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PrivateAttr, SecretStr, model_validator

from foldline._io import IO
from foldline.exceptions import ModelAuthenticationError, ModelError, UsageError
from foldline.providers._endpoint import Endpoint
from foldline.providers._keys import MASK, SecretKey, chosen_key
from foldline.providers.google._credentials import TokenSource, check_credentials
from foldline.transports import Request, Response

__all__ = ["ENDPOINT_ALIASES", "RESOURCE_NAME", "GoogleEndpoint"]

ENDPOINT_ALIASES: Final[dict[str, str]] = {
    "model_name": "model",
    "google_api_key": "api_key",
    "project_id": "project",
    "region": "location",
    "api_endpoint": "base_url",
    "additional_headers": "default_headers",
    "access_token": "api_key",
}
"""Other names that the constructors of LangChain and of the vendors accept -> field."""
HOST: Final = "https://generativelanguage.googleapis.com/v1beta"
RESOURCE_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9.:-]*"
"""The pattern of names of projects and locations, which are part of the URL."""
VERTEX_VARIABLE: Final = "GOOGLE_GENAI_USE_VERTEXAI"
VERSIONS: Final = ("/v1", "/v1beta1")
"""Endings of a Vertex URL that includes the API version, as the vendors' clients accept it."""
MULTI_REGIONS: Final = ("us", "eu")
"""Multi-region locations; their host names have another form."""
SECRET_HEADERS: Final = frozenset({"authorization", "x-goog-api-key"})
"""Headers that may carry the key, depending on its kind."""


def check_resource_name(name: str | None) -> str | None:
    """Raise unless this is a valid name of a project or location: it becomes part of the URL."""
    if name is not None and not re.fullmatch(RESOURCE_NAME, name):
        raise ValueError(f"{name!r:.60} is no name of a project or location of Google Cloud")
    return name


ResourceName = Annotated[str | None, AfterValidator(check_resource_name)]


T = TypeVar("T")


class GoogleEndpoint(Endpoint):
    """The settings of a connection to Google.

    Vertex is used if `vertexai`, `project` or `credentials` is set, or GOOGLE_GENAI_USE_VERTEXAI is true; otherwise
    the Gemini API. On Vertex a google-auth token is sent, unless there is an `api_key`.
    """

    project: ResourceName = None
    """A Google Cloud project: selects Vertex instead of the Gemini API. Default on Vertex: GOOGLE_CLOUD_PROJECT, then
    the project of the credentials."""
    location: ResourceName = None
    """The Google Cloud location; default: GOOGLE_CLOUD_LOCATION, then "global"."""
    vertexai: bool | None = None
    """Whether to use Vertex; default: decided by the other fields."""
    credentials: Annotated[Any, AfterValidator(check_credentials)] = Field(
        default=None, exclude=True, repr=False
    )
    """Credentials for Vertex: a google-auth object, the path of a key file, or its fields as a dict. Default: the
    application default credentials (extra `google`)."""

    key_variables: ClassVar[Sequence[str]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    project_variables: ClassVar[Sequence[str]] = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
    location_variables: ClassVar[Sequence[str]] = ("GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION")
    vertex_url_variable: ClassVar[str] = "GOOGLE_VERTEX_BASE_URL"
    publisher: ClassVar[str] = "google"
    """The publisher of the models on Vertex."""

    _tokens: TokenSource | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _read_transport(cls, values: object) -> object:
        """Accept LangChain's `transport="rest"`, which is always used; refuse any other value."""
        if not isinstance(values, dict):
            return values
        transport = values.get("transport")
        transport = values.get("api_transport") if transport is None else transport
        if not isinstance(transport, str):
            return values
        if transport != "rest":
            raise ValueError(f"transport={transport!r}: REST is what is spoken here; leave it out")
        return {k: v for k, v in values.items() if k not in ("transport", "api_transport")}

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle, without credentials and token; the path of a key file is kept."""
        state = dict(super().__getstate__())
        fields = dict(state["__dict__"])
        if not isinstance(fields.get("credentials"), str):
            fields["credentials"] = None
        private = {"_tokens": None, **state["__pydantic_private__"]}
        return {**state, "__dict__": fields, "__pydantic_private__": private}

    # -- the address

    def _is_vertex(self) -> bool:
        if self.vertexai is not None:
            return self.vertexai
        if self.project is not None or self.credentials is not None:
            return True
        return os.environ.get(VERTEX_VARIABLE, "").strip().lower() in ("true", "1", "yes")

    def _root_url(self) -> str:
        is_vertex = self._is_vertex()
        url = self._configured_url()
        if not is_vertex:
            return url or HOST
        if _is_publisher_url(url):
            return str(url)
        host = (url or self._vertex_host()).rstrip("/")
        root = host if host.endswith(VERSIONS) else f"{host}/v1"
        project = self._configured_project()
        if project is None and self._is_express():
            return f"{root}/publishers/{self.publisher}"
        if project is None:
            raise UsageError(
                "no project of Google Cloud: set GOOGLE_CLOUD_PROJECT in the environment, or pass project=..."
            )
        return f"{root}/projects/{project}/locations/{self._location()}/publishers/{self.publisher}"

    def _configured_url(self) -> str | None:
        variable = self.vertex_url_variable if self._is_vertex() else "GOOGLE_GEMINI_BASE_URL"
        url = self.base_url or os.environ.get(variable)
        return f"https://{url}" if url and "://" not in url else url  # `api_endpoint` may be a host

    def _vertex_host(self) -> str:
        location = self._location()
        if location == "global":
            return "https://aiplatform.googleapis.com"
        if location in MULTI_REGIONS:
            return f"https://aiplatform.{location}.rep.googleapis.com"
        return f"https://{location}-aiplatform.googleapis.com"

    def _configured_project(self) -> str | None:
        project = self.project or _first_variable(self.project_variables)
        return project or (self._tokens.project if self._tokens is not None else None)

    def _location(self) -> str:
        return self.location or _first_variable(self.location_variables) or "global"

    def _is_express(self) -> bool:
        """Whether a Vertex API key is used, which belongs to a project by itself."""
        return self.api_key is not None

    # -- authorization

    def _uses_tokens(self) -> bool:
        return self._is_vertex() and self.api_key is None

    def _key(self) -> SecretKey | None:
        return None if self._uses_tokens() else super()._key()

    def _has_key(self) -> bool:
        return True

    def _token_source(self) -> TokenSource:
        if self._tokens is None:
            self._tokens = TokenSource(self.credentials, self._transport())
        return self._tokens

    async def _load_project(self, io: IO) -> None:
        """Load the credentials before a request is built, if only they know the project."""
        is_named = (
            _is_publisher_url(self._configured_url()) or self._configured_project() is not None
        )
        if self._uses_tokens() and not is_named:
            await self._await_token(self._token_source().load(io))

    async def _authorize(self, request: Request, io: IO) -> Request:
        if not self._uses_tokens() or any(
            n.lower() == "authorization" for n in self.default_headers
        ):
            return request
        headers = await self._await_token(self._token_source().headers(io))
        return replace(request, headers={**request.headers, **headers})

    async def _await_token(self, body: Awaitable[T]) -> T:
        try:
            return await body
        except ModelError as error:
            error.provider = error.provider or self._provider
            raise

    def _auth_headers(self, key: str) -> dict[str, str]:
        if key != MASK:
            return auth_headers(key, is_vertex=self._is_vertex())
        # Only shown, by `explain`: which header it is depends on the real key.
        secret = None if self._uses_tokens() else chosen_key(self.api_key, self.key_variables)
        key_text = secret.get_secret_value() if isinstance(secret, SecretStr) else ""
        return dict.fromkeys(auth_headers(key_text, is_vertex=self._is_vertex()), MASK)

    def _secret_headers(self) -> set[str]:
        return super()._secret_headers() | SECRET_HEADERS

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        error = super()._status_error(response, body)
        if isinstance(error, ModelAuthenticationError) and self._tokens is not None:
            # The token may be revoked or our clock wrong: unless it is new, fetch another and retry.
            error.is_retryable = self._tokens.reject()
        return error


def _is_publisher_url(url: str | None) -> bool:
    """Whether a URL includes the path of a publisher, not only the host or API version."""
    path = urlsplit(url or "").path.rstrip("/")
    return bool(path) and path not in VERSIONS


def auth_headers(key: str, *, is_vertex: bool) -> dict[str, str]:
    """Return the header of an API key or of a Google Cloud token."""
    is_key = key.startswith(("AIza", "AQ."))
    is_token = key.startswith("ya29.") or (is_vertex and not is_key)
    return {"authorization": f"Bearer {key}"} if is_token else {"x-goog-api-key": key}


def _first_variable(names: Sequence[str]) -> str | None:
    """Return the first variable that is set; raise if its value cannot be part of a URL."""
    for name in names:
        if value := os.environ.get(name, "").strip():
            try:
                return check_resource_name(value)
            except ValueError as error:
                raise UsageError(f"the variable {name}: {error}") from None
    return None
