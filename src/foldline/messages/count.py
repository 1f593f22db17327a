"""Estimate the tokens of messages by counting characters, without a model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from foldline.exceptions import LimitExceededError
from foldline.messages._runnable_function import runnable_function
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.convert import MessageLikeRepresentation, convert_to_messages
from foldline.messages.openai import openai_role
from foldline.messages.tool import ToolMessage

__all__ = ["count_tokens_approximately"]

MAX_SCALING = 1.25
IMAGE_TYPES = frozenset({"image", "image_url"})
PAYLOAD_KEYS = frozenset({"base64", "data", "file_data"})
Tool: TypeAlias = Any
"""A dict, or a tool object, which this layer cannot import."""


@runnable_function
def count_tokens_approximately(
    messages: Iterable[MessageLikeRepresentation],
    *,
    chars_per_token: float = 4.0,
    extra_tokens_per_message: float = 3.0,
    count_name: bool = True,
    tokens_per_image: int = 85,
    use_usage_metadata_scaling: bool = False,
    tools: Sequence[Tool] | None = None,
) -> int:
    """Return the estimated tokens of messages, and of tools sent with them."""
    if chars_per_token <= 0:
        raise ValueError(f"chars_per_token is more than 0, not {chars_per_token!r}")
    converted = convert_to_messages(messages)
    total = 0.0
    if tools:
        characters = sum(len(json.dumps(_schema(tool), default=str)) for tool in tools)
        total += math.ceil(characters / chars_per_token)
    sums: list[float] = []
    for message in converted:
        try:
            characters, images = _size(message, count_name=count_name)
        except RecursionError:
            raise LimitExceededError(
                f"message {len(sums)} holds values nested too deep (or that contain themselves) to be counted"
            ) from None
        total += math.ceil(characters / chars_per_token) + images * tokens_per_image
        total += extra_tokens_per_message
        sums.append(total)
    if use_usage_metadata_scaling:
        total *= _scale(converted, sums)
    return math.ceil(total)


def _size(message: BaseMessage, *, count_name: bool) -> tuple[int, int]:
    """Return the number of characters and of images of a message."""
    characters = images = 0
    content = message.content
    for item in [content] if isinstance(content, str) else content:
        if isinstance(item, str):
            characters += len(item)
        elif item.get("type") in IMAGE_TYPES:
            images += 1
        elif item.get("type") == "text":
            characters += len(str(item.get("text") or ""))
        else:
            reduced, payloads = _without_payloads(item)
            characters += len(repr(reduced))
            images += payloads
    if isinstance(message, AIMessage) and isinstance(content, str) and message.tool_calls:
        characters += len(repr(message.tool_calls))
    if isinstance(message, ToolMessage):
        characters += len(message.tool_call_id)
    if count_name and message.name:
        characters += len(message.name)
    return characters + len(openai_role(message)), images


def _without_payloads(item: object) -> tuple[Any, int]:
    """Return a block without base64 data, and the number of payloads, which are counted like images."""
    if not isinstance(item, dict):
        return item, 0
    reduced, count = {}, 0
    for key, value in item.items():
        if key in PAYLOAD_KEYS and isinstance(value, str) and " " not in value[:200]:
            count += 1
            continue
        reduced[key], nested_count = _without_payloads(value)
        count += nested_count
    return reduced, count


def _scale(messages: Sequence[BaseMessage], sums: Sequence[float]) -> float:
    """Return the ratio of the provider's last count to the estimate, at least 1."""
    answers = [index for index, message in enumerate(messages) if isinstance(message, AIMessage)]
    providers = {messages[index].response_metadata.get("model_provider") for index in answers}
    if len(messages) < 2 or len(providers) != 1 or None in providers:
        return 1.0
    for index in reversed(answers):
        usage = getattr(messages[index], "usage_metadata", None)
        if usage and usage["total_tokens"]:
            return float(min(MAX_SCALING, max(1.0, usage["total_tokens"] / sums[index])))
    return 1.0


def _schema(tool: Tool) -> object:
    if isinstance(tool, dict):
        return tool
    function = {
        "name": getattr(tool, "name", getattr(tool, "__name__", type(tool).__name__)),
        "description": getattr(tool, "description", getattr(tool, "__doc__", "")),
        "parameters": getattr(tool, "args", {}),
    }
    return {"type": "function", "function": function}
