"""Files that go along with a prompt: pictures, sound, film and PDFs as blocks, everything that is text as text."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.exceptions import UsageError
from weft.messages import HumanMessage

__all__ = ["human_message"]

LARGEST = 20 * 1024 * 1024
KINDS = {"image": "image", "audio": "audio", "video": "video"}


def human_message(text: str, files: Sequence[Path]) -> HumanMessage:
    """Make the user's message."""
    if not files:
        return HumanMessage(text)
    blocks = [{"type": "text", "text": text}] if text else []
    return HumanMessage(content_blocks=[*blocks, *map(_block, files)])  # type: ignore[list-item]


def _block(path: Path) -> dict[str, Any]:
    path = path.expanduser()
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path}: larger than {LARGEST >> 20} MB; attach less")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be attached: {error.strerror}") from error
    media_type = mimetypes.guess_type(path.name)[0] or ""
    kind = KINDS.get(media_type.partition("/")[0])
    if kind or media_type == "application/pdf":
        encoded = base64.b64encode(data).decode("ascii")
        return {
            "type": kind or "file",
            "base64": encoded,
            "mime_type": media_type,
            "extras": {"filename": path.name},
        }
    try:
        return {"type": "text", "text": f"{path.name}:\n\n{data.decode('utf-8')}"}
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: neither text nor a picture, sound, film or PDF by its name; it cannot be attached"
        ) from error
