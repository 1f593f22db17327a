"""Translate OpenAI's blocks, of chat completions and Responses; and encode data blocks for OpenAI."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

from foldline.exceptions import UsageError
from foldline.messages.block_translators import _common as common
from foldline.messages.block_translators._common import (
    Block,
    data_url,
    media,
    unread_fields,
    with_extras,
)
from foldline.messages.block_translators._pipeline import Translate, message_translator
from foldline.protocol.merge import copy_json
from foldline.protocol.tool_call_parser import promote
from foldline.utils._media_types import media_type_of_block

__all__ = [
    "convert_to_openai_data_block",
    "convert_to_openai_image_block",
    "translate_content",
    "translate_content_chunk",
]

CITATION_TYPES = frozenset(
    {"url_citation", "file_citation", "container_file_citation", "file_path"}
)
SERVER_CALLS = {
    "web_search_call": ("web_search", ("action",), ("results",)),
    "file_search_call": ("file_search", ("queries",), ("results",)),
    "code_interpreter_call": ("code_interpreter", ("code",), ("outputs",)),
    "computer_call": ("computer_use", ("action",), ()),
    "mcp_call": ("remote_mcp", ("arguments",), ("output",)),
    "mcp_list_tools": ("mcp_list_tools", (), ("tools",)),
    "local_shell_call": ("local_shell", ("action",), ()),
}
"""Item type -> (tool name, keys of its arguments, keys of its result)."""
FAILURE_STATUSES = ("failed", "incomplete", "error")


def translate(block: Block) -> list[Block] | None:
    """Return the standard blocks of a native block; None if its type is unknown."""
    kind = str(block.get("type") or "")
    if kind in SERVER_CALLS:
        return _server_call(block, *SERVER_CALLS[kind])
    reader = READERS.get(kind)
    return reader(block) if reader is not None else None


def _text(block: Block) -> list[Block] | None:
    if not isinstance(block.get("text"), str):
        return None
    translated = {
        "type": "text",
        **{key: value for key, value in block.items() if key not in ("type", "index")},
    }
    if block.get("annotations"):
        translated["annotations"] = [_annotation(item) for item in block["annotations"]]
    return [translated]


def _annotation(item: object) -> Block:
    if not isinstance(item, dict) or item.get("type") in ("citation", "non_standard_annotation"):
        return item if isinstance(item, dict) else _unknown_annotation({"value": item})
    if item.get("type") not in CITATION_TYPES:
        return _unknown_annotation(item)
    nested = item.get("url_citation")
    inner: Block = nested if isinstance(nested, dict) else item
    read_keys = {"url", "title", "start_index", "end_index", "cited_text"}
    translated = {"type": "citation", **{key: inner[key] for key in inner if key in read_keys}}
    if "title" not in translated and inner.get("filename"):
        translated["title"] = inner["filename"]
        read_keys.add("filename")
    extras = {key: value for key, value in inner.items() if key not in read_keys and key != "type"}
    if item["type"] != "url_citation":
        extras["citation_type"] = item["type"]
    return with_extras(translated, extras)


def _unknown_annotation(item: Block) -> Block:
    return {"type": "non_standard_annotation", "value": item}


def _reasoning(block: Block) -> list[Block] | None:
    """Split a reasoning item into one block per summary; the first one gets the item's other fields."""
    summary = block.get("summary")
    content = block.get("content")
    if not isinstance(summary, list) and not isinstance(content, list):
        return None
    parts = [*(summary or []), *(content or [])]
    texts = [item.get("text") or "" for item in parts if isinstance(item, dict)]
    base_block: Block = {"type": "reasoning", **({"id": block["id"]} if block.get("id") else {})}
    extras = unread_fields(block, ("id", "summary", "content"))
    blocks = [{**base_block, "reasoning": text} for text in texts] or [base_block]
    return [with_extras(blocks[0], extras), *blocks[1:]]


def _function_call(block: Block) -> list[Block]:
    chunk = {
        "type": "tool_call_chunk",
        "id": block.get("call_id") or block.get("id"),
        "name": block.get("name"),
        "args": block.get("arguments") or "",
    }
    extras = unread_fields(block, ("call_id", "id", "name", "arguments"))
    if block.get("call_id") and block.get("id"):
        extras["item_id"] = block["id"]
    final = promote(chunk)
    return [
        with_extras(chunk if "index" in block and final["type"] != "tool_call" else final, extras)
    ]


