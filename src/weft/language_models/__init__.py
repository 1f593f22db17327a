"""Language models: messages or text in, a message or text out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.language_models.base import (
    BaseLanguageModel,
    LangSmithParams,
    LanguageModelInput,
    LanguageModelLike,
    LanguageModelOutput,
    get_tokenizer,
)
from weft.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
from weft.language_models.chat_models import BaseChatModel, SimpleChatModel
from weft.language_models.request import ChatRequest
from weft.language_models.retry import RetryPolicy

if TYPE_CHECKING:
    from weft.language_models.data_blocks import is_openai_data_block
    from weft.language_models.fake import FakeListLLM, FakeStreamingListLLM
    from weft.language_models.fake_chat_models import (
        FakeChatModel,
        FakeListChatModel,
        FakeMessagesListChatModel,
        GenericFakeChatModel,
        ParrotFakeChatModel,
    )
    from weft.language_models.llms import LLM, BaseLLM

__all__ = [
    "LLM",
    "AsyncChatModelStream",
    "BaseChatModel",
    "BaseLLM",
    "BaseLanguageModel",
    "ChatModelStream",
    "ChatRequest",
    "FakeChatModel",
    "FakeListChatModel",
    "FakeListLLM",
    "FakeMessagesListChatModel",
    "FakeStreamingListLLM",
    "GenericFakeChatModel",
    "LangSmithParams",
    "LanguageModelInput",
    "LanguageModelLike",
    "LanguageModelOutput",
    "ModelProfile",
    "ModelProfileRegistry",
    "ParrotFakeChatModel",
    "RetryPolicy",
    "SimpleChatModel",
    "get_tokenizer",
    "is_openai_data_block",
]

LATER = {
    "BaseLLM": "llms",
    "FakeChatModel": "fake_chat_models",
    "FakeListChatModel": "fake_chat_models",
    "FakeListLLM": "fake",
    "FakeMessagesListChatModel": "fake_chat_models",
    "FakeStreamingListLLM": "fake",
    "GenericFakeChatModel": "fake_chat_models",
    "LLM": "llms",
    "ModelProfile": "profile",
    "ModelProfileRegistry": "profile",
    "ParrotFakeChatModel": "fake_chat_models",
    "is_openai_data_block": "data_blocks",
}
"""Names that a program with a chat model rarely needs -> the module that has them, imported when asked for."""


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"weft.language_models.{LATER[name]}"), name)
