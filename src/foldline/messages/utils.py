"""Functions of messages, under LangChain's path; each is defined in its own file."""

from foldline.messages._kinds import AnyMessage
from foldline.messages.base import message_to_dict, messages_to_dict
from foldline.messages.block_translators.openai import (
    convert_to_openai_data_block,
    convert_to_openai_image_block,
)
from foldline.messages.buffer import get_buffer_string
from foldline.messages.convert import MessageLikeRepresentation, convert_to_messages
from foldline.messages.count import count_tokens_approximately
from foldline.messages.dicts import (
    message_chunk_to_message,
    message_from_dict as _message_from_dict,
    messages_from_dict,
)
from foldline.messages.filter import filter_messages
from foldline.messages.merge import merge_message_runs
from foldline.messages.openai import convert_to_openai_messages
from foldline.messages.trim import trim_messages

__all__ = [
    "AnyMessage",
    "MessageLikeRepresentation",
    "_message_from_dict",
    "convert_to_messages",
    "convert_to_openai_data_block",
    "convert_to_openai_image_block",
    "convert_to_openai_messages",
    "count_tokens_approximately",
    "filter_messages",
    "get_buffer_string",
    "merge_message_runs",
    "message_chunk_to_message",
    "message_to_dict",
    "messages_from_dict",
    "messages_to_dict",
    "trim_messages",
]
