"""Files in messages: the only place that opens a path or fetches a URL from data.

Both are off by default. A `FileResolver` allows them, for the folders and hosts that its author lists: a path may not
leave its folder, follow a link or name anything but a plain file; a host's addresses are looked up once, private ones
are rejected, the connection is made to the address that was checked, and every redirect is checked again.

The resolver is a value that `settings` holds, so it lies below the policy that uses it (`files`). What opens a path is
in `safe_files`, alone, so that the list of places that may do so names one small file.
"""

from __future__ import annotations

import mimetypes
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from foldline._io import IO
from foldline._lazy import publish
from foldline.exceptions import SecurityError, UsageError
from foldline.language_models._call.policies.safe_files import read_under
from foldline.transports import (
    HttpOptions,
    NativeTransport,
    Request,
    SizeLimits,
    Timeouts,
    Transport,
)
from foldline.utils._media_types import media_type_of_bytes
from foldline.utils._signature import show_defaults

__all__ = ["FileResolver", "check_address", "media_type", "origin"]

HOW_TO_ALLOW: Final = "pass file_resolver=FileResolver({}) to the model to allow it"
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 5


CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The answer of a server after all redirects."""

    url: str
    status: int
    data: bytes
    media_type: str
    charset: str | None


def _look_up(host: str, port: int) -> list[str]:
    address_infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address_info[4][0]) for address_info in address_infos]


@show_defaults
@dataclass(frozen=True, slots=True, kw_only=True)
class FileResolver:
    """Lets a model read files and fetch URLs in messages, within these limits.

    ```python
    from foldline.language_models import FileResolver

    resolver = FileResolver(allow_dirs=["uploads"], allow_hosts=["*.example.com"])
    ```
    """

    allow_dirs: Sequence[str | Path] = ()
    """Folders under which files may be read."""
    allow_hosts: Sequence[str] = ()
    """Hosts that may be fetched from: `img.example.com`, or `*.example.com` for all below it."""
    max_bytes: int = 20 * 1024 * 1024
    timeout: float = 30.0
    """Seconds for each request of a fetch."""
    schemes: Sequence[str] = ("https",)
    inline_urls: bool = False
    """Fetch every URL and send its bytes, even if the provider could fetch it itself."""
    allow_private: bool = False
    """Allow addresses that are not public. Only for your own hosts."""
    look_up: Callable[[str, int], list[str]] = field(default=_look_up, repr=False)
    transport: Transport | None = field(default=None, repr=False)
    """Fetches the URLs; it must connect to `Request.address`, as `NativeTransport` does."""

    async def read(self, path: str | Path, io: IO) -> tuple[bytes, str | None]:
        """Return the bytes and media type of a file under the allowed folders."""
        if not self.allow_dirs:
            raise SecurityError(
                f"reading {str(path)!r} is off: {HOW_TO_ALLOW.format('allow_dirs=[…]')}"
            )
        data = await io.call(read_under, self.allow_dirs, str(path), self.max_bytes)
        return data, media_type(data, str(path))

    async def fetch(self, url: str, io: IO) -> tuple[bytes, str | None]:
        """Return the bytes and media type of a URL of the allowed hosts."""
        page = await self.fetch_page(url, io)
        if page.status != 200:
            raise UsageError(f"{origin(page.url)} answered {page.status} to a file a message names")
        return page.data, page.media_type or media_type(page.data, urlsplit(page.url).path)

    async def fetch_page(
        self, url: str, io: IO, headers: Mapping[str, str] | None = None
    ) -> FetchedPage:
        """Fetch a URL of the allowed hosts, with any status: the body of an error is not read."""
        for _ in range(MAX_REDIRECTS + 1):
            request = await self._request(url, io)
            request = replace(request, headers={**request.headers, **(headers or {})})
            async with self._transport().open(request, blocking=io.blocking) as response:
                if response.status in REDIRECTS and "location" in response.headers:
                    target = _join(url, response.headers["location"])
                    if origin(target) != origin(url):
                        headers = None  # headers for one host are not sent to another
                    url = target
                    continue
                is_fine = response.status == 200
                data = await response.read(self.max_bytes) if is_fine else b""
                kind, _, options = response.headers.get("content-type", "").partition(";")
                charset = CHARSET.search(options)
                return FetchedPage(
                    url,
                    response.status,
                    data,
                    kind.strip().lower(),
                    charset[1] if charset else None,
                )
        raise SecurityError(f"{origin(url)} redirects more than {MAX_REDIRECTS} times")

    async def _request(self, url: str, io: IO) -> Request:
        parts = check_host(
            url, self.allow_hosts, self.schemes, HOW_TO_ALLOW.format("allow_hosts=[…]")
        )
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            addresses = await io.call(self.look_up, host, port)
        except OSError as error:
            raise UsageError(f"the host {host!r} of a file in a message is not known") from error
        for address in addresses:
            check_address(address, host, allow_private=self.allow_private)
        if not addresses:
            raise UsageError(f"the host {host!r} of a file in a message has no address")
        return Request(
            url=url,
            method="GET",
            address=addresses[0],
            returns_redirects=True,
            timeouts=Timeouts(
                connect=self.timeout, first_byte=self.timeout, idle=self.timeout, total=self.timeout
            ),
            limits=SizeLimits(message=self.max_bytes),
        )

    def _transport(self) -> Transport:
        return self.transport or _fetcher()


def _join(url: str, target: str) -> str:
    try:
        return urljoin(url, target)
    except ValueError as error:
        raise SecurityError(f"{origin(url)} redirects to what is not a URL: {error}") from error


@cache
def _fetcher() -> Transport:
    return NativeTransport(HttpOptions(trust_env=False))


def media_type(data: bytes, name: str) -> str | None:
    """Return a media type by its first bytes, else by the extension of the name."""
    return media_type_of_bytes(data) or mimetypes.guess_type(name)[0]


def origin(url: str) -> str:
    """Return scheme and host: all of a URL that is safe to show."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}"


