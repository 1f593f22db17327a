"""HTTP for models: a small protocol, the clients that implement it, and one client shared by the process.

`NativeTransport` (the default) and `foldline.transports.httpx.HttpxTransport` (the extra `httpx`) pass the same tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.transports._default import default_transport, transport_for
    from foldline.transports.base import (
        HttpOptions,
        Limits,
        Request,
        Response,
        Timeouts,
        Transport,
        check_request,
        origin_of,
    )
    from foldline.transports.native import NativeTransport

__all__ = [
    "HttpOptions",
    "Limits",
    "NativeTransport",
    "Request",
    "Response",
    "Timeouts",
    "Transport",
    "check_request",
    "default_transport",
    "origin_of",
    "transport_for",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        "._default": "default_transport transport_for",
        ".base": "HttpOptions Limits Request Response Timeouts Transport check_request origin_of",
        ".native": "NativeTransport",
    },
)
