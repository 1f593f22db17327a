"""AWS Signature Version 4: authenticates a request with a secret key without sending the key. Pure.

The signature covers method, path, query, body and some headers: `host`, `content-type` and AWS's own. The signed path
is quoted twice: once as it is sent, and once more.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote, urlsplit

from foldline.transports import Request

__all__ = ["Credentials", "sign_request"]

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "bedrock"
SIGNED_NAMES: Final = frozenset({"content-type", "host"})
SIGNED_PREFIXES: Final = ("x-amz-", "x-amzn-bedrock-")
"""Prefixes of the headers that are signed; proxies may change others."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys of an AWS identity."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Unix time after which they are refused; None if unknown."""


def sign_request(
    request: Request,
    credentials: Credentials,
    region: str,
    *,
    now: datetime | None = None,
    service: str = SERVICE,
) -> Request:
    """Return the request with the headers of its signature."""
    stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers["x-amz-date"] = stamp
    if credentials.session_token:
        headers["x-amz-security-token"] = credentials.session_token
    signed_headers = _select_headers({**headers, "host": urlsplit(request.url).netloc})
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    canonical = sha256(_canonical_request(request, signed_headers).encode()).hexdigest()
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = _digest(key, part)
    signature = _digest(key, f"{ALGORITHM}\n{stamp}\n{scope}\n{canonical}").hex()
    headers["authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key}/{scope}, "
        f"SignedHeaders={';'.join(signed_headers)}, Signature={signature}"
    )
    return replace(request, headers=headers)


def _select_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to sign, in the order of their names, with runs of white space as one space."""
    return {
        name: " ".join(headers[name].split())
        for name in sorted(headers)
        if name in SIGNED_NAMES or name.startswith(SIGNED_PREFIXES)
    }


def _canonical_request(request: Request, headers: Mapping[str, str]) -> str:
    url = urlsplit(request.url)
    path = quote(_collapse_slashes(url.path), safe="/-_.~")
    query = "&".join(
        f"{name}={value}"
        for name, _, value in sorted(part.partition("=") for part in url.query.split("&") if part)
    )
    lines = [request.method, path, query]
    lines += [f"{name}:{value}" for name, value in headers.items()]
    return "\n".join([*lines, "", ";".join(headers), sha256(request.body).hexdigest()])


def _collapse_slashes(path: str) -> str:
    parts = [part for part in path.split("/") if part and part != "."]
    end = "/" if parts and path.endswith("/") else ""
    return f"/{'/'.join(parts)}{end}"


def _digest(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
