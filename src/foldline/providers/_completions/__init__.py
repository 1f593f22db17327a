"""The chat-completions API, which many hosts implement. Differences between hosts are data: a row of `Host`."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers._completions.decode import CompletionsDecoder as CompletionsDecoder
    from foldline.providers._completions.encode import encode_completion as encode_completion
    from foldline.providers._completions.host import Host as Host
    from foldline.providers._completions.model import CompletionsModel as CompletionsModel
