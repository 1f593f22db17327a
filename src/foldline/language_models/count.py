"""Counting the tokens of messages and tools. Opens no socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from foldline.messages import BaseMessage
from foldline.messages.utils import count_tokens_approximately

__all__ = ["TokenCount", "count_tokens"]


class TokenCount(NamedTuple):
    """Tokens of a request; `exact` if a tokenizer of the model counted them."""

    n: int
    exact: bool


class Tokenizes(Protocol):
    """A model that may have its own tokenizer."""

    custom_get_token_ids: Callable[[str], list[int]] | None

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int: ...


def count_tokens(
    model: Tokenizes, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
) -> TokenCount:
    """Count messages and tools: by the model's tokenizer if it has one, else about four characters a token."""
    if model.custom_get_token_ids is None:
        return TokenCount(
            count_tokens_approximately(messages, tools=list(tools) if tools else None), exact=False
        )
    is_plain_text = all(isinstance(message.content, str) for message in messages)
    token_count = model.get_num_tokens_from_messages(list(messages), tools)
    return TokenCount(token_count, exact=is_plain_text and not tools)
