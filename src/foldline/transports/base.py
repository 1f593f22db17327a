"""What a transport is: the types every HTTP client of foldline is made of, and the checks before anything is sent.

A `Transport` opens a `Request` and gives a `Response`, in one async-shaped API for sync and async: with `blocking=True`
nothing ever suspends, so `drive()` runs it without an event loop. No I/O in this file.
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
    "Limits",
    "Request",
    "Response",
    "Timeouts",
    "Transport",
    "check_request",
    "origin_of",
]

FORBIDDEN_IN_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
IS_GOOD_VALUE = re.compile(r"[\t\x20-\x7e]*").fullmatch
FORBIDDEN_IN_URL = re.compile(r"[\x00-\x20\x7f\\]")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
"""Headers that frame the message; only the transport may set them."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait, `None` for ever; each one that runs out raises `ModelTimeoutError` with its name as `phase`."""

    connect: float | None = 10.0
    """To look up the name, connect and agree on TLS."""
    first_byte: float | None = 600.0
    """From the start of the call to the response's headers."""
    idle: float | None = 120.0
    """Between two pieces of the body; time the reader spends elsewhere does not count."""
    total: float | None = None
    """The whole call, from opening to the last byte."""

    def __post_init__(self) -> None:
        for name in ("connect", "first_byte", "idle", "total"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(
                    f"Timeouts({name}={value!r}): seconds above 0, or None for no limit"
                )


USUAL: Final = Timeouts()


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest of everything that is accepted from a server; more raises `LimitExceededError`."""

    sse_line: int = 32 * 1024 * 1024
    sse_event: int = 32 * 1024 * 1024
    message: int = 128 * 1024 * 1024
    """Also the most that `Response.read()` takes."""
    json_depth: int = 200
    tool_args: int = 4 * 1024 * 1024
    blocks: int = 4096
    headers: int = 64 * 1024
    error_body: int = 64 * 1024
    """How much of an error's body is kept; the rest is not read."""
    inflation: int = 100
    """Decompressed bytes per compressed byte."""


@dataclass(slots=True, kw_only=True)
class Request:
    """One HTTP request, whole. Headers and the query may hold a key: `repr` shows neither.

    A value: change it with `dataclasses.replace`. Not frozen, because that makes it four times as dear.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: Limits = field(default_factory=Limits)
    address: str | None = None
    """Connect to this very address, whatever the host's name says now (`NativeTransport` only, without a proxy)."""
    returns_redirects: bool = False
    """Return a redirect as the response that it is; otherwise it is a `SecurityError`. It is never followed here."""

    def __repr__(self) -> str:
        return f"Request({self.method} {origin_of(self.url)}{urlsplit(self.url).path})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How a transport connects. The variables for proxies and certificates are obeyed unless `trust_env=False`."""

    proxy: str | None = field(default=None, repr=False)
    """`http://user:password@host:port`, for every request, whatever the environment says; `https://` and `socks5://`
    need the extra `httpx`."""
    ca: str | Path | bytes | None = field(default=None, repr=False)
    """Certificates to trust besides the system's: a PEM file, or PEM bytes."""
    client_certificate: str | Path | None = None
    """A PEM file with a certificate and its key, shown to servers that ask."""
    verify: bool = True
    """Check the server's certificate. Turn off for a test on your own machine only."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request that does not set them itself."""
    http2: bool = False
    compression: bool = False
    """Ask for compressed answers; those that come unasked are decompressed anyway."""
    trust_env: bool = True
    """Obey HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR. `.netrc` is never read."""
    max_connections: int | None = None
    """How many calls may be under way at once; the others wait up to `pool_timeout`."""
    pool_timeout: float = 60.0
    keep_alive: float = 50.0
    """Seconds an idle connection is kept; under the 60 s after which load balancers drop it."""

    def ca_pem(self) -> bytes | None:
        """Read the extra certificates."""
        return _read_pem(self.ca)


class Response(Protocol):
    """An answer whose headers are here and whose body is on its way."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Keys in lower case; repeated headers joined by commas."""

    def chunks(self, *, progress_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Return the body as it arrives, decompressed. Iterate under `aclosing`; once.

        The idle clock restarts with every piece; with `progress_only` it restarts only when `progress()` is called,
        so that a server's pings do not keep a dead stream alive.
        """

    def progress(self) -> None:
        """Say that something of worth arrived: the idle clock of `chunks(progress_only=True)` restarts."""

    def conclude(self) -> None:
        """Say that all that matters has come: `chunks()` waits a moment for the end, then leaves the connection."""

    async def read(self, limit: int | None = None) -> bytes:
        """Read the whole body; more than `limit` (or `Limits.message`) raises `LimitExceededError`."""

    async def read_error(self) -> bytes:
        """Read an error's body: at most `Limits.error_body`, whatever arrived before a fault."""


class Transport(Protocol):
    """Sends requests. One instance may be shared by threads, event loops and models."""

    def open(self, request: Request, *, blocking: bool) -> AbstractAsyncContextManager[Response]:
        """Send a request; leaving the context frees the connection at once."""

    def close(self) -> None:
        """Drop idle connections; the transport can still be used."""

    async def aclose(self) -> None:
        """Drop idle connections; the transport can still be used."""


def with_option_headers(request: Request, options: HttpOptions) -> Request:
    """Return the request with the headers of the options, where it does not set them itself."""
    if not options.headers:
        return request
    headers = {name.lower(): value for name, value in options.headers.items()}
    headers.update((name.lower(), value) for name, value in request.headers.items())
    return replace(request, headers=headers)


def refuse_address(request: Request, name: str) -> None:
    """Refuse a request that must go to one address, for a client that looks names up itself."""
    if request.address is not None:
        raise UsageError(f"{name} cannot connect to a fixed address: use NativeTransport")


def check_request(request: Request) -> None:
    """Refuse, before anything is sent, a request that could say more than its author wrote."""
    # No variable here holds a value: it may be a key, and some tracebacks show variables.
    for name in request.headers:
        if not _is_free(name) or not _is_good_value(request.headers[name]):
            raise _refusal(name, request.headers[name])
    if request.method != "POST" and not TOKEN.fullmatch(request.method):
        raise UsageError(f"{request.method!r} is not an HTTP method")
    if not _is_good(request.url) and (refusal := _url_refusal(request.url)):
        raise refusal


def check_header(name: str, value: str) -> None:
    """Refuse line breaks and NUL in a header; the value may be a key, so it is not shown."""
    if not _is_free(name) or not _is_good_value(value):
        raise _refusal(name, value)


def _is_good_value(value: str) -> bool:
    # The first two say yes to all but a tab, at a fifth of what a regular expression takes to.
    return (value.isascii() and value.isprintable()) or IS_GOOD_VALUE(value) is not None


def _refusal(name: str, value: str) -> FoldlineError:
    """Return what is wrong with a header. Raised elsewhere, so that no traceback's local variables hold the value."""
    if not _is_free(name):
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
def _is_free(name: str) -> bool:
    """Say whether a header may be set under this name."""
    return TOKEN.fullmatch(name) is not None and name.lower() not in OWN_HEADERS


@lru_cache(maxsize=256)
def _is_good(url: str) -> bool:
    return _url_refusal(url) is None


def _url_refusal(url: str) -> FoldlineError | None:
    """Refuse control characters, spaces, `..` segments (also escaped), user names and foreign schemes in a URL."""
    if (found := FORBIDDEN_IN_URL.search(url)) or not url.isascii():
        bad = found.group() if found else next(c for c in url if not c.isascii())
        return SecurityError(
            f"the URL {_shown(url)!r} holds {bad!r}: quote it (urllib.parse.quote)"
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return UsageError(f"{_shown(url)!r} is not a URL: {error}")
    if parts.scheme not in ("http", "https") or not host:
        return UsageError(f"{_shown(url)!r} is not an http(s) URL: write it whole, with its scheme")
    if refusal := _host_refusal(url, host, parts.username):
        return refusal
    pieces = unquote(parts.path).split("/") if ".." in url or "%2e" in url.lower() else ()
    if ".." in pieces or (".." in url and "." in pieces):
        return SecurityError(
            f"the URL {_shown(url)!r} climbs with '..', plain or escaped: a model id may not do that"
        )
    return None


def _host_refusal(url: str, host: str, user: str | None) -> FoldlineError | None:
    labels = host.removesuffix(".").split(".")
    if ":" not in host and (len(host) > 254 or not all(0 < len(label) <= 63 for label in labels)):
        return UsageError(
            f"the host of {_shown(url)!r} cannot be looked up: a part of it is empty or longer than 63 characters"
        )
    if user is not None:
        return SecurityError(f"the URL of {host!r} holds a user name or password: send a header")
    return None


def origin_of(url: str) -> str:
    """Return scheme, host and port: all of a URL that is safe to show."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(not a URL)"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


def _shown(url: str) -> str:
    return url.split("?", 1)[0]  # a query may hold a key


def _read_pem(path: str | Path | bytes | None) -> bytes | None:
    if path is None or isinstance(path, bytes):
        return path
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"HttpOptions(ca={str(path)!r}): {error.strerror}") from error
