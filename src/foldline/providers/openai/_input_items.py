"""Encode messages as input items of Responses. Pure.

An answer of OpenAI is sent back item by item, unchanged: ids, order, encrypted reasoning, phases.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.openai import convert_to_openai_data_block, openai_role
from foldline.protocol.blocks import BlockKind
from foldline.providers._foreign_messages import ForeignBlocks, add_note, blocks_for, note_title
from foldline.providers._wire import answered_ids, dump_text
from foldline.providers.openai._wire import (
    INPUT_ITEMS,
    ITEM_OF_TOOL,
    OBJECT_ARGUMENTS,
    SERVER_TOOLS,
)

__all__ = ["ItemEncoder"]

Body = dict[str, Any]
Block = dict[str, Any]

CITATION_KEYS: Final = ("url", "title", "start_index", "end_index")


class ItemEncoder:
    """Encodes a conversation as items."""

    def __init__(self, providers: frozenset[str], policy: ForeignBlocks, notes: list[str]) -> None:
        self._providers = providers
        self._policy = policy
        self._notes = notes
        self._custom_call_ids: set[str] = set()
        """Ids of calls of custom tools, whose results have another type."""
        self._answered: set[str] = set()
        """Ids of the calls that have a result."""

    def encode(self, messages: Sequence[BaseMessage]) -> list[Body]:
        """Return the input items."""
        items: list[Body] = []
        self._answered = answered_ids(messages)
        for message in messages:
            if isinstance(message, AIMessage):
                items += self._answer(message)
            elif isinstance(message, ToolMessage):
                items.append(self._result(message))
            else:
                items += self._encode_message(message)
        return items

    # -- messages of users and systems

    def _encode_message(self, message: BaseMessage) -> list[Body]:
        role = openai_role(message)
        if isinstance(message.content, str):
            return [{"role": role, "content": message.content}]
        parts: list[Body] = []
        items: list[Body] = []
        for block in message.content_blocks:
            value = dict(block).get("value")
            if isinstance(value, dict) and value.get("type") in INPUT_ITEMS:
                items.append(value)
            else:
                parts.append(self._part(dict(block)))
        return [{"role": role, "content": parts}, *items] if parts else items

    def _part(self, block: Block) -> Body:
        kind: BlockKind = block["type"]
        match kind:
            case "refusal":
                return {"type": "input_text", "text": block["refusal"]}
            case "text" | "text-plain" if block.get("text") is not None:
                note_title(block, self._notes)
                return {"type": "input_text", "text": block["text"]}
            case "image" | "audio" | "video" | "file":
                part = convert_to_openai_data_block(block, api="responses")
                is_image = part["type"] == "input_image"
                return {**part, "detail": part.get("detail", "auto")} if is_image else part
            case "non_standard":
                return dict(block["value"])
            case "text" | "text-plain" | "reasoning" | "tool_call" | "invalid_tool_call":
                pass
            case "server_tool_call" | "server_tool_result":
                pass
            case "tool_call_chunk" | "server_tool_call_chunk":
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        add_note(self._notes, f"{kind} has no place in an input message of Responses")
        return {"type": "input_text", "text": ""}

    def _result(self, message: ToolMessage) -> Body:
        output_type = message.additional_kwargs.get("type")
        output: Any = message.content
        if output_type == "shell_call_output":
            output = _shell_output(message)
            return {"type": output_type, "call_id": message.tool_call_id, "output": output}
        if output_type == "computer_call_output" or output_type in INPUT_ITEMS:
            parts = [self._part(dict(block)) for block in message.content_blocks]
            image = next((part for part in parts if part["type"] == "input_image"), None)
            screenshot = {
                "type": "computer_screenshot",
                "image_url": (image or {}).get("image_url"),
            }
            return {
                "type": output_type,
                "call_id": message.tool_call_id,
                "output": screenshot if image else str(message.text),
            }
        if not isinstance(output, str):
            output = [self._part(dict(block)) for block in message.content_blocks]
        is_custom = message.tool_call_id in self._custom_call_ids
        kind = "custom_tool_call_output" if is_custom else "function_call_output"
        return {"type": kind, "call_id": message.tool_call_id, "output": output}

    # -- messages of the model

    def _answer(self, message: AIMessage) -> list[Body]:
        items: list[Body] = []
        results = {}
        blocks = blocks_for(message, self._providers, self._policy, self._notes)
        for block in blocks:
            if block["type"] == "server_tool_result":
                results[block["tool_call_id"]] = block
        for block in blocks:
            item = self._item(block, results)
            if item is not None and not _append_part(items, item):
                items.append(item)
        return items

    def _item(self, block: Block, results: dict[str, Block]) -> Body | None:  # noqa: C901, PLR0911  one line per kind
        kind: BlockKind = block["type"]
        match kind:
            case "text":
                return _message(block, _output_text(block))
            case "refusal":
                return _refusal(block)
            case "reasoning":
                return self._reasoning(block)
            case "tool_call" | "invalid_tool_call":
                return self._call(block)
            case "server_tool_call":
                return self._server_call(block, results.get(block["id"]))
            case "image":
                return self._image(block)
            case "non_standard":
                value = dict(block["value"])
                return _message(block, value) if _is_part(block) else value
            case "server_tool_result":  # sent with its call
                return None
            case ("audio" | "video" | "file" | "text-plain") | (
                "tool_call_chunk" | "server_tool_call_chunk"
            ):
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        add_note(self._notes, f"{kind} has no place in an answer that goes back to Responses")
        return None

    def _reasoning(self, block: Block) -> Body | None:
        extras = dict(block.get("extras") or {})
        id = block.get("id") or extras.pop("item_id", None)
        if not id:
            add_note(
                self._notes, "reasoning without the id of its item is not sent back to Responses"
            )
            return None
        is_content = extras.pop("part", None) == "content"
        extras.pop("status", None)
        item: Body = {"type": "reasoning", "id": id, "summary": [], **extras}
        if block.get("reasoning") is not None:
            part = {
                "type": "reasoning_text" if is_content else "summary_text",
                "text": block["reasoning"],
            }
            item["content" if is_content else "summary"] = [part]
        return item

    def _call(self, block: Block) -> Body | None:
        if block["type"] == "invalid_tool_call" and block.get("id") not in self._answered:
            add_note(self._notes, "a tool call that did not parse was left out")
            return None
        extras = dict(block.get("extras") or {})
        args, id = block.get("args"), str(block.get("id") or "")
        call_type, item_id = extras.pop("type", None), extras.pop("item_id", None)
        head: Body = {
            "call_id": id,
            "name": block.get("name") or "",
            **({"id": item_id} if item_id else {}),
        }
        if call_type in ("custom_tool_call", "custom"):
            self._custom_call_ids.add(id)
            text = args.get("__arg1", "") if isinstance(args, dict) else args
            return {"type": "custom_tool_call", **head, "input": text, **extras}
        text = args if isinstance(args, str) else dump_text(args or {})
        return {"type": "function_call", **head, "arguments": text, **extras}

    def _server_call(self, block: Block, result: Block | None) -> Body | None:
        kind = ITEM_OF_TOOL.get(block["name"])
        if kind is None:
            add_note(
                self._notes,
                f"the call of {block['name']} is not one of OpenAI's own tools and was left out",
            )
            return None
        _, args_key, result_key = SERVER_TOOLS[kind]
        extras = dict(block.get("extras") or {})
        if kind == "mcp_call":
            extras["name"] = extras.pop("tool_name", None)
        item: Body = {"type": kind, "id": block["id"], **extras}
        if args_key is not None:
            item[args_key] = (
                block["args"] if args_key in OBJECT_ARGUMENTS else block["args"].get(args_key)
            )
        if args_key == "arguments":
            item[args_key] = dump_text(block["args"])
        if kind not in ("mcp_call", "mcp_list_tools"):
            item.setdefault(
                "status", "failed" if (result or {}).get("status") == "error" else "completed"
            )
        if kind == "mcp_list_tools":
            item["tools"] = []
        output = (result or {}).get("output")
        if output is not None and result is not None:
            item[result_key if result["status"] == "success" and result_key else "error"] = output
        return item

    def _image(self, block: Block) -> Body | None:
        id = str(block.get("id") or "")
        if not id.startswith("ig_"):
            add_note(
                self._notes, "a picture in an answer that OpenAI did not make is not sent back"
            )
            return None
        extras = {"status": "completed", **(block.get("extras") or {})}
        return {"type": "image_generation_call", "id": id, "result": block.get("base64"), **extras}


def _shell_output(message: ToolMessage) -> list[Body]:
    """Return the output of a shell by command: the tool's JSON list, or its text as one entry."""
    text = str(message.text)
    try:
        outputs = json.loads(text)
    except ValueError:
        outputs = None
    if (
        isinstance(outputs, list)
        and outputs
        and all(isinstance(output, dict) for output in outputs)
    ):
        return outputs
    outcome = {"type": "exit", "exit_code": 1 if message.status == "error" else 0}
    return [{"stdout": text, "stderr": "", "outcome": outcome}]


