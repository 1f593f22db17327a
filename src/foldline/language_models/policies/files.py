"""The files of messages: paths and URLs become bytes on the way in, bytes become paths or URLs on the way out.

Nothing is opened or fetched here: a `FileResolver` does that, and where there is none, nothing does.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from foldline._io import IO
from foldline.exceptions import FoldlineError, SecurityError, UsageError
from foldline.language_models.call.request import ChatRequest, OutputFileType
from foldline.language_models.policies.base import CallContext, Policy
from foldline.language_models.policies.file_resolver import FileResolver
from foldline.language_models.policies.media_types import HOW_TO_ALLOW, media_type, origin
from foldline.language_models.policies.safe_files import write_under
from foldline.messages import AIMessage, BaseMessage

__all__ = [
    "FilesPolicy",
    "deliver_files",
    "resolve_messages",
]

MEDIA: Final = frozenset({"image", "audio", "video", "file", "text-plain"})
SOURCE: Final = frozenset({"path", "url", "mime_type", "source_type"})
"""Keys of a block that say where its file is."""

INPUTS: Final = {
    "image": "image_inputs",
    "image_url": "image_inputs",
    "audio": "audio_inputs",
    "input_audio": "audio_inputs",
    "video": "video_inputs",
}
"""Type of a block -> the key of a profile that says whether a model takes it."""
NOT_FETCHED: Final = ("data:", "s3:")
"""Beginnings of addresses that hold their data, or that only the provider can read."""


class FilesPolicy(Policy):
    """Reads the files that messages name, and delivers those of the answer."""

    __slots__ = ("_call",)

    def __init__(self, call: CallContext) -> None:
        self._call = call

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Put bytes in place of paths and URLs."""
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
        """Raise where a message holds what the model is known not to take, before anything is sent."""
        refused = {kind for kind, key in INPUTS.items() if self._call.profile.get(key) is False}
        if not refused:
            return
        for at, message in enumerate(messages):
            for block in message.content if isinstance(message.content, list) else ():
                kind = block.get("type") if isinstance(block, Mapping) else None
                if kind in refused:
                    raise UsageError(
                        f"messages[{at}] holds a block of type {kind!r}, which this model does not take (its profile): "
                        f"choose another model, or pass profile={{{INPUTS[str(kind)]!r}: True}} if it does"
                    )

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        """Deliver the files of the answer in the form asked for."""
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
    """Put the bytes in place of paths, and of URLs that the provider would not fetch; other messages stay the same."""
    resolved = []
    for message in messages:
        content = message.content
        if isinstance(content, list) and any(_file_of(block) for block in content):
            blocks = [
                await _resolved(block, resolver, io, takes_urls=takes_urls) for block in content
            ]
            message = message.model_copy(update={"content": blocks})
        resolved.append(message)
    return resolved


def _file_of(block: object) -> Mapping[str, Any] | None:
    """Return a block that names a file by path or URL, OpenAI's form of an image read as ours; None for another."""
    if not isinstance(block, Mapping):
        return None
    if block.get("type") == "image_url":
        image = block.get("image_url")
        named = image if isinstance(image, Mapping) else {"url": image}
        return {"type": "image", **named} if isinstance(named.get("url"), str) else None
    is_named = block.get("type") in MEDIA and ("path" in block or "url" in block)
    return block if is_named else None


async def _resolved(
    given: object, resolver: FileResolver | None, io: IO, *, takes_urls: bool
) -> object:
    block = _file_of(given)
    if block is None:
        return given
    path, url = _place_of(block)
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
        return given
    else:
        if resolver is None:
            raise SecurityError(
                f"the model takes no URLs, and fetching {origin(url)} is off: {HOW_TO_ALLOW.format('allow_hosts=[…]')}"
            )
        data, kind = await resolver.fetch(url, io)
    rest = {key: value for key, value in block.items() if key not in SOURCE}
    encoded = base64.b64encode(data).decode("ascii")
    mime = block.get("mime_type") or kind
    media = (kind or "").partition("/")[0]
    if rest["type"] == "file" and not block.get("mime_type") and media in MEDIA:
        rest["type"] = media  # nobody knew what it is before it was read
    return {**rest, "base64": encoded, **({"mime_type": mime} if mime else {})}


def _place_of(block: Mapping[str, Any]) -> tuple[str | None, str | None]:
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
    """Return the files of an answer in the form asked for: written to a folder, as base64, or as URLs."""
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
            block = await _delivered(dict(block), kind, folder, resolver, io)
        blocks.append(block)
    return message.model_copy(update={"content": blocks})


async def _delivered(
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
            where = origin(block["url"])
            raise SecurityError(
                f"the answer's file is at {where}: {HOW_TO_ALLOW.format('allow_hosts=[…]')}"
            )
        data, mime = await resolver.fetch(block.pop("url"), io)
        block["base64"] = base64.b64encode(data).decode("ascii")
        block.setdefault("mime_type", mime)
    if kind == "file":
        return block
    try:
        data = base64.b64decode(block["base64"], validate=True)
    except ValueError as error:
        raise FoldlineError("the answer holds a file that is no base64") from error
    mime = block.get("mime_type") or media_type(data, "")
    ending = (mimetypes.guess_extension(mime) if mime else None) or ".bin"
    assert folder is not None
    path = await io.call(write_under, folder, ending, data)
    rest = {key: value for key, value in block.items() if key != "base64"}
    return {**rest, "path": path, **({"mime_type": mime} if mime else {})}
