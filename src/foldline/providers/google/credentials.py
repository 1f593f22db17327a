"""Tokens of Google Cloud, by google-auth (extra `google`): fetched when needed, kept until shortly before they expire.

google-auth decides what a token is and when it is old; its requests go through our transport, so that proxies and
certificates are the model's own. Nothing here is read when a model is built, and everything that waits is called
through `io.call`: on a thread where there is an event loop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, Final

from foldline._io import IO
from foldline._io.drive import drive
from foldline._io.locks import mutex
from foldline.exceptions import (
    MissingExtraError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
)
from foldline.transports import Request, Timeouts, Transport

__all__ = ["TokenSource", "check_credentials"]

SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
TIMEOUTS: Final = Timeouts(connect=10.0, total=60.0)
MAX_ANSWER: Final = 1 << 20
REJECTED_AFTER: Final = 30.0
"""Seconds after which a token that was refused may simply be old: a younger one would be refused again."""


def check_credentials(value: object) -> Any:  # noqa: ANN401  a class of an extra
    """Refuse what is no source of tokens: an object of google-auth, the fields or the path of a key file."""
    is_known = value is None or isinstance(value, str | Path | Mapping)
    if is_known or (hasattr(value, "refresh") and hasattr(value, "token")):
        return value
    raise ValueError(
        "credentials is an object of google-auth, the path of a key file or its fields as a dict, "
        f"not {type(value).__name__}"
    )


class TokenSource:
    """The credentials of one model: loaded once, refreshed by one thread at a time."""

    __slots__ = ("_credentials", "_fetched_at", "_given", "_lock", "_transport", "project")

    def __init__(self, given: object, transport: Transport) -> None:
        self._given = given
        self._transport = transport
        self._credentials: Any = None
        self._fetched_at = 0.0
        self._lock = mutex()
        self.project: str | None = None
        """The project that the credentials name."""

    async def headers(self, io: IO) -> dict[str, str]:
        """Return the headers that say who asks: the token, and the project that pays where it is another."""
        if self._credentials is None or not _is_fresh(self._credentials):
            await io.call(self._refresh)
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return {name.lower(): value for name, value in headers.items()}

    async def load(self, io: IO) -> None:
        """Load the credentials without a token: they may name the project."""
        if self._credentials is None:
            await io.call(self._load)

    def reject(self) -> bool:
        """Forget a token that was refused; return whether another may be accepted."""
        credentials = self._credentials
        if credentials is None or monotonic() - self._fetched_at < REJECTED_AFTER:
            return False
        credentials.token = None
        return True

    # -- what follows may wait

    def _load(self) -> None:
        with self._lock:
            if self._credentials is None:
                self._credentials, self.project = load_credentials(self._given, self._transport)

    def _refresh(self) -> None:
        self._load()
        auth = _google_auth()
        with self._lock:
            credentials = self._credentials
            if _is_fresh(credentials):
                return  # another thread was faster
            is_usable = _is_usable(credentials)
            try:
                credentials.refresh(_request_class()(self._transport))
            except auth.exceptions.TransportError as error:
                if not is_usable:
                    raise ModelConnectionError(
                        f"no token of Google Cloud could be fetched: {error}"
                    ) from error
            except auth.exceptions.GoogleAuthError as error:
                if not is_usable:
                    raise _refused(error) from error
            except ModelError:
                if not is_usable:
                    raise
            else:
                self._fetched_at = monotonic()


def load_credentials(given: object, transport: Transport) -> tuple[Any, str | None]:
    """Return credentials of google-auth and the project that they name: those given, else the application's default."""
    auth = _google_auth()
    try:
        if given is None:
            request = _request_class()(transport)
            found, project = auth.default(scopes=SCOPES, request=request)
        elif isinstance(given, Mapping | str | Path):
            found, project = _of_key_file(given)
        else:
            found, project = _with_scopes(given), getattr(given, "project_id", None)
    except (auth.exceptions.GoogleAuthError, OSError, ValueError) as error:
        # Without the cause of a file that does not parse: it may show a part of a key.
        raise ModelAuthenticationError(
            f"no credentials of Google Cloud: {str(error).splitlines()[0] if str(error) else type(error).__name__}; "
            "run `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS, "
            "or pass credentials=... or api_key=..."
        ) from None
    return found, project


