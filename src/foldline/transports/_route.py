"""The route of a request: its host, and the proxy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import urlsplit

from foldline.exceptions import UsageError
from foldline.transports._pool import Key
from foldline.transports.base import Request

__all__ = ["ProxyRoute"]


@dataclass(frozen=True, slots=True)
class ProxyRoute:
    """The route of a request: its host, and the proxy."""

    host: str
    port: int
    secure: bool
    proxy: str | None
    address: str | None = None
    key: Key = field(init=False, repr=False, compare=False)
    """The key of its connections in the pool."""

    def __post_init__(self) -> None:
        key = (self.host, self.port, self.secure, self.proxy or self.address)
        object.__setattr__(self, "key", key)

    @classmethod
    def of(cls, request: Request, proxy: str | None) -> ProxyRoute:
        """Return the route of a request, through a proxy or direct."""
        route = _route(request.url, proxy)
        if request.address is None:
            return route
        if route.proxy is not None:
            raise UsageError("a request to one fixed address cannot go through a proxy")
        return replace(route, address=request.address)

    @classmethod
    def _read(cls, url: str, proxy: str | None) -> ProxyRoute:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        if proxy is not None and urlsplit(proxy).scheme != "http":
            raise UsageError(
                "NativeTransport knows http:// proxies: use foldline.transports.httpx.HttpxTransport "
                "for https:// and socks5://"
            )
        return cls(parts.hostname or "", parts.port or (443 if secure else 80), secure, proxy)

    def first_hop(self) -> tuple[str, int]:
        """Return the host and port to connect to."""
        if self.proxy is None:
            return self.address or self.host, self.port
        parts = urlsplit(self.proxy)
        return parts.hostname or "", parts.port or 80


@lru_cache(maxsize=256)
def _route(url: str, proxy: str | None) -> ProxyRoute:
    return ProxyRoute._read(url, proxy)
