"""The types of all HTTP transports, and the checks before a request is sent. No I/O.

A `Transport` opens a `Request` and returns a `Response`, with one async API for sync and async: with `blocking=True` it
never suspends, so `drive()` runs it without an event loop.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from foldline.exceptions import FoldlineError, SecurityError, UsageError

__all__ = [
    "HttpOptions",
    "Request",
    "Response",
    "SizeLimits",
    "Timeouts",
    "Transport",
    "check_request",
]

FORBIDDEN_IN_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
MATCH_VALID_VALUE = re.compile(r"[\t\x20-\x7e]*").fullmatch
FORBIDDEN_IN_URL = re.compile(r"[\x00-\x20\x7f\\]")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
TRANSPORT_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
"""Headers that frame the message; only the transport may set them."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds, `None` for no limit; when one expires, `ModelTimeoutError` has its name as `phase`."""

    connect: float | None = 10.0
    """Name lookup, connection and TLS handshake."""
    first_byte: float | None = 600.0
    """From the start of the call to the response's headers."""
    idle: float | None = 120.0
    """Between two pieces of the body; only time spent waiting counts."""
    total: float | None = None
    """The entire call, from opening to the last byte."""

    def __post_init__(self) -> None:
        for name in ("connect", "first_byte", "idle", "total"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(
                    f"Timeouts({name}={value!r}): seconds above 0, or None for no limit"
                )


DEFAULT_TIMEOUTS: Final = Timeouts()


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """The largest sizes accepted from a server; more raises `LimitExceededError`."""

    sse_line: int = 32 * 1024 * 1024
    sse_event: int = 32 * 1024 * 1024
    message: int = 128 * 1024 * 1024
    """Also the limit of `Response.read()`."""
    json_depth: int = 200
    tool_args: int = 4 * 1024 * 1024
    blocks: int = 4096
    headers: int = 64 * 1024
    error_body: int = 64 * 1024
    """The maximum of an error's body that is read."""
    inflation: int = 100
    """Decompressed bytes per compressed byte."""


@dataclass(slots=True, kw_only=True)
class Request:
    """One HTTP request. Headers and query may contain a key: `repr` shows neither.

    Treat it as immutable: use `dataclasses.replace`. Not frozen, because that makes creation four times slower.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: SizeLimits = field(default_factory=SizeLimits)
    address: str | None = None
    """Connect to this IP address instead of resolving the host (`NativeTransport` only, without a proxy)."""
    returns_redirects: bool = False
    """Whether a redirect is returned as a response; otherwise it is a `SecurityError`. It is never followed."""

    def __repr__(self) -> str:
        return f"Request({self.method} {origin_of(self.url)}{urlsplit(self.url).path})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How a transport connects. The environment's proxies and certificates are used unless `trust_env=False`."""

    proxy: str | None = field(default=None, repr=False)
    """`http://user:password@host:port`, for every request, overrides the environment; `https://` and `socks5://` need
    the extra `httpx`."""
    ca: str | Path | bytes | None = field(default=None, repr=False)
    """Certificates to trust in addition to the system's: a PEM file, or PEM bytes."""
    client_certificate: str | Path | None = None
    """A PEM file with a client certificate and its key."""
    verify: bool = True
    """Whether to check the server's certificate. Turn off only for tests on your own machine."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request that does not set them itself."""
    http2: bool = False
    compression: bool = False
    """Whether to request compressed answers; compressed answers are always decompressed."""
    trust_env: bool = True
    """Whether to use HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR. `.netrc` is never
    read."""
    max_connections: int | None = None
    """How many calls may be in progress at once; others wait up to `pool_timeout`."""
    pool_timeout: float = 60.0
    keep_alive: float = 50.0
    """Seconds for which an idle connection is kept; less than the 60 s after which load balancers close it."""

    def ca_pem(self) -> bytes | None:
        """Return the additional certificates."""
        return _read_pem(self.ca)


class Response(Protocol):
    """A response whose headers have been received and whose body is being received."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Keys in lower case; repeated headers joined by commas."""

    def chunks(self, *, progress_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, decompressed. Iterate once, inside `aclosing`.

        The idle timeout restarts with every piece; with `progress_only` it restarts only when `progress()` is called,
        so that a server's pings do not keep a dead stream alive.
        """

    def progress(self) -> None:
        """Restart the idle timeout of `chunks(progress_only=True)`, because relevant data arrived."""

    def conclude(self) -> None:
        """Report that all relevant data has arrived: `chunks()` waits only briefly for the end."""

    async def read(self, limit: int | None = None) -> bytes:
        """Return the complete body; more than `limit` (or `SizeLimits.message`) raises `LimitExceededError`."""

    async def read_error(self) -> bytes:
        """Return the body of an error: at most `SizeLimits.error_body`, and what arrived before a fault."""


class Transport(Protocol):
    """Sends requests. One instance may be shared by threads, event loops and models."""

    def open(self, request: Request, *, blocking: bool) -> AbstractAsyncContextManager[Response]:
        """Send a request; leaving the context releases the connection immediately."""

    def close(self) -> None:
        """Close idle connections; the transport can still be used."""

    async def aclose(self) -> None:
        """Close idle connections; the transport can still be used."""


def with_option_headers(request: Request, options: HttpOptions) -> Request:
    """Return the request with the headers of the options that it does not set itself."""
    if not options.headers:
        return request
    headers = {name.lower(): value for name, value in options.headers.items()}
    headers.update((name.lower(), value) for name, value in request.headers.items())
    return replace(request, headers=headers)


def refuse_address(request: Request, name: str) -> None:
    """Raise if a request has a fixed address, for a client that resolves hosts itself."""
    if request.address is not None:
        raise UsageError(f"{name} cannot connect to a fixed address: use NativeTransport")


def check_request(request: Request) -> None:
    """Raise if a request could be used for injection, before anything is sent."""
    # No variable here contains a value: it may be a key, and some tracebacks show variables.
    for name in request.headers:
        if not _is_settable(name) or not _is_valid_value(request.headers[name]):
            raise _header_error(name, request.headers[name])
    if request.method != "POST" and not TOKEN.fullmatch(request.method):
        raise UsageError(f"{request.method!r} is not an HTTP method")
    if not _is_valid_url(request.url) and (error := _url_error(request.url)):
        raise error


def check_header(name: str, value: str) -> None:
    """Raise on line breaks and NUL in a header; the value is not shown, because it may be a key."""
    if not _is_settable(name) or not _is_valid_value(value):
        raise _header_error(name, value)


def _is_valid_value(value: str) -> bool:
    # The first two accept everything but a tab, in a fifth of the regular expression's time.
    return (value.isascii() and value.isprintable()) or MATCH_VALID_VALUE(value) is not None


def _header_error(name: str, value: str) -> FoldlineError:
    """Return the error of a header. It is raised elsewhere, so that local variables in tracebacks lack the value."""
    if not _is_settable(name):
        if not TOKEN.fullmatch(name):
            return SecurityError(f"{name!r} is not a header name")
        return UsageError(f"the header {name!r} is set by the transport: leave it out")
    if FORBIDDEN_IN_VALUE.search(value):
        return SecurityError(
            f"the value of the header {name!r} holds a line break or control character: strip it "
            "(a key read from a file often ends in a newline)"
        )
    return UsageError(f"the value of the header {name!r} is not ASCII")


@lru_cache(maxsize=256)
def _is_settable(name: str) -> bool:
    """Whether a caller may set a header with this name."""
    return TOKEN.fullmatch(name) is not None and name.lower() not in TRANSPORT_HEADERS


@lru_cache(maxsize=256)
def _is_valid_url(url: str) -> bool:
    return _url_error(url) is None


def _url_error(url: str) -> FoldlineError | None:
    """Return the error of a URL with control characters, spaces, `..` segments, a user name or another scheme."""
    if (match := FORBIDDEN_IN_URL.search(url)) or not url.isascii():
        character = match.group() if match else next(c for c in url if not c.isascii())
        return SecurityError(
            f"the URL {_without_query(url)!r} holds {character!r}: quote it (urllib.parse.quote)"
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return UsageError(f"{_without_query(url)!r} is not a URL: {error}")
    if parts.scheme not in ("http", "https") or not host:
        return UsageError(
            f"{_without_query(url)!r} is not an http(s) URL: write it whole, with its scheme"
        )
    if host_error := _host_error(url, host, parts.username):
        return host_error
    pieces = unquote(parts.path).split("/") if ".." in url or "%2e" in url.lower() else ()
    if ".." in pieces or (".." in url and "." in pieces):
        return SecurityError(
            f"the URL {_without_query(url)!r} climbs with '..', plain or escaped: a model id may not do that"
        )
    return None


def _host_error(url: str, host: str, user: str | None) -> FoldlineError | None:
    labels = host.removesuffix(".").split(".")
    if ":" not in host and (len(host) > 254 or not all(0 < len(label) <= 63 for label in labels)):
        return UsageError(
            f"the host of {_without_query(url)!r} cannot be looked up: "
            "a part of it is empty or longer than 63 characters"
        )
    if user is not None:
        return SecurityError(f"the URL of {host!r} holds a user name or password: send a header")
    return None


def origin_of(url: str) -> str:
    """Return scheme, host and port: the parts of a URL that are safe to show."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(not a URL)"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


def _without_query(url: str) -> str:
    return url.split("?", 1)[0]  # a query may contain a key


def _read_pem(path: str | Path | bytes | None) -> bytes | None:
    if path is None or isinstance(path, bytes):
        return path
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"HttpOptions(ca={str(path)!r}): {error.strerror}") from error
