"""What a fold gives, and the bounds it keeps: two values, and the names that metadata has in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from foldline.protocol.blocks import FinalizedContentBlock, Json, UsageInfo
from foldline.protocol.events import FinishReason, Role

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


def response_names(start: dict[str, Json]) -> dict[str, Json]:
    """Give the metadata of a start as response metadata names it."""
    if start.keys() == RESPONSE_KEYS.keys():  # as every provider's is
        return {"model_provider": start["provider"], "model_name": start["model"]}
    return {
        RESPONSE_KEYS.get(key, key): value
        for key, value in start.items()
        if key not in MESSAGE_KEYS
    }
