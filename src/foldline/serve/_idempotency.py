"""`Idempotency-Key`: a request that is sent again with the same key gets the run that the first one started."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from foldline.serve.errors import ServeError

__all__ = ["HEADER", "RequestKeys"]

HEADER: Final = "idempotency-key"
LONGEST: Final = 128


class RequestKeys:
    """The keys of the runs that one request starts."""

    __slots__ = ("_count", "_digest", "_text")

    def __init__(self, text: str, path: str) -> None:
        if not (0 < len(text) <= LONGEST and text.isascii() and text.isprintable()):
            raise ServeError(
                "invalid_request", f"Idempotency-Key has 1 to {LONGEST} printable characters"
            )
        self._text = text
        self._count = 0
        self._digest = sha256(path.encode())

    def add_body(self, data: bytes) -> None:
        """Note the body of the request."""
        self._digest.update(data)

    def next(self) -> tuple[str, str]:
        """Return the key and the hash of the request for the next run."""
        self._count += 1
        # A line break cannot be in a header: no other request has this key.
        name = self._text if self._count == 1 else f"{self._text}\n{self._count}"
        return name, self._digest.hexdigest()
