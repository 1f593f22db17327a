"""Blocks and events of a model's answer, and the fold of events into a message. No I/O.

`blocks` and `events` are the data; `merge` is the table of how they grow; `EventWriter` writes events and
`MessageBuilder` folds them; `message_to_events` replays a message; `assert_valid_event_stream` checks the grammar.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.protocol._identity import Key as Key
    from foldline.protocol._published import (
        BlockDeltaFields as BlockDeltaFields,
        ContentBlockDeltaData as ContentBlockDeltaData,
        ContentBlockFinishData as ContentBlockFinishData,
        ContentBlockStartData as ContentBlockStartData,
        InvalidToolCallBlock as InvalidToolCallBlock,
        MessageErrorData as MessageErrorData,
        MessageFinishData as MessageFinishData,
        MessageMetadata as MessageMetadata,
        MessageRole as MessageRole,
        MessagesData as MessagesData,
        MessageStartData as MessageStartData,
        ServerToolCallBlock as ServerToolCallBlock,
        ServerToolCallChunkBlock as ServerToolCallChunkBlock,
        ServerToolResultBlock as ServerToolResultBlock,
        ToolCallBlock as ToolCallBlock,
        ToolCallChunkBlock as ToolCallChunkBlock,
    )
    from foldline.protocol.blocks import (
        BLOCK_TYPES as BLOCK_TYPES,
        MEDIA_TYPES as MEDIA_TYPES,
        Annotation as Annotation,
        AudioContentBlock as AudioContentBlock,
        BlockIndex as BlockIndex,
        Citation as Citation,
        ContentBlock as ContentBlock,
        DataContentBlock as DataContentBlock,
        FileContentBlock as FileContentBlock,
        FinalizedContentBlock as FinalizedContentBlock,
        ImageContentBlock as ImageContentBlock,
        InputTokenDetails as InputTokenDetails,
        InvalidToolCall as InvalidToolCall,
        NonStandardAnnotation as NonStandardAnnotation,
        NonStandardContentBlock as NonStandardContentBlock,
        OutputTokenDetails as OutputTokenDetails,
        PlainTextContentBlock as PlainTextContentBlock,
        ReasoningContentBlock as ReasoningContentBlock,
        RefusalContentBlock as RefusalContentBlock,
        ServerToolCall as ServerToolCall,
        ServerToolCallChunk as ServerToolCallChunk,
        ServerToolResult as ServerToolResult,
        TextContentBlock as TextContentBlock,
        ToolCall as ToolCall,
        ToolCallChunk as ToolCallChunk,
        ToolContentBlock as ToolContentBlock,
        VideoContentBlock as VideoContentBlock,
    )
    from foldline.protocol.events import (
        DELTA_FIELDS as DELTA_FIELDS,
        FINISH_REASONS as FINISH_REASONS,
        ROLES as ROLES,
        BlockDelta as BlockDelta,
        ContentBlockDelta as ContentBlockDelta,
        ContentBlockDeltaEvent as ContentBlockDeltaEvent,
        ContentBlockFinish as ContentBlockFinish,
        ContentBlockStart as ContentBlockStart,
        DataDelta as DataDelta,
        Event as Event,
        FinishReason as FinishReason,
        MessageFinish as MessageFinish,
        MessageReset as MessageReset,
        MessageStart as MessageStart,
        MetadataScalar as MetadataScalar,
        ReasoningDelta as ReasoningDelta,
        RefusalDelta as RefusalDelta,
        Role as Role,
        StreamError as StreamError,
        TextDelta as TextDelta,
        ToolCallDelta as ToolCallDelta,
    )
    from foldline.protocol.fold import MessageBuilder as MessageBuilder, fold as fold
    from foldline.protocol.folded_message import (
        FoldedMessage as FoldedMessage,
        FoldLimits as FoldLimits,
        normalize_finish_reason as normalize_finish_reason,
    )
    from foldline.protocol.grammar import (
        GrammarChecker as GrammarChecker,
        Violation as Violation,
        assert_valid_event_stream as assert_valid_event_stream,
        check as check,
    )
    from foldline.protocol.merge import (
        RULES as RULES,
        add_usage as add_usage,
    )
    from foldline.protocol.replay import (
        MessageLike as MessageLike,
        amessage_to_events as amessage_to_events,
        message_to_events as message_to_events,
        replay as replay,
    )
    from foldline.protocol.tool_call_parser import (
        parse_tool_args as parse_tool_args,
        promote as promote,
    )
    from foldline.protocol.writer import EventWriter as EventWriter
