"""The chat-completions wire, which half the world speaks. What differs between hosts is data: a row of `Host`."""

from weft.providers._completions.decode import CompletionsDecoder
from weft.providers._completions.encode import encode_completion
from weft.providers._completions.host import Host
from weft.providers._completions.model import CompletionsModel

__all__ = ["CompletionsDecoder", "CompletionsModel", "Host", "encode_completion"]
