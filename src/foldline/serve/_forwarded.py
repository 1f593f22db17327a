"""`TrustedProxies`: whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.

The address of the client is the last one of the header that is not of a trusted proxy: what stands before it may have
been written by the client. Host names are never taken from a header.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from foldline.serve._proxy_networks import UNIX, read_networks

__all__ = ["FORWARDED", "TrustedProxies", "is_loopback", "is_unix_socket"]

FORWARDED: Final = frozenset({b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"forwarded"})
"""Headers by which a proxy shows itself, as ASGI has them: in lower case."""


def is_unix_socket(scope: Scope) -> bool:
    """Whether a request came over a Unix socket, which only this machine can open."""
    server = scope.get("server")
    return server is not None and server[1] is None and scope.get("client") is None


def is_loopback(host: str) -> bool:
    """Whether an address is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class TrustedProxies:
    """The addresses of proxies that an operator trusts."""

    def __init__(self, proxies: Sequence[str]) -> None:
        self._networks = read_networks(proxies)
        self._trusts_unix = UNIX in proxies

    def apply(self, scope: Scope) -> None:
        """Set the client and the scheme of a request to those that a trusted proxy names."""
        if not self._is_from_proxy(scope):
            return
        headers = Headers(scope=scope)
        addresses = [
            address.strip()
            for line in headers.getlist("x-forwarded-for")
            for address in line.split(",")
        ]
        # A loopback address is of this machine only if the proxy that names it is.
        is_here = is_unix_socket(scope) or is_loopback(scope["client"][0])
        for address in reversed(addresses):
            host = _host_of(address)
            if host is None or (is_loopback(host) and not is_here):
                scope["client"] = ("unknown", 0)
                break
            scope["client"] = (host, 0)
            is_here = is_loopback(host)
            if not self._trusts(host):
                break
        scheme = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
        if scheme in ("http", "https"):
            scope["scheme"] = scheme

    def _is_from_proxy(self, scope: Scope) -> bool:
        if is_unix_socket(scope):
            return self._trusts_unix
        client = scope.get("client")
        return client is not None and self._trusts(client[0])

    def _trusts(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def _host_of(address: str) -> str | None:
    """Return the IP address in `1.2.3.4`, `1.2.3.4:80`, `::1` or `[::1]:80`; None if it is none."""
    if address.startswith("["):
        address = address[1:].partition("]")[0]
    elif address.count(":") == 1:
        address = address.partition(":")[0]
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return None
