"""The default transport: one per process, shared by all threads and event loops."""

from __future__ import annotations

import os
import threading

from foldline._lazy import publish
from foldline.transports.base import HttpOptions, Transport

_lock = threading.Lock()
_shared: Transport | None = None


def default_transport() -> Transport:
    """Return the transport shared by the process; in a forked child it uses new connections."""
    global _shared
    if _shared is None:
        from foldline.transports.native import NativeTransport  # noqa: PLC0415  imported at the first call

        with _lock:
            if _shared is None:
                _shared = NativeTransport()
    return _shared


def transport_for(options: HttpOptions) -> Transport:
    """Return a transport for these options: HTTP/2, https and SOCKS proxies need the extra `httpx`."""
    proxy = options.proxy or ""
    if options.http2 or (proxy and not proxy.startswith("http://")):
        from foldline.transports.httpx import HttpxTransport  # noqa: PLC0415  an extra

        return HttpxTransport(options)
    from foldline.transports.native import NativeTransport  # noqa: PLC0415

    return NativeTransport(options)


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held the old one during the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


publish("foldline.transports", default_transport, transport_for)
