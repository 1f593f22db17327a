"""Connecting: the first address that answers, one limit for lookup, connection and TLS, and sockets that notice."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from foldline.exceptions import ModelConnectionError, ModelTimeoutError
from foldline.transports import HttpOptions, NativeTransport, Request, Timeouts, Transport
from foldline.transports._connect import connect_sync, interleave
from tests.servers import Answer, FaultServer
from tests.transports.conftest import LIVE, Caller

pytestmark = pytest.mark.timing

Make = Callable[..., Transport]
Lookup = Callable[..., list[tuple[object, ...]]]


def address(host: str, port: int) -> tuple[object, ...]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))


@pytest.fixture
def black_hole() -> Iterator[tuple[str, int]]:
    """An address that answers nothing: its queue of new connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = []
        for _ in range(20):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(listener.getsockname())
            waiting.append(connection)
        time.sleep(0.05)
        yield listener.getsockname()
        for connection in waiting:
            connection.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Lookup], None]:
    """A maker of names: what the system's lookup returns for them."""
    lookups: dict[str, Lookup] = {}
    original = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *args: object, **options: object) -> object:
        name = host.decode() if isinstance(host, bytes) else host
        return lookups[name](port) if name in lookups else original(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return lookups.__setitem__


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["http", "https"])
@pytest.mark.usefixtures("no_leaks")
def test_F_Y05_an_address_that_does_not_answer_is_passed_over(
    live: Make,
    blocking: bool,
    wire: str,
    names: Callable[[str, Lookup], None],
    black_hole: tuple[str, int],
    fault_server: FaultServer,
) -> None:
    url = (
        fault_server.https_url
        if wire == "https"
        else fault_server.url.replace("127.0.0.1", "localhost")
    )
    names("localhost", lambda port: [address(*black_hole), address("127.0.0.1", port)])
    transport = live(HttpOptions(ca=fault_server.ca_pem))
    caller = Caller(transport, blocking=blocking)
    start = time.monotonic()
    assert caller.read(url + "/ok", timeouts=Timeouts(connect=5)) == (200, b"ok")
    assert time.monotonic() - start < 2
    transport.close()


def test_F_Y05_an_address_that_refuses_is_passed_over_at_once(
    live: Make, blocking: bool, names: Callable[[str, Lookup], None], fault_server: FaultServer
) -> None:
    names("localhost", lambda port: [address("127.0.0.1", 1), address("127.0.0.1", port)])
    url = fault_server.url.replace("127.0.0.1", "localhost")
    start = time.monotonic()
    assert Caller(live(), blocking=blocking).read(url + "/ok") == (200, b"ok")
    assert time.monotonic() - start < 2


@pytest.mark.slow
@pytest.mark.usefixtures("no_leaks")
def test_F_Y05_no_address_at_all(
    live: Make, blocking: bool, names: Callable[[str, Lookup], None], black_hole: tuple[str, int]
) -> None:
    """Refused by one and not answered by the other; then refused by both; then a name with none."""
    names("localhost", lambda port: [address(*black_hole), address("127.0.0.1", 1)])
    caller = Caller(live(), blocking=blocking)
    _, error = caller.stream("http://localhost:9/", timeouts=Timeouts(connect=0.6))
    if live.kind == "httpx" and not blocking:  # type: ignore[attr-defined]
        assert isinstance(error, ModelConnectionError)  # anyio gives up with the last address
    else:
        assert isinstance(error, ModelTimeoutError)
        assert error.phase == "connect"
    for results in ([address("127.0.0.1", 1), address("127.0.0.1", 2)], []):
        names("localhost", lambda port, addresses=results: addresses)  # type: ignore[misc]
        _, error = caller.stream("http://localhost:9/")
        assert isinstance(error, ModelConnectionError)


