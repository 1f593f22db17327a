"""`notify_ready`: tells systemd that the server is ready (`Type=notify`)."""

from __future__ import annotations

import os
import socket

__all__ = ["notify_ready"]


def notify_ready() -> bool:
    """Send `READY=1` to the socket that systemd names; return whether there is one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return False
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.connect(address)
            connection.sendall(b"READY=1")
    except OSError:
        return False
    return True
