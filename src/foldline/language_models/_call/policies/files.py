"""The files of messages: paths and URLs become bytes in the request, bytes become paths or URLs in the answer.

Nothing is opened or fetched here: a `FileResolver` does that, if there is one.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from foldline._io import IO
from foldline.exceptions import FoldlineError, SecurityError, UsageError
from foldline.language_models._call.policies.file_resolver import (
    HOW_TO_ALLOW,
    FileResolver,
    media_type,
    origin,
)
from foldline.language_models._call.policies.safe_files import write_under
from foldline.language_models._call.policy import CallContext, Policy
from foldline.language_models._call.request import ChatRequest, OutputFileType
from foldline.messages import AIMessage, BaseMessage

__all__ = [
    "FilesPolicy",
    "deliver_files",
    "resolve_messages",
]

CONTENT: Final = attrgetter("content")
MEDIA: Final = frozenset({"image", "audio", "video", "file", "text-plain"})
SOURCE: Final = frozenset({"path", "url", "mime_type", "source_type"})
"""Keys of a block with the source of its file."""

INPUTS: Final = {
    "image": "image_inputs",
    "image_url": "image_inputs",
    "audio": "audio_inputs",
    "input_audio": "audio_inputs",
    "video": "video_inputs",
}
"""Type of a block -> the key of a profile with whether a model accepts it."""
NOT_FETCHED: Final = ("data:", "s3:")
"""Prefixes of addresses that contain their data, or that only the provider can read."""


class FilesPolicy(Policy):
    """Reads the files in messages, and converts those of the answer."""

    __slots__ = ("_call",)

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where a message has blocks, files are requested, or a hook may add either."""
        if list in map(type, map(CONTENT, request.messages)):
            return True
        return request.output_file_type is not None or call.settings.hooks is not None

    def __init__(self, call: CallContext) -> None:
        self._call = call

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Replace paths and URLs by bytes."""
        if not any(isinstance(message.content, list) for message in request.messages):
            return request
        self._refuse(request.messages)
        settings = self._call.settings
        takes_urls = self._call.profile.get("image_url_inputs") is not False
        takes_urls = takes_urls and settings.prefer_input_file_type != "file"
        messages = await resolve_messages(
            request.messages,
            settings.file_resolver,
            self._call.run.io,
            takes_urls=takes_urls,
        )
        return request.replace(messages=messages)

    def _refuse(self, messages: Sequence[BaseMessage]) -> None:
        """Raise if a message contains a block that the model is known not to accept, before anything is sent."""
        unsupported = {kind for kind, key in INPUTS.items() if self._call.profile.get(key) is False}
        if not unsupported:
            return
        for index, message in enumerate(messages):
            for block in message.content if isinstance(message.content, list) else ():
                kind = block.get("type") if isinstance(block, Mapping) else None
                if kind in unsupported:
                    raise UsageError(
                        f"messages[{index}] holds a block of type {kind!r}, "
                        "which this model does not take (its profile): "
                        f"choose another model, or pass profile={{{INPUTS[str(kind)]!r}: True}} if it does"
                    )

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        """Convert the files of the answer to the requested form."""
        if request.output_file_type is None:
            return message
        settings = self._call.settings
        return await deliver_files(
            message,
            request.output_file_type,
            settings.output_dir,
            settings.file_resolver,
            self._call.run.io,
        )


async def resolve_messages(
    messages: Sequence[BaseMessage],
    resolver: FileResolver | None,
    io: IO,
    *,
    takes_urls: bool = True,
) -> list[BaseMessage]:
    """Replace paths, and URLs that the provider would not fetch, by bytes; other messages stay the same."""
    resolved = []
    for message in messages:
        content = message.content
        if isinstance(content, list) and any(_file_of(block) for block in content):
            blocks = [
                await _resolve_block(block, resolver, io, takes_urls=takes_urls)
                for block in content
            ]
            message = message.model_copy(update={"content": blocks})
        resolved.append(message)
    return resolved


def _file_of(block: object) -> Mapping[str, Any] | None:
    """Return a block with a file by path or URL, OpenAI's form of an image converted to ours; None for another."""
    if not isinstance(block, Mapping):
        return None
    if block.get("type") == "image_url":
        image = block.get("image_url")
        source = image if isinstance(image, Mapping) else {"url": image}
        return {"type": "image", **source} if isinstance(source.get("url"), str) else None
    has_source = block.get("type") in MEDIA and ("path" in block or "url" in block)
    return block if has_source else None