def test_F_Y05_the_lookup_is_inside_the_connect_limit(
    live: Make, blocking: bool, names: Callable[[str, Lookup], None]
) -> None:
    done = threading.Event()

    def slow(port: int) -> list[tuple[object, ...]]:
        done.wait(1.5)
        return [address("127.0.0.1", port)]

    names("localhost", slow)
    durations: list[float] = []

    async def ask(caller: Caller) -> None:
        start = time.monotonic()
        try:
            async with caller.open(
                Request(url="http://localhost:9/", timeouts=Timeouts(connect=0.3))
            ):
                pass
        finally:
            durations.append(time.monotonic() - start)
            done.set()

    caller = Caller(live(), blocking=blocking)
    with pytest.raises(ModelTimeoutError) as excinfo:
        caller.run(ask(caller))
    assert excinfo.value.phase == "connect"
    assert durations[0] < 1.2


def test_F_Y05_tls_is_inside_the_connect_limit(
    live: Make,
    blocking: bool,
    names: Callable[[str, Lookup], None],
    black_hole: tuple[str, int],
) -> None:
    """A black hole, then a server that accepts and never agrees on TLS."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        names("localhost", lambda port: [address(*black_hole), address("127.0.0.1", port)])
        start = time.monotonic()
        _, error = Caller(live(), blocking=blocking).stream(
            f"https://localhost:{silent.getsockname()[1]}/", timeouts=Timeouts(connect=0.8)
        )
    assert isinstance(error, ModelTimeoutError)
    assert error.phase == "connect"
    assert time.monotonic() - start < 1.3


HANDSHAKES = ["native http https", "httpx http https", "httpx socks5 https", "httpx socks5 http"]
"""The transport, the proxy, and what is asked for through it: where the proxy must say something first."""
ROUTES = [
    *HANDSHAKES,
    "native http http",
    "httpx http http",
    "httpx https https",
    "httpx https http",
]


@pytest.mark.parametrize("route", HANDSHAKES)
def test_F_Y05_a_proxy_that_does_not_answer_is_inside_the_connect_limit(
    blocking: bool, route: str
) -> None:
    kind, proxy, target = route.split()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"{proxy}://u:p@127.0.0.1:{silent.getsockname()[1]}"
        transport = LIVE[kind](HttpOptions(proxy=address))
        began = time.monotonic()
        _, error = Caller(transport, blocking=blocking).stream(
            f"{target}://api.example/", timeouts=Timeouts(connect=0.5, first_byte=5)
        )
        transport.close()
    assert isinstance(error, ModelTimeoutError)
    assert error.phase == "connect"
    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("route", ROUTES)
def test_F_Y05_a_slow_answer_through_a_proxy_is_not_slow_connecting(
    blocking: bool, route: str, fault_server: FaultServer
) -> None:
    kind, proxy, target = route.split()
    proxies = {
        "http": fault_server.url,
        "https": fault_server.https_url,
        "socks5": fault_server.socks_url,
    }
    options = HttpOptions(proxy=proxies[proxy], ca=fault_server.ca_pem)
    fault_server.script("/a", Answer([b"x", ("wait", 0.6), b"y"], before=[("wait", 0.6)]))
    url = fault_server.https_url if target == "https" else fault_server.url
    transport = LIVE[kind](options)
    limits = Timeouts(connect=0.5, first_byte=5)

    async def ask_twice() -> list[bytes]:  # the second on a kept connection
        bodies = []
        for _ in range(2):
            request = Request(url=url + "/a", timeouts=limits)
            async with transport.open(request, blocking=blocking) as response:
                bodies.append(await response.read())
        if blocking:
            transport.close()
        else:
            await transport.aclose()
        return bodies

    assert Caller(transport, blocking=blocking).run(ask_twice()) == [b"xy", b"xy"]


@pytest.mark.usefixtures("no_leaks")
def test_F_Y05_at_most_eight_lookups_wait(
    blocking: bool, names: Callable[[str, Lookup], None], fault_server: FaultServer
) -> None:
    done = threading.Event()
    names("localhost", lambda port: (done.wait(10) and [address("127.0.0.1", port)]) or [])
    transport = NativeTransport()
    url = fault_server.url.replace("127.0.0.1", "localhost") + "/ok"
    limits = Timeouts(connect=0.4)

    async def ask() -> str:
        try:
            async with transport.open(Request(url=url, timeouts=limits), blocking=blocking):
                return "answered"
        except ModelTimeoutError as error:
            return str(error.phase)

    async def ask_all() -> list[str]:
        return await asyncio.gather(*(ask() for _ in range(20)))

    def resolvers() -> int:
        return sum(thread.name == "foldline-resolver" for thread in threading.enumerate())

    if blocking:
        with ThreadPoolExecutor(20) as threads:
            outcomes = list(
                threads.map(lambda _: Caller(transport, blocking=True).run(ask()), range(20))
            )
    else:
        outcomes = asyncio.run(ask_all())
    assert outcomes == ["connect"] * 20
    assert resolvers() == 8
    done.set()
    assert Caller(transport, blocking=blocking).read(url) == (200, b"ok")
    transport.close()


@pytest.mark.usefixtures("no_leaks")
def test_F_Y05_a_cancelled_race_frees_its_sockets(
    names: Callable[[str, Lookup], None], black_hole: tuple[str, int]
) -> None:
    names("localhost", lambda port: [address(*black_hole)] * 5)
    transport = NativeTransport()

    async def main() -> None:
        async def ask() -> None:
            async with transport.open(Request(url="http://localhost:9/"), blocking=False):
                pass

        task = asyncio.create_task(ask())
        await asyncio.sleep(0.6)  # three attempts are under way
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_F_C13_an_interrupt_while_a_socket_is_prepared_closes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not left to the collector, which warns of it."""

    class Interruption:
        def __iter__(self) -> Iterator[tuple[int, int, int]]:
            raise KeyboardInterrupt

    monkeypatch.setattr("foldline.transports._connect.SOCKET_OPTIONS", Interruption())
    with pytest.raises(KeyboardInterrupt) as interrupt:
        connect_sync("127.0.0.1", 9, 1)

    frames = [entry.frame for entry in interrupt.traceback if entry.name == "new_socket"]
    assert [frame.f_locals["created"].fileno() for frame in frames] == [-1]


