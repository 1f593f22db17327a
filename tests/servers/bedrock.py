"""A Bedrock on this machine: it checks every signature with botocore's signer, and answers whole or as a stream."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.servers.event_stream import chunk, event

ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "AKIDSTUB12345", "stub/secret+key", "stub-session-token"
BEARER = "stub-bearer-key"
REGION = "eu-central-1"
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<date>\d{8})/(?P<region>[^/]+)/"
    r"(?P<service>bedrock(?:-mantle)?)/aws4_request, "
    r"SignedHeaders=(?P<names>[^,]+), Signature=(?P<signature>[0-9a-f]{64})"
)


def has_good_signature(method: str, url: str, headers: dict[str, str], body: bytes) -> bool:
    """Whether botocore's signer, given what was signed, comes to the signature that was sent."""
    match = AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if match is None or match["key"] != ACCESS_KEY:
        return False
    names = match["names"].split(";")
    if "host" not in names or any(n.startswith("x-amz-") and n not in names for n in headers):
        return False
    request = AWSRequest(method, url, {name: headers[name] for name in names}, body)
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), match["service"], match["region"])
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return bool(signer.signature(text, request) == match["signature"])


class BedrockStub:
    """A running stub; `answer` is the body of Converse, `events` the stream of ConverseStream."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.answer: Any = {}
        self.events: list[tuple[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.frames = b""
        """The body of InvokeModelWithResponseStream, where it is not the events as chunks."""
        self.metadata: dict[str, Any] = {}
        """Path -> body, of the metadata services."""

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[BedrockStub]:
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

    def do_GET(self) -> None:
        self._answer_metadata()

    def do_PUT(self) -> None:
        self._answer_metadata()

    def _answer_metadata(self) -> None:
        stub = self.server.stub  # type: ignore[attr-defined]
        headers = {name.lower(): value for name, value in self.headers.items()}
        stub.requests.append({"method": self.command, "path": self.path, "headers": headers})
        body = stub.metadata.get(self.path)
        if body is None:
            self._send(404, {"message": "no such path"})
        else:
            self._send(200, body)

    def do_POST(self) -> None:
        stub = self.server.stub  # type: ignore[attr-defined]
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        stub.requests.append({"path": self.path, "headers": headers, "body": json.loads(body)})
        url = f"http://{headers['host']}{self.path}"
        is_bearer = headers.get("authorization") == f"Bearer {BEARER}"
        if not is_bearer and not has_good_signature("POST", url, headers, body):
            headers_text = json.dumps(headers)
            self._send(
                403, {"message": f"wrong signature: {headers_text}"}, "InvalidSignatureException"
            )
        elif self.path.endswith("/converse-stream"):
            self._stream(b"".join(event(name, payload) for name, payload in stub.events))
        elif self.path.endswith("/invoke-with-response-stream"):
            self._stream(stub.frames or b"".join(chunk(payload) for _, payload in stub.events))
        else:
            self._send(200, stub.answer)

    def _send(self, status: int, body: Any, error: str = "") -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("x-amzn-requestid", "request-1")
        if error:
            self.send_header("x-amzn-errortype", f"{error}:http://internal.amazon.com/coral/")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/vnd.amazon.eventstream")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("x-amzn-requestid", "request-1")
        self.end_headers()
        for start in range(0, len(data), 37):  # cut anywhere, as networks do
            part = data[start : start + 37]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")
