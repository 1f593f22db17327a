"""What a fold gives, and the bounds it keeps: two values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from weft.protocol.blocks import FinalizedContentBlock, Json, UsageInfo
from weft.protocol.events import FinishReason, Role

Status: TypeAlias = Literal["complete", "incomplete"]


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
    message: int = 64 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class FoldedMessage:
    """What a stream of events said, as one value; not frozen, because every call makes one."""

    role: Role = "ai"
    id: str | None = None
    blocks: list[FinalizedContentBlock] = field(default_factory=list)
    usage: UsageInfo | None = None
    finish_reason: FinishReason | None = None
    metadata: dict[str, Json] = field(default_factory=dict)
    """Start metadata merged with finish metadata; `provider` and `model` appear as `model_provider`, `model_name`."""
    additional_kwargs: dict[str, Json] = field(default_factory=dict)
    status: Status = "complete"
    fields: dict[str, Json] = field(default_factory=dict)
    """The message's own fields that travelled with its start: `name`, `tool_call_id`, `status` (of a tool)."""
