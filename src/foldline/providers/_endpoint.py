"""`Endpoint`: how a provider's API is reached: address, key, timeouts, transport, errors.

Chat models, text models and embeddings over HTTP are built on it. It sends nothing itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias
from urllib.parse import urlencode

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from foldline._io import IO
from foldline._lazy import describe_fields
from foldline.exceptions import MalformedStreamError, ModelAPIError, ModelError, UsageError
from foldline.language_models._call.policies.usage_scope import SCOPE, time_left
from foldline.providers._keys import (
    HiddenValues,
    Key,
    SecretKey,
    chosen_key,
    hide_secrets,
    missing_key,
    public_options,
    public_query,
    refuse_password,
)
from foldline.providers._wire import WireFailure, error_class, read_failure, request_id, retry_after
from foldline.transports import HttpOptions, Request, Response, SizeLimits, Timeouts, Transport
from foldline.transports._default import default_transport, transport_for
from foldline.transports._proxy_environment import proxy_secrets
from foldline.transports.base import DEFAULT_TIMEOUTS
from foldline.utils._class_doc import plain_description
from foldline.utils._signature import SIGNATURE, ClassSignature, keep_signature
from foldline.utils.json import JsonError, parse_wire
from foldline.utils.strings import suggestion

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

TimeoutOption: TypeAlias = float | Timeouts | None

__all__ = ["Address", "Body", "Endpoint"]

Body = dict[str, Any]
Address: TypeAlias = Annotated[str | None, AfterValidator(refuse_password)]
"""The type of a field that takes an address."""
Hidden: TypeAlias = Annotated[dict[str, str], AfterValidator(HiddenValues)]
"""The type of a field whose values are not shown."""


class Endpoint(BaseModel):
    """The settings of a connection to a provider, and the requests and errors built from them."""

    # A validation error would otherwise show the input, which may contain a key.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, hide_input_in_errors=True, defer_build=True
    )
    __signature__: ClassVar[ClassSignature] = SIGNATURE

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        keep_signature(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        describe_fields(cls)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        return plain_description(cls, core_schema, handler)

    api_key: Key = Field(default=None, exclude=True, repr=False)
    """The API key: a string, a secret, or a sync or async function that returns it. Default: the environment's."""
    base_url: Address = None
    """The address of the API, if it is not the provider's default."""
    timeout: TimeoutOption = Field(default=None, exclude=True)
    """Seconds for the entire call, or separate limits (`foldline.Timeouts`)."""
    max_retries: int | None = Field(default=None, ge=0, exclude=True)
    """How often a failed request is tried again; overrides `retry_on_error`."""
    default_headers: Hidden = Field(default_factory=dict, exclude=True, repr=False)
    """Headers sent with every request."""
    default_query: Hidden = Field(default_factory=dict, exclude=True, repr=False)
    """Query parameters sent with every request."""
    transport: Any = Field(default=None, exclude=True, repr=False)
    """A custom `foldline.transports.Transport`; default: one shared by the process."""
    http: HttpOptions | None = Field(default=None, exclude=True)
    """Proxy, certificates, HTTP/2 and other options of a transport used by this model only."""
    limits: SizeLimits = Field(default_factory=SizeLimits, exclude=True, repr=False)
    """The largest responses accepted from the server."""

    @field_validator("timeout")
    @classmethod
    def _check_timeout(cls, value: TimeoutOption) -> TimeoutOption:
        if isinstance(value, int | float):
            Timeouts(total=float(value))
        return value

    @field_validator("transport")
    @classmethod
    def _check_transport(cls, value: object) -> object:
        if value is None or callable(getattr(value, "open", None)):
            return value
        raise ValueError(f"it is a foldline.transports.Transport, not a {type(value).__name__}")

    @field_validator("limits", "http", mode="before")
    @classmethod
    def _check_names(cls, value: object, info: ValidationInfo) -> object:
        kind = SizeLimits if info.field_name == "limits" else HttpOptions
        names = [field.name for field in dataclass_fields(kind)]
        for name in value if isinstance(value, Mapping) else ():
            if name not in names:
                raise ValueError(
                    f"{kind.__name__} has no {name!r}{suggestion(str(name), names)}: it has {', '.join(names)}"
                )
        return value

    provider_name: ClassVar[str] = "http"
    """The name before the colon: `acme` of "acme:anvil-1"; errors begin with it."""
    default_url: ClassVar[str] = ""
    """The provider's address, used when `base_url` is not set."""
    key_variables: ClassVar[Sequence[str]] = ()
    """Environment variables that may hold the key, in order of preference."""
    needs_key: ClassVar[bool] = True
    """Whether a call without a key is refused before it is sent."""
    error_table: ClassVar[Mapping[str, type[ModelError]]] = {}
    """Vendor code or type -> error class."""

    batches: ClassVar[str] = ""
    """The client of the provider's batch API as "module:Class"; "" if there is none."""

    _own_transport: Transport | None = PrivateAttr(default=None)

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle, without secrets and connections: a copy reads its key from the environment."""
        state = dict(super().__getstate__())
        fields = dict(state.get("__dict__") or {})
        for name, value in fields.items():
            if isinstance(value, SecretStr):
                fields[name] = None
        fields |= {"default_headers": {}, "transport": None}
        fields["default_query"] = public_query(self.default_query)
        fields["http"] = public_options(self.http)
        return {**state, "__dict__": fields, "__pydantic_private__": {"_own_transport": None}}

    @property
    def _provider(self) -> str | None:
        return self.provider_name

    @property
    def _model_name(self) -> str | None:
        model = getattr(self, "model", None)
        return model if isinstance(model, str) else None

    def _auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"authorization": f"Bearer {key}"}

    async def _authorize(self, request: Request, io: IO) -> Request:
        """Return the request ready to send; providers that sign requests override this."""
        return request

    def _root_url(self) -> str:
        """Return the URL that paths are appended to."""
        address = self.base_url or self.default_url
        if not address:
            name = type(self).__name__
            raise UsageError(
                f"{name} has no address: pass base_url=..., or set default_url in the class"
            )
        return address

    def _secret_headers(self) -> set[str]:
        """Return the names of headers that are never shown."""
        return {name.lower() for name in (*self._auth_headers(""), *self.default_headers)}

    def _redact_error(self, error: ModelError, request: Request) -> ModelError:
        """Remove the secrets of a request from the error that its answer caused."""
        names = self._secret_headers()
        secrets = [value for name, value in request.headers.items() if name.lower() in names]
        public = public_query(self.default_query)
        secrets += [value for name, value in self.default_query.items() if name not in public]
        secrets += proxy_secrets(request.url, self.http)
        hide_secrets(error, [*secrets, *(word for value in secrets for word in value.split())])
        return error

    def _key(self) -> SecretKey | None:
        key = chosen_key(self.api_key, self.key_variables)
        if key is None and self.needs_key:
            raise missing_key(self._provider, self.key_variables)
        return key

    def _url(self, path: str) -> str:
        query = urlencode(self.default_query) if self.default_query else ""
        return _join_url(self._root_url(), path, query)

    def _timeouts(self) -> Timeouts:
        timeouts = self.timeout
        if not isinstance(timeouts, Timeouts):
            timeouts = DEFAULT_TIMEOUTS if timeouts is None else Timeouts(total=float(timeouts))
        if SCOPE.get() is None:
            return timeouts
        seconds_left = time_left()  # of a usage_scope; this is how a blocking call is cancelled
        if seconds_left is None or (timeouts.total is not None and timeouts.total <= seconds_left):
            return timeouts
        return replace(timeouts, total=max(seconds_left, 0.001))

    def _transport(self) -> Transport:
        if self.transport is not None:
            transport: Transport = self.transport
            return transport
        if self.http is None:
            return default_transport()
        if self._own_transport is None:
            self._own_transport = transport_for(self.http)
        return self._own_transport

    def _parse(self, data: str | bytes) -> object:
        try:
            return parse_wire(data, max_depth=self.limits.json_depth)
        except JsonError as error:
            raise self._malformed(f"the provider sent what is not JSON: {error}") from error

    def _batch_api(self) -> Any:  # noqa: ANN401  a `foldline.batches._batch_api.BatchApi`, imported when used
        """Return the client of the provider's batch API, or None if there is none."""
        module, _, name = self.batches.partition(":")
        return getattr(import_module(module), name)(self) if module else None

    # -- errors

    def _batch_error(self, status: int, body: object) -> ModelError:
        """Return the error of a request that failed inside a batch."""
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        return self._failure_error(
            self._read_error(body), status=status, body=text[: self.limits.error_body]
        )

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        text = body.decode("utf-8", "replace")
        try:
            failure = self._read_error(parse_wire(text))
        except JsonError:
            failure = WireFailure(message=_page_message(text, response.status))
        return self._failure_error(
            failure,
            status=response.status,
            body=text,
            request_id=request_id(response.headers) or failure.request_id,
            retry_after=retry_after(response.headers),
        )

    def _stream_error(self, body: object) -> ModelError:
        """Return the error of a failure reported inside a stream that began successfully (F-T04, F-T05)."""
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        failure = self._read_error(body)
        return self._failure_error(
            failure, body=text[: self.limits.error_body], request_id=failure.request_id
        )

    def _failure_error(
        self, failure: WireFailure, *, status: int | None = None, **details: Any
    ) -> ModelError:
        status = status or failure.status
        # An unknown failure inside a stream is the provider's fault.
        cls = error_class(failure, status, self.error_table) or ModelAPIError
        return cls(
            failure.message or (f"HTTP {status}" if status else "the provider reported an error"),
            provider=self._provider,
            model=self._model_name,
            status=status,
            code=failure.code or failure.kind,
            **details,
        )

    def _malformed(self, message: str, **details: Any) -> MalformedStreamError:
        return MalformedStreamError(
            message, provider=self._provider, model=self._model_name, **details
        )

    def _read_error(self, body: object) -> WireFailure:
        """Return the code, type and message of an error's JSON."""
        return read_failure(body)


@lru_cache(maxsize=256)
def _join_url(root: str, path: str, parameters: str) -> str:
    """Join root, path and query parameters; `root` may already have a query."""
    root, _, query = root.partition("?")
    url = root.rstrip("/") + "/" + path.lstrip("/")
    if parameters:
        query = f"{query}&{parameters}" if query else parameters
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _page_message(text: str, status: int) -> str | None:
    """Return the message of an error body that is a web page; None for any other text."""
    if not re.match(r"\s*<(!doctype|html|head|body)", text, re.IGNORECASE):
        return None
    title = re.search(r"<(title|h1)[^>]*>([^<]{1,200})<", text, re.IGNORECASE)
    title_text = f" ({' '.join(title[2].split())})" if title else ""
    return f"HTTP {status}, a web page{title_text}: a proxy or gateway answered in the provider's place"