async def _resolve_block(
    content_block: object, resolver: FileResolver | None, io: IO, *, takes_urls: bool
) -> object:
    block = _file_of(content_block)
    if block is None:
        return content_block
    path, url = _location_of(block)
    if path is not None:
        if resolver is None:
            raise SecurityError(
                f"a message names the file {path!r}: {HOW_TO_ALLOW.format('allow_dirs=[…]')}"
            )
        data, kind = await resolver.read(path, io)
    elif (
        url is None
        or url.startswith(NOT_FETCHED)
        or (takes_urls and not (resolver and resolver.inline_urls))
    ):
        return content_block
    else:
        if resolver is None:
            raise SecurityError(
                f"the model takes no URLs, and fetching {origin(url)} is off: {HOW_TO_ALLOW.format('allow_hosts=[…]')}"
            )
        data, kind = await resolver.fetch(url, io)
    other_fields = {key: value for key, value in block.items() if key not in SOURCE}
    encoded = base64.b64encode(data).decode("ascii")
    mime = block.get("mime_type") or kind
    media = (kind or "").partition("/")[0]
    if other_fields["type"] == "file" and not block.get("mime_type") and media in MEDIA:
        other_fields["type"] = media  # its type is known only after it was read
    return {**other_fields, "base64": encoded, **({"mime_type": mime} if mime else {})}


def _location_of(block: Mapping[str, Any]) -> tuple[str | None, str | None]:
    if "path" in block:
        return str(block["path"]), None
    url = str(block["url"])
    if urlsplit(url).scheme == "file":
        return unquote(urlsplit(url).path), None
    return None, url


async def deliver_files(
    message: AIMessage,
    kind: OutputFileType,
    folder: str | Path | None,
    resolver: FileResolver | None,
    io: IO,
) -> AIMessage:
    """Return an answer with its files in the requested form: written to a folder, as base64, or as URLs."""
    if not isinstance(message.content, list):
        return message
    if kind == "local" and folder is None:
        raise UsageError('output_file_type="local" needs output_dir=…, the folder to write to')
    blocks = []
    for block in message.content:
        if (
            isinstance(block, Mapping)
            and block.get("type") in MEDIA
            and ("base64" in block or "url" in block)
        ):
            block = await _convert_block(dict(block), kind, folder, resolver, io)
        blocks.append(block)
    return message.model_copy(update={"content": blocks})


async def _convert_block(
    block: dict[str, Any],
    kind: OutputFileType,
    folder: str | Path | None,
    resolver: FileResolver | None,
    io: IO,
) -> dict[str, Any]:
    if kind == "url":
        if "url" not in block:
            mime = block.get("mime_type") or "application/octet-stream"
            block["url"] = f"data:{mime};base64,{block.pop('base64')}"
        return block
    if "base64" not in block:
        if resolver is None:
            file_origin = origin(block["url"])
            raise SecurityError(
                f"the answer's file is at {file_origin}: {HOW_TO_ALLOW.format('allow_hosts=[…]')}"
            )
        data, mime = await resolver.fetch(block.pop("url"), io)
        block["base64"] = base64.b64encode(data).decode("ascii")
        block.setdefault("mime_type", mime)
    if kind == "file":
        return block
    try:
        data = base64.b64decode(block["base64"], validate=True)
    except ValueError as error:
        raise FoldlineError("the answer contains a file that is not base64") from error
    mime = block.get("mime_type") or media_type(data, "")
    extension = (mimetypes.guess_extension(mime) if mime else None) or ".bin"
    assert folder is not None
    path = await io.call(write_under, folder, extension, data)
    other_fields = {key: value for key, value in block.items() if key != "base64"}
    return {**other_fields, "path": path, **({"mime_type": mime} if mime else {})}
