"""The events of a model's answer as typed dicts (discriminator `event`), and their deltas (discriminator `type`).

Order: one `message-start`; each block starts, grows by deltas and finishes once; one `message-finish`. An `error`
ends the stream in place of `message-finish`. A `message-reset` takes back all before it. Indexes count 0, 1, 2, … in
order of first start.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypeAlias, assert_never, get_args

from typing_extensions import TypedDict

from foldline.protocol.blocks import ContentBlock, FinalizedContentBlock, UsageInfo

Role: TypeAlias = Literal["ai", "human", "system", "tool"]
FinishReason: TypeAlias = Literal[
    "stop", "length", "tool_use", "content_filter", "refusal", "pause", "error", "unknown"
]
MetadataScalar: TypeAlias = str | int | float | bool | None

ROLES: Final[frozenset[str]] = frozenset(get_args(Role))
FINISH_REASONS: Final[frozenset[str]] = frozenset(get_args(FinishReason))


class TextDelta(TypedDict):
    """Appends to the block's `text`."""

    type: Literal["text-delta"]
    text: str


class ReasoningDelta(TypedDict):
    """Appends to the block's `reasoning`."""

    type: Literal["reasoning-delta"]
    reasoning: str


class RefusalDelta(TypedDict):
    """Appends to the block's `refusal`.

    Not in the published protocol: its readers ignore the delta, and take the block from its finish.
    """

    type: Literal["refusal-delta"]
    refusal: str


class DataDelta(TypedDict):
    """Appends to the block's `base64`."""

    type: Literal["data-delta"]
    data: str
    encoding: NotRequired[Literal["base64"]]


class ToolCallDelta(TypedDict):
    """Appends a slice of JSON text to the block's `args`."""

    type: Literal["tool-call-delta"]
    args: str


class BlockDelta(TypedDict):
    """Replaces fields of the block: signatures, late ids, citations. `type` in them is the type of the block."""

    type: Literal["block-delta"]
    fields: dict[str, Any]


DeltaKind: TypeAlias = Literal[
    "text-delta",
    "reasoning-delta",
    "refusal-delta",
    "data-delta",
    "tool-call-delta",
    "block-delta",
]
"""The `type` of a delta."""
DELTA_KINDS: Final[tuple[DeltaKind, ...]] = get_args(DeltaKind)


def _fields_of(kind: DeltaKind) -> tuple[str, str] | None:
    match kind:
        case "text-delta":
            return "text", "text"
        case "reasoning-delta":
            return "reasoning", "reasoning"
        case "refusal-delta":
            return "refusal", "refusal"
        case "data-delta":
            return "data", "base64"
        case "tool-call-delta":
            return "args", "args"
        case "block-delta":
            return None
        case _:
            assert_never(kind)


DELTA_FIELDS: Final[dict[str, tuple[str, str]]] = {
    kind: fields for kind in DELTA_KINDS if (fields := _fields_of(kind)) is not None
}
"""The deltas that append: delta type -> (the field of the delta, the field of the block that grows)."""

ContentBlockDelta: TypeAlias = (
    TextDelta | ReasoningDelta | RefusalDelta | DataDelta | ToolCallDelta | BlockDelta
)


class MessageStart(TypedDict):
    """A message begins."""

    event: Literal["message-start"]
    role: Role
    id: str
    metadata: NotRequired[dict[str, MetadataScalar]]


class ContentBlockStart(TypedDict):
    """A block begins; `content` is its skeleton."""

    event: Literal["content-block-start"]
    index: int
    content: ContentBlock


class ContentBlockDeltaEvent(TypedDict):
    """A block grows."""

    event: Literal["content-block-delta"]
    index: int
    delta: ContentBlockDelta


class ContentBlockFinish(TypedDict):
    """A block is complete; `content` is authoritative and never a chunk."""

    event: Literal["content-block-finish"]
    index: int
    content: FinalizedContentBlock


class MessageFinish(TypedDict):
    """The message is complete."""

    event: Literal["message-finish"]
    finish_reason: NotRequired[FinishReason]
    usage: NotRequired[UsageInfo]
    metadata: NotRequired[dict[str, Any]]
    additional_kwargs: NotRequired[dict[str, Any]]


class MessageReset(TypedDict):
    """Drop what this message contained so far: the attempt failed, and the message begins again with a start.

    Not in the published protocol; sent only where `RetryPolicy(on_partial="reset")` asks for it.
    """

    event: Literal["message-reset"]
    id: str
    attempt: int
    reason: str


class StreamError(TypedDict):
    """The stream failed; the events before it stay valid."""

    event: Literal["error"]
    message: str
    code: NotRequired[str]
    retryable: NotRequired[bool]


Event: TypeAlias = (
    MessageStart
    | ContentBlockStart
    | ContentBlockDeltaEvent
    | ContentBlockFinish
    | MessageFinish
    | MessageReset
    | StreamError
)

EventKind: TypeAlias = Literal[
    "message-start",
    "content-block-start",
    "content-block-delta",
    "content-block-finish",
    "message-finish",
    "message-reset",
    "error",
]
"""The `event` of an event."""
EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)
