"""Messages: the values that models and people exchange."""

from weft.messages.ai import (
    LC_AUTO_PREFIX,
    LC_ID_PREFIX,
    AIMessage,
    AIMessageChunk,
    InputTokenDetails,
    OutputTokenDetails,
    UsageMetadata,
)
from weft.messages.base import (
    BaseMessage,
    BaseMessageChunk,
    merge_content,
    message_to_dict,
    messages_to_dict,
)
from weft.messages.buffer import get_buffer_string
from weft.messages.chat import ChatMessage, ChatMessageChunk
from weft.messages.convert import MessageLikeRepresentation, convert_to_messages
from weft.messages.dicts import message_chunk_to_message, messages_from_dict
from weft.messages.function import FunctionMessage, FunctionMessageChunk
from weft.messages.human import HumanMessage, HumanMessageChunk
from weft.messages.kinds import AnyMessage
from weft.messages.modifier import RemoveMessage
from weft.messages.system import SystemMessage, SystemMessageChunk
from weft.messages.tool import (
    InvalidToolCall,
    ToolCall,
    ToolCallChunk,
    ToolMessage,
    ToolMessageChunk,
)

__all__ = [
    "LC_AUTO_PREFIX",
    "LC_ID_PREFIX",
    "AIMessage",
    "AIMessageChunk",
    "AnyMessage",
    "BaseMessage",
    "BaseMessageChunk",
    "ChatMessage",
    "ChatMessageChunk",
    "FunctionMessage",
    "FunctionMessageChunk",
    "HumanMessage",
    "HumanMessageChunk",
    "InputTokenDetails",
    "InvalidToolCall",
    "MessageLikeRepresentation",
    "OutputTokenDetails",
    "RemoveMessage",
    "SystemMessage",
    "SystemMessageChunk",
    "ToolCall",
    "ToolCallChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "UsageMetadata",
    "convert_to_messages",
    "get_buffer_string",
    "merge_content",
    "message_chunk_to_message",
    "message_to_dict",
    "messages_from_dict",
    "messages_to_dict",
]
