"""TLS of the server itself, Unix sockets, and headers of proxies."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from foldline.exceptions import UsageError
from foldline.serve import create_app
from foldline.serve._tls import tls_options
from foldline.serve.settings import ProcessSettings
from tests.serve import served
from tests.serve.process import ROOT, ServeProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGHUP, no Unix sockets")


class Files:
    """A certificate authority, and the files of certificates it has signed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = str(folder / "ca.pem")
        self.cert, self.key = str(folder / "cert.pem"), str(folder / "key.pem")
        self.authority.cert_pem.write_to_path(self.ca)
        self.renew()

    def renew(self) -> None:
        cert = self.authority.issue_cert("localhost", "127.0.0.1")
        cert.private_key_pem.write_to_path(self.key)
        with open(self.cert, "wb") as file:
            file.write(b"".join(part.bytes() for part in cert.cert_chain_pems))

    def client_context(self, **files: Any) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if files:
            context.load_cert_chain(**files)
        return context

    def client_files(self) -> dict[str, str]:
        cert = self.authority.issue_cert("client@example.org")
        names = {"certfile": self.folder / "client.pem", "keyfile": self.folder / "client.key"}
        cert.private_key_pem.write_to_path(names["keyfile"])
        cert.cert_chain_pems[0].write_to_path(names["certfile"])
        return {name: str(path) for name, path in names.items()}


class TlsProcess(ServeProcess):
    def __init__(self, folder: Path, files: Files, *options: str, **client: Any) -> None:
        tls = ("--tls-cert", files.cert, "--tls-key", files.key, "--no-trace", *options)
        super().__init__(folder, apps=["chat=tests.serve.served:chat"], options=tls)
        self.url = self.url.replace("http:", "https:")
        self.context = files.client_context(**client)

    def _is_ready(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=5, verify=self.context)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200

    def certificate(self) -> bytes:
        """Return the certificate that a new connection gets."""
        import socket

        with (
            socket.create_connection(("127.0.0.1", self.port), 10) as plain,
            self.context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            return connection.getpeercert(binary_form=True) or b""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def tls_server(tmp_path: Path, files: Files) -> Iterator[TlsProcess]:
    process = TlsProcess(tmp_path, files)
    process.start()
    yield process
    process.stop()


def test_S39_the_server_speaks_tls_1_2_or_newer(tls_server, files):
    body = {"app": "chat", "input": "hi", "wait": True}
    answer = httpx.post(f"{tls_server.url}/runs", json=body, verify=tls_server.context, timeout=30)

    assert answer.json()["status"] == "success"
    assert f"on https://127.0.0.1:{tls_server.port}" in tls_server.stderr()
    result = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{tls_server.port}", "-tls1_1"],
        input="", capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert result.returncode != 0
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(files.ca)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert httpx.get(f"{tls_server.url}/healthz", verify=old).status_code == 200


def test_S39_certificates_are_read_again_on_sighup(tls_server, files):
    before = tls_server.certificate()
    files.renew()
    assert tls_server.certificate() == before

    tls_server.process.send_signal(signal.SIGHUP)

    end = time.monotonic() + 30
    while tls_server.certificate() == before:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert httpx.get(f"{tls_server.url}/healthz", verify=tls_server.context).status_code == 200


def test_S39_a_broken_certificate_on_sighup_leaves_the_present_one(tls_server, files):
    before = tls_server.certificate()
    Path(files.cert).write_text("broken")

    tls_server.process.send_signal(signal.SIGHUP)

    end = time.monotonic() + 30
    while "the new certificate is not used" not in tls_server.stderr():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert tls_server.certificate() == before


@pytest.mark.slow
def test_S39_a_client_needs_its_certificate_and_its_key(tmp_path, files):
    process = TlsProcess(
        tmp_path, files, "--tls-ca", files.ca, "--tls-client-cert", "required",
        **files.client_files(),
    )  # fmt: skip
    key = process.add_key("alice")
    process.start()
    try:
        head = {"authorization": f"Bearer {key}"}
        url = f"{process.url}/v1/models"
        assert httpx.get(url, headers=head, verify=process.context).status_code == 200
        assert httpx.get(url, verify=process.context).status_code == 401
        with pytest.raises(httpx.TransportError):
            httpx.get(url, headers=head, verify=files.client_context())
    finally:
        process.stop()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tls_key": "k.pem"}, "tls_key and tls_ca need tls_cert"),
        ({"tls_cert": "c.pem", "tls_client_cert": "required"}, "tls_client_cert needs tls_ca"),
        ({"tls_cert": "/nonexistent/c.pem"}, "cannot be used: No such file"),
    ],
)
def test_S39_files_that_cannot_be_used_are_refused_at_the_start(options, sentence):
    with pytest.raises(UsageError, match=sentence):
        tls_options(ProcessSettings(**options))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
    ],
)
def test_S39_rules_for_host_and_origin_are_the_same_behind_tls(tls_server, headers, status):
    answer = httpx.get(f"{tls_server.url}/v1/models", headers=headers, verify=tls_server.context)

    assert answer.status_code == status


