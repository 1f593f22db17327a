"""Content blocks in the form of OpenAI's chat completions: images, audio, files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["is_openai_data_block"]

DataKind = Literal["image", "audio", "file"]


def is_openai_data_block(block: Mapping[str, Any], filter_: DataKind | None = None) -> bool:
    """Return whether a block is an image, audio or file in OpenAI's form; `filter_` selects one kind."""
    kind = block.get("type")
    if kind == "image_url":
        image = block.get("image_url")
        is_image = filter_ in (None, "image") and set(block) <= {"type", "image_url", "detail"}
        return is_image and isinstance(image, Mapping) and isinstance(image.get("url"), str)
    if kind == "input_audio":
        audio = block.get("input_audio")
        has_all = (
            isinstance(audio, Mapping) and bool(audio.get("data")) and bool(audio.get("format"))
        )
        return filter_ in (None, "audio") and has_all
    if kind == "file":
        file = block.get("file")
        has_any = isinstance(file, Mapping) and bool(file.get("file_data") or file.get("file_id"))
        return filter_ in (None, "file") and has_any
    return False
