"""Turns network errors of an author's model into errors of a model call: typed, retryable, with their cause. Pure.

Providers of foldline raise `ModelError`s. An author may use any client; its network errors are recognised by the names
of their classes, for the standard library and the usual clients, without importing them.
"""

from __future__ import annotations

import errno
from functools import cache
from typing import Any, Final, Literal

from foldline.exceptions import (
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    status_error_class,
)

__all__ = ["AuthorConnectionError", "AuthorTimeoutError", "read_author_error"]

Kind = Literal["connection", "timeout", "status", "other"]

NETWORK_ERRNOS: Final = frozenset(
    {
        errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH,
        errno.ENOTCONN, errno.ESHUTDOWN,
    }
)  # fmt: skip
"""Numbers of an `OSError` without its own class that concern the network."""

KINDS: Final[dict[str, Kind]] = {
    "aiohttp.ClientConnectionError": "connection",
    "aiohttp.ClientPayloadError": "connection",
    "aiohttp.ClientResponseError": "status",
    "aiohttp.InvalidURL": "other",
    "aiohttp.ServerTimeoutError": "timeout",
    "anthropic.APIConnectionError": "connection",
    "anthropic.APIStatusError": "status",
    "anthropic.APITimeoutError": "timeout",
    "botocore.ConnectTimeoutError": "timeout",
    "botocore.HTTPClientError": "connection",
    "botocore.ReadTimeoutError": "timeout",
    "http.BadStatusLine": "connection",
    "http.IncompleteRead": "connection",
    "httpcore.LocalProtocolError": "other",
    "httpcore.NetworkError": "connection",
    "httpcore.ProtocolError": "connection",
    "httpcore.TimeoutException": "timeout",
    "httpx.HTTPStatusError": "status",
    "httpx.LocalProtocolError": "other",
    "httpx.TimeoutException": "timeout",
    "httpx.TransportError": "connection",
    "httpx.UnsupportedProtocol": "other",
    "openai.APIConnectionError": "connection",
    "openai.APIStatusError": "status",
    "openai.APITimeoutError": "timeout",
    "requests.ChunkedEncodingError": "connection",
    "requests.ConnectionError": "connection",
    "requests.HTTPError": "status",
    "requests.Timeout": "timeout",
    "socket.gaierror": "connection",
    "socket.herror": "connection",
    "ssl.SSLError": "connection",
    "urllib.HTTPError": "status",
    "urllib.URLError": "connection",
    "urllib3.NewConnectionError": "connection",
    "urllib3.ProtocolError": "connection",
    "urllib3.TimeoutError": "timeout",
}
"""Package and class of an error -> its kind."""
RETRYABLE_STATUSES: Final = frozenset({408, 409, 429})


class AuthorConnectionError(ModelConnectionError, ConnectionError):
    """The network of an author's model failed; code that catches `ConnectionError` catches it too."""


class AuthorTimeoutError(ModelTimeoutError, TimeoutError):
    """An author's model had no answer in time; code that catches `TimeoutError` catches it too."""


def read_author_error(error: Exception) -> Exception:
    """Return an error of an author's code as the error of a model call, if the network or a server failed."""
    if isinstance(error, ModelError):
        return error
    kind = _kind_of_instance(error)
    if kind == "other":
        return error
    message = ": ".join(filter(None, (type(error).__name__, str(error))))
    model_error: ModelError
    if kind == "timeout":
        model_error = AuthorTimeoutError(message)
    elif kind == "connection":
        model_error = AuthorConnectionError(message, is_retryable=not _is_certificate(error))
    else:
        status = _status(error)
        if status is None or not (status in RETRYABLE_STATUSES or status >= 500):
            return error
        model_error = status_error_class(status)(
            message, status=status, retry_after=_retry_after(error)
        )
    model_error.__cause__ = error
    return model_error


def _kind_of_instance(error: Exception) -> Kind:
    cls: Any = type(error)
    kind = _kind_of(cls)
    if kind == "connection" and isinstance(reason := getattr(error, "reason", None), TimeoutError):
        return _kind_of_instance(reason)  # a URLError
    if kind == "other" and cls is OSError and getattr(error, "errno", None) in NETWORK_ERRNOS:
        return "connection"
    return kind


@cache
def _kind_of(cls: type[Any]) -> Kind:
    if issubclass(cls, TimeoutError):
        return "timeout"
    if issubclass(cls, ConnectionError):
        return "connection"
    for ancestor in cls.__mro__:
        package = ancestor.__module__.partition(".")[0].removesuffix("2")  # httpx2
        if kind := KINDS.get(f"{package}.{ancestor.__name__}"):
            return kind
    return "other"


def _is_certificate(error: BaseException | None) -> bool:
    """Return whether a certificate was rejected, here or in a cause: a retry does not change that."""
    while error is not None:
        if any(cls.__name__ == "SSLCertVerificationError" for cls in type(error).__mro__):
            return True
        reason = getattr(error, "reason", None)
        error = error.__cause__ or (reason if isinstance(reason, BaseException) else None)
    return False


def _status(error: Exception) -> int | None:
    for source in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            if isinstance(value := getattr(source, name, None), int):
                return value
    return None


def _retry_after(error: Exception) -> float | None:
    """Return the seconds that the server asks to wait, if they are a number."""
    for source in (error, getattr(error, "response", None)):
        headers = getattr(source, "headers", None)
        if headers is not None:
            try:
                return float(headers.get("retry-after") or headers.get("Retry-After"))
            except (TypeError, ValueError):
                continue
    return None