def _server_call(
    block: Block, name: str, argument_keys: tuple[str, ...], result_keys: tuple[str, ...]
) -> list[Block]:
    id = str(block.get("id") or "")
    args = _args(block, argument_keys)
    read_keys = {"id", "status", "error", *argument_keys, *result_keys}
    extras = unread_fields(block, read_keys)
    if name == "remote_mcp":
        extras["tool_name"] = extras.pop("name", None)
    call = with_extras({"type": "server_tool_call", "id": id, "name": name, "args": args}, extras)
    is_failed = block.get("status") in FAILURE_STATUSES or block.get("error") is not None
    result: Block = {
        "type": "server_tool_result",
        "tool_call_id": id,
        "status": "error" if is_failed else "success",
    }
    output = next((block[key] for key in result_keys if block.get(key) is not None), None)
    if output is not None or block.get("error") is not None:
        result["output"] = copy_json(output if output is not None else block["error"])
    is_done = block.get("status") in (None, "completed", *FAILURE_STATUSES)
    return [call, result] if is_done else [with_extras(call, {"status": block["status"]})]


def _args(block: Block, argument_keys: tuple[str, ...]) -> Block:
    args: Block = {}
    for key in argument_keys:
        value = block.get(key)
        if key == "arguments":
            parsed = promote({"type": "tool_call_chunk", "name": "x", "args": value})
            args |= parsed["args"] if isinstance(parsed["args"], dict) else {"arguments": value}
        elif isinstance(value, dict):
            args |= copy_json(value)
        elif value is not None:
            args[key] = copy_json(value)
    return args


def _generated_image(block: Block) -> list[Block]:
    form = block.get("output_format")
    fields = {
        "id": block.get("id"),
        "base64": block.get("result"),
        "mime_type": f"image/{form}" if form else None,
    }
    return [media("image", fields, unread_fields(block, ("id", "result")))]


def _image_url(block: Block) -> list[Block] | None:
    link = block.get("image_url")
    url = link.get("url") if isinstance(link, dict) else link
    if not isinstance(url, str):
        file_id = block.get("file_id")
        if not isinstance(file_id, str):
            return None
        return [
            media("image", {"file_id": file_id}, unread_fields(block, ("file_id", "image_url")))
        ]
    extras = unread_fields(link, ("url",)) if isinstance(link, dict) else {}
    return [media("image", dict(data_url(url)), extras | unread_fields(block, ("image_url",)))]


def _input_audio(block: Block) -> list[Block] | None:
    audio = block.get("input_audio")
    if not isinstance(audio, dict):
        return None
    form = audio.get("format")
    fields = {"base64": audio.get("data"), "mime_type": f"audio/{form}" if form else None}
    extras = unread_fields(audio, ("data", "format")) | unread_fields(block, ("input_audio",))
    return [media("audio", fields, extras)]


def _file(block: Block) -> list[Block] | None:
    inner = block.get("file") if isinstance(block.get("file"), dict) else None
    if inner is None and block.get("type") == "input_file":
        inner = {key: value for key, value in block.items() if key not in ("type", "index")}
    if inner is None:
        return None
    fields: Block = {"file_id": inner.get("file_id"), "url": inner.get("file_url")}
    data = inner.get("file_data")
    if isinstance(data, str):
        fields |= data_url(data) if data.startswith("data:") else {"base64": data}
    if not any(fields.values()):
        return None
    extras = unread_fields(inner, ("file_id", "file_url", "file_data"))
    if inner is not block.get("file"):
        return [media("file", fields, extras)]
    return [media("file", fields, extras | unread_fields(block, ("file",)))]


def _message(block: Block) -> list[Block] | None:
    """Translate a message item of the Responses API, whose content is a list of blocks."""
    if not isinstance(block.get("content"), list):
        return None
    blocks: list[Block] = []
    for item in block["content"]:
        part = item if isinstance(item, dict) else {"type": "text", "text": str(item)}
        blocks += translate(part) or [common.non_standard(part)]
    if blocks and blocks[0]["type"] == "text" and block.get("id"):
        blocks[0].setdefault("id", block["id"])
    return blocks


