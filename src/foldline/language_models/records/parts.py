"""The parts of AIGNE's records as types: dicts in snake_case; camelCase is read too."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

__all__ = [
    "ChatModelInputMessage",
    "ChatModelInputMessageContent",
    "ChatModelInputOptions",
    "ChatModelInputResponseFormat",
    "ChatModelInputTool",
    "ChatModelInputToolChoice",
    "ChatModelOptions",
    "ChatModelOutputDelta",
    "ChatModelOutputToolCall",
    "FileContent",
    "FileType",
    "FileUnionContent",
    "LocalContent",
    "Role",
    "TextContent",
    "UrlContent",
]

Role: TypeAlias = Literal["system", "user", "agent", "assistant", "tool"]
"""The author of a message; `agent` and `assistant` are both the model."""
FileType: TypeAlias = Literal["local", "file", "url"]
"""The form of files: written to a folder, as base64, by URL."""


class CacheControl(TypedDict):
    """A mark for the provider's prompt cache: everything up to here may be cached."""

    type: Literal["ephemeral"]
    ttl: NotRequired[Literal["5m", "1h"]]


class TextContent(TypedDict):
    """A text."""

    type: Literal["text"]
    text: str
    cache_control: NotRequired[CacheControl]


class _FileFields(TypedDict):
    filename: NotRequired[str]
    mime_type: NotRequired[str]
    """By default determined by the name or the bytes."""
    cache_control: NotRequired[CacheControl]


class FileContent(_FileFields):
    """A file as base64."""

    type: Literal["file"]
    data: str


class UrlContent(_FileFields):
    """A file by its address."""

    type: Literal["url"]
    url: str


class LocalContent(_FileFields):
    """A file by its path; read only if a `FileResolver` allows it."""

    type: Literal["local"]
    path: str


FileUnionContent: TypeAlias = FileContent | UrlContent | LocalContent
"""A file in any form."""
ChatModelInputMessageContent: TypeAlias = str | list[TextContent | FileUnionContent]
"""The content of a message: text, or a list of texts and files."""


class _Function(TypedDict):
    name: str
    description: NotRequired[str]
    parameters: dict[str, Any]


class ChatModelInputTool(TypedDict):
    """A tool that the model may call."""

    type: Literal["function"]
    function: _Function
    cache_control: NotRequired[CacheControl]


class _NamedFunction(TypedDict):
    name: str
    description: NotRequired[str]


class ChatModelInputNamedTool(TypedDict):
    """The tool that the model must call."""

    type: Literal["function"]
    function: _NamedFunction


ChatModelInputToolChoice: TypeAlias = Literal["auto", "none", "required"] | ChatModelInputNamedTool
"""What the model may do with tools: decide itself, call none, call some, or call a certain one."""


class _CalledFunction(TypedDict):
    name: str
    arguments: dict[str, Any]


class ChatModelOutputToolCall(TypedDict):
    """A tool call of the model, with its arguments as an object."""

    id: str
    type: Literal["function"]
    function: _CalledFunction
    metadata: NotRequired[dict[str, Any]]
    """What the provider needs back with the call, such as Gemini's signature."""


class ChatModelInputMessage(TypedDict):
    """One message of a conversation."""

    role: Role
    content: NotRequired[ChatModelInputMessageContent | None]
    tool_calls: NotRequired[list[ChatModelOutputToolCall]]
    """For the model: the calls it made."""
    tool_call_id: NotRequired[str]
    """For a tool: the id of the call that this is the result of."""
    name: NotRequired[str]
    id: NotRequired[str]
    cache_control: NotRequired[CacheControl]


class _JsonSchema(TypedDict):
    name: NotRequired[str]
    description: NotRequired[str]
    schema: dict[str, Any]
    strict: NotRequired[bool]


class ChatModelInputResponseFormat(TypedDict):
    """The form of the answer: text, or JSON that fits a schema."""

    type: Literal["text", "json_schema"]
    json_schema: NotRequired[_JsonSchema]


class ChatModelInputOptions(TypedDict, total=False):
    """Options of the model with the same meaning everywhere; others reach the provider unchanged."""

    model: str
    temperature: float
    top_p: float
    frequency_penalty: float
    presence_penalty: float
    max_tokens: int
    parallel_tool_calls: bool
    modalities: list[str]
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | int
    prefer_input_file_type: Literal["file", "url"]


class ChatModelOptions(TypedDict, total=False):
    """Arguments of a model's constructor, in AIGNE's style."""

    model: str
    model_options: ChatModelInputOptions
    retry_on_error: Any
    """`True`, `False`, a number, a `RetryPolicy`, or a dict such as `{"retries": 3, "min_timeout": 1000}`."""
    hooks: Any
    name: str


class _Delta(TypedDict, total=False):
    text: dict[str, str]
    """Fields of the record to append to."""
    json: dict[str, Any]
    """Fields of the record to replace."""


class ChatModelOutputDelta(TypedDict):
    """A chunk of a streamed answer; all of them add up to the `ChatModelOutput`."""

    delta: _Delta
