"""Callbacks: handlers that observe runs, the managers that call them, and handlers ready to use.

`dispatch_custom_event` and its twin need the config of the run under way, which stands above this package: they are
loaded when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.callbacks.base import (
        AsyncCallbackHandler,
        BaseCallbackHandler,
        BaseCallbackManager,
        CallbackManagerMixin,
        Callbacks,
        ChainManagerMixin,
        LLMManagerMixin,
        RetrieverManagerMixin,
        RunManagerMixin,
        ToolManagerMixin,
    )
    from foldline.callbacks.custom_events import (
        adispatch_custom_event,
        dispatch_custom_event,
    )
    from foldline.callbacks.file import FileCallbackHandler
    from foldline.callbacks.groups import (
        AsyncCallbackManagerForChainGroup,
        CallbackManagerForChainGroup,
    )
    from foldline.callbacks.manager import (
        AsyncCallbackManager,
        AsyncCallbackManagerForChainRun,
        AsyncCallbackManagerForLLMRun,
        AsyncCallbackManagerForRetrieverRun,
        AsyncCallbackManagerForToolRun,
        AsyncParentRunManager,
        AsyncRunManager,
        BaseRunManager,
        CallbackManager,
        CallbackManagerForChainRun,
        CallbackManagerForLLMRun,
        CallbackManagerForRetrieverRun,
        CallbackManagerForToolRun,
        ParentRunManager,
        RunManager,
    )
    from foldline.callbacks.openai_info import OpenAICallbackHandler, get_openai_callback
    from foldline.callbacks.stdout import StdOutCallbackHandler
    from foldline.callbacks.streaming_stdout import StreamingStdOutCallbackHandler
    from foldline.callbacks.usage import UsageMetadataCallbackHandler, get_usage_metadata_callback

__all__ = [
    "AsyncCallbackHandler",
    "AsyncCallbackManager",
    "AsyncCallbackManagerForChainGroup",
    "AsyncCallbackManagerForChainRun",
    "AsyncCallbackManagerForLLMRun",
    "AsyncCallbackManagerForRetrieverRun",
    "AsyncCallbackManagerForToolRun",
    "AsyncParentRunManager",
    "AsyncRunManager",
    "BaseCallbackHandler",
    "BaseCallbackManager",
    "BaseRunManager",
    "CallbackManager",
    "CallbackManagerForChainGroup",
    "CallbackManagerForChainRun",
    "CallbackManagerForLLMRun",
    "CallbackManagerForRetrieverRun",
    "CallbackManagerForToolRun",
    "CallbackManagerMixin",
    "Callbacks",
    "ChainManagerMixin",
    "FileCallbackHandler",
    "LLMManagerMixin",
    "OpenAICallbackHandler",
    "ParentRunManager",
    "RetrieverManagerMixin",
    "RunManager",
    "RunManagerMixin",
    "StdOutCallbackHandler",
    "StreamingStdOutCallbackHandler",
    "ToolManagerMixin",
    "UsageMetadataCallbackHandler",
    "adispatch_custom_event",
    "dispatch_custom_event",
    "get_openai_callback",
    "get_usage_metadata_callback",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "AsyncCallbackHandler BaseCallbackHandler BaseCallbackManager "
        "CallbackManagerMixin Callbacks ChainManagerMixin LLMManagerMixin "
        "RetrieverManagerMixin RunManagerMixin ToolManagerMixin",
        ".file": "FileCallbackHandler",
        ".groups": "AsyncCallbackManagerForChainGroup CallbackManagerForChainGroup",
        ".manager": "AsyncCallbackManager AsyncCallbackManagerForChainRun "
        "AsyncCallbackManagerForLLMRun AsyncCallbackManagerForRetrieverRun "
        "AsyncCallbackManagerForToolRun AsyncParentRunManager AsyncRunManager "
        "BaseRunManager CallbackManager CallbackManagerForChainRun "
        "CallbackManagerForLLMRun CallbackManagerForRetrieverRun "
        "CallbackManagerForToolRun ParentRunManager RunManager",
        ".stdout": "StdOutCallbackHandler",
        ".streaming_stdout": "StreamingStdOutCallbackHandler",
        ".custom_events": "adispatch_custom_event dispatch_custom_event",
        ".usage": "UsageMetadataCallbackHandler get_usage_metadata_callback",
        ".openai_info": "OpenAICallbackHandler get_openai_callback",
    },
)
