"""How transports connect: certificates, proxies, the environment, HTTP/2."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from foldline.exceptions import (
    MissingExtraError,
    ModelConnectionError,
    ModelTimeoutError,
    UsageError,
)
from foldline.transports import (
    HttpOptions,
    NativeTransport,
    Request,
    Timeouts,
    Transport,
    transport_for,
)
from foldline.transports.httpx import HttpxTransport
from tests.servers import Answer, FaultServer
from tests.transports.conftest import Caller

pytestmark = pytest.mark.timing

Make = Callable[..., Transport]


@pytest.mark.parametrize("as_file", [True, False], ids=["file", "bytes"])
def test_a_custom_ca_is_trusted(
    live: Make, blocking: bool, fault_server: FaultServer, tmp_path: Path, as_file: bool
) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(b"# a comment\n" + fault_server.ca_pem)
    caller = Caller(
        live(HttpOptions(ca=file if as_file else fault_server.ca_pem)), blocking=blocking
    )
    for _ in range(2):
        assert caller.read(fault_server.https_url + "/ok", method="GET") == (200, b"ok")


def test_a_cut_inside_tls_is_an_interruption(
    live: Make, blocking: bool, fault_server: FaultServer
) -> None:
    """F-T03, TLS close."""
    fault_server.script("/a", Answer([b"hello ", b"world"], framing="chunked"))
    caller = Caller(live(HttpOptions(ca=fault_server.ca_pem)), blocking=blocking)
    for how in ("fin", "rst"):
        pieces, error = caller.stream(f"{fault_server.https_url}/a?cut=8&how={how}")
        assert b"".join(pieces) == b"hello wo"
        assert type(error).__name__ == "StreamInterruptedError"


def test_verification_can_be_turned_off(
    live: Make, blocking: bool, fault_server: FaultServer
) -> None:
    caller = Caller(live(HttpOptions(verify=False)), blocking=blocking)
    assert caller.read(fault_server.https_url + "/ok") == (200, b"ok")


def test_a_certificate_of_another_name_is_refused(
    live: Make, blocking: bool, fault_server: FaultServer
) -> None:
    caller = Caller(live(HttpOptions(ca=fault_server.ca_pem)), blocking=blocking)
    _, error = caller.stream(fault_server.https_url.replace("localhost", "127.0.0.1") + "/ok")
    assert isinstance(error, ModelConnectionError)


def test_bad_certificates_are_a_mistake(live: Make, tmp_path: Path) -> None:
    for ca in (b"nonsense", tmp_path / "missing.pem"):
        _, error = Caller(live(HttpOptions(ca=ca)), blocking=True).stream("https://localhost:1/")
        assert isinstance(error, UsageError)


def test_extra_headers_go_with_every_request_and_give_way(
    live: Make, blocking: bool, fault_server: FaultServer
) -> None:
    caller = Caller(
        live(HttpOptions(headers={"X-Team": "foldline", "X-Tag": "a"})), blocking=blocking
    )
    caller.read(fault_server.url + "/ok", headers={"x-tag": "b"})
    (request,) = fault_server.requests()
    assert (request.headers["x-team"], request.headers["x-tag"]) == ("foldline", "b")


def test_a_proxy_carries_http(live: Make, blocking: bool, fault_server: FaultServer) -> None:
    proxy = fault_server.other_url.replace("http://", "http://ann:p%40ss@")
    caller = Caller(live(HttpOptions(proxy=proxy)), blocking=blocking)
    assert caller.read("http://model.example/echo")[0] == 200
    (request,) = fault_server.requests()
    assert (request.port, request.target) == ("other", "http://model.example/echo")
    assert (
        request.headers["proxy-authorization"] == "Basic " + base64.b64encode(b"ann:p@ss").decode()
    )


def test_a_proxy_tunnels_https_and_sees_no_key(
    live: Make, blocking: bool, fault_server: FaultServer
) -> None:
    options = HttpOptions(proxy=fault_server.other_url, ca=fault_server.ca_pem)
    caller = Caller(live(options), blocking=blocking)
    read = caller.read(fault_server.https_url + "/ok", headers={"Authorization": "Bearer k"})
    assert read == (200, b"ok")
    tunnel, call = fault_server.requests()
    assert (tunnel.method, tunnel.port, call.port) == ("CONNECT", "other", "https")
    assert "authorization" not in tunnel.headers


@pytest.fixture(params=["http", "https", "http2"])
def target(request: pytest.FixtureRequest, fault_server: FaultServer) -> tuple[str, str]:
    """A server behind a proxy: which of the ports, and its address."""
    urls = {"http": fault_server.url, "https": fault_server.https_url}
    return request.param, urls.get(request.param, fault_server.http2_url)


@pytest.mark.slow
def test_an_https_proxy_carries_every_wire(
    target: tuple[str, str], blocking: bool, fault_server: FaultServer
) -> None:
    """The proxy is reached over TLS, and its payload may be TLS again."""
    port, url = target
    proxy = fault_server.https_url.replace("https://", "https://ann:p%40ss@")
    transport = transport_for(
        HttpOptions(proxy=proxy, ca=fault_server.ca_pem, http2=port == "http2")
    )
    caller = Caller(transport, blocking=blocking)
    assert caller.read(url + "/ok", headers={"Authorization": "Bearer k"}) == (200, b"ok")
    transport.close()
    first, *others = fault_server.requests()
    assert first.headers["proxy-authorization"] == "Basic " + base64.b64encode(b"ann:p@ss").decode()
    assert first.port == "https"
    if port == "http":
        assert (first.target, others) == (url + "/ok", [])
    else:
        assert (first.method, [other.port for other in others]) == ("CONNECT", [port])
        assert "authorization" not in first.headers


def test_the_certificate_of_an_https_proxy_is_checked(
    blocking: bool, fault_server: FaultServer
) -> None:
    transport = transport_for(HttpOptions(proxy=fault_server.https_url))
    _, error = Caller(transport, blocking=blocking).stream(fault_server.url + "/ok")
    assert isinstance(error, ModelConnectionError)
    assert "certificate" in str(error)
    assert fault_server.hits() == 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_socks_proxy_carries_every_wire(
    target: tuple[str, str], scheme: str, blocking: bool, fault_server: FaultServer
) -> None:
    port, url = target
    proxy = fault_server.socks_url.replace("socks5://", f"{scheme}://ann:p%40ss@")
    transport = transport_for(
        HttpOptions(proxy=proxy, ca=fault_server.ca_pem, http2=port == "http2")
    )
    assert Caller(transport, blocking=blocking).read(url + "/ok") == (200, b"ok")
    transport.close()
    tunnel, call = fault_server.requests()
    assert (tunnel.port, tunnel.headers, call.port) == ("socks", {"user": "ann:p@ss"}, port)
    assert tunnel.target == url.partition("://")[2]  # the name is looked up by the proxy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(status=5), ModelConnectionError),
        (Answer(before=[("fin", None)]), ModelConnectionError),
        (Answer(before=[("stall", None)]), ModelTimeoutError),
    ],
    ids=["refuses", "goes away", "stalls"],
)
@pytest.mark.usefixtures("no_leaks")
def test_a_socks_proxy_that_fails_leaves_no_socket(
    answer: Answer, kind: type, blocking: bool, fault_server: FaultServer
) -> None:
    fault_server.script(fault_server.url.partition("://")[2], answer)
    transport = transport_for(HttpOptions(proxy=fault_server.socks_url))
    caller = Caller(transport, blocking=blocking)
    _, error = caller.stream(fault_server.url + "/ok", timeouts=Timeouts(first_byte=0.3))
    assert type(error) is kind
    assert fault_server.wait_for_open(0) == 0


def test_the_password_of_a_proxy_is_in_no_log(
    blocking: bool, fault_server: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for address in (fault_server.socks_url, fault_server.https_url, fault_server.other_url):
        proxy = address.replace("://", "://ann:s3cr3t@")
        transport = transport_for(HttpOptions(proxy=proxy, ca=fault_server.ca_pem))
        caller = Caller(transport, blocking=blocking)
        assert caller.read(fault_server.https_url + "/ok") == (200, b"ok")
        transport.close()
    assert "setup_socks5_connection" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_compression_is_asked_for_where_wanted(
    live: Make, blocking: bool, fault_server: FaultServer
) -> None:
    Caller(live(HttpOptions(compression=True)), blocking=blocking).read(fault_server.url + "/ok")
    assert fault_server.requests()[0].headers["accept-encoding"] == "gzip, deflate"


def test_http2_falls_back_where_the_server_has_none(
    blocking: bool, fault_server: FaultServer
) -> None:
    options = HttpOptions(http2=True, ca=fault_server.ca_pem)
    transport = transport_for(options)
    assert isinstance(transport, HttpxTransport)
    assert Caller(transport, blocking=blocking).read(fault_server.https_url + "/ok") == (200, b"ok")
    transport.close()


def test_the_native_transport_says_what_it_does_not_do() -> None:
    with pytest.raises(UsageError, match="HttpxTransport"):
        NativeTransport(HttpOptions(http2=True))
    _, error = Caller(NativeTransport(HttpOptions(proxy="socks5://h:1")), blocking=True).stream(
        "http://model.example/"
    )
    assert isinstance(error, UsageError)
    assert "HttpxTransport" in str(error)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (HttpOptions(), NativeTransport),
        (HttpOptions(proxy="http://h:1"), NativeTransport),
        (HttpOptions(http2=True), HttpxTransport),
        (HttpOptions(proxy="https://h:1"), HttpxTransport),
        (HttpOptions(proxy="socks5://h:1"), HttpxTransport),
        (HttpOptions(proxy="socks5h://ann:secret@h"), HttpxTransport),
    ],
    ids=["plain", "http proxy", "http2", "https proxy", "socks", "socks with a password"],
)
def test_the_options_choose_the_transport(options: HttpOptions, kind: type) -> None:
    assert isinstance(transport_for(options), kind)


@pytest.mark.parametrize("proxy", ["ftp://ann:secret@h", "socks4://h:1", "h:3128", "https://"])
def test_a_proxy_that_nothing_speaks_to_is_a_mistake(proxy: str) -> None:
    with pytest.raises(UsageError, match="socks5://") as excinfo:
        transport_for(HttpOptions(proxy=proxy))
    assert "secret" not in str(excinfo.value)


@pytest.mark.parametrize(
    ("package", "options"),
    [("h2", HttpOptions(http2=True)), ("socksio", HttpOptions(proxy="socks5://h:1"))],
    ids=["http2", "socks"],
)
def test_httpx2_without_its_own_extras_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, package: str, options: HttpOptions
) -> None:
    monkeypatch.setattr(
        "foldline.transports.httpx.find_spec", lambda name: None if name == package else name
    )
    with pytest.raises(MissingExtraError, match=package) as excinfo:
        transport_for(options)
    assert 'pip install "foldline[httpx]"' in str(excinfo.value)


def test_a_proxy_that_refuses_the_tunnel(
    live: Make, blocking: bool, fault_server: FaultServer
) -> None:
    fault_server.script(fault_server.https_url.removeprefix("https://"), Answer(status=407))
    options = HttpOptions(proxy=fault_server.other_url, ca=fault_server.ca_pem)
    _, error = Caller(live(options), blocking=blocking).stream(fault_server.https_url + "/ok")
    assert isinstance(error, ModelConnectionError)
    assert fault_server.wait_for_open(0) == 0


def test_get_sends_no_body(live: Make, blocking: bool, fault_server: FaultServer) -> None:
    caller = Caller(live(), blocking=blocking)
    assert caller.read(fault_server.url + "/ok", method="GET") == (200, b"ok")
    assert "content-length" not in fault_server.requests()[0].headers
    assert Request(url="http://h").method == "POST"
