"""Messages, tool calls and documents as HTML. They are read by their attributes, without their classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from foldline._display.inline import link
from foldline._display.markdown import render_markdown
from foldline._display.parts import Value, badge, card, code, describe_value, fold, pairs

__all__ = ["conversation_html", "document_html", "message_html", "tool_call_html", "usage_html"]

Block = Mapping[str, Any]

PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that cannot hold a script, as an SVG can."""
BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")
LARGEST: Final = 8_000_000
"""Characters of base64 of one picture."""
MOST: Final = 500
"""Messages shown of one conversation."""


def message_html(message: Value, note: str = "") -> str:
    """Return a message: its text as Markdown, its tool calls, and its model and usage."""
    kind = str(getattr(message, "type", "message")).removesuffix("MessageChunk").lower()
    is_failed = getattr(message, "status", None) in ("error", "incomplete")
    name = getattr(message, "name", None)
    title = escape(kind if not name else f"{kind} · {name}")
    if is_failed:
        title += f" {badge(str(message.status))}"
    body = "".join(_body(message, kind)) or "<em>empty</em>"
    return card(kind, title, body, " · ".join(filter(None, [_footer(message), escape(note)])))


def conversation_html(messages: Sequence[Value]) -> str:
    """Return messages, one below the other; of a very long conversation only the end."""
    left_out = len(messages) - MOST
    note = f"<p><em>{left_out:,} earlier messages</em></p>" if left_out > 0 else ""
    return note + "".join(message_html(message) for message in messages[-MOST:])


def tool_call_html(call: Block) -> str:
    """Return a tool call: its name and its arguments."""
    arguments = call.get("args")
    rows = [
        (str(name), code(describe_value(value)))
        for name, value in (arguments.items() if isinstance(arguments, Mapping) else ())
    ]
    body = pairs(rows) if rows else code(describe_value(arguments if arguments is not None else ""))
    title = f"calls {badge(str(call.get('name') or '?'))}"
    if error := call.get("error"):
        title += f" {badge('invalid')} {escape(str(error))}"
    return card("tool", title, body, escape(str(call.get("id") or "")))


def document_html(document: Value) -> str:
    """Return a document: its text and its metadata."""
    metadata = getattr(document, "metadata", None) or {}
    rows = [(str(name), code(describe_value(value))) for name, value in metadata.items()]
    title = escape(f"document {getattr(document, 'id', None) or ''}".strip())
    body = render_markdown(str(document.page_content))
    return card("document", title, body + (fold("metadata", pairs(rows)) if rows else ""))


def usage_html(usage: Block) -> str:
    """Return tokens as a table: of one call, or by model."""
    by_model = {name: value for name, value in usage.items() if isinstance(value, Mapping)}
    if by_model and not any(isinstance(value, int) for value in usage.values()):
        return pairs((str(name), usage_html(value)) for name, value in by_model.items())
    return pairs(_counts(usage))


def _counts(usage: Block, prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in usage.items():
        label = prefix + str(name).replace("_", " ")
        if isinstance(value, Mapping):
            yield from _counts(value, f"{label}: ")
        elif isinstance(value, int | float):
            yield label, f"{value:,}"
        elif value is not None:
            yield label, escape(str(value))


def _footer(message: Value) -> str:
    metadata = getattr(message, "response_metadata", None) or {}
    usage = getattr(message, "usage_metadata", None) or {}
    facts = [
        metadata.get("model_name") or metadata.get("model"),
        getattr(message, "finish_reason", None),
    ]
    if usage.get("total_tokens") is not None:
        facts.append(f"{usage.get('input_tokens')} + {usage.get('output_tokens')} tokens")
    return escape(" · ".join(str(fact) for fact in facts if fact))


def _body(message: Value, kind: str) -> Iterable[str]:
    if kind == "tool" and isinstance(message.content, str):
        yield code(describe_value(message.content))
        return
    shown_calls: set[str] = set()
    for block in _blocks_of(message):
        if block.get("type") in ("tool_call", "tool_call_chunk", "invalid_tool_call"):
            shown_calls.add(str(block.get("id")))
        yield block_html(block)
    for call in [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]:
        if str(call.get("id")) not in shown_calls:
            yield tool_call_html(call)


def _blocks_of(message: Value) -> Iterable[Block]:
    """Return the content as blocks; unchanged where it cannot be read as such."""
    try:
        blocks: Iterable[Block] = message.content_blocks
    except Exception:  # noqa: BLE001  invalid content is still shown
        content = message.content if isinstance(message.content, list) else [message.content]
        blocks = [
            item if isinstance(item, Mapping) else {"type": "text", "text": item}
            for item in content
        ]
    return blocks


def block_html(block: Block) -> str:
    """Return one block of a message's content; one of an unknown kind as JSON."""
    show = BLOCKS.get(str(block.get("type")), _unknown)
    return show(block)


def _unknown(block: Block) -> str:
    return fold(escape(str(block.get("type") or "block")), code(describe_value(block)))


def _text(block: Block) -> str:
    sources = [
        _source(note) for note in block.get("annotations") or () if isinstance(note, Mapping)
    ]
    source_list = f"<p>{' '.join(filter(None, sources))}</p>" if any(sources) else ""
    return render_markdown(str(block.get("text") or "")) + source_list


def _source(note: Block) -> str:
    address = note.get("url")
    return link(str(address), f"[{escape(str(note.get('title') or address))}]") if address else ""


def _reasoning(block: Block) -> str:
    text = str(block.get("reasoning") or "")
    return fold("<em>reasoning</em>", render_markdown(text)) if text else ""


def _refusal(block: Block) -> str:
    text = str(block.get("refusal") or "the model refused to answer")
    return f"<p><strong>refusal</strong></p>{render_markdown(text)}"


def _image(block: Block) -> str:
    kind, data = str(block.get("mime_type") or ""), block.get("base64")
    if (
        kind in PICTURES
        and isinstance(data, str)
        and len(data) <= LARGEST
        and BASE64.fullmatch(data)
    ):
        style = "max-width:100%;max-height:30em"
        return (
            f'<img alt="picture" style="{style}" src="data:{kind};base64,{"".join(data.split())}">'
        )
    return _media(block)


def _media(block: Block) -> str:
    kind = str(block.get("mime_type") or block.get("type"))
    label = f"[{escape(kind)}]"
    data = block.get("base64")
    size = f" {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    name = block.get("file_id") or (block.get("extras") or {}).get("filename") or ""
    return f"<p>{link(str(block.get('url') or ''), label)} {escape(str(name))}{size}</p>"


BLOCKS: Final[dict[str, Callable[[Block], str]]] = {
    "text": _text,
    "reasoning": _reasoning,
    "refusal": _refusal,
    "tool_call": tool_call_html,
    "tool_call_chunk": tool_call_html,
    "invalid_tool_call": tool_call_html,
    "server_tool_call": tool_call_html,
    "image": _image,
    "audio": _media,
    "video": _media,
    "file": _media,
}
"""Type of a block -> its view; other types are shown as JSON."""
