"""HTTP for models: a small protocol, the clients that implement it, and one client shared by the process.

`NativeTransport` (the default) and `foldline.transports.httpx.HttpxTransport` (the extra `httpx`) pass the same tests.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.transports._default import (
        default_transport as default_transport,
        transport_for as transport_for,
    )
    from foldline.transports.base import (
        HttpOptions as HttpOptions,
        Request as Request,
        Response as Response,
        SizeLimits as SizeLimits,
        Timeouts as Timeouts,
        Transport as Transport,
        check_request as check_request,
    )
    from foldline.transports.native import NativeTransport as NativeTransport
