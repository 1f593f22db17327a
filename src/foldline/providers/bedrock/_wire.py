"""Types of the JSON that Converse and ConverseStream send. No field is required, because none is always present.

A block has one key, which is its kind (`{"text": ...}`, `{"toolUse": {...}}`). Blocks that are kept unchanged, and
unknown ones, are plain JSON.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from typing_extensions import TypedDict

Block: TypeAlias = dict[str, Any]
"""A content block, keyed by its kind."""


class Usage(TypedDict, total=False):
    """Token counts; `inputTokens` excludes cached ones."""

    inputTokens: int
    outputTokens: int
    totalTokens: int
    cacheReadInputTokens: int
    cacheWriteInputTokens: int
    cacheDetails: list[dict[str, Any]]


class Message(TypedDict, total=False):
    """The message of the model."""

    role: str
    content: list[Block]


class Output(TypedDict, total=False):
    """The wrapper of the message in an answer."""

    message: Message


class Answer(TypedDict, total=False):
    """An answer of Converse."""

    output: Output
    stopReason: str
    usage: Usage
    metrics: dict[str, Any]
    additionalModelResponseFields: Any
    trace: dict[str, Any]
    performanceConfig: dict[str, Any]
    serviceTier: dict[str, Any]


class StreamEvent(TypedDict, total=False):
    """The payload of one event of ConverseStream; the event's name is in the frame's headers."""

    role: str
    contentBlockIndex: int
    start: Block
    delta: Block
    stopReason: str
    usage: Usage
    additionalModelResponseFields: Any


ANSWER_FIELDS: Final = frozenset({"output", "stopReason", "usage"})
"""Fields of an answer that are read; all others are kept as response metadata."""
EVENT_FIELDS: Final = frozenset({"stopReason", "usage", "role", "p"})
"""The same for events about the message; `p` is padding that hides the length of an event."""
BODY_FIELDS: Final = frozenset(
    {
        "additionalModelRequestFields", "additionalModelResponseFieldPaths", "guardrailConfig", "inferenceConfig",
        "messages", "outputConfig", "performanceConfig", "promptVariables", "requestMetadata", "serviceTier",
        "system", "toolConfig",
    }
)  # fmt: skip
"""Fields of a request's body; all others are passed to the model."""
STREAM_TYPE: Final = "application/vnd.amazon.eventstream"
SERVER_CALL: Final = "server_tool_use"
"""The `type` of a call that Bedrock runs itself."""
FORMATS: Final = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "video/x-matroska": "mkv",
    "video/quicktime": "mov",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/ogg": "ogg",
    "audio/opus": "opus",
    "audio/flac": "flac",
    "audio/aac": "aac",
    "audio/mp4": "m4a",
    "audio/webm": "webm",
}
"""MIME type -> Bedrock's name of the format."""
