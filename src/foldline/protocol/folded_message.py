"""Values of the fold: open blocks, the folded message and its limits; finish reasons and token counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from foldline.protocol._shapes import is_count
from foldline.protocol.blocks import MEDIA_TYPES, FinalizedContentBlock, UsageInfo
from foldline.protocol.events import DELTA_FIELDS, FINISH_REASONS, FinishReason, Role
from foldline.protocol.merge import copy_json
from foldline.utils.json import mend_surrogates, to_jsonable

Status: TypeAlias = Literal["complete", "incomplete"]

RESPONSE_KEYS: Final = {"provider": "model_provider", "model": "model_name"}
"""Start metadata that has another name in response metadata."""
MESSAGE_KEYS: Final = frozenset({"name", "tool_call_id", "status"})
"""Start metadata that is a field of the message itself."""


class Bounds(Protocol):
    """The limits of a message."""

    @property
    def blocks(self) -> int: ...
    @property
    def tool_args(self) -> int: ...
    @property
    def message(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FoldLimits:
    """Limits of one message, in characters; exceeding one raises `LimitExceededError`."""

    blocks: int = 4096
    tool_args: int = 4 * 1024 * 1024
    message: int = 128 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class FoldedMessage:
    """The message that a stream of events folds to; not frozen, because every call makes one."""

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
    """Fields of the message that are sent in its start: `name`, `tool_call_id`, `status` (of a tool)."""


def response_names(start: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a start under the names of response metadata."""
    if start.keys() == RESPONSE_KEYS.keys():  # the usual case
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
"""How a block in a provider's format begins: a stream that is cut there has no content."""

DELTA_OF_TYPE: Final[dict[str, str]] = {
    "text": "text-delta",
    "reasoning": "reasoning-delta",
    "refusal": "refusal-delta",
    "tool_call_chunk": "tool-call-delta",
    "server_tool_call_chunk": "tool-call-delta",
    "tool_call": "tool-call-delta",
    "server_tool_call": "tool-call-delta",
    "text-plain": "text-delta",
    **dict.fromkeys(MEDIA_TYPES, "data-delta"),
}
"""The delta by which a block of each type grows; other types grow by whichever delta comes first."""


class OpenBlock:
    """A block that still grows: its fields, and the slices of its growing field."""

    __slots__ = ("content", "delta", "field", "parts", "room")

    def __init__(self, content: Block, limits: Bounds) -> None:
        kind = content["type"]
        self.content: Block = content
        self.delta: str = DELTA_OF_TYPE.get(kind, "")
        field, target = DELTA_FIELDS.get(self.delta, ("", ""))
        self.field: str = field
        self.parts: list[str] = []
        # Only arguments have a limit of their own; other text is limited by the message.
        self.room: int = limits.tool_args if target == "args" else limits.message
        if isinstance(start_text := content.get(target), str):
            if start_text:
                self.parts.append(start_text)
            elif target in ("reasoning", "base64"):
                content.pop(target)  # absent stays absent (T18)

    def so_far(self) -> Block:
        """Return a copy of the block so far."""
        block: Block = copy_json(self.content)
        if self.parts:
            if len(self.parts) > 1:
                self.parts[:] = ["".join(self.parts)]
            block[DELTA_FIELDS[self.delta][1]] = mend_surrogates(_without_half(self.parts[0]))
        return block

    def text(self) -> str:
        """Return the text so far."""
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
    """Drop the first half of a surrogate pair whose second half has not arrived."""
    return text[:-1] if text and "\ud800" <= text[-1] <= "\udbff" else text


# -- finish reasons under our names; providers have their own tables, this one is the default

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
    """Return our name for a provider's finish reason: `unknown` for an unknown one, None for none."""
    if not raw:
        return None
    word = str(raw).strip().lower().replace("-", "_")
    if word in FINISH_REASONS:
        return word  # type: ignore[return-value]
    return REASONS.get(word, "unknown")


# -- counts of tokens, as providers report them

TOTALS: Final = frozenset({"input_tokens", "output_tokens", "total_tokens"})
MOST_TOKENS: Final = 10**15
"""A larger count is a provider's mistake and is dropped."""


def counts_of(usage: Mapping[str, object]) -> dict[str, Any]:
    """Drop counters that are not numbers: a provider's mistake in them must not fail the answer."""
    return dict(usage) if _is_all_totals(usage) else _valid_counts(to_jsonable(usage))


def _is_all_totals(usage: Mapping[str, object]) -> bool:
    """Return whether usage is exactly the three totals with valid counts, as it usually is."""
    if usage.keys() != TOTALS:
        return False
    for count in usage.values():  # noqa: SIM110  a generator would cost a frame
        if type(count) is not int or not 0 <= count < MOST_TOKENS:
            return False
    return True


def _valid_counts(usage: dict[str, Any]) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for name, value in usage.items():
        if name.endswith("_token_details"):
            if isinstance(value, dict):
                counts[name] = {key: count for key, count in value.items() if _is_count(count)}
        elif (
            (type(value) is int and 0 <= value < MOST_TOKENS)
            or not name.endswith("_tokens")
            or _is_count(value)
        ):
            counts[name] = value
    return counts


def _is_count(value: object) -> bool:
    return (type(value) is int or is_count(value)) and 0 <= value < MOST_TOKENS