def _of_key_file(given: Mapping[str, Any] | str | Path) -> tuple[Any, str | None]:
    """Return the credentials of a key file, by the kinds that name no address to ask but Google's token endpoint."""
    from google.oauth2 import credentials, service_account  # noqa: PLC0415  an extra

    if isinstance(given, Mapping):
        fields: Any = dict(given)
    else:
        try:
            fields = json.loads(Path(given).expanduser().read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"the key file {str(given)!r} does not parse") from None
    kind = fields.get("type") if isinstance(fields, dict) else None
    if kind == "service_account":
        found = service_account.Credentials.from_service_account_info(fields, scopes=SCOPES)  # type: ignore[no-untyped-call]
        return found, fields.get("project_id")
    if kind == "authorized_user":
        user = credentials.Credentials.from_authorized_user_info(fields, scopes=SCOPES)  # type: ignore[no-untyped-call]
        return user, fields.get("quota_project_id")
    raise ValueError(
        f"a key file of the type {kind!r} is not read here: make the object by google-auth and pass that, "
        "or name the file in GOOGLE_APPLICATION_CREDENTIALS"
    )


def _with_scopes(credentials: Any) -> Any:  # noqa: ANN401  an object of google-auth, which is an extra
    if getattr(credentials, "requires_scopes", False):
        return credentials.with_scopes(SCOPES)
    return credentials


def _is_fresh(credentials: Any) -> bool:  # noqa: ANN401  an object of google-auth, which is an extra
    state = getattr(credentials, "token_state", None)
    return bool(credentials.valid) if state is None else state.name == "FRESH"


def _is_usable(credentials: Any) -> bool:  # noqa: ANN401  an object of google-auth, which is an extra
    """Whether a token is still accepted, though it is time for another."""
    state = getattr(credentials, "token_state", None)
    return bool(credentials.valid) if state is None else state.name != "INVALID"


def _refused(error: Exception) -> ModelAuthenticationError:
    refusal = ModelAuthenticationError(
        f"Google Cloud gave no token: {error.args[0] if error.args else error}"
    )
    refusal.is_retryable = bool(getattr(error, "retryable", False))
    return refusal


def _google_auth() -> ModuleType:
    try:
        import google.auth  # noqa: PLC0415  an extra
        import google.auth.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            'Vertex needs google-auth, which is not installed: pip install "foldline[google]", '
            "or pass api_key= a function that gives a token"
        ) from error
    return google.auth


def _request_class() -> type[Any]:
    """Return the class by which google-auth sends requests through our transport."""
    from google.auth import transport as auth_transport  # noqa: PLC0415  an extra

    class TransportResponse(auth_transport.Response):
        def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
            self._status, self._headers, self._data = status, headers, data

        @property
        def status(self) -> int:
            return self._status

        @property
        def headers(self) -> Mapping[str, str]:
            return self._headers

        @property
        def data(self) -> bytes:
            return self._data

    class TransportRequest(auth_transport.Request):
        def __init__(self, transport: Transport) -> None:
            self._transport = transport

        def __call__(
            self,
            url: str,
            method: str = "GET",
            body: str | bytes | None = None,
            headers: Mapping[str, str] | None = None,
            timeout: float | None = None,
            **_: object,
        ) -> TransportResponse:
            clocks = TIMEOUTS if timeout is None else Timeouts(connect=timeout, total=timeout)
            data = body.encode() if isinstance(body, str) else body or b""
            sent = dict(headers or {})
            return drive(
                self._send(
                    Request(url=url, method=method, headers=sent, body=data, timeouts=clocks)
                )
            )

        async def _send(self, sent: Request) -> TransportResponse:
            async with self._transport.open(sent, blocking=True) as response:
                content = await response.read(MAX_ANSWER)
                return TransportResponse(response.status, dict(response.headers), content)

    return TransportRequest
