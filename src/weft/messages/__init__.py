"""Messages: the values that models and people exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.messages.ai_chunk import AIMessageChunk
    from weft.messages.ai_message import LC_AUTO_PREFIX, LC_ID_PREFIX, AIMessage
    from weft.messages.base import (
        BaseMessage,
        BaseMessageChunk,
        merge_content,
        message_to_dict,
        messages_to_dict,
    )
    from weft.messages.chat import ChatMessage, ChatMessageChunk
    from weft.messages.content import (
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
        ServerToolCall,
        ServerToolCallChunk,
        ServerToolResult,
        TextContentBlock,
        VideoContentBlock,
        ensure_id,
        is_data_content_block,
    )
    from weft.messages.function import FunctionMessage, FunctionMessageChunk
    from weft.messages.human import HumanMessage, HumanMessageChunk
    from weft.messages.modifier import RemoveMessage
    from weft.messages.notification import (
        NotificationMetadata,
        add_notification_metadata,
        get_notification_metadata,
    )
    from weft.messages.system import SystemMessage, SystemMessageChunk
    from weft.messages.tool import ToolCall, ToolCallChunk, ToolMessage, ToolMessageChunk
    from weft.messages.usage import InputTokenDetails, OutputTokenDetails, UsageMetadata
    from weft.messages.utils import (
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

__getattr__ = lazily(
    __name__,
    {
        ".ai_chunk": "AIMessageChunk",
        ".ai_message": "AIMessage LC_AUTO_PREFIX LC_ID_PREFIX",
        ".base": "BaseMessage BaseMessageChunk merge_content message_to_dict messages_to_dict",
        ".chat": "ChatMessage ChatMessageChunk",
        ".content": "Annotation AudioContentBlock Citation ContentBlock DataContentBlock "
        "FileContentBlock ImageContentBlock InvalidToolCall NonStandardAnnotation "
        "NonStandardContentBlock PlainTextContentBlock ReasoningContentBlock "
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
