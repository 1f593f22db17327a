"""Which hosts and addresses may be fetched from: allowed names, public addresses, in any spelling. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from foldline.exceptions import SecurityError, UsageError

__all__ = ["check_address", "check_host"]

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
