"""`AwsEndpoint`: a connection to Bedrock: region, address, credentials, signature. All models on Bedrock use it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self

from pydantic import AfterValidator, Field, PrivateAttr, SecretStr, model_validator

from foldline._io import IO
from foldline.exceptions import ModelAuthenticationError, ModelError, UsageError
from foldline.language_models._call.request import ChatRequest
from foldline.providers._endpoint import Body, Endpoint
from foldline.providers._http import HttpChatModel
from foldline.providers._keys import Key, SecretKey, chosen_key, hide_secrets
from foldline.providers._wire import WireFailure, request_id, retry_after
from foldline.providers.bedrock import _credentials as sources
from foldline.providers.bedrock._sign import ALGORITHM, SERVICE, Credentials, sign_request
from foldline.providers.bedrock.errors import ERRORS, read_error
from foldline.transports import Request, Response, Timeouts, Transport
from foldline.transports._default import default_transport
from foldline.utils.json import JsonError, parse_wire

__all__ = ["ENDPOINT_ALIASES", "PROVIDER", "AwsChatModel", "AwsEndpoint"]

PROVIDER: Final = "bedrock_converse"
ENDPOINT_ALIASES: Final[dict[str, str]] = {
    "model_id": "model",
    "model_name": "model",
    "endpoint_url": "base_url",
    "region": "region_name",
    "bedrock_api_key": "api_key",
    "aws_bearer_token_bedrock": "api_key",
    "credentials_profile_name": "profile_name",
}
"""Other names that LangChain's and botocore's constructors accept -> field."""
REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]{2,12}){1,2}-[0-9]{1,2}")
REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
URL_VARIABLES: Final = ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL")
DOMAINS: Final = {
    "cn-": "amazonaws.com.cn",
    "eusc-": "amazonaws.eu",
    "us-iso-": "c2s.ic.gov",
    "us-isob-": "sc2s.sgov.gov",
    "eu-isoe-": "cloud.adc-e.uk",
    "us-isof-": "csp.hci.ic.gov",
}
"""Prefix of a region -> the domain of its partition, if it is not amazonaws.com."""
SECRET_HEADERS: Final = frozenset({"authorization", "x-amz-security-token"})
METADATA_TIMEOUTS: Final = Timeouts(connect=2.0, total=10.0)
REFRESH_BEFORE: Final = 300.0
"""Credentials are refreshed this many seconds before they expire."""


def check_region(region: str | None) -> str | None:
    """Raise unless this is a valid region: it becomes part of the host name."""
    if region is not None and not REGION.fullmatch(region):
        raise ValueError(f"{region!r:.60} is no AWS region: us-east-1, eu-central-1, ...")
    return region


class AwsEndpoint(Endpoint):
    """The settings of a connection to Bedrock.

    Credentials are, in this order: a bearer key (`api_key`), the key fields, the source named by `credentials`,
    AWS_BEARER_TOKEN_BEDROCK, and AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY.
    """

    region_name: Annotated[str | None, AfterValidator(check_region)] = None
    """The region; default: AWS_REGION or AWS_DEFAULT_REGION, then that of the profile or session."""
    aws_access_key_id: SecretStr | None = Field(default=None, exclude=True, repr=False)
    aws_secret_access_key: SecretStr | None = Field(default=None, exclude=True, repr=False)
    aws_session_token: SecretStr | None = Field(default=None, exclude=True, repr=False)
    credentials: Any = Field(default=None, exclude=True, repr=False)
    """The source of keys: "environment" (the default), "profile" (files in ~/.aws), "container", "instance",
    "botocore" (its complete chain; extra `aws`), or a session of botocore or boto3."""
    profile_name: str | None = None
    """The profile in the files; default: AWS_PROFILE, then "default". Setting it implies `credentials="profile"`."""

    key_variables: ClassVar[Sequence[str]] = ("AWS_BEARER_TOKEN_BEDROCK",)
    needs_key: ClassVar[bool] = False
    error_table: ClassVar[Mapping[str, type[ModelError]]] = ERRORS
    service: ClassVar[str] = SERVICE
    """The service that requests are signed for."""

    _cached_credentials: Credentials | None = PrivateAttr(default=None)
    _source_region: str | None = PrivateAttr(default=None)
    _session: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        if (self.aws_access_key_id is None) != (self.aws_secret_access_key is None):
            raise ValueError("aws_access_key_id and aws_secret_access_key belong together")
        if self.aws_session_token is not None and self.aws_access_key_id is None:
            raise ValueError("aws_session_token needs aws_access_key_id and aws_secret_access_key")
        source = self.credentials
        is_session = hasattr(source, "get_credentials") or hasattr(source, "get_frozen_credentials")
        if source is not None and source not in sources.SOURCES and not is_session:
            raise ValueError(
                f"credentials is one of {', '.join(sources.SOURCES)}, or a session of botocore, "
                f"not {type(source).__name__}"
            )
        return self

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle: the name of a source of credentials, but no keys and no session."""
        state = dict(super().__getstate__())
        fields = dict(state["__dict__"])
        if not isinstance(fields.get("credentials"), str):
            fields["credentials"] = None
        private = {"_cached_credentials": None, "_source_region": None, "_session": None}
        private |= state["__pydantic_private__"]
        return {**state, "__dict__": fields, "__pydantic_private__": private}

    # -- the address

    def _root_url(self) -> str:
        url = self.base_url or next((u for v in URL_VARIABLES if (u := os.environ.get(v))), None)
        if url:
            return url
        region = self._region()
        starts = (start for start in DOMAINS if region.startswith(start))
        return f"https://bedrock-runtime.{region}.{DOMAINS.get(next(starts, ''), 'amazonaws.com')}"

    def _region(self) -> str:
        region = self._configured_region() or self._source_region or self._load_region()
        if not region:
            raise UsageError(
                "no AWS region: set AWS_REGION in the environment, or pass region_name='us-east-1'"
            )
        try:
            check_region(region)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return region

    def _configured_region(self) -> str | None:
        variables = (os.environ.get(name) for name in REGION_VARIABLES)
        return self.region_name or next((value for value in variables if value), None)

    def _load_region(self) -> str | None:
        """Return the region of the profile or session; may read files."""
        source = self._source()
        if source == "profile":
            self._source_region = sources.profile_region(self.profile_name)
        elif source == "botocore" or not isinstance(source, str):
            self._source_region = sources.session_region(self._open_session())
        return self._source_region

    # -- authorization

    def _source(self) -> Any:  # noqa: ANN401  a name, or a session of an extra
        if self.credentials is None and self.profile_name is not None:
            return "profile"
        return self.credentials or "environment"

    def _key(self) -> SecretKey | None:
        is_chosen = self.aws_access_key_id is not None or self._source() != "environment"
        if self.api_key is None and is_chosen:
            return None  # the environment must not override an explicit source
        return chosen_key(self.api_key, self.key_variables)

    def _has_key(self) -> bool:
        return True

    async def _authorize(self, request: Request, io: IO) -> Request:
        authorization = request.headers.get("authorization", "")
        if authorization and not authorization.startswith(ALGORITHM):
            return request  # a bearer key, or a header that the caller set
        credentials = await self._resolve_credentials(io)
        return sign_request(request, credentials, self._region(), service=self.service)

    async def _preload_region(self, io: IO) -> None:
        """Read the region of a profile or session, which may be in a file, before a request is built."""
        is_known = (
            self._configured_region() or self._source_region or self._source() == "environment"
        )
        if not is_known:
            await io.call(self._load_region)

    async def _resolve_credentials(self, io: IO) -> Credentials:
        if self.aws_access_key_id is not None and self.aws_secret_access_key is not None:
            token = self.aws_session_token
            return Credentials(
                self.aws_access_key_id.get_secret_value(),
                self.aws_secret_access_key.get_secret_value(),
                token.get_secret_value() if token else None,
            )
        source = self._source()
        try:
            if source == "environment":
                credentials = sources.environment_credentials()
            elif source in ("container", "instance"):
                credentials = await self._fetch_credentials(source, io)
            else:
                credentials = await io.call(self._read_credentials, source)
        except ModelAuthenticationError as error:
            error.provider = error.provider or self._provider
            raise
        if credentials is None:
            raise sources.missing_credentials(self._provider)
        return credentials

    def _read_credentials(self, source: object) -> Credentials | None:
        if source == "profile":
            return sources.profile_credentials(self.profile_name)
        return sources.session_credentials(self._open_session())

    def _open_session(self) -> object:
        if self.credentials != "botocore":
            return self.credentials
        if self._session is None:
            self._session = sources.open_botocore_session(self.profile_name)
        return self._session

    async def _fetch_credentials(self, source: str, io: IO) -> Credentials:
        """Return the credentials of a metadata service; they are refreshed shortly before they expire."""
        cached = self._cached_credentials
        if cached is not None and (cached.expires_at or 0) - time() > REFRESH_BEFORE:
            return cached

        async def fetch(method: str, url: str, headers: Mapping[str, str]) -> bytes:
            request = Request(
                url=url, method=method, headers=dict(headers), timeouts=METADATA_TIMEOUTS
            )
            return await self._fetch(request, io)

        if source == "container":
            self._cached_credentials = await sources.fetch_container_credentials(fetch, io)
        else:
            self._cached_credentials = await sources.fetch_instance_credentials(fetch)
        return self._cached_credentials

    async def _fetch(self, request: Request, io: IO) -> bytes:
        # Without the proxy of `http`: these services are local to the machine.
        transport: Transport = self.transport or default_transport()
        async with transport.open(request, blocking=io.blocking) as response:
            if response.status >= 400:
                raise ModelAuthenticationError(
                    f"the metadata service answered with HTTP {response.status}",
                    provider=self._provider,
                    status=response.status,
                )
            return await response.read(1 << 20)

    # -- errors

    def _secret_headers(self) -> set[str]:
        return super()._secret_headers() | SECRET_HEADERS

    def _redact_error(self, error: ModelError, request: Request) -> ModelError:
        """Remove keys and signatures too: AWS's error for a wrong signature contains the expected one."""
        parts = re.findall(
            r"(?:Credential|Signature)=([^,/\s]+)", request.headers.get("authorization", "")
        )
        hide_secrets(error, parts)
        return super()._redact_error(error, request)

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        text = body.decode("utf-8", "replace")
        try:
            parsed = parse_wire(text)
        except JsonError:
            parsed = {}
        name = response.headers.get("x-amzn-errortype", "")
        return self._failure_error(
            read_error(parsed, name) if name else self._read_error(parsed),
            status=response.status,
            body=text,
            request_id=request_id(response.headers),
            retry_after=retry_after(response.headers),
        )

    def _read_error(self, body: object) -> WireFailure:
        return read_error(body)

    @property
    def _aws_secrets(self) -> dict[str, str]:
        """Field that is never serialized -> its environment variable."""
        return {
            "api_key": "AWS_BEARER_TOKEN_BEDROCK",
            "aws_access_key_id": "AWS_ACCESS_KEY_ID",
            "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
            "aws_session_token": "AWS_SESSION_TOKEN",
        }


class AwsChatModel(AwsEndpoint, HttpChatModel):
    """The base of all chat models on AWS: they load the region first and use AWS's keys, never the vendor's."""

    if TYPE_CHECKING:  # other names of the fields, for type checkers
        model_id: str = ""
        model_name: str = ""
        endpoint_url: str | None = None
        region: str | None = None
        bedrock_api_key: Key = None
        aws_bearer_token_bedrock: Key = None
        credentials_profile_name: str | None = None

    async def _http_request(self, request: ChatRequest, io: IO) -> Request:
        await self._preload_region(io)
        return await super()._http_request(request, io)

    def _auth_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def _extra_metadata(self, request: ChatRequest, response: Response) -> Body:
        metadata = super()._extra_metadata(request, response)
        if (id := request_id(response.headers)) is not None:
            metadata["request_id"] = id
        return metadata

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**super()._identifying_params, "region_name": self.region_name}

    @property
    def lc_secrets(self) -> Mapping[str, str]:  # type: ignore[override]
        """The environment variables of the keys; the keys themselves are never serialized."""
        return self._aws_secrets
