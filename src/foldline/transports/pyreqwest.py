"""The transport on `pyreqwest` (Rust: reqwest, hyper, rustls): HTTP/2, proxies, little work per byte.

One client serves threads and event loops alike, because its connections live on a runtime thread of its own. Two
things it cannot do, both written down in `docs/transports.md`: give up a request that waits for its headers (the
connection stays until the server answers or `first_byte` is over), and work in a forked child.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from foldline.exceptions import UsageError
from foldline.transports import _faults
from foldline.transports._body import Opening
from foldline.transports._tokio import run_async, run_blocking
from foldline.transports._wait import Alarm, Expired, finish_now
from foldline.transports.base import (
    HttpOptions,
    Request,
    Response,
    Transport,
    check_header,
    refuse_address,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyreqwest.client import Client

__all__ = ["PyreqwestTransport"]

GRACE = 0.25
"""Our clock of the first byte runs this much longer than Rust's, which alone can free the connection."""
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
PEM_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\s*", re.DOTALL)

_building = threading.Lock()
_runtime_of: int | None = None
"""The process in which the Rust runtime was started."""


def _renew_lock() -> None:
    global _building
    _building = threading.Lock()  # another thread may have held it at the moment of the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def runtime_is_lost() -> bool:
    """Whether this process is a fork of one that had used pyreqwest."""
    return _runtime_of is not None and _runtime_of != os.getpid()


class PyreqwestTransport:
    """Sends requests with `pyreqwest`.

    ```python
    transport = PyreqwestTransport(HttpOptions(http2=True))
    ```
    """

    def __init__(self, options: HttpOptions | None = None) -> None:
        self.options = options or HttpOptions()
        for name, value in self.options.headers.items():
            check_header(name, value)
        self._clients: dict[tuple[float | None, float | None], Client] = {}
        self._stand_in: Transport | None = None

    def __repr__(self) -> str:
        return f"PyreqwestTransport({self.options!r})"

    def open(self, request: Request, *, blocking: bool) -> AbstractAsyncContextManager[Response]:
        """Send a request; leaving the context frees the connection at once."""
        refuse_address(request, type(self).__name__)
        if runtime_is_lost():
            return self._in_a_fork().open(request, blocking=blocking)
        return Opening(request, partial(PyreqwestExchange, self, blocking=blocking))

    def _in_a_fork(self) -> Transport:
        try:
            from foldline.transports.httpx import HttpxTransport  # noqa: PLC0415  an extra
        except ImportError:
            raise _faults.forked() from None
        if not isinstance(self._stand_in, HttpxTransport):
            self._stand_in = HttpxTransport(self.options)
        return self._stand_in

    def close(self) -> None:
        """Drop idle connections; the transport can still be used."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            if not runtime_is_lost():
                run_blocking(client.close(), 1.0)

    async def aclose(self) -> None:
        """Drop idle connections; the transport can still be used."""
        self.close()

    def client_for(self, request: Request) -> Client:
        """Give the client with this request's timeouts; programs use one or two."""
        timeouts = request.timeouts
        read = timeouts.first_byte
        if read is not None:
            read = None if timeouts.idle is None else max(read, timeouts.idle)
        key = (timeouts.connect, read)
        client = self._clients.get(key)
        if client is None:
            with _building:
                client = self._clients.get(key) or self._build(*key)
                self._clients[key] = client
        return client

    def _build(self, connect: float | None, read: float | None) -> Client:
        global _runtime_of
        from pyreqwest.client import ClientBuilder  # noqa: PLC0415  40 ms, paid by the first call

        options = self.options
        builder = ClientBuilder().follow_redirects(enable=False).http2(options.http2)
        builder = builder.gzip(enable=False).brotli(enable=False)
        builder = builder.zstd(enable=False).deflate(enable=False).referer(enable=False)
        builder = builder.pool_idle_timeout(timedelta(seconds=options.keep_alive))
        builder = _with_proxy(builder, options)
        if connect is not None:
            builder = builder.connect_timeout(timedelta(seconds=connect))
        if read is not None:
            builder = builder.read_timeout(timedelta(seconds=read))
        if options.max_connections is not None:
            builder = builder.max_connections(options.max_connections)
            builder = builder.pool_timeout(timedelta(seconds=options.pool_timeout))
        _runtime_of = os.getpid()
        try:
            builder = _with_certificates(builder, options)
            with _certificates_of_the_system(options):
                client: Client = builder.build()
                return client
        except ValueError as error:
            raise UsageError(f"HttpOptions are refused: {error}") from error


def _with_proxy(builder: Any, options: HttpOptions) -> Any:  # noqa: ANN401  pyreqwest's builder, kept unimported
    from pyreqwest.proxy import ProxyBuilder  # noqa: PLC0415

    if options.proxy is not None:
        return builder.proxy(ProxyBuilder.all(options.proxy))
    return builder if options.trust_env else builder.no_proxy()


def _with_certificates(builder: Any, options: HttpOptions) -> Any:  # noqa: ANN401
    pem = options.ca_pem()
    if pem is not None:
        blocks = PEM_BLOCK.findall(pem)
        if not blocks:
            raise UsageError("HttpOptions(ca=...) holds no PEM certificate")
        for block in blocks:
            builder = builder.add_root_certificate_pem(block)
    identity = options.client_pem()
    if identity is not None:
        builder = builder.identity_pem(identity)
    return builder if options.verify else builder.danger_accept_invalid_certs(enable=True)


