"""Environment variables are obeyed by default: proxies, exemptions from them, certificates (F-H09)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from foldline.exceptions import MissingExtraError, ModelConnectionError, UsageError
from foldline.transports import HttpOptions, NativeTransport, Request, Transport, default_transport
from foldline.transports._proxy_environment import environment_proxy, is_exempt
from tests.servers import FaultServer
from tests.transports.conftest import QUICK, Caller

pytestmark = pytest.mark.timing

Make = Callable[..., Transport]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("has_scheme", [True, False], ids=["url", "host:port"])
def test_F_H09_a_proxy_variable_is_obeyed_by_default(
    live: Make,
    blocking: bool,
    fault_server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    has_scheme: bool,
) -> None:
    proxy = fault_server.other_url
    monkeypatch.setenv(name, proxy if has_scheme else proxy.removeprefix("http://"))
    Caller(live(), blocking=blocking).read("http://model.example/ok")
    (request,) = fault_server.requests()
    assert (request.port, request.target) == ("other", "http://model.example/ok")


def test_F_H09_https_goes_through_its_own_variable(
    live: Make, blocking: bool, fault_server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", fault_server.other_url)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    caller = Caller(live(HttpOptions(ca=fault_server.ca_pem)), blocking=blocking)
    assert caller.read(fault_server.https_url + "/ok") == (200, b"ok")
    tunnel, call = fault_server.requests()
    assert (tunnel.method, tunnel.port, call.port) == ("CONNECT", "other", "https")


def test_F_H09_the_environment_can_be_turned_off(
    live: Make,
    blocking: bool,
    fault_server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """And `.netrc` is never read."""
    (tmp_path / "ca.pem").write_bytes(fault_server.ca_pem)
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ann password secret\n")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    caller = Caller(live(HttpOptions(trust_env=False)), blocking=blocking)
    caller.read(fault_server.url + "/ok")
    _, error = caller.stream(fault_server.https_url + "/ok")
    assert isinstance(error, ModelConnectionError)
    (request,) = fault_server.requests()
    assert (request.port, request.target) == ("http", "/ok")
    assert "authorization" not in request.headers


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_F_H09_certificate_variables_are_obeyed_by_default(
    live: Make,
    blocking: bool,
    fault_server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(fault_server.ca_pem)
    if name == "SSL_CERT_FILE":
        monkeypatch.setenv(name, str(file))
    else:
        for place in subject_hash_names(fault_server.ca_pem):
            (tmp_path / place).write_bytes(fault_server.ca_pem)
        monkeypatch.setenv(name, str(tmp_path))
    assert Caller(live(), blocking=blocking).read(fault_server.https_url + "/ok") == (200, b"ok")


def subject_hash_names(pem: bytes) -> list[str]:
    """The names under which OpenSSL looks for a certificate in a folder."""
    openssl = pytest.importorskip("cryptography.x509")
    hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
    subject = openssl.load_pem_x509_certificate(pem).subject
    digest = hashes.Hash(hashes.SHA1())
    digest.update(canonical(subject))
    return [f"{int.from_bytes(digest.finalize()[:4], 'little'):08x}.0"]


def canonical(subject: object) -> bytes:
    """OpenSSL's canonical form of a name: each part in lower case, as UTF-8, without the outer sequence."""
    parts = b""
    for attribute in subject:  # type: ignore[attr-defined]
        text = " ".join(attribute.value.lower().split()).encode()
        numbers = [int(number) for number in attribute.oid.dotted_string.split(".")]
        oid = bytes([numbers[0] * 40 + numbers[1], *numbers[2:]])
        pair = wrapped(0x06, oid) + wrapped(0x0C, text)
        parts += wrapped(0x31, wrapped(0x30, pair))
    return parts


