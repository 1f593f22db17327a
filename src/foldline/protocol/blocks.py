"""Content blocks as typed dicts: the parts of a message.

Field names are those of the published `langchain-protocol`; every block may also carry `extras`, and `text-plain`
is ours (a test lists each difference with its reason). This file has only shapes; how blocks grow is in `merge`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypeAlias, get_args

from typing_extensions import TypedDict

BlockIndex: TypeAlias = int | str


class Citation(TypedDict):
    """Where a piece of text comes from."""

    type: Literal["citation"]
    id: NotRequired[str]
    url: NotRequired[str]
    title: NotRequired[str]
    start_index: NotRequired[int]
    end_index: NotRequired[int]
    cited_text: NotRequired[str]
    extras: NotRequired[dict[str, Any]]


class NonStandardAnnotation(TypedDict):
    """An annotation in the provider's format."""

    type: Literal["non_standard_annotation"]
    value: dict[str, Any]
    id: NotRequired[str]


Annotation: TypeAlias = Citation | NonStandardAnnotation


class TextContentBlock(TypedDict):
    """Text for the user."""

    type: Literal["text"]
    text: str
    id: NotRequired[str]
    index: NotRequired[BlockIndex]
    annotations: NotRequired[list[Annotation]]
    extras: NotRequired[dict[str, Any]]


class ReasoningContentBlock(TypedDict):
    """The model's reasoning; `reasoning` is absent where the provider hides it."""

    type: Literal["reasoning"]
    reasoning: NotRequired[str]
    id: NotRequired[str]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class RefusalContentBlock(TypedDict):
    """A refusal that the provider reports as one; `refusal` is empty where it gives no sentence.

    Not in the published protocol; LangChain's messages have it. `extras` has the provider's reason, such as a category.
    """

    type: Literal["refusal"]
    refusal: str
    id: NotRequired[str]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class ToolCall(TypedDict):
    """A complete call of one of the client's tools; args are a JSON object."""

    name: str
    args: dict[str, Any]
    id: str | None
    type: NotRequired[Literal["tool_call"]]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class ToolCallChunk(TypedDict):
    """A growing tool call; args are a slice of JSON text."""

    name: str | None
    args: str | None
    id: str | None
    index: NotRequired[BlockIndex | None]
    type: NotRequired[Literal["tool_call_chunk"]]
    extras: NotRequired[dict[str, Any]]


class InvalidToolCall(TypedDict):
    """A call that did not parse, with the raw text and the reason."""

    name: str | None
    args: str | None
    id: str | None
    error: str | None
    type: NotRequired[Literal["invalid_tool_call"]]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class ServerToolCall(TypedDict):
    """A call of a tool that the provider runs itself."""

    type: Literal["server_tool_call"]
    id: str
    name: str
    args: dict[str, Any]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class ServerToolCallChunk(TypedDict):
    """A growing server tool call."""

    type: Literal["server_tool_call_chunk"]
    id: NotRequired[str]
    name: NotRequired[str]
    args: NotRequired[str]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class ServerToolResult(TypedDict):
    """The output of a tool that the provider ran."""

    type: Literal["server_tool_result"]
    tool_call_id: str
    status: Literal["success", "error"]
    id: NotRequired[str]
    output: NotRequired[Any]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class _DataBlock(TypedDict):
    """Fields shared by image, audio, video and file: one of url, base64 or file_id."""

    id: NotRequired[str]
    file_id: NotRequired[str]
    url: NotRequired[str]
    base64: NotRequired[str]
    mime_type: NotRequired[str]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class ImageContentBlock(_DataBlock):
    """An image."""

    type: Literal["image"]


class AudioContentBlock(_DataBlock):
    """An audio recording."""

    type: Literal["audio"]


class VideoContentBlock(_DataBlock):
    """A video."""

    type: Literal["video"]


class FileContentBlock(_DataBlock):
    """Any other file, such as a PDF."""

    type: Literal["file"]


class PlainTextContentBlock(TypedDict):
    """A text document (.txt, .md), as opposed to text of the conversation."""

    type: Literal["text-plain"]
    mime_type: NotRequired[str]
    text: NotRequired[str]
    title: NotRequired[str]
    context: NotRequired[str]
    id: NotRequired[str]
    file_id: NotRequired[str]
    url: NotRequired[str]
    base64: NotRequired[str]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


class NonStandardContentBlock(TypedDict):
    """Content that has no standard block, in the provider's format."""

    type: Literal["non_standard"]
    value: dict[str, Any]
    id: NotRequired[str]
    index: NotRequired[BlockIndex]
    extras: NotRequired[dict[str, Any]]


DataContentBlock: TypeAlias = (
    ImageContentBlock
    | VideoContentBlock
    | AudioContentBlock
    | FileContentBlock
    | PlainTextContentBlock
)
ToolContentBlock: TypeAlias = (
    ToolCall | ToolCallChunk | ServerToolCall | ServerToolCallChunk | ServerToolResult
)
ContentBlock: TypeAlias = (
    TextContentBlock
    | ReasoningContentBlock
    | RefusalContentBlock
    | InvalidToolCall
    | NonStandardContentBlock
    | DataContentBlock
    | ToolContentBlock
)
FinalizedContentBlock: TypeAlias = (
    TextContentBlock
    | ReasoningContentBlock
    | RefusalContentBlock
    | ToolCall
    | InvalidToolCall
    | ServerToolCall
    | ServerToolResult
    | DataContentBlock
    | NonStandardContentBlock
)

BlockKind: TypeAlias = Literal[
    "text",
    "reasoning",
    "refusal",
    "tool_call",
    "tool_call_chunk",
    "invalid_tool_call",
    "server_tool_call",
    "server_tool_call_chunk",
    "server_tool_result",
    "image",
    "audio",
    "video",
    "file",
    "text-plain",
    "non_standard",
]
"""The `type` of a block. Code that reads blocks matches on it and ends with `assert_never`: mypy then finds each place
that lacks a new kind."""

BLOCK_KINDS: Final[tuple[BlockKind, ...]] = get_args(BlockKind)
BLOCK_TYPES: Final[frozenset[str]] = frozenset(BLOCK_KINDS)
MEDIA_TYPES: Final[frozenset[str]] = frozenset({"image", "audio", "video", "file"})
REQUIRED_TEXT: Final[frozenset[str]] = frozenset({"text", "refusal"})
"""The kinds whose text is present even if it is empty; reasoning may be hidden."""
HEAVY_FIELDS = frozenset({"args", "base64", "output", "value"})
"""Payloads that are sent once: never in the `content-block-start` of a complete block."""


class InputTokenDetails(TypedDict, total=False):
    """Details of the input tokens; a provider's other keys are stored next to these."""

    audio: int
    cache_creation: int
    cache_read: int


class OutputTokenDetails(TypedDict, total=False):
    """Details of the output tokens; a provider's other keys are stored next to these."""

    audio: int
    reasoning: int


class UsageInfo(TypedDict):
    """Tokens of one message; `input_tokens` includes the cached ones."""

    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    total_tokens: NotRequired[int]
    input_token_details: NotRequired[InputTokenDetails]
    output_token_details: NotRequired[OutputTokenDetails]
