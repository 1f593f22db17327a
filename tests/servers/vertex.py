"""A Google Cloud on this machine: it issues tokens for signed assertions, checks them, and gives scripted answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from google.auth import jwt

PROJECT, LOCATION = "stub-project", "europe-west4"
EMAIL = "robot@stub-project.iam.gserviceaccount.com"


def _make_keys() -> tuple[str, bytes]:
    """A private key, and the certificate that google-auth verifies its signatures with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stub")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private.decode(), certificate.public_bytes(serialization.Encoding.PEM)


PRIVATE_KEY, CERTIFICATE = _make_keys()


class VertexStub:
    """A running stub; `answer` is the JSON of whole answers, `stream` the bytes of streamed ones."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.answer: Any = {}
        self.stream = b""
        self.status = 200
        self.requests: list[dict[str, Any]] = []
        self.token_status = 200
        self.token_body: Any = None
        self.token_delay = 0.0
        self.expires_in = 3600
        self.tokens: list[str] = []
        self.valid: set[str] = set()
        """Tokens that are accepted."""

    def key_file(self, **fields: Any) -> dict[str, Any]:
        """The fields of a service account's key file."""
        return {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "key-1",
            "private_key": PRIVATE_KEY,
            "client_email": EMAIL,
            "token_uri": f"{self.url}/token",
            **fields,
        }

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[VertexStub]:
        """Serve until the end of the block."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        stub = server.stub = cls(server)  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        stub: VertexStub = self.server.stub  # type: ignore[attr-defined]
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        if self.path == "/token":
            self._give_token(stub, body)
            return
        stub.requests.append({"path": self.path, "headers": headers, "body": json.loads(body)})
        token = headers.get("authorization", "").removeprefix("Bearer ")
        is_key = bool(headers.get("x-goog-api-key"))
        if token not in stub.valid and not is_key:
            error = {"code": 401, "status": "UNAUTHENTICATED", "message": f"bad token {token}"}
            self._send(401, json.dumps({"error": error}).encode())
        elif stub.status != 200:
            self._send(stub.status, json.dumps(stub.answer).encode())
        elif "alt=sse" in self.path or ":streamRawPredict" in self.path:
            self._send(200, stub.stream, "text/event-stream")
        else:
            self._send(200, json.dumps(stub.answer).encode())

    def _give_token(self, stub: VertexStub, body: bytes) -> None:
        time.sleep(stub.token_delay)
        assertion = parse_qs(body.decode())["assertion"][0]
        claims = jwt.decode(
            assertion, certs={"key-1": CERTIFICATE}, audience="https://oauth2.googleapis.com/token"
        )
        assert claims["iss"] == EMAIL
        assert "https://www.googleapis.com/auth/cloud-platform" in claims["scope"]
        if stub.token_status != 200 or stub.token_body is not None:
            body = stub.token_body
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self._send(stub.token_status, data)
            return
        token = f"ya29.stub-token-{len(stub.tokens) + 1}"
        stub.tokens.append(token)
        stub.valid.add(token)
        answer = {"access_token": token, "expires_in": stub.expires_in, "token_type": "Bearer"}
        self._send(200, json.dumps(answer).encode())

    def _send(self, status: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
