"""`read_networks`: the addresses of proxies that the settings name."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, TypeAlias

from foldline.exceptions import UsageError

__all__ = ["UNIX", "Network", "read_networks"]

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
UNIX: Final = "unix"
"""Stands for whoever can open the server's Unix socket."""


def read_networks(proxies: Sequence[str]) -> list[Network]:
    """Return the networks of a list of addresses; raise `UsageError` for what is none."""
    networks: list[Network] = []
    for proxy in proxies:
        if proxy == UNIX:
            continue
        try:
            networks.append(ipaddress.ip_network(proxy, strict=False))
        except ValueError as error:
            raise UsageError(
                f"trusted_proxies: {proxy!r:.80} is not an address or a network (10.0.0.0/8), and not {UNIX!r}"
            ) from error
    return networks
