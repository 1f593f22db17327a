"""HTTP settings of the environment: proxies and certificates, as in requests, httpx and curl.

`http_proxy`, `https_proxy` and `all_proxy` are proxies, `no_proxy` hosts that need none; lower case overrides upper
case. `SSL_CERT_FILE` and `SSL_CERT_DIR` are the certificates to trust instead of the system's.
"""

from __future__ import annotations

import ipaddress
import os
from base64 import b64encode
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from foldline.exceptions import UsageError
from foldline.transports.base import HttpOptions

__all__ = [
    "CERTIFICATE_VARIABLES",
    "PROXY_SCHEMES",
    "PROXY_VARIABLES",
    "certificate_paths",
    "environment_proxy",
    "is_exempt",
    "proxy_for",
    "proxy_secrets",
    "read_variable",
    "split_proxy",
]

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
"""Schemes of proxies that foldline's transports support."""


def proxy_for(url: str, options: HttpOptions) -> str | None:
    """Return the URL of the proxy for a request, or None."""
    if options.proxy is not None or not options.trust_env:
        return options.proxy
    return environment_proxy(url)


def split_proxy(url: str) -> SplitResult:
    """Return the parts of a configured proxy URL; errors do not show it, because it may contain a password."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in PROXY_SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UsageError(
            "HttpOptions(proxy=...): http://user:password@host:port, or https:// or socks5://"
        )
    return parts


def proxy_secrets(url: str, options: HttpOptions | None) -> list[str]:
    """Return the secrets of the proxy for a URL: its password, and the header derived from it."""
    try:
        proxy = proxy_for(url, options or HttpOptions())
        parts = None if proxy is None else split_proxy(proxy)
    except UsageError:
        return []
    if parts is None or not parts.password:
        return []
    user, password = unquote(parts.username or ""), unquote(parts.password)
    pair = f"{user}:{password}"
    return [b64encode(pair.encode()).decode(), pair, password, parts.password]


def environment_proxy(url: str, exemptions: str | None = None) -> str | None:
    """Return the environment's proxy for a URL; `exemptions` defaults to `no_proxy`."""
    scheme = "https" if url[:6].lower() == "https:" else "http"
    name, value = read_variable(f"{scheme}_proxy")
    if not value:
        name, value = read_variable("all_proxy")
    if not value:
        return None
    if is_exempt(url, read_variable("no_proxy")[1] if exemptions is None else exemptions):
        return None
    return _read_proxy(name, value)


def read_variable(name: str) -> tuple[str, str]:
    """Return the name and value of a variable, in lower case or else in upper case; empty if it is not set."""
    environment = os.environ
    if (value := environment.get(name)) is not None:
        return name, value  # also if it is empty, which disables a proxy
    upper = name.upper()
    # In a CGI program, HTTP_PROXY may be the `Proxy:` header of the client (httpoxy, CVE-2016-5385).
    value = environment.get(upper, "")
    if value and upper == "HTTP_PROXY" and "REQUEST_METHOD" in environment:
        return upper, ""
    return upper, value


def certificate_paths() -> tuple[str | None, str | None]:
    """Return the environment's file and folder of certificates; raise if the file does not exist."""
    file, folder = (os.environ.get(name) or None for name in CERTIFICATE_VARIABLES)
    if file is not None and not Path(file).is_file():
        raise UsageError(
            f"the variable SSL_CERT_FILE names {file!r}, which is no file: correct it, or set "
            "HttpOptions(trust_env=False)"
        )
    folders = [path for path in (folder or "").split(os.pathsep) if Path(path).is_dir()]
    return file, os.pathsep.join(folders) or None


@lru_cache(maxsize=32)
def _read_proxy(name: str, value: str) -> str:
    value = value.strip()
    proxy = value if "://" in value else f"http://{value}"
    scheme, colon, address = proxy.partition(":")
    proxy = scheme.lower() + colon + address
    if proxy.startswith("socks://"):
        proxy = "socks5" + proxy[5:]
    try:
        parts = urlsplit(proxy)
        is_usable = parts.scheme in PROXY_SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:  # the value is not shown: it may contain a password
        raise UsageError(
            f"the variable {name} names no proxy that can be used: write http://host:port, https://… or socks5://…, "
            "or set HttpOptions(trust_env=False)"
        )
    return proxy


@lru_cache(maxsize=256)
def is_exempt(url: str, exemptions: str) -> bool:
    """Whether a URL's host is in a list of hosts that need no proxy.

    An entry is a domain (including subdomains; a leading dot or `*.` has no effect), an address, a range such as
    `10.0.0.0/8`, or `*` for everything; a suffix `:port` limits it to that port.
    """
    if not exemptions:
        return False
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return any(
        entry_port in (None, port) and _matches(host, entry)
        for entry, entry_port in _entries(exemptions)
    )


def _entries(exemptions: str) -> Iterator[tuple[str, int | None]]:
    for entry in exemptions.replace(",", " ").lower().split():
        name, colon, port = entry.rpartition(":")
        if entry.startswith("["):  # [::1] or [::1]:8080
            address, _, suffix = entry[1:].partition("]")
            port = suffix.removeprefix(":")
            yield address, int(port) if port.isdigit() else None
        elif colon and port.isdigit() and ":" not in name:
            yield name, int(port)
        else:
            yield entry, None


def _matches(host: str, entry: str) -> bool:
    if entry == "*":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = entry.removeprefix("*").strip(".")
        return bool(name) and (host == name or host.endswith("." + name))
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
    return address.version == network.version and address in network
