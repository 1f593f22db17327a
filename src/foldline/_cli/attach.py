"""Files attached to a prompt: pictures, audio, video and PDFs as blocks, text files as text."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from foldline._cli.choose import name_of
from foldline._cli.inputs import fetch, is_address, read_stdin_bytes
from foldline.exceptions import UsageError
from foldline.messages import HumanMessage
from foldline.utils._media_types import media_type_of_bytes

__all__ = ["human_message"]

LARGEST = 20 * 1024 * 1024
KINDS = {"image": "image", "audio": "audio", "video": "video"}
CAPABILITY_KEYS = {
    "image": "image_inputs",
    "audio": "audio_inputs",
    "video": "video_inputs",
    "file": "pdf_inputs",
}
"""Type of a block -> the key of a profile that says whether a model takes it."""


def human_message(text: str, files: Sequence[Path | str], model: object = None) -> HumanMessage:
    """Make the user's message; raise `UsageError` for files that the model does not take."""
    if not files:
        return HumanMessage(text)
    blocks = [{"type": "text", "text": f"{text}\n\n"}] if text else []
    attached = [_block(path) for path in files]
    _check(attached, files, model)
    return HumanMessage(content_blocks=[*blocks, *attached])  # type: ignore[list-item]


def _check(blocks: Sequence[dict[str, Any]], files: Sequence[Path | str], model: object) -> None:
    profile = getattr(model, "profile", None) or {}
    for path, block in zip(files, blocks, strict=True):
        if profile.get(CAPABILITY_KEYS.get(block["type"], "")) is False:
            raise UsageError(
                f"{path}: {name_of(model)} does not take such files: choose another model with -m (`foldline models "
                "PROVIDER` says what they can)"
            )


def _block(place: Path | str) -> dict[str, Any]:
    if str(place) == "-":
        return _block_of(read_stdin_bytes(), "stdin", None)
    if is_address(str(place)):
        data, kind = fetch(str(place))
        return _block_of(data, urlsplit(str(place)).path.rpartition("/")[2] or "page", kind)
    path = Path(place).expanduser()
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path}: larger than {LARGEST >> 20} MB; attach less")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be attached: {error.strerror}; check the path") from error
    return _block_of(data, str(path), mimetypes.guess_type(path.name)[0])


def _block_of(data: bytes, name: str, media_type: str | None) -> dict[str, Any]:
    media_type = media_type or media_type_of_bytes(data) or ""
    file_name = Path(name).name
    kind = KINDS.get(media_type.partition("/")[0])
    if kind or media_type == "application/pdf":
        encoded = base64.b64encode(data).decode("ascii")
        return {
            "type": kind or "file",
            "base64": encoded,
            "mime_type": media_type,
            "extras": {"filename": file_name},
        }
    try:
        return {"type": "text", "text": f"{file_name}:\n\n{data.decode('utf-8')}\n\n"}
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name}: not text, a picture, audio, video or PDF; attach one of those"
        ) from error
