"""Encode single blocks for Converse: media, citations, cache points, blocks in Bedrock's own format. Pure."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.language_models._call.policies.prompt_caching import cache_control_of
from foldline.messages.block_translators._common import data_url
from foldline.providers.bedrock._wire import FORMATS, Block
from foldline.utils._media_types import media_type_of_block

__all__ = [
    "cache_point",
    "encode_citation",
    "encode_document",
    "encode_media",
    "encode_native",
    "with_cache_point",
]


NATIVE_KINDS: Final = {"image": "image", "video": "video", "audio": "audio"}
INVALID_NAME_CHARACTERS: Final = re.compile(r"[^0-9A-Za-z\s()\[\]-]|(?<=\s)\s")
"""Characters that Bedrock refuses in a document's name."""
MAX_NAME_LENGTH: Final = 200
PLAIN_TEXT: Final = "text/plain"
CITATION_FIELDS: Final = frozenset({"location", "source", "sourceContent"})
"""Extras by which a citation of Bedrock is recognized."""
GUARD_TYPES: Final = ("guard_content", "guardContent")


def cache_point(control: Mapping[str, Any]) -> Block:
    """Return the cache point for a `cache_control`."""
    point: Block = {"type": "default"}
    if control.get("ttl"):
        point["ttl"] = control["ttl"]
    return {"cachePoint": point}


def with_cache_point(encoded: Block, block: object) -> list[Block]:
    """Return a block, followed by its cache point if it has one."""
    control = cache_control_of(block)
    return [encoded, cache_point(control)] if control else [encoded]


def encode_media(block: Block) -> Block:
    """Encode an image, a video or audio."""
    kind = NATIVE_KINDS[block["type"]]
    source, mime = _source(block)
    extras = block.get("extras") or {}
    form = extras.get("format") or FORMATS.get(mime) or mime.partition("/")[2]
    if not form:
        raise UsageError(
            f"Bedrock needs the mime_type of a block of the type {block['type']!r}: image/png, video/mp4, ..."
        )
    return {kind: {"format": form, "source": source}}


def encode_document(block: Block, name: str) -> Block:
    """Encode a document; `name` is used if it has no title."""
    extras = block.get("extras") or {}
    title = _option(block, "title") or extras.get("name") or extras.get("filename")
    document: Block = {"name": _document_name(str(title or "")) or name}
    if block.get("text") is not None:
        document |= {"format": "txt", "source": {"text": block["text"]}}
    else:
        source, mime = _source(block)
        form = extras.get("format") or FORMATS.get(mime or "application/pdf")
        if form is None:
            raise UsageError(f"Bedrock takes no document of the type {mime!r}")
        document |= {"format": form, "source": source}
    for key in ("context", "citations"):
        if (value := _option(block, key)) is not None:
            document[key] = value
    return {"document": document}


def _option(block: Block, name: str) -> object:
    value = block.get(name)
    return (block.get("extras") or {}).get(name) if value is None else value


def _document_name(name: str) -> str:
    return INVALID_NAME_CHARACTERS.sub("", name.replace(".", "-").replace("_", "-")).strip()[
        :MAX_NAME_LENGTH
    ]


def _source(block: Block) -> tuple[Block, str]:
    """Return the source of a block's data, and its MIME type."""
    if block.get("url"):
        block = {**block, **data_url(str(block["url"]))}
    mime = str(media_type_of_block(block) or "").split(";")[0].strip().lower()
    if block.get("base64"):
        return {"bytes": block["base64"]}, mime
    url = str(block.get("url") or block.get("file_id") or "")
    if url.startswith("s3://"):
        location = {"uri": url}
        owner = (block.get("extras") or {}).get("bucketOwner")
        return {"s3Location": {**location, **({"bucketOwner": owner} if owner else {})}}, mime
    raise UsageError(
        f"Bedrock takes a block of the type {block['type']!r} as base64 or as an s3:// url, not as "
        f"{sorted(block.keys() - {'type', 'extras'})}: a file_resolver fetches other addresses"
    )


def encode_native(value: object) -> Block | None:
    """Encode a block in Bedrock's own format, or LangChain's variant of it; None for any other."""
    if not isinstance(value, Mapping):
        return None
    block = {name: item for name, item in value.items() if name not in ("type", "index")}
    if value.get("type") in GUARD_TYPES and isinstance(block.get("text"), str):
        return {"guardContent": {"text": block}}
    if len(block) != 1:
        return None
    encoded: Block = _plain_json(block)
    return encoded


def _plain_json(value: object) -> Any:  # noqa: ANN401  JSON of the same type as the value
    """Return a value with its bytes as base64 text."""
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: _plain_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_json(item) for item in value]
    return value


def encode_citation(annotation: Block) -> Block | None:
    """Encode a citation in Bedrock's format; None for one of another provider."""
    extras = annotation.get("extras") or {}
    if annotation.get("type") != "citation" or (extras and not CITATION_FIELDS & extras.keys()):
        return None
    citation: Block = dict(extras)
    if annotation.get("title") is not None:
        citation["title"] = annotation["title"]
    if annotation.get("cited_text") is not None:
        citation.setdefault("sourceContent", [{"text": annotation["cited_text"]}])
    return citation
