"""Converts pictures, audio and files between the vendors' forms and content blocks."""

from __future__ import annotations

import re
from typing import Final

from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject

__all__ = ["block_of_data", "block_of_url", "data_url"]

DATA_URL: Final = re.compile(
    r"data:([^;,]{0,127})((?:;[^;,]{0,64}){0,8}?)(;base64)?,(.*)", re.DOTALL
)
AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def kind_of_media(mime_type: str) -> str:
    """Return the type of block for a media type."""
    head = mime_type.partition("/")[0]
    return head if head in ("image", "audio", "video") else "file"


def block_of_url(body: Body, field: str, url: str, kind: str | None = None) -> JsonObject:
    """Return the block of a URL; a data URL becomes base64 data."""
    if not url.startswith("data:"):
        if not url.startswith(("https://", "http://")):
            raise body.refuse(field, "must begin with https://, http:// or data:")
        return {"type": kind or "image", "url": url}
    match = DATA_URL.fullmatch(url)
    if match is None or match[3] is None:
        raise body.refuse(field, "is a data URL that is not data:TYPE;base64,…")
    return block_of_data(match[4], match[1] or "application/octet-stream", kind)


def block_of_data(data: str, mime_type: str, kind: str | None = None) -> JsonObject:
    """Return the block of base64 data."""
    return {"type": kind or kind_of_media(mime_type), "base64": data, "mime_type": mime_type}


def data_url(block: JsonObject) -> str | None:
    """Return a block's address: its URL, or a data URL; None where it has neither."""
    if block.get("url"):
        return str(block["url"])
    if block.get("base64"):
        return (
            f"data:{block.get('mime_type') or 'application/octet-stream'};base64,{block['base64']}"
        )
    return None