def _item_id(block: Block) -> str | None:
    return block.get("id") or (block.get("extras") or {}).get("item_id")


def _is_part(block: Block) -> bool:
    """Whether a block is a part of a message instead of an item."""
    return str(_item_id(block)).startswith("msg")


def _refusal(block: Block) -> Body | None:
    if not block["refusal"]:
        return None  # it has nothing to send
    return _message(block, {"type": "refusal", "refusal": block["refusal"]})


def _message(block: Block, part: Body) -> Body:
    id = _item_id(block)
    if not id or not str(id).startswith("msg"):
        text = part.get("text") or part.get("refusal") or ""
        return {"role": "assistant", "content": text}
    phase = (block.get("extras") or {}).get("phase")
    item: Body = {
        "type": "message",
        "id": id,
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    return {**item, "phase": phase} if phase else item


def _output_text(block: Block) -> Body:
    annotations = [_annotation(annotation) for annotation in block.get("annotations") or ()]
    return {"type": "output_text", "text": block["text"], "annotations": annotations}


def _annotation(annotation: Block) -> Block:
    if annotation.get("type") == "non_standard_annotation":
        return dict(annotation["value"])
    extras = dict(annotation.get("extras") or {})
    kind = extras.pop("citation_type", "url_citation")
    fields: Block = {name: annotation[name] for name in CITATION_KEYS if name in annotation}
    if kind != "url_citation" and "title" in fields:
        fields["filename"] = fields.pop("title")
    return {"type": kind, **fields, **extras}


def _append_part(items: list[Body], item: Body) -> bool:
    """Append a part to the last item if it belongs to it; return whether it did."""
    last = items[-1] if items else {}
    if not item.get("id") or last.get("id") != item["id"] or last.get("type") != item.get("type"):
        return False
    if item["type"] == "message":
        last["content"] = [*last["content"], *item["content"]]
        return True
    if item["type"] == "reasoning":
        for name, value in item.items():
            if name in ("summary", "content"):
                last[name] = [*last.get(name, []), *value]
            else:
                last.setdefault(name, value)
        return True
    return False
