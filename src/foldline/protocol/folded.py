"""What a fold holds and gives: open blocks, the folded message, its bounds; finish reasons and token counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from foldline.protocol.blocks import MEDIA_TYPES, FinalizedContentBlock, UsageInfo
from foldline.protocol.events import DELTA_FIELDS, FINISH_REASONS, FinishReason, Role
from foldline.protocol.merge import copy_json
from foldline.protocol.shapes import is_count
from foldline.utils.json import mend_surrogates, to_jsonable

Status: TypeAlias = Literal["complete", "incomplete"]

RESPONSE_KEYS: Final = {"provider": "model_provider", "model": "model_name"}
"""Start metadata that is known by another name in response metadata."""
MESSAGE_KEYS: Final = frozenset({"name", "tool_call_id", "status"})
"""Start metadata that is a field of the message itself."""


class Bounds(Protocol):
    """Whatever knows the bounds of a message."""

    @property
    def blocks(self) -> int: ...
    @property
    def tool_args(self) -> int: ...
    @property
    def message(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FoldLimits:
    """Bounds of one message, in characters; passing one raises `LimitExceededError`."""

    blocks: int = 4096
    tool_args: int = 4 * 1024 * 1024
    message: int = 128 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class FoldedMessage:
    """What a stream of events said, as one value; not frozen, because every call makes one."""

    role: Role = "ai"
    id: str | None = None
    blocks: list[FinalizedContentBlock] = field(default_factory=list)
    usage: UsageInfo | None = None
    finish_reason: FinishReason | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """Start metadata merged with finish metadata; `provider` and `model` appear as `model_provider`, `model_name`."""
    additional_kwargs: dict[str, Any] = field(default_factory=dict)
    status: Status = "complete"
    fields: dict[str, Any] = field(default_factory=dict)
    """The message's own fields that travelled with its start: `name`, `tool_call_id`, `status` (of a tool)."""


def response_names(start: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a start as response metadata names it."""
    if start.keys() == RESPONSE_KEYS.keys():  # as every provider's is
        return {"model_provider": start["provider"], "model_name": start["model"]}
    return {
        RESPONSE_KEYS.get(key, key): value
        for key, value in start.items()
        if key not in MESSAGE_KEYS
    }


# -- a block that still grows

Block: TypeAlias = dict[str, Any]

EMPTY_TEXT: Final = {"type": "text", "text": ""}
"""How most blocks begin."""
EMPTY_VALUE: Final = {"type": "non_standard"}
"""How a block in a provider's own words begins: cut off there it says nothing."""

GROWS: Final[dict[str, str]] = {
    "text": "text-delta",
    "reasoning": "reasoning-delta",
    "tool_call_chunk": "tool-call-delta",
    "server_tool_call_chunk": "tool-call-delta",
    "tool_call": "tool-call-delta",
    "server_tool_call": "tool-call-delta",
    "text-plain": "text-delta",
    **dict.fromkeys(MEDIA_TYPES, "data-delta"),
}
"""The delta by which a block of each type grows; other types grow by whichever delta comes first."""


class OpenBlock:
    """A block that still grows: its fields, and its slices apart."""

    __slots__ = ("content", "delta", "field", "parts", "room")

    def __init__(self, content: Block, limits: Bounds) -> None:
        kind = content["type"]
        self.content: Block = content
        self.delta: str = GROWS.get(kind, "")
        field, target = DELTA_FIELDS.get(self.delta, ("", ""))
        self.field: str = field
        self.parts: list[str] = []
        # Only arguments have a bound of their own; other text is bounded by the message.
        self.room: int = limits.tool_args if target == "args" else limits.message
        if isinstance(said := content.get(target), str):
            if said:
                self.parts.append(said)
            elif target in ("reasoning", "base64"):
                content.pop(target)  # absent stays absent (T18)

    def so_far(self) -> Block:
        """Return the block with what it has said, copied."""
        block: Block = copy_json(self.content)
        if self.parts:
            if len(self.parts) > 1:
                self.parts[:] = ["".join(self.parts)]
            block[DELTA_FIELDS[self.delta][1]] = mend_surrogates(_without_half(self.parts[0]))
        return block

    def text(self) -> str:
        return "".join(self.parts)


def weight(value: object) -> int:
    """Count the characters of the text in a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        size = 0
        for key, item in value.items():
            if key != "type":
                size += len(str(key)) + (len(item) if type(item) is str else weight(item))
        return size
    if isinstance(value, list):
        return sum(map(weight, value))
    return 0


def _without_half(text: str) -> str:
    """Leave out the first half of a character whose second half has not come yet."""
    return text[:-1] if text and "\ud800" <= text[-1] <= "\udbff" else text


# -- why a message ended, in our words; providers have tables of their own, this is for the rest

REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end": "stop",
    "complete": "stop",
    "completed": "stop",
    "finished": "stop",
    "done": "stop",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "max_length": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "incomplete": "length",
    "tool_calls": "tool_use",
    "tool_call": "tool_use",
    "function_call": "tool_use",
    "safety": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "pause_turn": "pause",
    "failed": "error",
    "malformed_function_call": "error",
}


def normalize_finish_reason(raw: str | None) -> FinishReason | None:
    """Return our word for a provider's; a word nobody knows is `unknown`, silence stays silence."""
    if not raw:
        return None
    word = str(raw).strip().lower().replace("-", "_")
    if word in FINISH_REASONS:
        return word  # type: ignore[return-value]
    return REASONS.get(word, "unknown")


# -- counts of tokens, as providers report them

TOTALS: Final = frozenset({"input_tokens", "output_tokens", "total_tokens"})
MOST_TOKENS: Final = 10**15
"""No message has more: a larger count is none."""


def counts_of(usage: Mapping[str, object]) -> dict[str, Any]:
    """Leave out counters that count nothing: a provider's mistake there must not cost the answer."""
    return dict(usage) if _is_all_totals(usage) else _sound(to_jsonable(usage))


def _is_all_totals(usage: Mapping[str, object]) -> bool:
    """Say whether usage is the three totals and nothing that needs looking at, as it mostly is."""
    if usage.keys() != TOTALS:
        return False
    for count in usage.values():  # noqa: SIM110  a frame for each
        if type(count) is not int or not 0 <= count < MOST_TOKENS:
            return False
    return True


def _sound(usage: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in usage.items():
        if name.endswith("_token_details"):
            if isinstance(value, dict):
                found[name] = {key: one for key, one in value.items() if _is_count(one)}
        elif (
            (type(value) is int and 0 <= value < MOST_TOKENS)
            or not name.endswith("_tokens")
            or _is_count(value)
        ):
            found[name] = value
    return found


def _is_count(value: object) -> bool:
    return (type(value) is int or is_count(value)) and 0 <= value < MOST_TOKENS