# -- which hosts and addresses may be fetched from: allowed names, public addresses, in any spelling

NUMERIC = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]*|[0-9]+))*\.?")
NAME = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal", ".localdomain")
BLOCKED = [
    ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4", "::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
        "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
]  # fmt: skip
EMBEDDING = [
    ip_network(network)
    for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96", "::ffff:0:0/96")
]
"""IPv6 networks whose addresses embed an IPv4 address."""


def check_host(
    url: str, allowed: Sequence[str], schemes: Sequence[str], advice: str
) -> SplitResult:
    """Check the scheme and the host name of a URL before its address is looked up."""
    if re.search(r"[\x00-\x20\x7f\\]", url) or not url.isascii():
        raise SecurityError(
            f"the URL {url.split('?')[0]!r} holds spaces, control characters or characters that are not ASCII"
        )
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise SecurityError(f"{url.split('?')[0]!r} is not a URL: {error}") from error
    if parts.scheme not in schemes:
        raise SecurityError(
            f"files are fetched by {', '.join(schemes)}, not by {parts.scheme or 'no scheme'!r}"
        )
    if parts.username is not None or parts.password is not None:
        raise SecurityError(f"the URL of {host!r} holds a user name or password")
    if not allowed:
        raise SecurityError(f"fetching from {host!r} is off: {advice}")
    if not _is_allowed(host, allowed):
        raise SecurityError(f"the host {host!r} is not among those allowed: {', '.join(allowed)}")
    _check_name(host, allowed)
    return parts


def _is_allowed(host: str, allowed: Sequence[str]) -> bool:
    for pattern in (name.lower() for name in allowed):
        if pattern == host or pattern == "*":
            return True
        if pattern.startswith("*.") and host.endswith(pattern[1:]) and host != pattern[2:]:
            return True
    return False


def _check_name(host: str, allowed: Sequence[str]) -> None:
    if host in (name.lower() for name in allowed):
        return  # listed explicitly; its address is still checked
    try:
        ip_address(host)
    except ValueError:
        if NUMERIC.fullmatch(host) or host.endswith(".") or not NAME.fullmatch(host):
            raise SecurityError(f"{host!r} is a strange spelling of an address: refused") from None
    else:
        raise SecurityError(
            f"{host!r} is an address, not a name: allow it explicitly to fetch from it"
        )
    if host == "localhost" or host.endswith(LOCAL_NAMES[1:]):
        raise SecurityError(f"{host!r} names this machine or network: refused")


def check_address(address: str, host: str, *, allow_private: bool) -> None:
    """Check an address that a name resolved to, including an embedded IPv4 address."""
    try:
        parsed = ip_address(address.split("%")[0])
    except ValueError:
        raise UsageError(
            f"{host!r} was looked up to {address!r}, which is not an address"
        ) from None
    if allow_private:
        return
    for candidate in _effective_addresses(parsed):
        if not candidate.is_global or any(
            candidate in network for network in BLOCKED if network.version == candidate.version
        ):
            raise SecurityError(
                f"{host!r} leads to {address}, which is not a public address: refused"
            )


def _effective_addresses(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """Return the addresses that an address leads to: itself, or its embedded IPv4 address."""
    if isinstance(address, IPv4Address) or not any(address in network for network in EMBEDDING):
        return [address]
    if address in EMBEDDING[2]:
        return [IPv4Address(int(address) >> 80 & 0xFFFFFFFF)]
    if address in EMBEDDING[1]:
        return [address]  # local use: it has no public form
    inner = IPv4Address(int(address) & 0xFFFFFFFF)
    if address in EMBEDDING[3] and int(address) < 2:
        return [address]
    return [inner]


publish("foldline.language_models", FileResolver)
