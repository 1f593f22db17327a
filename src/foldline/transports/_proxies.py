"""Which proxy a URL goes through: the option, or the environment's where that was asked for."""

from __future__ import annotations

from urllib.parse import urlsplit

from foldline.transports.base import HttpOptions


def proxy_for(url: str, options: HttpOptions) -> str | None:
    """Give the proxy's URL, or none."""
    if options.proxy is not None or not options.trust_env:
        return options.proxy
    import urllib.request  # noqa: PLC0415  20 ms that few programs need

    parts = urlsplit(url)
    proxies = urllib.request.getproxies_environment()
    if urllib.request.proxy_bypass_environment(parts.netloc, proxies):  # type: ignore[attr-defined]
        return None
    return proxies.get(parts.scheme) or proxies.get("all")