def _refusal(block: Block) -> list[Block] | None:
    if not isinstance(block.get("refusal"), str):
        return None
    standard_keys = ("type", "refusal", "id", "extras")
    standard = {key: value for key, value in block.items() if key in standard_keys}
    return [with_extras(standard, unread_fields(block, standard_keys))]


READERS: dict[str, Callable[[Block], list[Block] | None]] = {
    "text": _text,
    "output_text": _text,
    "input_text": _text,
    "refusal": _refusal,
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "image_generation_call": _generated_image,
    "image_url": _image_url,
    "input_image": _image_url,
    "input_audio": _input_audio,
    "file": _file,
    "input_file": _file,
}


def convert_to_openai_image_block(block: Block) -> Block:
    """Return an image block in the format of chat completions."""
    image = _current_spelling(block)
    if image.get("url"):
        url = image["url"]
    elif image.get("base64"):
        mime = media_type_of_block(image)
        if not mime:
            raise UsageError(
                "the bytes of an image in base64 do not say what it is: give mime_type, e.g. 'image/png'"
            )
        url = f"data:{mime};base64,{image['base64']}"
    else:
        raise UsageError(
            "chat completions take images by url or base64, and by file id only Responses do "
            "(use_responses_api=True): this block has neither url nor base64"
        )
    detail = _extras(image).get("detail") or image.get("detail")
    return {
        "type": "image_url",
        "image_url": {"url": url, **({"detail": detail} if detail else {})},
    }


def convert_to_openai_data_block(
    block: Block, api: Literal["chat/completions", "responses"] = "chat/completions"
) -> Block:
    """Return a media block in OpenAI's format, for either of its APIs."""
    data = _current_spelling(block)
    if data["type"] == "image":
        return _responses_image(data) if api == "responses" else convert_to_openai_image_block(data)
    if data["type"] == "file":
        return _openai_file(data, api)
    if data["type"] == "audio":
        mime = media_type_of_block(data)
        if not data.get("base64") or not isinstance(mime, str):
            raise UsageError(
                "OpenAI takes audio as base64 with mime_type; this block has neither or one"
            )
        form = mime.partition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": data["base64"], "format": form}}
    raise UsageError(f"OpenAI has no place for a block of the type {data['type']!r}")


def _extras(block: Block) -> Block:
    extras = block.get("extras")
    return extras if isinstance(extras, dict) else {}


def _responses_image(data: Block) -> Block:
    if data.get("file_id"):
        return {"type": "input_image", "file_id": data["file_id"]}
    image = convert_to_openai_image_block(data)["image_url"]
    return {"type": "input_image", "image_url": image["url"], **unread_fields(image, ("url",))}


def _openai_file(data: Block, api: str) -> Block:
    extras = _extras(data)
    name = data.get("filename") or data.get("title") or extras.get("filename") or extras.get("name")
    file: Block = {}
    if data.get("base64"):
        mime = media_type_of_block(data) or "application/octet-stream"
        file["file_data"] = f"data:{mime};base64,{data['base64']}"
        file["filename"] = name or default_file_name()
    elif data.get("file_id"):
        file["file_id"] = data["file_id"]
        file |= {"filename": name} if name and api != "responses" else {}
    elif data.get("url") and api == "responses":
        file["file_url"] = data["url"]
    elif data.get("url"):
        raise UsageError(
            "OpenAI Chat Completions does not support files by url: send base64, or use responses"
        )
    else:
        raise UsageError("a file block needs one of: base64, file_id, url")
    return {"type": "input_file", **file} if api == "responses" else {"type": "file", "file": file}


def default_file_name() -> str:
    """Return LangChain's default file name and warn: OpenAI refuses a file without a name."""
    warnings.warn(
        "OpenAI wants a filename for file inputs: give the block a 'filename' (or extras.filename)",
        stacklevel=2,
    )
    return "LC_AUTOGENERATED"


def _current_spelling(block: Block) -> Block:
    """Return a standard block in the current spelling."""
    blocks = common.translate(block)
    return blocks[0] if blocks else block


translate_content: Translate = message_translator(translate)
translate_content_chunk: Translate = translate_content
