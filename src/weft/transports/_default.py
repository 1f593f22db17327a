"""The transport that a model uses when none is given: one per process, shared by every thread and event loop."""

from __future__ import annotations

import os
import threading

from weft.transports.base import Transport
from weft.transports.pyreqwest import PyreqwestTransport, runtime_is_lost

_lock = threading.Lock()
_shared: dict[int, Transport] = {}


def default_transport() -> Transport:
    """Give the process's shared transport."""
    process = os.getpid()
    found = _shared.get(process)
    if found is None:
        with _lock:
            found = _shared.get(process) or _make()
            _shared[process] = found
    return found


def _make() -> Transport:
    if runtime_is_lost():
        try:
            from weft.transports.httpx import HttpxTransport  # noqa: PLC0415  an extra, and only here
        except ImportError:
            return PyreqwestTransport()  # says the ways out at its first call
        return HttpxTransport()
    return PyreqwestTransport()
