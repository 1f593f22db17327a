"""Language models: messages or text in, a message or text out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline._streams.answer import Batch, CompleteAnswer
    from foldline.language_models._call.bridge import achunks_to_events, chunks_to_events
    from foldline.language_models._call.call_options import (
        ToolChoice,
        from_config,
        tool_choice_of,
    )
    from foldline.language_models._call.policies.file_resolver import FileResolver
    from foldline.language_models._call.policies.model_hooks import ModelHooks
    from foldline.language_models._call.policies.prompt_caching import CacheConfig
    from foldline.language_models._call.policies.usage_scope import (
        Ledger,
        Limits,
        current_usage,
        usage_scope,
    )
    from foldline.language_models._call.policy import (
        CallContext,
        Decision,
        Failure,
        Policy,
        Reservation,
    )
    from foldline.language_models._call.request import ChatRequest
    from foldline.language_models._call.retry import RetryPolicy
    from foldline.language_models.base import (
        BaseLanguageModel,
        LangSmithParams,
        LanguageModelInput,
        LanguageModelLike,
        LanguageModelOutput,
        get_tokenizer,
    )
    from foldline.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
    from foldline.language_models.chat_models import BaseChatModel
    from foldline.language_models.count import TokenCount
    from foldline.language_models.data_blocks import is_openai_data_block
    from foldline.language_models.fake import FakeListLLM, FakeStreamingListLLM
    from foldline.language_models.fake_chat_models import (
        FakeChatModel,
        FakeListChatModel,
        FakeMessagesListChatModel,
        GenericFakeChatModel,
        ParrotFakeChatModel,
    )
    from foldline.language_models.llms import LLM, BaseLLM
    from foldline.language_models.profile import (
        ModelProfile,
        ModelProfileRegistry,
        find_profile,
        register_profile,
        register_profiles,
    )
    from foldline.language_models.records.chat_model import ChatModel
    from foldline.language_models.records.deltas import add_deltas
    from foldline.language_models.records.invoke_options import (
        AgentInvokeOptions,
        InvocationContext,
    )
    from foldline.language_models.records.parts import (
        ChatModelInputMessage,
        ChatModelInputMessageContent,
        ChatModelInputOptions,
        ChatModelInputResponseFormat,
        ChatModelInputTool,
        ChatModelInputToolChoice,
        ChatModelOptions,
        ChatModelOutputDelta,
        ChatModelOutputToolCall,
        FileContent,
        FileType,
        FileUnionContent,
        LocalContent,
        Role,
        TextContent,
        UrlContent,
    )
    from foldline.language_models.records.records import (
        ChatModelInput,
        ChatModelOutput,
        ChatModelOutputUsage,
        ChatModelUsage,
    )
    from foldline.language_models.simple import SimpleChatModel
    from foldline.language_models.structured.parser import Partial

__all__ = [
    "LLM",
    "AgentInvokeOptions",
    "AsyncChatModelStream",
    "BaseChatModel",
    "BaseLLM",
    "BaseLanguageModel",
    "Batch",
    "CacheConfig",
    "CallContext",
    "ChatModel",
    "ChatModelInput",
    "ChatModelInputMessage",
    "ChatModelInputMessageContent",
    "ChatModelInputOptions",
    "ChatModelInputResponseFormat",
    "ChatModelInputTool",
    "ChatModelInputToolChoice",
    "ChatModelOptions",
    "ChatModelOutput",
    "ChatModelOutputDelta",
    "ChatModelOutputToolCall",
    "ChatModelOutputUsage",
    "ChatModelStream",
    "ChatModelUsage",
    "ChatRequest",
    "CompleteAnswer",
    "Decision",
    "Failure",
    "FakeChatModel",
    "FakeListChatModel",
    "FakeListLLM",
    "FakeMessagesListChatModel",
    "FakeStreamingListLLM",
    "FileContent",
    "FileResolver",
    "FileType",
    "FileUnionContent",
    "GenericFakeChatModel",
    "InvocationContext",
    "LangSmithParams",
    "LanguageModelInput",
    "LanguageModelLike",
    "LanguageModelOutput",
    "Ledger",
    "Limits",
    "LocalContent",
    "ModelHooks",
    "ModelProfile",
    "ModelProfileRegistry",
    "ParrotFakeChatModel",
    "Partial",
    "Policy",
    "Reservation",
    "RetryPolicy",
    "Role",
    "SimpleChatModel",
    "TextContent",
    "TokenCount",
    "ToolChoice",
    "UrlContent",
    "achunks_to_events",
    "add_deltas",
    "chunks_to_events",
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

__getattr__: Loader = lazy_exports(
    __name__,
    {
        "foldline._streams.answer": "Batch CompleteAnswer",
        ".base": "BaseLanguageModel LangSmithParams LanguageModelInput LanguageModelLike "
        "LanguageModelOutput get_tokenizer",
        ".chat_model_stream": "AsyncChatModelStream ChatModelStream",
        ".chat_models": "BaseChatModel",
        ".count": "TokenCount",
        ".data_blocks": "is_openai_data_block",
        ".fake": "FakeListLLM FakeStreamingListLLM",
        ".fake_chat_models": "FakeChatModel FakeListChatModel FakeMessagesListChatModel GenericFakeChatModel "
        "ParrotFakeChatModel",
        "._call.policies.file_resolver": "FileResolver",
        "._call.policies.model_hooks": "ModelHooks",
        ".llms": "BaseLLM LLM",
        ".records.chat_model": "ChatModel",
        "._call.call_options": "ToolChoice from_config tool_choice_of",
        ".profile": "ModelProfile ModelProfileRegistry find_profile register_profile "
        "register_profiles",
        "._call.policies.prompt_caching": "CacheConfig",
        "._call.bridge": "achunks_to_events chunks_to_events",
        ".records.records": "ChatModelInput ChatModelOutput ChatModelOutputUsage ChatModelUsage",
        ".records.deltas": "add_deltas",
        ".records.invoke_options": "AgentInvokeOptions InvocationContext",
        ".records.parts": "ChatModelInputMessage ChatModelInputMessageContent ChatModelInputOptions "
        "ChatModelInputResponseFormat ChatModelInputTool ChatModelInputToolChoice ChatModelOptions "
        "ChatModelOutputDelta ChatModelOutputToolCall FileContent FileType FileUnionContent "
        "LocalContent Role TextContent UrlContent",
        "._call.policy": "CallContext Decision Failure Policy Reservation",
        "._call.request": "ChatRequest",
        "._call.retry": "RetryPolicy",
        ".structured.parser": "Partial",
        ".simple": "SimpleChatModel",
        "._call.policies.usage_scope": "Ledger Limits current_usage usage_scope",
    },
)