def test_families_take_turns() -> None:
    six = [address(f"::{n}", 1) for n in (1, 2, 3)]
    four = [address(f"127.0.0.{n}", 1) for n in (1,)]
    order = [address[4][0] for address in interleave([*six, *four])]  # type: ignore[index, arg-type]
    assert order == ["::1", "127.0.0.1", "::2", "::3"]


@pytest.mark.parametrize("is_proxied", [False, True], ids=["direct", "proxied"])
@pytest.mark.parametrize("wire", ["http", "https"])
def test_F_Y19_the_system_watches_idle_connections(
    live: Make,
    blocking: bool,
    wire: str,
    is_proxied: bool,
    fault_server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SO_KEEPALIVE is on, and begins to ask before middleboxes forget the connection."""
    options: set[tuple[int, int, int]] = set()
    set_option = socket.socket.setsockopt

    class RecordingSocket(socket.socket):
        def setsockopt(self, *args: int) -> None:  # type: ignore[override]
            options.add(args)  # type: ignore[arg-type]
            set_option(self, *args)

    monkeypatch.setattr(socket, "socket", RecordingSocket)
    monkeypatch.setattr(ssl.SSLSocket, "setsockopt", set_option, raising=False)
    caller = Caller(live(HttpOptions(ca=fault_server.ca_pem)), blocking=blocking)
    url = fault_server.https_url if wire == "https" else fault_server.url
    if is_proxied:
        proxied = HttpOptions(ca=fault_server.ca_pem, proxy=fault_server.url)
        caller = Caller(live(proxied), blocking=blocking)
    assert caller.read(url + "/ok") == (200, b"ok")
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in options
    if hasattr(socket, "TCP_KEEPIDLE"):
        assert any(option[1] == socket.TCP_KEEPIDLE and option[2] <= 60 for option in options)


def test_a_streamed_answer_survives_a_name_with_two_addresses(
    live: Make, blocking: bool, names: Callable[[str, Lookup], None], fault_server: FaultServer
) -> None:
    names("localhost", lambda port: [address("::1", 1), address("127.0.0.1", port)])
    fault_server.script("/a", Answer([b"x", b"y"], framing="chunked"))
    url = fault_server.url.replace("127.0.0.1", "localhost")
    pieces, error = Caller(live(), blocking=blocking).stream(url + "/a")
    assert (b"".join(pieces), error) == (b"xy", None)
