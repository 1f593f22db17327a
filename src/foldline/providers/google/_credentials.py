"""Access tokens of Google Cloud, by google-auth (extra `google`): fetched when needed, cached until they expire.

google-auth manages tokens; its requests go through our transport, with the model's proxy and certificates. Nothing is
read when a model is created, and blocking functions are called through `io.call`, in a thread under an event loop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, Final, NoReturn

from foldline._io import IO
from foldline._io.drive import drive
from foldline._io.locks import mutex
from foldline.exceptions import (
    MissingExtraError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
)
from foldline.providers._wire import MALFORMED_PAYLOAD_ERRORS
from foldline.transports import Request, Timeouts, Transport

__all__ = ["TokenSource", "check_credentials"]

UNREADABLE_ANSWERS: Final = (*MALFORMED_PAYLOAD_ERRORS, RecursionError)
"""What google-auth raises, besides its own errors, if a token service answers nonsense."""
SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
TIMEOUTS: Final = Timeouts(connect=10.0, total=60.0)
MAX_ANSWER: Final = 1 << 20
MIN_REJECTED_AGE: Final = 30.0
"""The age in seconds from which a refused token is replaced: a new token would be refused again."""


def check_credentials(value: object) -> Any:  # noqa: ANN401  a class of an extra
    """Raise unless this is an object of google-auth, or the fields or path of a key file."""
    is_known = value is None or isinstance(value, str | Path | Mapping)
    if is_known or (hasattr(value, "refresh") and hasattr(value, "token")):
        return value
    raise ValueError(
        "credentials is an object of google-auth, the path of a key file or its fields as a dict, "
        f"not {type(value).__name__}"
    )


class TokenSource:
    """The credentials of one model: loaded once, refreshed by one thread at a time."""

    __slots__ = ("_configured", "_credentials", "_fetched_at", "_lock", "_transport", "project")

    def __init__(self, configured: object, transport: Transport) -> None:
        self._configured = configured
        self._transport = transport
        self._credentials: Any = None
        self._fetched_at = 0.0
        self._lock = mutex()
        self.project: str | None = None
        """The project of the credentials."""

    async def headers(self, io: IO) -> dict[str, str]:
        """Return the authorization headers: the token, and the quota project if it is another."""
        if self._credentials is None or not _is_fresh(self._credentials):
            await io.call(self._refresh)
        headers: dict[str, str] = {}
        try:
            self._credentials.apply(headers)
        except UNREADABLE_ANSWERS:
            self._credentials.token = None
            raise _unreadable_token() from None
        return {name.lower(): value for name, value in headers.items()}

    async def load(self, io: IO) -> None:
        """Load the credentials without fetching a token, to learn their project."""
        if self._credentials is None:
            await io.call(self._load)

    def reject(self) -> bool:
        """Discard a refused token; return whether a new one may be accepted."""
        credentials = self._credentials
        if credentials is None or monotonic() - self._fetched_at < MIN_REJECTED_AGE:
            return False
        credentials.token = None
        return True

    # -- blocking

    def _load(self) -> None:
        with self._lock:
            if self._credentials is None:
                self._credentials, self.project = load_credentials(
                    self._configured, self._transport
                )

    def _refresh(self) -> None:
        self._load()
        auth = _google_auth()
        with self._lock:
            credentials = self._credentials
            if _is_fresh(credentials):
                return  # another thread has refreshed it
            is_usable = _is_usable(credentials)
            try:
                credentials.refresh(_request_class()(self._transport))
            except (auth.exceptions.GoogleAuthError, ModelError, *UNREADABLE_ANSWERS) as error:
                if not is_usable:
                    _raise_refusal(error)
            else:
                self._fetched_at = monotonic()


def load_credentials(configured: object, transport: Transport) -> tuple[Any, str | None]:
    """Return google-auth credentials and their project: the configured ones, else the application default."""
    auth = _google_auth()
    try:
        if configured is None:
            request = _request_class()(transport)
            credentials, project = auth.default(scopes=SCOPES, request=request)
        elif isinstance(configured, Mapping | str | Path):
            credentials, project = _read_key_file(configured)
        else:
            credentials, project = _with_scopes(configured), getattr(configured, "project_id", None)
    except (auth.exceptions.GoogleAuthError, OSError, *UNREADABLE_ANSWERS) as error:
        # Without the cause: the error of a malformed file may show part of a key.
        raise ModelAuthenticationError(
            f"no credentials of Google Cloud: {str(error).splitlines()[0] if str(error) else type(error).__name__}; "
            "run `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS, "
            "or pass credentials=... or api_key=..."
        ) from None
    return credentials, project


def _read_key_file(key_file: Mapping[str, Any] | str | Path) -> tuple[Any, str | None]:
    """Return the credentials of a key file; only types that send requests to nothing but Google's token endpoint."""
    from google.oauth2 import credentials, service_account  # noqa: PLC0415  an extra

    if isinstance(key_file, Mapping):
        fields: Any = dict(key_file)
    else:
        try:
            fields = json.loads(Path(key_file).expanduser().read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"the key file {str(key_file)!r} does not parse") from None
    kind = fields.get("type") if isinstance(fields, dict) else None
    if kind == "service_account":
        service = service_account.Credentials.from_service_account_info(fields, scopes=SCOPES)  # type: ignore[no-untyped-call]
        return service, fields.get("project_id")
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
    """Whether a token is still valid, even if it should be refreshed."""
    state = getattr(credentials, "token_state", None)
    return bool(credentials.valid) if state is None else state.name != "INVALID"


def _raise_refusal(error: Exception) -> NoReturn:
    """Raise our error for a token that could not be fetched."""
    auth = _google_auth()
    if isinstance(error, ModelError):
        raise error
    if isinstance(error, auth.exceptions.TransportError):
        raise ModelConnectionError(f"no token of Google Cloud could be fetched: {error}") from error
    if not isinstance(error, auth.exceptions.GoogleAuthError):
        raise _unreadable_token() from None
    refusal = ModelAuthenticationError(
        f"Google Cloud gave no token: {error.args[0] if error.args else error}"
    )
    refusal.is_retryable = bool(getattr(error, "retryable", False))
    raise refusal from error


def _unreadable_token() -> ModelAuthenticationError:
    """Return the error of an answer that google-auth cannot read; it has no cause, which may show the token."""
    return ModelAuthenticationError(
        "Google Cloud gave no token: the answer of its token service cannot be read"
    )


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
    """Return the class with which google-auth sends requests through our transport."""
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
            timeouts = TIMEOUTS if timeout is None else Timeouts(connect=timeout, total=timeout)
            data = body.encode() if isinstance(body, str) else body or b""
            sent_headers = dict(headers or {})
            return drive(
                self._send(
                    Request(
                        url=url, method=method, headers=sent_headers, body=data, timeouts=timeouts
                    )
                )
            )

        async def _send(self, request: Request) -> TransportResponse:
            async with self._transport.open(request, blocking=True) as response:
                content = await response.read(MAX_ANSWER)
                return TransportResponse(response.status, dict(response.headers), content)

    return TransportRequest
