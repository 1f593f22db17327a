"""The chat-completions API, which many hosts implement. Differences between hosts are data: a row of `Host`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers._completions.decode import CompletionsDecoder
    from foldline.providers._completions.encode import encode_completion
    from foldline.providers._completions.host import Host
    from foldline.providers._completions.model import CompletionsModel

__all__ = ["CompletionsDecoder", "CompletionsModel", "Host", "encode_completion"]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".decode": "CompletionsDecoder",
        ".encode": "encode_completion",
        ".host": "Host",
        ".model": "CompletionsModel",
    },
)
