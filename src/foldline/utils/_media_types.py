"""Detects the media type of a file by its first bytes. Pure."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from foldline.exceptions import UsageError

__all__ = ["media_type_of_block", "media_type_of_bytes"]

SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
    b"%PDF-": "application/pdf",
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
    b"\x1aE\xdf\xa3": "video/webm",
}
RIFF_KINDS: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
BOX_BRANDS: Final = {
    b"avif": "image/avif",
    b"heic": "image/heic",
    b"mif1": "image/heif",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
"""Brand of an ISO media file -> its media type; other brands are videos."""
HEAD: Final = re.compile(r"(?:[A-Za-z0-9+/]{4}){0,16}")
"""The number of base64 characters that are decoded for the first bytes."""
TYPED_KINDS: Final = frozenset({"image", "audio", "video"})


def media_type_of_bytes(data: bytes) -> str | None:
    """Return a media type by the first bytes of a file."""
    for start, kind in SIGNATURES.items():
        if data.startswith(start):
            return kind
    if data[:4] == b"RIFF":
        return RIFF_KINDS.get(data[8:12])
    if data[4:8] == b"ftyp":
        return BOX_BRANDS.get(data[8:12], "video/mp4")
    return None


def media_type_of_block(block: Mapping[str, Any]) -> str | None:
    """Return the MIME type of a block, else that of its bytes; None where neither is known.

    Raise `UsageError` where the bytes are of another kind than the block: a video in an image block.
    """
    if block.get("mime_type") or not isinstance(block.get("base64"), str):
        return block.get("mime_type") or None
    detected, kind = media_type_of_bytes(_first_bytes(block["base64"])), str(block.get("type"))
    if detected and kind in TYPED_KINDS and not detected.startswith(f"{kind}/"):
        raise UsageError(
            f"a block of the type {kind!r} without mime_type holds {detected}: set its mime_type, or use another type"
        )
    return detected


def _first_bytes(encoded: str) -> bytes:
    head = HEAD.match(encoded)
    return binascii.a2b_base64(head.group()) if head else b""
