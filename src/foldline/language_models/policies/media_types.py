"""What a file is, by its first bytes or its name; and what of a URL may be shown. Pure."""

from __future__ import annotations

import mimetypes
from typing import Final
from urllib.parse import urlsplit

__all__ = ["HOW_TO_ALLOW", "media_type", "origin"]

SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": "application/pdf",
    b"ID3": "audio/mpeg",
    b"OggS": "audio/ogg",
}
HOW_TO_ALLOW: Final = "pass file_resolver=FileResolver({}) to the model to allow it"


def media_type(data: bytes, name: str) -> str | None:
    """Return a media type by its first bytes, else by the name's ending."""
    for start, kind in SIGNATURES.items():
        if data.startswith(start):
            return kind
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12])
    return mimetypes.guess_type(name)[0]


def origin(url: str) -> str:
    """Return scheme and host: all of a URL that is safe to show."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}"
