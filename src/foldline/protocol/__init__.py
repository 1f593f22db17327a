"""Blocks and events of a model's answer, and the fold of events into a message. No I/O.

`blocks` and `events` are the data; `merge` is the table of how they grow; `EventWriter` writes events and
`MessageBuilder` folds them; `message_to_events` replays a message; `assert_valid_event_stream` checks the grammar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.protocol.blocks import (
        BLOCK_TYPES,
        HEAVY_FIELDS,
        MEDIA_TYPES,
        Annotation,
        AudioContentBlock,
        BlockIndex,
        Citation,
        ContentBlock,
        DataContentBlock,
        FileContentBlock,
        FinalizedContentBlock,
        ImageContentBlock,
        InputTokenDetails,
        InvalidToolCall,
        NonStandardAnnotation,
        NonStandardContentBlock,
        OutputTokenDetails,
        PlainTextContentBlock,
        ReasoningContentBlock,
        RefusalContentBlock,
        ServerToolCall,
        ServerToolCallChunk,
        ServerToolResult,
        TextContentBlock,
        ToolCall,
        ToolCallChunk,
        ToolContentBlock,
        UsageInfo,
        VideoContentBlock,
    )
    from foldline.protocol.events import (
        DELTA_FIELDS,
        FINISH_REASONS,
        ROLES,
        BlockDelta,
        ContentBlockDelta,
        ContentBlockDeltaEvent,
        ContentBlockFinish,
        ContentBlockStart,
        DataDelta,
        Event,
        FinishReason,
        MessageFinish,
        MessageReset,
        MessageStart,
        MetadataScalar,
        ReasoningDelta,
        RefusalDelta,
        Role,
        StreamError,
        TextDelta,
        ToolCallDelta,
    )
    from foldline.protocol.fold import MessageBuilder, fold
    from foldline.protocol.folded_message import FoldedMessage, FoldLimits, normalize_finish_reason
    from foldline.protocol.grammar import (
        GrammarChecker,
        Violation,
        assert_valid_event_stream,
        check,
    )
    from foldline.protocol.identity import Key
    from foldline.protocol.merge import (
        RULES,
        Rule,
        add_usage,
        copy_json,
        grow_name,
        merge_block,
        merge_dicts,
        merge_lists,
        merge_metadata,
        replace_usage,
    )
    from foldline.protocol.published import (
        BlockDeltaFields,
        ContentBlockDeltaData,
        ContentBlockFinishData,
        ContentBlockStartData,
        InvalidToolCallBlock,
        MessageErrorData,
        MessageFinishData,
        MessageMetadata,
        MessageRole,
        MessagesData,
        MessageStartData,
        ServerToolCallBlock,
        ServerToolCallChunkBlock,
        ServerToolResultBlock,
        ToolCallBlock,
        ToolCallChunkBlock,
    )
    from foldline.protocol.replay import (
        MessageLike,
        amessage_to_events,
        describe,
        message_to_events,
        replay,
    )
    from foldline.protocol.tool_call_text import (
        is_growing_call,
        is_server_call,
        parse_tool_args,
        promote,
    )
    from foldline.protocol.writer import EventWriter

__all__ = [
    "BLOCK_TYPES",
    "DELTA_FIELDS",
    "FINISH_REASONS",
    "HEAVY_FIELDS",
    "MEDIA_TYPES",
    "ROLES",
    "RULES",
    "Annotation",
    "AudioContentBlock",
    "BlockDelta",
    "BlockDeltaFields",
    "BlockIndex",
    "Citation",
    "ContentBlock",
    "ContentBlockDelta",
    "ContentBlockDeltaData",
    "ContentBlockDeltaEvent",
    "ContentBlockFinish",
    "ContentBlockFinishData",
    "ContentBlockStart",
    "ContentBlockStartData",
    "DataContentBlock",
    "DataDelta",
    "Event",
    "EventWriter",
    "FileContentBlock",
    "FinalizedContentBlock",
    "FinishReason",
    "FoldLimits",
    "FoldedMessage",
    "GrammarChecker",
    "ImageContentBlock",
    "InputTokenDetails",
    "InvalidToolCall",
    "InvalidToolCallBlock",
    "Key",
    "MessageBuilder",
    "MessageErrorData",
    "MessageFinish",
    "MessageFinishData",
    "MessageLike",
    "MessageMetadata",
    "MessageReset",
    "MessageRole",
    "MessageStart",
    "MessageStartData",
    "MessagesData",
    "MetadataScalar",
    "NonStandardAnnotation",
    "NonStandardContentBlock",
    "OutputTokenDetails",
    "PlainTextContentBlock",
    "ReasoningContentBlock",
    "ReasoningDelta",
    "RefusalContentBlock",
    "RefusalDelta",
    "Role",
    "Rule",
    "ServerToolCall",
    "ServerToolCallBlock",
    "ServerToolCallChunk",
    "ServerToolCallChunkBlock",
    "ServerToolResult",
    "ServerToolResultBlock",
    "StreamError",
    "TextContentBlock",
    "TextDelta",
    "ToolCall",
    "ToolCallBlock",
    "ToolCallChunk",
    "ToolCallChunkBlock",
    "ToolCallDelta",
    "ToolContentBlock",
    "UsageInfo",
    "VideoContentBlock",
    "Violation",
    "add_usage",
    "amessage_to_events",
    "assert_valid_event_stream",
    "check",
    "copy_json",
    "describe",
    "fold",
    "grow_name",
    "is_growing_call",
    "is_server_call",
    "merge_block",
    "merge_dicts",
    "merge_lists",
    "merge_metadata",
    "message_to_events",
    "normalize_finish_reason",
    "parse_tool_args",
    "promote",
    "replace_usage",
    "replay",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".blocks": "Annotation AudioContentBlock BLOCK_TYPES BlockIndex Citation ContentBlock "
        "DataContentBlock FileContentBlock FinalizedContentBlock HEAVY_FIELDS "
        "ImageContentBlock InputTokenDetails InvalidToolCall MEDIA_TYPES "
        "NonStandardAnnotation NonStandardContentBlock OutputTokenDetails "
        "PlainTextContentBlock ReasoningContentBlock RefusalContentBlock ServerToolCall ServerToolCallChunk "
        "ServerToolResult TextContentBlock ToolCall ToolCallChunk ToolContentBlock "
        "UsageInfo VideoContentBlock",
        ".events": "BlockDelta ContentBlockDelta ContentBlockDeltaEvent ContentBlockFinish "
        "ContentBlockStart DELTA_FIELDS DataDelta Event FINISH_REASONS FinishReason "
        "MessageFinish MessageReset MessageStart MetadataScalar ROLES ReasoningDelta RefusalDelta Role "
        "StreamError TextDelta ToolCallDelta",
        ".fold": "MessageBuilder fold",
        ".folded_message": "FoldLimits FoldedMessage normalize_finish_reason",
        ".grammar": "GrammarChecker Violation assert_valid_event_stream check",
        ".identity": "Key",
        ".merge": "RULES Rule add_usage copy_json grow_name merge_block merge_dicts merge_lists "
        "merge_metadata replace_usage",
        ".tool_call_text": "is_growing_call is_server_call parse_tool_args promote",
        ".published": "BlockDeltaFields ContentBlockDeltaData ContentBlockFinishData ContentBlockStartData "
        "InvalidToolCallBlock MessageErrorData MessageFinishData MessageMetadata MessageRole "
        "MessageStartData MessagesData ServerToolCallBlock ServerToolCallChunkBlock "
        "ServerToolResultBlock ToolCallBlock ToolCallChunkBlock",
        ".replay": "MessageLike amessage_to_events describe message_to_events replay",
        ".writer": "EventWriter",
    },
)
