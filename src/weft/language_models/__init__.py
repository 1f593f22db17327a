"""Language models: messages or text in, a message or text out."""

from typing import TYPE_CHECKING

from weft._lazy import lazily
from weft.language_models.base import (
    BaseLanguageModel,
    LangSmithParams,
    LanguageModelInput,
    LanguageModelLike,
    LanguageModelOutput,
    get_tokenizer,
)
from weft.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
from weft.language_models.chat_models import BaseChatModel
from weft.language_models.request import ChatRequest
from weft.language_models.retry import RetryPolicy

if TYPE_CHECKING:
    from weft.language_models.count import TokenCount
    from weft.language_models.data_blocks import is_openai_data_block
    from weft.language_models.fake import FakeListLLM, FakeStreamingListLLM
    from weft.language_models.fake_chat_models import (
        FakeChatModel,
        FakeListChatModel,
        FakeMessagesListChatModel,
        GenericFakeChatModel,
        ParrotFakeChatModel,
    )
    from weft.language_models.files import FileResolver
    from weft.language_models.hooks import ModelHooks
    from weft.language_models.llms import LLM, BaseLLM
    from weft.language_models.managed import ChatModel
    from weft.language_models.options import ToolChoice, from_config, tool_choice_of
    from weft.language_models.profile import find_profile, register_profile, register_profiles
    from weft.language_models.prompt_caching import CacheConfig
    from weft.language_models.records import ChatModelInput, ChatModelOutput, ChatModelUsage
    from weft.language_models.simple import SimpleChatModel
    from weft.language_models.usage import Limits, current_usage, usage_scope

__all__ = [
    "LLM",
    "AsyncChatModelStream",
    "BaseChatModel",
    "BaseLLM",
    "BaseLanguageModel",
    "CacheConfig",
    "ChatModel",
    "ChatModelInput",
    "ChatModelOutput",
    "ChatModelStream",
    "ChatModelUsage",
    "ChatRequest",
    "FakeChatModel",
    "FakeListChatModel",
    "FakeListLLM",
    "FakeMessagesListChatModel",
    "FakeStreamingListLLM",
    "FileResolver",
    "GenericFakeChatModel",
    "LangSmithParams",
    "LanguageModelInput",
    "LanguageModelLike",
    "LanguageModelOutput",
    "Limits",
    "ModelHooks",
    "ModelProfile",
    "ModelProfileRegistry",
    "ParrotFakeChatModel",
    "RetryPolicy",
    "SimpleChatModel",
    "TokenCount",
    "ToolChoice",
    "current_usage",
    "find_profile",
    "from_config",
    "get_tokenizer",
    "is_openai_data_block",
    "register_profile",
    "register_profiles",
    "tool_choice_of",
    "usage_scope",
]

LATER = {
    "BaseLLM": "llms",
    "CacheConfig": "prompt_caching",
    "ChatModel": "managed",
    "ChatModelInput": "records",
    "ChatModelOutput": "records",
    "ChatModelUsage": "records",
    "FakeChatModel": "fake_chat_models",
    "FakeListChatModel": "fake_chat_models",
    "FakeListLLM": "fake",
    "FakeMessagesListChatModel": "fake_chat_models",
    "FakeStreamingListLLM": "fake",
    "FileResolver": "files",
    "GenericFakeChatModel": "fake_chat_models",
    "LLM": "llms",
    "Limits": "usage",
    "ModelHooks": "hooks",
    "ModelProfile": "profile",
    "ModelProfileRegistry": "profile",
    "ParrotFakeChatModel": "fake_chat_models",
    "TokenCount": "count",
    "SimpleChatModel": "simple",
    "ToolChoice": "options",
    "current_usage": "usage",
    "find_profile": "profile",
    "from_config": "options",
    "is_openai_data_block": "data_blocks",
    "register_profile": "profile",
    "register_profiles": "profile",
    "tool_choice_of": "options",
    "usage_scope": "usage",
}
"""Names that a program with a chat model rarely needs -> the module that has them, imported when asked for."""


__getattr__ = lazily(__name__, {name: f".{module}" for name, module in LATER.items()})
