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
from weft.messages.base import BaseMessage, BaseMessageChunk, merge_content, message_to_dict, messages_to_dict
from weft.messages.chat import ChatMessage, ChatMessageChunk
from weft.messages.function import FunctionMessage, FunctionMessageChunk
from weft.messages.human import HumanMessage, HumanMessageChunk
from weft.messages.modifier import RemoveMessage
from weft.messages.system import SystemMessage, SystemMessageChunk
from weft.messages.tool import InvalidToolCall, ToolCall, ToolCallChunk, ToolMessage, ToolMessageChunk

__all__ = [
    "LC_AUTO_PREFIX",
    "LC_ID_PREFIX",
    "AIMessage",
    "AIMessageChunk",
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
    "OutputTokenDetails",
    "RemoveMessage",
    "SystemMessage",
    "SystemMessageChunk",
    "ToolCall",
    "ToolCallChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "UsageMetadata",
    "merge_content",
    "message_to_dict",
    "messages_to_dict",
]
