"""`Endpoint`: where a provider's API is and how it is reached: address, key, clocks, transport, errors.

Chat models and embeddings over HTTP are built on it. Only `transport.open` waits, and that is its users' business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any, ClassVar, TypeAlias
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from foldline._io import IO
from foldline.exceptions import MalformedStreamError, ModelAPIError, ModelError, UsageError
from foldline.language_models.policies.usage import time_left
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
from foldline.providers._wire import Failure, error_class, read_failure, request_id, retry_after
from foldline.transports import HttpOptions, Limits, Request, Response, Timeouts, Transport
from foldline.transports._default import default_transport, transport_for
from foldline.transports._environment import proxy_secrets
from foldline.transports.base import USUAL
from foldline.utils.json import JsonError, parse_wire
from foldline.utils.signature import SIGNATURE, ClassSignature, keep_signature

Clocks: TypeAlias = float | Timeouts | None

__all__ = ["Address", "Body", "Endpoint"]

Body = dict[str, Any]
Address: TypeAlias = Annotated[str | None, AfterValidator(refuse_password)]
"""The type of a field that takes an address."""
Hidden: TypeAlias = Annotated[dict[str, str], AfterValidator(HiddenValues)]
"""The type of a field whose values are not shown."""


class Endpoint(BaseModel):
    """Settings of a connection, and what is made of them."""

    # An error of validation would show what was given, a key for one.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, hide_input_in_errors=True, defer_build=True
    )
    __signature__: ClassVar[ClassSignature] = SIGNATURE

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        keep_signature(cls)

    api_key: Key = Field(default=None, exclude=True, repr=False)
    """The key: text, a secret, or a function (also async) that gives it. Default: the environment, at each call."""
    base_url: Address = None
    """Where the API lives, if not at the provider's own address."""
    timeout: Clocks = Field(default=None, exclude=True)
    """Seconds for the whole call, or each clock on its own (`foldline.Timeouts`)."""
    max_retries: int | None = Field(default=None, ge=0, exclude=True)
    """How often a failed request is tried again; overrides `retry_on_error`."""
    default_headers: Hidden = Field(default_factory=dict, exclude=True, repr=False)
    """Headers sent with every request."""
    default_query: Hidden = Field(default_factory=dict, exclude=True, repr=False)
    """Query parameters sent with every request."""
    transport: Any = Field(default=None, exclude=True, repr=False)
    """Your own `foldline.transports.Transport`; default: one shared by the process."""
    http: HttpOptions | None = Field(default=None, exclude=True)
    """Proxy, certificates, HTTP/2 and the like, for a transport of this model's own."""
    limits: Limits = Field(default_factory=Limits, exclude=True, repr=False)
    """How much is accepted from the server."""

    provider_name: ClassVar[str] = "http"
    """The name before the colon: `acme` of "acme:anvil-1"; errors begin with it."""
    default_url: ClassVar[str] = ""
    """The provider's own address, where `base_url` names no other."""
    key_variables: ClassVar[Sequence[str]] = ()
    """Variables of the environment that may hold the key, the first one first."""
    needs_key: ClassVar[bool] = True
    """Whether a call without a key is refused before it is sent."""
    error_table: ClassVar[Mapping[str, type[ModelError]]] = {}
    """Vendor code or type -> error class."""

    batches: ClassVar[str] = ""
    """Where the client of the provider's batches is, as "module:Class"; "" where it has none."""

    _own_transport: Transport | None = PrivateAttr(default=None)

    def __getstate__(self) -> dict[Any, Any]:
        """Return what is pickled: no secret, and no connection; the other side finds a key in its environment."""
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
        named = getattr(self, "model", None)
        return named if isinstance(named, str) else None

    def _auth_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"authorization": f"Bearer {key}"}

    async def _authorize(self, sent: Request, io: IO) -> Request:
        """Return the request as it may be sent; a provider whose requests are signed whole does that here."""
        return sent

    def _root_url(self) -> str:
        """Return the address that paths are added to."""
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

    def _hidden(self, error: ModelError, sent: Request) -> ModelError:
        """Take what the request held in secret out of an error that its answer made."""
        names = self._secret_headers()
        held = [value for name, value in sent.headers.items() if name.lower() in names]
        shown = public_query(self.default_query)
        held += [value for name, value in self.default_query.items() if name not in shown]
        held += proxy_secrets(sent.url, self.http)
        hide_secrets(error, [*held, *(word for value in held for word in value.split())])
        return error

    def _key(self) -> SecretKey | None:
        key = chosen_key(self.api_key, self.key_variables)
        if key is None and self.needs_key:
            raise missing_key(self._provider, self.key_variables)
        return key

    def _url(self, path: str) -> str:
        more = urlencode(self.default_query) if self.default_query else ""
        return _joined(self._root_url(), path, more)

    def _timeouts(self) -> Timeouts:
        given = self.timeout
        if not isinstance(given, Timeouts):
            given = USUAL if given is None else Timeouts(total=float(given))
        left = time_left()  # of a usage_scope: what cancels a blocking call
        if left is None or (given.total is not None and given.total <= left):
            return given
        return replace(given, total=max(left, 0.001))

    def _transport(self) -> Transport:
        if self.transport is not None:
            chosen: Transport = self.transport
            return chosen
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

    def _batch_api(self) -> Any:  # noqa: ANN401  a `foldline.batches.provider.BatchApi`, loaded when it is asked for
        """Return the client of the provider's batches; None where it has none."""
        module, _, name = self.batches.partition(":")
        return getattr(import_module(module), name)(self) if module else None

    # -- errors

    def _batch_error(self, status: int, body: object) -> ModelError:
        """Build the error of a request that failed inside a batch."""
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        return self._failed(
            self._read_error(body), status=status, body=text[: self.limits.error_body]
        )

    def _status_error(self, response: Response, body: bytes) -> ModelError:
        text = body.decode("utf-8", "replace")
        try:
            failure = self._read_error(parse_wire(text))
        except JsonError:
            failure = Failure(message=_page_message(text, response.status))
        return self._failed(
            failure,
            status=response.status,
            body=text,
            request_id=request_id(response.headers) or failure.request_id,
            retry_after=retry_after(response.headers),
        )

    def _stream_error(self, body: object) -> ModelError:
        """Build the typed error of a failure told inside an answer that began well (F-T04, F-T05)."""
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        failure = self._read_error(body)
        return self._failed(
            failure, body=text[: self.limits.error_body], request_id=failure.request_id
        )

    def _failed(self, failure: Failure, *, status: int | None = None, **facts: Any) -> ModelError:
        status = status or failure.status
        # Told in the middle of a good answer and not known: the provider broke down.
        cls = error_class(failure, status, self.error_table) or ModelAPIError
        return cls(
            failure.message or (f"HTTP {status}" if status else "the provider reported an error"),
            provider=self._provider,
            model=self._model_name,
            status=status,
            code=failure.code or failure.kind,
            **facts,
        )

    def _malformed(self, message: str, **facts: Any) -> MalformedStreamError:
        return MalformedStreamError(
            message, provider=self._provider, model=self._model_name, **facts
        )

    def _read_error(self, body: object) -> Failure:
        """Find code, type and message in an error's JSON."""
        return read_failure(body)


@lru_cache(maxsize=256)
def _joined(root: str, path: str, more: str) -> str:
    """Put an address together; `root` may have a query of its own."""
    root, _, query = root.partition("?")
    url = root.rstrip("/") + "/" + path.lstrip("/")
    if more:
        query = f"{query}&{more}" if query else more
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _page_message(text: str, status: int) -> str | None:
    """Say what a web page in the place of an error says; None for any other text."""
    if not re.match(r"\s*<(!doctype|html|head|body)", text, re.IGNORECASE):
        return None
    title = re.search(r"<(title|h1)[^>]*>([^<]{1,200})<", text, re.IGNORECASE)
    said = f" ({' '.join(title[2].split())})" if title else ""
    return f"HTTP {status}, a web page{said}: a proxy or gateway answered in the provider's place"
