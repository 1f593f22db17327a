"""The names of these types in the published protocol and in the first draft of `stream_v2`."""

from __future__ import annotations

from typing import Any, TypeAlias

from foldline.protocol.blocks import (
    InvalidToolCall,
    ServerToolCall,
    ServerToolCallChunk,
    ServerToolResult,
    ToolCall,
    ToolCallChunk,
)
from foldline.protocol.events import (
    ContentBlockDeltaEvent,
    ContentBlockFinish,
    ContentBlockStart,
    Event,
    MessageFinish,
    MessageStart,
    MetadataScalar,
    Role,
    StreamError,
)

MessageRole: TypeAlias = Role
MessageMetadata: TypeAlias = dict[str, MetadataScalar]
BlockDeltaFields: TypeAlias = dict[str, Any]

MessageStartData: TypeAlias = MessageStart
ContentBlockStartData: TypeAlias = ContentBlockStart
ContentBlockDeltaData: TypeAlias = ContentBlockDeltaEvent
ContentBlockFinishData: TypeAlias = ContentBlockFinish
MessageFinishData: TypeAlias = MessageFinish
MessageErrorData: TypeAlias = StreamError
MessagesData: TypeAlias = Event

ToolCallBlock: TypeAlias = ToolCall
ToolCallChunkBlock: TypeAlias = ToolCallChunk
InvalidToolCallBlock: TypeAlias = InvalidToolCall
ServerToolCallBlock: TypeAlias = ServerToolCall
ServerToolCallChunkBlock: TypeAlias = ServerToolCallChunk
ServerToolResultBlock: TypeAlias = ServerToolResult
