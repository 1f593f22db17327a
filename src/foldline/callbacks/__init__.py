"""Callbacks: handlers that observe runs, the managers that speak to them, and handlers ready to use.

`dispatch_custom_event` and its twin need the config of the run under way, which stands above this package: they are
loaded when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foldline._lazy import lazily

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
    from foldline.callbacks.stdout import StdOutCallbackHandler
    from foldline.callbacks.streaming_stdout import StreamingStdOutCallbackHandler
    from foldline.callbacks.usage import UsageMetadataCallbackHandler, get_usage_metadata_callback

    def dispatch_custom_event(
        name: str, data: Any, *, config: Mapping[str, object] | None = None
    ) -> None:
        """Tell the handlers of the run under way of an event of your own."""

    async def adispatch_custom_event(
        name: str, data: Any, *, config: Mapping[str, object] | None = None
    ) -> None:
        """Tell the handlers of the run under way of an event of your own."""


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
    "get_usage_metadata_callback",
]

__getattr__ = lazily(
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
        "foldline.tracers._custom_events": "adispatch_custom_event dispatch_custom_event",
        ".usage": "UsageMetadataCallbackHandler get_usage_metadata_callback",
    },
)
