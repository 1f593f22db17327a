"""Who may use the studio, and what a browser may do with its answers. A pure ASGI middleware.

A foreign host name: 403 (DNS rebinding). Another origin, or a change without our header: 403 (CSRF). No token: 401.
The token comes once in the address, becomes a cookie that scripts cannot read, and leaves the address.
"""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foldline.studio.settings import StudioSettings

__all__ = ["CSRF_HEADER", "Guard"]

CSRF_HEADER = "x-foldline-studio"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
SAFE_METHODS = ("GET", "HEAD")


class Guard:
    """Checks each request, and adds the security headers to each answer."""

    def __init__(self, app: ASGIApp, settings: StudioSettings) -> None:
        self._app = app
        self._settings = settings
        digest = sha256((settings.token or "").encode()).hexdigest()
        self._cookie = f"foldline_studio_{digest[:8]}"
        """Cookies are shared by all ports of a host, so the name differs for each studio of a machine."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            refusal = self._refuse_place(request)
        except ValueError:  # of `urlsplit`
            await _answer(send, 400, "the Host or Origin of the request is not an address")
            return
        if refusal is not None:
            await _answer(send, 403, refusal)
        elif self._is_opening(request):
            await self._open(scope, send)
        elif not self._may_enter(request):
            sentence = (
                "this studio needs its token: open the address that `foldline studio` printed"
            )
            await _answer(send, 401, sentence)
        else:
            await self._app(scope, receive, _with_headers(send))

    def _refuse_place(self, request: Request) -> str | None:
        host = request.headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        if "*" not in self._settings.hosts and name not in self._settings.hosts:
            return "this studio is not reached under that name"
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "a page of another site asks"
        if request.headers.get("sec-fetch-site") == "cross-site" and request.method != "GET":
            return "a page of another site asks"
        if request.method not in SAFE_METHODS and request.headers.get(CSRF_HEADER) != "1":
            return f"a change needs the header {CSRF_HEADER}: 1"
        return None

    def _is_opening(self, request: Request) -> bool:
        token = parse_qs(request.url.query).get("token", [""])[0]
        return request.method == "GET" and self._is_token(token)

    def _is_token(self, token: str) -> bool:
        expected = self._settings.token
        return bool(expected) and hmac.compare_digest(token.encode(), (expected or "").encode())

    def _may_enter(self, request: Request) -> bool:
        if self._settings.authorize is not None:
            return self._settings.authorize(request)
        if self._settings.token is None:
            return True
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(token.strip()):
            return True
        try:
            cookie = SimpleCookie(request.headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    async def _open(self, scope: Scope, send: Send) -> None:
        """Set the token as a cookie and redirect to the page without it."""
        home = scope.get("root_path", "") + "/"
        cookie = f"{self._cookie}={self._settings.token}; Path={home}; HttpOnly; SameSite=Strict"
        headers = [(b"location", home.encode()), (b"set-cookie", cookie.encode()), *HEADERS]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *HEADERS]
        await send(message)

    return send_with_headers


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
