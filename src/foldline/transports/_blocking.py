"""Sockets of httpx2's engine for blocking calls: deadlines, connecting like the native transport."""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpcore2

from foldline.transports._connect import connect_sync
from foldline.transports._duplex import (
    PROXY_STEPS,
    limit_connecting,
    seconds_until,
    speaks_http2,
)
from foldline.transports._engine_private import SyncStream
from foldline.transports._wait import Expired

__all__ = ["DeadlineBackend", "limit_briefly", "limit_this_thread"]


class _Deadline(threading.local):
    at: float | None = None


_deadline = _Deadline()


def limit_this_thread(seconds: float | None) -> None:
    """Set the deadline of this thread's reads and writes."""
    _deadline.at = None if seconds is None else time.monotonic() + seconds


@contextmanager
def limit_briefly(seconds: float) -> Iterator[None]:
    """Set an earlier deadline of this thread, inside the block."""
    at = _deadline.at
    limit_this_thread(seconds)
    try:
        yield
    finally:
        _deadline.at = at


def remaining_seconds() -> float | None:
    """Return the seconds until the deadline of this thread; raise the engine's timeout if there are none."""
    if _deadline.at is None:
        return None
    seconds = _deadline.at - time.monotonic()
    if seconds <= 0:
        raise httpcore2.ReadTimeout
    return seconds


class DeadlineStream(httpcore2.NetworkStream):
    """A socket whose reads and writes end at the deadline of the calling thread."""

    def __init__(
        self,
        inner: httpcore2.NetworkStream,
        plain_socket: socket.socket | None,
        connect_by: float,
        proxy_steps: int,
    ) -> None:
        self._inner = inner
        self._plain_socket = plain_socket
        """The socket of `inner`, unless it already uses TLS."""
        self._connect_by = connect_by
        """The `time.monotonic` deadline of the connection, including TLS."""
        self.proxy_steps = proxy_steps
        """The remaining steps with a proxy; until they are done, the deadline of the connection holds."""
        self._is_http2 = speaks_http2(inner)
        self._is_write_closed = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read, until the deadline."""
        if self.proxy_steps:
            return self._read_of_proxy(max_bytes)
        return self._inner.read(max_bytes, remaining_seconds())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write, until the deadline. Over HTTP/2 a failure is left to the next read: an answer may precede it."""
        if self._is_write_closed:
            return
        try:
            self._inner.write(buffer, remaining_seconds())
        except httpcore2.WriteError:
            if not self._is_http2:
                raise
            self._is_write_closed = True

    def close(self) -> None:
        """Close the socket."""
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """Start TLS."""
        remaining = seconds_until(self._connect_by, timeout)
        if self._plain_socket is None:  # TLS inside TLS, through an https proxy
            return self._start_inner_tls(ssl_context, server_hostname, remaining)
        # In two steps: if a single call is interrupted, Python does not close the socket.
        secured = ssl_context.wrap_socket(
            self._plain_socket, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        try:
            secured.settimeout(remaining)
            secured.do_handshake()
        except TimeoutError as error:
            secured.close()
            raise httpcore2.ConnectTimeout(str(error)) from error
        except OSError as error:
            secured.close()
            raise httpcore2.ConnectError(str(error)) from error
        except BaseException:
            secured.close()
            raise
        return self._after_step(SyncStream(secured))

    def _after_step(self, stream: httpcore2.NetworkStream) -> httpcore2.NetworkStream:
        return DeadlineStream(stream, None, self._connect_by, max(self.proxy_steps - 1, 0))

    def _read_of_proxy(self, max_bytes: int) -> bytes:
        """Read an answer of the proxy, which is part of connecting."""
        remaining = remaining_seconds()
        to_connect = seconds_until(self._connect_by, None)
        if to_connect is None or (remaining is not None and remaining <= to_connect):
            return self._inner.read(max_bytes, remaining)
        with limit_connecting():
            return self._inner.read(max_bytes, to_connect)

    def _start_inner_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None, timeout: float | None
    ) -> httpcore2.NetworkStream:
        try:
            return self._after_step(self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            self._inner.close()
            raise

    def get_extra_info(self, info: str) -> object:
        """Return information about the socket."""
        return self._inner.get_extra_info(info)


class DeadlineBackend(httpcore2.SyncBackend):
    """Opens sockets with deadlines like the native transport: the first address that answers, one time limit."""

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore2.NetworkStream:
        """Connect."""
        connect_by = math.inf if timeout is None else time.monotonic() + timeout
        try:
            connection = connect_sync(host, port, timeout)
        except Expired as error:
            raise httpcore2.ConnectTimeout from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        return DeadlineStream(SyncStream(connection), connection, connect_by, PROXY_STEPS.get())
