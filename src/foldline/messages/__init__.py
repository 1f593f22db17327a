"""Messages: the values that models and people exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.messages.ai_chunk import AIMessageChunk
    from foldline.messages.ai_message import LC_AUTO_PREFIX, LC_ID_PREFIX, AIMessage
    from foldline.messages.base import (
        BaseMessage,
        BaseMessageChunk,
        merge_content,
        message_to_dict,
        messages_to_dict,
    )
    from foldline.messages.chat import ChatMessage, ChatMessageChunk
    from foldline.messages.content import (
        Annotation,
        AudioContentBlock,
        Citation,
        ContentBlock,
        DataContentBlock,
        FileContentBlock,
        ImageContentBlock,
        InvalidToolCall,
        NonStandardAnnotation,
        NonStandardContentBlock,
        PlainTextContentBlock,
        ReasoningContentBlock,
        RefusalContentBlock,
        ServerToolCall,
        ServerToolCallChunk,
        ServerToolResult,
        TextContentBlock,
        VideoContentBlock,
        ensure_id,
        is_data_content_block,
    )
    from foldline.messages.function import FunctionMessage, FunctionMessageChunk
    from foldline.messages.human import HumanMessage, HumanMessageChunk
    from foldline.messages.modifier import RemoveMessage
    from foldline.messages.notification import (
        NotificationMetadata,
        add_notification_metadata,
        get_notification_metadata,
    )
    from foldline.messages.system import SystemMessage, SystemMessageChunk
    from foldline.messages.tool import ToolCall, ToolCallChunk, ToolMessage, ToolMessageChunk
    from foldline.messages.usage import InputTokenDetails, OutputTokenDetails, UsageMetadata
    from foldline.messages.utils import (
        AnyMessage,
        MessageLikeRepresentation,
        _message_from_dict,
        convert_to_messages,
        convert_to_openai_data_block,
        convert_to_openai_image_block,
        convert_to_openai_messages,
        count_tokens_approximately,
        filter_messages,
        get_buffer_string,
        merge_message_runs,
        message_chunk_to_message,
        messages_from_dict,
        trim_messages,
    )

__all__ = [
    "LC_AUTO_PREFIX",
    "LC_ID_PREFIX",
    "AIMessage",
    "AIMessageChunk",
    "Annotation",
    "AnyMessage",
    "AudioContentBlock",
    "BaseMessage",
    "BaseMessageChunk",
    "ChatMessage",
    "ChatMessageChunk",
    "Citation",
    "ContentBlock",
    "DataContentBlock",
    "FileContentBlock",
    "FunctionMessage",
    "FunctionMessageChunk",
    "HumanMessage",
    "HumanMessageChunk",
    "ImageContentBlock",
    "InputTokenDetails",
    "InvalidToolCall",
    "MessageLikeRepresentation",
    "NonStandardAnnotation",
    "NonStandardContentBlock",
    "NotificationMetadata",
    "OutputTokenDetails",
    "PlainTextContentBlock",
    "ReasoningContentBlock",
    "RefusalContentBlock",
    "RemoveMessage",
    "ServerToolCall",
    "ServerToolCallChunk",
    "ServerToolResult",
    "SystemMessage",
    "SystemMessageChunk",
    "TextContentBlock",
    "ToolCall",
    "ToolCallChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "UsageMetadata",
    "VideoContentBlock",
    "_message_from_dict",
    "add_notification_metadata",
    "convert_to_messages",
    "convert_to_openai_data_block",
    "convert_to_openai_image_block",
    "convert_to_openai_messages",
    "count_tokens_approximately",
    "ensure_id",
    "filter_messages",
    "get_buffer_string",
    "get_notification_metadata",
    "is_data_content_block",
    "merge_content",
    "merge_message_runs",
    "message_chunk_to_message",
    "message_to_dict",
    "messages_from_dict",
    "messages_to_dict",
    "trim_messages",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".ai_chunk": "AIMessageChunk",
        ".ai_message": "AIMessage LC_AUTO_PREFIX LC_ID_PREFIX",
        ".base": "BaseMessage BaseMessageChunk merge_content message_to_dict messages_to_dict",
        ".chat": "ChatMessage ChatMessageChunk",
        ".content": "Annotation AudioContentBlock Citation ContentBlock DataContentBlock "
        "FileContentBlock ImageContentBlock InvalidToolCall NonStandardAnnotation "
        "NonStandardContentBlock PlainTextContentBlock ReasoningContentBlock RefusalContentBlock "
        "ServerToolCall ServerToolCallChunk ServerToolResult TextContentBlock "
        "VideoContentBlock ensure_id is_data_content_block",
        ".function": "FunctionMessage FunctionMessageChunk",
        ".human": "HumanMessage HumanMessageChunk",
        ".modifier": "RemoveMessage",
        ".notification": "NotificationMetadata add_notification_metadata get_notification_metadata",
        ".system": "SystemMessage SystemMessageChunk",
        ".tool": "ToolCall ToolCallChunk ToolMessage ToolMessageChunk",
        ".usage": "InputTokenDetails OutputTokenDetails UsageMetadata",
        ".utils": "AnyMessage MessageLikeRepresentation _message_from_dict convert_to_messages "
        "convert_to_openai_data_block convert_to_openai_image_block "
        "convert_to_openai_messages count_tokens_approximately filter_messages "
        "get_buffer_string merge_message_runs message_chunk_to_message messages_from_dict "
        "trim_messages",
    },
)
