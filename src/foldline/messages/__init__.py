"""Messages: the values that models and people exchange."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.messages.ai_chunk import AIMessageChunk as AIMessageChunk
    from foldline.messages.ai_message import (
        LC_AUTO_PREFIX as LC_AUTO_PREFIX,
        LC_ID_PREFIX as LC_ID_PREFIX,
        AIMessage as AIMessage,
    )
    from foldline.messages.base import (
        BaseMessage as BaseMessage,
        BaseMessageChunk as BaseMessageChunk,
        merge_content as merge_content,
        message_to_dict as message_to_dict,
        messages_to_dict as messages_to_dict,
    )
    from foldline.messages.chat import (
        ChatMessage as ChatMessage,
        ChatMessageChunk as ChatMessageChunk,
    )
    from foldline.messages.content import (
        Annotation as Annotation,
        AudioContentBlock as AudioContentBlock,
        Citation as Citation,
        ContentBlock as ContentBlock,
        DataContentBlock as DataContentBlock,
        FileContentBlock as FileContentBlock,
        ImageContentBlock as ImageContentBlock,
        InvalidToolCall as InvalidToolCall,
        NonStandardAnnotation as NonStandardAnnotation,
        NonStandardContentBlock as NonStandardContentBlock,
        PlainTextContentBlock as PlainTextContentBlock,
        ReasoningContentBlock as ReasoningContentBlock,
        RefusalContentBlock as RefusalContentBlock,
        ServerToolCall as ServerToolCall,
        ServerToolCallChunk as ServerToolCallChunk,
        ServerToolResult as ServerToolResult,
        TextContentBlock as TextContentBlock,
        VideoContentBlock as VideoContentBlock,
        ensure_id as ensure_id,
        is_data_content_block as is_data_content_block,
    )
    from foldline.messages.function import (
        FunctionMessage as FunctionMessage,
        FunctionMessageChunk as FunctionMessageChunk,
    )
    from foldline.messages.human import (
        HumanMessage as HumanMessage,
        HumanMessageChunk as HumanMessageChunk,
    )
    from foldline.messages.modifier import RemoveMessage as RemoveMessage
    from foldline.messages.notification import (
        NotificationMetadata as NotificationMetadata,
        add_notification_metadata as add_notification_metadata,
        get_notification_metadata as get_notification_metadata,
    )
    from foldline.messages.system import (
        SystemMessage as SystemMessage,
        SystemMessageChunk as SystemMessageChunk,
    )
    from foldline.messages.tool import (
        ToolCall as ToolCall,
        ToolCallChunk as ToolCallChunk,
        ToolMessage as ToolMessage,
        ToolMessageChunk as ToolMessageChunk,
    )
    from foldline.messages.usage import (
        InputTokenDetails as InputTokenDetails,
        OutputTokenDetails as OutputTokenDetails,
        UsageMetadata as UsageMetadata,
    )
    from foldline.messages.utils import (
        AnyMessage as AnyMessage,
        MessageLikeRepresentation as MessageLikeRepresentation,
        _message_from_dict as _message_from_dict,
        convert_to_messages as convert_to_messages,
        convert_to_openai_data_block as convert_to_openai_data_block,
        convert_to_openai_image_block as convert_to_openai_image_block,
        convert_to_openai_messages as convert_to_openai_messages,
        count_tokens_approximately as count_tokens_approximately,
        filter_messages as filter_messages,
        get_buffer_string as get_buffer_string,
        merge_message_runs as merge_message_runs,
        message_chunk_to_message as message_chunk_to_message,
        messages_from_dict as messages_from_dict,
        trim_messages as trim_messages,
    )
