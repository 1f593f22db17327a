"""Host name lookups that can be abandoned: they run in at most eight helper threads.

The system's lookup cannot be interrupted: an abandoned lookup occupies its thread until the system answers. The limit
keeps a broken resolver from creating too many threads.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from foldline.transports._wait import Expired
from foldline.utils._signals import block_signals

__all__ = ["RESOLVER", "Address", "Resolver", "literal_addresses"]

MAX_THREADS: Final = 8
Address = tuple[int, int, int, str, Any]
"""Family, kind, protocol, canonical name and socket address, as `getaddrinfo` returns them."""
Addresses = list[Address]


class Resolver:
    """Resolves host names in helper threads."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset all state, in a forked child: it does not have the parent's threads."""
        self._lock = threading.Lock()
        self._queue: deque[tuple[Future[Addresses], str, int]] = deque()
        self._threads = 0

    def submit(self, host: str, port: int) -> Future[Addresses]:
        """Start a lookup."""
        future: Future[Addresses] = Future()
        with self._lock:
            self._queue.append((future, host, port))
            if self._threads == MAX_THREADS:
                return future
            self._threads += 1
        threading.Thread(target=self._work, name="foldline-resolver", daemon=True).start()
        return future

    def resolve(self, host: str, port: int, seconds: float | None) -> Addresses:
        """Return the addresses of a host; raise `Expired` after the seconds."""
        future = self.submit(host, port)
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():  # the lookup itself failed with it
                raise
            raise Expired from None
        finally:
            future.cancel()

    def _work(self) -> None:
        block_signals()
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                future, host, port = self._queue.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                addresses: Addresses = [*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
            except UnicodeError as error:  # a name that IDNA does not allow
                failure = OSError(f"the name cannot be looked up ({error})")
                failure.__cause__ = error
                future.set_exception(failure)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(addresses)


RESOLVER: Final = Resolver()
"""The process's resolver."""


def literal_addresses(host: str, port: int) -> Addresses:
    """Return the address of a host that is an IP address, without a lookup; otherwise []."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            socket.inet_pton(family, host)
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
    return []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RESOLVER.reset)