@contextmanager
def _certificates_of_the_system(options: HttpOptions) -> Iterator[None]:
    # The Rust side reads these two whenever a client is built and has no switch for it.
    hidden = {} if options.trust_env else {
        name: os.environ.pop(name) for name in CERTIFICATE_VARIABLES if name in os.environ
    }  # fmt: skip
    try:
        yield
    finally:
        os.environ.update(hidden)


class PyreqwestExchange:
    """One request under way."""

    __slots__ = (
        "_alarm",
        "_blocking",
        "_first_byte_in_rust",
        "_open",
        "_reader",
        "_request",
        "_sent",
    )

    def __init__(self, transport: PyreqwestTransport, request: Request, *, blocking: bool) -> None:
        options = transport.options
        self._request = request
        self._blocking = blocking
        client = transport.client_for(request)
        builder = client.request(request.method, request.url).streamed_read_buffer_limit(0)
        headers = {name.lower(): value for name, value in request.headers.items()}
        headers.setdefault(
            "accept-encoding", "gzip, deflate" if options.compression else "identity"
        )
        headers.setdefault("user-agent", "foldline")
        for name, value in options.headers.items():
            headers.setdefault(name.lower(), value)
        builder = builder.headers(headers)
        if request.body or request.method not in ("GET", "HEAD", "DELETE"):
            builder = builder.body_bytes(request.body)
        timeouts = request.timeouts
        if timeouts.total is not None:
            builder = builder.timeout(timedelta(seconds=timeouts.total))
        self._first_byte_in_rust = timeouts.first_byte is not None and (
            timeouts.idle is not None and timeouts.idle <= timeouts.first_byte
        )
        self._sent = builder.build_streamed()
        self._alarm = None if blocking else Alarm()
        self._reader: Any = None
        self._open = False

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        """Send, and give status and headers."""
        if budget is not None and (self._first_byte_in_rust or self._request.timeouts.total):
            budget += GRACE
        try:
            if self._alarm is None:
                response = run_blocking(self._sent.__aenter__(), budget)
            else:
                response = await self._alarm.wait(run_async(self._sent.__aenter__()), budget)
        except Expired:
            raise
        except Exception as error:
            fault, cause = self._explain_start(error), _without_url(error)
        else:
            return self._started(response)
        raise fault from cause  # out here, because `__context__` would keep the URL

    def _started(self, response: Any) -> tuple[int, Iterable[tuple[str, str]]]:  # noqa: ANN401
        self._open = True
        self._reader = response.body_reader
        return response.status, response.headers.items()

    async def read(self, budget: float | None) -> bytes | None:
        """Give the next raw piece, or `None` at the end."""
        try:
            if self._alarm is None:
                piece = run_blocking(self._reader.read_chunk(), budget)
            else:
                piece = await self._alarm.wait(run_async(self._reader.read_chunk()), budget)
        except Expired:
            raise
        except Exception as error:
            fault, cause = self._explain_read(error), _without_url(error)
        else:
            return None if piece is None else bytes(piece)
        raise fault from cause

    def rest(self) -> bytes | None:
        """Nothing is known of the end before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Free the connection."""
        if self._alarm is not None:
            self._alarm.stop()
        if self._open and not runtime_is_lost():
            self._open = False
            finish_now(self._sent.__aexit__(None, None, None))

    def _explain_start(self, error: Exception) -> Exception:
        kind, why = type(error).__name__, _causes(error)
        timeouts = self._request.timeouts
        if kind == "PoolTimeoutError":
            return _faults.timed_out(self._request, "pool", 0.0)
        if "timed out" in why[-1] or isinstance(error, TimeoutError):
            phase = self._phase_of_start(why)
            return _faults.timed_out(self._request, phase, getattr(timeouts, phase) or 0.0)
        if "message head is too large" in why:
            return _faults.too_large(self._request, "the headers", self._request.limits.headers)
        if kind == "DecodeError":
            return _faults.malformed(self._request, why[-1])
        return _faults.not_reached(self._request, why[-1])

    def _phase_of_start(self, why: list[str]) -> _faults.Phase:
        if "client error (Connect)" in why:
            return "connect"
        timeouts = self._request.timeouts
        first = timeouts.first_byte
        is_total = timeouts.total is not None and (first is None or timeouts.total <= first)
        return "total" if is_total else "first_byte"

    def _explain_read(self, error: Exception) -> Exception:
        why = _causes(error)
        timeouts = self._request.timeouts
        if isinstance(error, TimeoutError) or "timed out" in why[-1]:
            phase: _faults.Phase = "total" if timeouts.total is not None else "idle"
            return _faults.timed_out(self._request, phase, getattr(timeouts, phase) or 0.0)
        if "closed" in str(error) and isinstance(error, RuntimeError):
            return _faults.closed_already()
        if "nvalid chunk" in why[-1]:
            return _faults.malformed(self._request, why[-1])
        return _faults.interrupted(self._request, why[-1])


def _causes(error: Exception) -> list[str]:
    details = getattr(error, "details", None) or {}
    found = [cause["message"] for cause in details.get("causes") or []]
    return [text for text in found if " for url (" not in text] or [str(error).split("(", 1)[0]]


def _without_url(error: Exception) -> Exception:
    # reqwest writes the whole URL into its message, and a URL may hold a key.
    if "for url (" in str(error):
        clean = type(error).__name__ + ": " + "; ".join(_causes(error))
        return ConnectionError(clean)
    return error