# -- proxies


def client_of(headers: dict[str, str], *, peer: str = "127.0.0.1", **options: Any) -> int:
    """Return the status of a request to a server without keys, which serves its own machine only."""

    async def main() -> int:
        app = create_app(served.chat, **options)
        transport = httpx.ASGITransport(app=app, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get("/v1/models", headers=headers)).status_code

    return asyncio.run(main())


PROXY = {"trusted_proxies": ["10.0.0.0/8", "127.0.0.1", "fd00::/8"]}


@pytest.mark.parametrize(
    ("forwarded", "peer", "status"),
    [
        ("203.0.113.9", "10.1.2.3", 401),
        ("127.0.0.1", "203.0.113.9", 401),  # not a proxy of ours: what it says is not read
        ("127.0.0.1, 203.0.113.9", "10.1.2.3", 401),  # the client wrote the first one
        ("203.0.113.9, 10.9.9.9", "10.1.2.3", 401),
        ("::1, fd00::7", "127.0.0.1", 401),  # of the machine of that proxy
        ("127.0.0.1", "10.1.2.3", 401),
        ("127.0.0.1, nonsense", "127.0.0.1", 401),
        ("[::1]:443", "127.0.0.1", 200),
        ("127.0.0.5:80", "127.0.0.1", 200),
        ("", "127.0.0.1", 401),
        ("", "10.1.2.3", 401),
    ],
)
def test_S39_the_client_is_the_last_address_that_is_no_proxy(forwarded, peer, status):
    assert client_of({"x-forwarded-for": forwarded}, peer=peer, **PROXY) == status


@pytest.mark.parametrize(
    "header", ["x-forwarded-for", "x-real-ip", "forwarded", "x-forwarded-host"]
)
def test_S39_without_trusted_proxies_a_forwarded_request_is_not_of_this_machine(header):
    assert client_of({}) == 200
    assert client_of({header: "127.0.0.1"}) == 401


def test_S39_the_address_behind_a_proxy_is_in_the_access_log(tmp_path):
    options = ("--access-log", "--no-trace", "--trusted-proxies", "127.0.0.1")
    process = ServeProcess(tmp_path, apps=["chat=tests.serve.served:chat"], options=options).start()
    try:
        headers = {"x-forwarded-for": "203.0.113.9", "x-request-id": "behind-1"}
        httpx.get(f"{process.url}/healthz", headers=headers)
        plain = {"x-request-id": "front-1"}
        httpx.get(f"{process.url}/healthz", headers=plain)
    finally:
        process.stop()
    lines = {
        id: line
        for line in process.stderr().splitlines()
        for id in ("behind-1", "front-1")
        if id in line
    }
    assert "client=203.0.113.9" in lines["behind-1"]
    assert "client=127.0.0.1" in lines["front-1"]


@pytest.mark.slow
def test_a_unix_socket_is_of_this_machine(tmp_path):
    socket = str(tmp_path / "s")
    command = [
        sys.executable, "-m", "foldline", "serve", "chat=tests.serve.served:chat", "--uds", socket,
        "--log", str(tmp_path / "runs.db"), "--no-trace",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not Path(socket).exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        with httpx.Client(transport=httpx.HTTPTransport(uds=socket)) as client:
            assert client.get("http://localhost/v1/models").status_code == 200
            assert client.get("http://evil.example/v1/models").status_code == 403
            forwarded = {"x-forwarded-for": "127.0.0.1"}
            assert client.get("http://localhost/v1/models", headers=forwarded).status_code == 401
    finally:
        process.terminate()
        process.wait(45)
