"""Callbacks: handlers that observe runs, the managers that call them, and handlers ready to use.

`dispatch_custom_event` and its twin need the config of the run under way, which stands above this package: they are
loaded when asked for.
"""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.callbacks.base import (
        AsyncCallbackHandler as AsyncCallbackHandler,
        BaseCallbackHandler as BaseCallbackHandler,
        BaseCallbackManager as BaseCallbackManager,
        CallbackManagerMixin as CallbackManagerMixin,
        Callbacks as Callbacks,
        ChainManagerMixin as ChainManagerMixin,
        LLMManagerMixin as LLMManagerMixin,
        RetrieverManagerMixin as RetrieverManagerMixin,
        RunManagerMixin as RunManagerMixin,
        ToolManagerMixin as ToolManagerMixin,
    )
    from foldline.callbacks.custom_events import (
        adispatch_custom_event as adispatch_custom_event,
        dispatch_custom_event as dispatch_custom_event,
    )
    from foldline.callbacks.file import FileCallbackHandler as FileCallbackHandler
    from foldline.callbacks.groups import (
        AsyncCallbackManagerForChainGroup as AsyncCallbackManagerForChainGroup,
        CallbackManagerForChainGroup as CallbackManagerForChainGroup,
    )
    from foldline.callbacks.manager import (
        AsyncCallbackManager as AsyncCallbackManager,
        AsyncCallbackManagerForChainRun as AsyncCallbackManagerForChainRun,
        AsyncCallbackManagerForLLMRun as AsyncCallbackManagerForLLMRun,
        AsyncCallbackManagerForRetrieverRun as AsyncCallbackManagerForRetrieverRun,
        AsyncCallbackManagerForToolRun as AsyncCallbackManagerForToolRun,
        AsyncParentRunManager as AsyncParentRunManager,
        AsyncRunManager as AsyncRunManager,
        BaseRunManager as BaseRunManager,
        CallbackManager as CallbackManager,
        CallbackManagerForChainRun as CallbackManagerForChainRun,
        CallbackManagerForLLMRun as CallbackManagerForLLMRun,
        CallbackManagerForRetrieverRun as CallbackManagerForRetrieverRun,
        CallbackManagerForToolRun as CallbackManagerForToolRun,
        ParentRunManager as ParentRunManager,
        RunManager as RunManager,
    )
    from foldline.callbacks.openai_info import (
        OpenAICallbackHandler as OpenAICallbackHandler,
        get_openai_callback as get_openai_callback,
    )
    from foldline.callbacks.stdout import StdOutCallbackHandler as StdOutCallbackHandler
    from foldline.callbacks.streaming_stdout import (
        StreamingStdOutCallbackHandler as StreamingStdOutCallbackHandler,
    )
    from foldline.callbacks.usage import (
        UsageMetadataCallbackHandler as UsageMetadataCallbackHandler,
        get_usage_metadata_callback as get_usage_metadata_callback,
    )
