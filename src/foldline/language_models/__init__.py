"""Language models: messages or text in, a message or text out."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline._streams.answer import Batch as Batch, CompleteAnswer as CompleteAnswer
    from foldline.language_models._call.bridge import (
        achunks_to_events as achunks_to_events,
        chunks_to_events as chunks_to_events,
    )
    from foldline.language_models._call.call_options import (
        ToolChoice as ToolChoice,
        from_config as from_config,
        tool_choice_of as tool_choice_of,
    )
    from foldline.language_models._call.policies.file_resolver import FileResolver as FileResolver
    from foldline.language_models._call.policies.model_hooks import ModelHooks as ModelHooks
    from foldline.language_models._call.policies.prompt_caching import CacheConfig as CacheConfig
    from foldline.language_models._call.policies.usage_scope import (
        Ledger as Ledger,
        Limits as Limits,
        current_usage as current_usage,
        usage_scope as usage_scope,
    )
    from foldline.language_models._call.policy import (
        CallContext as CallContext,
        Decision as Decision,
        Failure as Failure,
        Policy as Policy,
        Reservation as Reservation,
    )
    from foldline.language_models._call.request import ChatRequest as ChatRequest
    from foldline.language_models._call.retry_policy import RetryPolicy as RetryPolicy
    from foldline.language_models.base import (
        BaseLanguageModel as BaseLanguageModel,
        LangSmithParams as LangSmithParams,
        LanguageModelInput as LanguageModelInput,
        LanguageModelLike as LanguageModelLike,
        LanguageModelOutput as LanguageModelOutput,
        get_tokenizer as get_tokenizer,
    )
    from foldline.language_models.chat_model_stream import (
        AsyncChatModelStream as AsyncChatModelStream,
        ChatModelStream as ChatModelStream,
    )
    from foldline.language_models.chat_models import BaseChatModel as BaseChatModel
    from foldline.language_models.count import TokenCount as TokenCount
    from foldline.language_models.data_blocks import is_openai_data_block as is_openai_data_block
    from foldline.language_models.fake import (
        FakeListLLM as FakeListLLM,
        FakeStreamingListLLM as FakeStreamingListLLM,
    )
    from foldline.language_models.fake_chat_models import (
        FakeChatModel as FakeChatModel,
        FakeListChatModel as FakeListChatModel,
        FakeMessagesListChatModel as FakeMessagesListChatModel,
        GenericFakeChatModel as GenericFakeChatModel,
        ParrotFakeChatModel as ParrotFakeChatModel,
    )
    from foldline.language_models.llms import LLM as LLM, BaseLLM as BaseLLM
    from foldline.language_models.profile import (
        ModelProfile as ModelProfile,
        ModelProfileRegistry as ModelProfileRegistry,
        find_profile as find_profile,
        register_profile as register_profile,
        register_profiles as register_profiles,
    )
    from foldline.language_models.records.chat_model import ChatModel as ChatModel
    from foldline.language_models.records.deltas import add_deltas as add_deltas
    from foldline.language_models.records.invoke_options import (
        AgentInvokeOptions as AgentInvokeOptions,
        InvocationContext as InvocationContext,
    )
    from foldline.language_models.records.parts import (
        ChatModelInputMessage as ChatModelInputMessage,
        ChatModelInputMessageContent as ChatModelInputMessageContent,
        ChatModelInputOptions as ChatModelInputOptions,
        ChatModelInputResponseFormat as ChatModelInputResponseFormat,
        ChatModelInputTool as ChatModelInputTool,
        ChatModelInputToolChoice as ChatModelInputToolChoice,
        ChatModelOptions as ChatModelOptions,
        ChatModelOutputDelta as ChatModelOutputDelta,
        ChatModelOutputToolCall as ChatModelOutputToolCall,
        FileContent as FileContent,
        FileType as FileType,
        FileUnionContent as FileUnionContent,
        LocalContent as LocalContent,
        Role as Role,
        TextContent as TextContent,
        UrlContent as UrlContent,
    )
    from foldline.language_models.records.records import (
        ChatModelInput as ChatModelInput,
        ChatModelOutput as ChatModelOutput,
        ChatModelOutputUsage as ChatModelOutputUsage,
        ChatModelUsage as ChatModelUsage,
    )
    from foldline.language_models.simple import SimpleChatModel as SimpleChatModel
    from foldline.language_models.structured.parser import Partial as Partial
