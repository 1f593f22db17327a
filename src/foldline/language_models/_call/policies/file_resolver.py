"""Files in messages: the only place that opens a path or fetches a URL from data.

Both are off by default. A `FileResolver` allows them, for the folders and hosts that its author lists: a path may not
leave its folder, follow a link or name anything but a plain file; a host's addresses are looked up once, private ones
are rejected, the connection is made to the address that was checked, and every redirect is checked again.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from foldline._io import IO
from foldline._lazy import publish
from foldline.exceptions import SecurityError, UsageError
from foldline.language_models._call.policies.addresses import check_address, check_host
from foldline.language_models._call.policies.media_types import HOW_TO_ALLOW, media_type, origin
from foldline.language_models._call.policies.safe_files import read_under
from foldline.transports import HttpOptions, Limits, NativeTransport, Request, Timeouts, Transport
from foldline.utils.signature import show_defaults

__all__ = ["FileResolver"]

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
            limits=Limits(message=self.max_bytes),
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


publish("foldline.language_models", FileResolver)