def wrapped(tag: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([tag, len(content)]) + content


def test_a_certificate_file_that_is_not_there_is_named(
    live: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    _, error = Caller(live(), blocking=True).stream("https://localhost:1/")
    assert isinstance(error, UsageError)
    assert "SSL_CERT_FILE" in str(error)


@pytest.mark.parametrize("scheme", ["https", "socks5", "socks5h", "socks"])
def test_https_and_socks_proxies_of_the_environment_go_through_httpx2(
    blocking: bool, fault_server: FaultServer, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    address = fault_server.https_url if scheme == "https" else fault_server.socks_url
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://{address.partition('://')[2]}")
    transport = NativeTransport(HttpOptions(ca=fault_server.ca_pem))

    async def body() -> bytes:
        async with Caller(transport, blocking=blocking).open(
            Request(url=fault_server.https_url + "/ok", timeouts=QUICK)
        ) as response:
            answer = await response.read()
        if not blocking:
            await transport.aclose()
        return bytes(answer)

    assert Caller(transport, blocking=blocking).run(body()) == b"ok"
    transport.close()
    assert fault_server.requests()[0].port == ("https" if scheme == "https" else "socks")


def test_a_proxy_that_needs_the_extra_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    monkeypatch.delitem(sys.modules, "foldline.transports.httpx", raising=False)
    _, error = Caller(NativeTransport(), blocking=True).stream("http://model.example/")
    assert isinstance(error, MissingExtraError)
    assert 'pip install "foldline[httpx]"' in str(error)


def test_the_shared_transport_obeys_the_environment_of_the_moment(
    blocking: bool, fault_server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Caller(default_transport(), blocking=blocking)
    caller.read(fault_server.url + "/ok")
    monkeypatch.setenv("HTTP_PROXY", fault_server.other_url)
    caller.read("http://model.example/ok")
    caller.transport.close()
    assert [request.port for request in fault_server.requests()] == ["http", "other"]


@pytest.mark.parametrize(
    "value", ["ftp://ann:s3cret@h:1", "http://", "http://h:99999", "socks4://h"]
)
def test_a_variable_that_names_no_proxy_is_a_mistake(
    live: Make, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    _, error = Caller(live(), blocking=True).stream("https://model.example/")
    assert isinstance(error, UsageError)
    assert "HTTPS_PROXY" in str(error)
    assert "s3cret" not in str(error)


def test_lower_case_wins_and_an_empty_value_turns_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://upper:1")
    assert environment_proxy("http://a.example/") == "http://upper:1"
    monkeypatch.setenv("http_proxy", "http://lower:1")
    assert environment_proxy("http://a.example/") == "http://lower:1"
    monkeypatch.setenv("http_proxy", "")
    assert environment_proxy("http://a.example/") is None


def test_a_header_of_a_stranger_is_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Httpoxy: a CGI program gets the request's `Proxy` header as HTTP_PROXY."""
    monkeypatch.setenv("HTTP_PROXY", "http://evil.example:1")
    monkeypatch.setenv("REQUEST_METHOD", "POST")
    assert environment_proxy("http://a.example/") is None


@pytest.mark.parametrize(
    ("exemptions", "url", "exempt"),
    [
        ("", "http://a.example/", False),
        ("*", "http://a.example/", True),
        ("a.example", "http://a.example/", True),
        ("a.example", "https://b.a.example/v1", True),
        (".a.example", "http://b.a.example/", True),
        (".a.example", "http://a.example/", True),
        ("*.a.example", "http://b.a.example/", True),
        ("a.example", "http://ba.example/", False),
        ("A.Example", "http://a.EXAMPLE./", True),
        ("x.example, a.example", "http://a.example/", True),
        ("x.example a.example", "http://a.example/", True),
        ("a.example:8080", "http://a.example:8080/", True),
        ("a.example:8080", "http://a.example/", False),
        ("a.example:443", "https://a.example/", True),
        ("localhost,127.0.0.1", "http://127.0.0.1:8000/", True),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/", True),
        ("127.0.0.1:8001", "http://127.0.0.1:8000/", False),
        ("10.0.0.0/8", "http://10.20.30.40/", True),
        ("10.0.0.0/8", "http://11.0.0.1/", False),
        ("10.1.2.3/8", "http://10.9.9.9/", True),
        ("10.0.0.0/8", "http://ten.example/", False),
        ("::1", "http://[::1]:8000/", True),
        ("[::1]", "http://[::1]:8000/", True),
        ("[::1]:8001", "http://[::1]:8000/", False),
        ("[::1]:8000", "http://[::1]:8000/", True),
        ("fd00::/8", "http://[fd12::1]/", True),
        ("fd00::/8", "http://10.0.0.1/", False),
        ("10.0.0.0/99, ., :", "http://10.0.0.1/", False),
    ],
)
def test_hosts_that_need_no_proxy(
    exemptions: str, url: str, exempt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_exempt(url, exemptions) is exempt
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:1")
    monkeypatch.setenv("NO_PROXY", exemptions)
    assert environment_proxy(url) == (None if exempt else "http://proxy.example:1")
