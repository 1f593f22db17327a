"""`GoogleEndpoint`: a connection to the Gemini API or to Vertex: project, location, address, key or token.

All models on Vertex share it, Claude's included. Tokens are `credentials`'s business.
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
from foldline.providers.google.credentials import TokenSource, check_credentials
from foldline.transports import Request, Response

__all__ = ["ENDPOINT_ALIASES", "PLACE", "GoogleEndpoint"]

ENDPOINT_ALIASES: Final[dict[str, str]] = {
    "model_name": "model",
    "google_api_key": "api_key",
    "project_id": "project",
    "region": "location",
    "api_endpoint": "base_url",
    "additional_headers": "default_headers",
    "access_token": "api_key",
}
"""Other names that constructors of LangChain and of the vendors accept."""
HOST: Final = "https://generativelanguage.googleapis.com/v1beta"
PLACE: Final = r"[A-Za-z0-9][A-Za-z0-9.:-]*"
"""Names of projects and locations: they are part of an address."""
VERTEX_VARIABLE: Final = "GOOGLE_GENAI_USE_VERTEXAI"
VERSIONS: Final = ("/v1", "/v1beta1")
"""How the address of Vertex ends that names a version of the API, as vendors' own clients take it."""
MULTI_REGIONS: Final = ("us", "eu")
"""Locations of several regions, whose host has another form."""
SECRET_HEADERS: Final = frozenset({"authorization", "x-goog-api-key"})
"""Headers that carry a key; which of them does depends on the key."""


def check_place(name: str | None) -> str | None:
    """Refuse what is no name of a project or location: it becomes a part of the address."""
    if name is not None and not re.fullmatch(PLACE, name):
        raise ValueError(f"{name!r:.60} is no name of a project or location of Google Cloud")
    return name


Place = Annotated[str | None, AfterValidator(check_place)]


T = TypeVar("T")


