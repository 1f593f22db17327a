"""The media type of a file, by its first bytes or its name; and the part of a URL that may be shown. Pure."""

from __future__ import annotations

import mimetypes
from typing import Final
from urllib.parse import urlsplit

from foldline.utils.media_types import media_type_of_bytes

__all__ = ["HOW_TO_ALLOW", "media_type", "origin"]

HOW_TO_ALLOW: Final = "pass file_resolver=FileResolver({}) to the model to allow it"


def media_type(data: bytes, name: str) -> str | None:
    """Return a media type by its first bytes, else by the extension of the name."""
    return media_type_of_bytes(data) or mimetypes.guess_type(name)[0]


def origin(url: str) -> str:
    """Return scheme and host: all of a URL that is safe to show."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}"
