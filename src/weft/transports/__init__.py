"""HTTP for models: a small protocol, the clients that keep it, and one client shared by the whole process."""

from __future__ import annotations

from weft.transports._default import default_transport
from weft.transports.base import (
    HttpOptions,
    Limits,
    Request,
    Response,
    Timeouts,
    Transport,
    check_request,
    origin_of,
)
from weft.transports.pyreqwest import PyreqwestTransport

__all__ = [
    "HttpOptions",
    "Limits",
    "PyreqwestTransport",
    "Request",
    "Response",
    "Timeouts",
    "Transport",
    "check_request",
    "default_transport",
    "origin_of",
]