class GoogleEndpoint(Endpoint):
    """Settings of a connection to Google.

    Vertex is asked where `vertexai`, `project` or `credentials` is set, or GOOGLE_GENAI_USE_VERTEXAI is true; the
    Gemini API otherwise. On Vertex a token of google-auth is sent, unless there is an `api_key`.
    """

    project: Place = None
    """A project of Google Cloud: asks Vertex, not the Gemini API. Default on Vertex: GOOGLE_CLOUD_PROJECT, then that of
    the credentials."""
    location: Place = None
    """Where in Google Cloud; default: GOOGLE_CLOUD_LOCATION, then "global"."""
    vertexai: bool | None = None
    """Whether Vertex is asked, where the other fields do not say it."""
    credentials: Annotated[Any, AfterValidator(check_credentials)] = Field(
        default=None, exclude=True, repr=False
    )
    """Who asks Vertex: an object of google-auth, the path of a key file, or its fields as a dict. Default: the
    credentials of the application (extra `google`)."""

    key_variables: ClassVar[Sequence[str]] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    project_variables: ClassVar[Sequence[str]] = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
    location_variables: ClassVar[Sequence[str]] = ("GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION")
    vertex_url_variable: ClassVar[str] = "GOOGLE_VERTEX_BASE_URL"
    publisher: ClassVar[str] = "google"
    """Whose models on Vertex are asked."""

    _tokens: TokenSource | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _read_transport(cls, values: object) -> object:
        """Take LangChain's `transport="rest"`, which is what is spoken; any other word is refused."""
        if not isinstance(values, dict):
            return values
        named = values.get("transport")
        named = values.get("api_transport") if named is None else named
        if not isinstance(named, str):
            return values
        if named != "rest":
            raise ValueError(f"transport={named!r}: REST is what is spoken here; leave it out")
        return {k: v for k, v in values.items() if k not in ("transport", "api_transport")}

    def __getstate__(self) -> dict[Any, Any]:
        """Return what is pickled: no credentials and no token; the path of a key file stays."""
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
        given = self._configured_url()
        if not is_vertex:
            return given or HOST
        if _is_whole(given):
            return str(given)
        host = (given or self._vertex_host()).rstrip("/")
        root = host if host.endswith(VERSIONS) else f"{host}/v1"
        project = self._configured_project()
        if project is None and self._is_express():
            return f"{root}/publishers/{self.publisher}"
        if project is None:
            raise UsageError(
                "no project of Google Cloud: set GOOGLE_CLOUD_PROJECT in the environment, or pass project=..."
            )
        return f"{root}/projects/{project}/locations/{self._place()}/publishers/{self.publisher}"

    def _configured_url(self) -> str | None:
        variable = self.vertex_url_variable if self._is_vertex() else "GOOGLE_GEMINI_BASE_URL"
        url = self.base_url or os.environ.get(variable)
        return f"https://{url}" if url and "://" not in url else url  # `api_endpoint` may be a host

    def _vertex_host(self) -> str:
        location = self._place()
        if location == "global":
            return "https://aiplatform.googleapis.com"
        if location in MULTI_REGIONS:
            return f"https://aiplatform.{location}.rep.googleapis.com"
        return f"https://{location}-aiplatform.googleapis.com"

    def _configured_project(self) -> str | None:
        named = self.project or _first_variable(self.project_variables)
        return named or (self._tokens.project if self._tokens is not None else None)

    def _place(self) -> str:
        return self.location or _first_variable(self.location_variables) or "global"

    def _is_express(self) -> bool:
        """Whether a key of Vertex is used, which belongs to a project by itself."""
        return self.api_key is not None

    # -- who asks

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
        """Load the credentials before a request is composed, where only they name the project."""
        is_named = _is_whole(self._configured_url()) or self._configured_project() is not None
        if self._uses_tokens() and not is_named:
            await self._await_token(self._token_source().load(io))

    async def _authorize(self, sent: Request, io: IO) -> Request:
        if not self._uses_tokens() or any(
            n.lower() == "authorization" for n in self.default_headers
        ):
            return sent
        headers = await self._await_token(self._token_source().headers(io))
        return replace(sent, headers={**sent.headers, **headers})

    async def _await_token(self, body: Awaitable[T]) -> T:
        try:
            return await body
        except ModelError as error:
            error.provider = error.provider or self._provider
            raise

    def _auth_headers(self, key: str) -> dict[str, str]:
        if key != MASK:
            return auth_headers(key, is_vertex=self._is_vertex())
        # Shown and not sent: the header is chosen by the key that would be.
        known = None if self._uses_tokens() else chosen_key(self.api_key, self.key_variables)
        real = known.get_secret_value() if isinstance(known, SecretStr) else ""
        return dict.fromkeys(auth_headers(real, is_vertex=self._is_vertex()), MASK)

    def _secret_headers(self) -> set[str]:
        return super()._secret_headers() | SECRET_HEADERS

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        error = super()._status_error(response, body)
        if isinstance(error, ModelAuthenticationError) and self._tokens is not None:
            # It may have been revoked, or this clock is wrong: one that is not new is worth another attempt.
            error.is_retryable = self._tokens.reject()
        return error


def _is_whole(url: str | None) -> bool:
    """Whether an address is that of a publisher, not of a machine or of a version of its API."""
    path = urlsplit(url or "").path.rstrip("/")
    return bool(path) and path not in VERSIONS


def auth_headers(key: str, *, is_vertex: bool) -> dict[str, str]:
    """Send a key as a key, and a token of Google Cloud as a token."""
    is_key = key.startswith(("AIza", "AQ."))
    is_token = key.startswith("ya29.") or (is_vertex and not is_key)
    return {"authorization": f"Bearer {key}"} if is_token else {"x-goog-api-key": key}


def _first_variable(names: Sequence[str]) -> str | None:
    """Return the first variable that is set; one that cannot be part of an address is refused."""
    for name in names:
        if value := os.environ.get(name, "").strip():
            try:
                return check_place(value)
            except ValueError as error:
                raise UsageError(f"the variable {name}: {error}") from None
    return None
