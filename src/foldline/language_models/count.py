"""How long a request is, and whether it fits the model's window. Counting opens no socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from foldline.exceptions import ContextOverflowError
from foldline.language_models.request import ChatRequest
from foldline.messages import BaseMessage, trim_messages
from foldline.messages.utils import count_tokens_approximately

if TYPE_CHECKING:
    from foldline.language_models.base import BaseLanguageModel

__all__ = ["TokenCount", "count_tokens", "fit_window"]

Overflow = Literal["raise", "trim"]


class TokenCount(NamedTuple):
    """Tokens of a request; `exact` where a tokenizer of the model's own counted them."""

    n: int
    exact: bool


def count_tokens(
    model: BaseLanguageModel[Any],
    messages: Sequence[BaseMessage],
    tools: Sequence[Any] | None = None,
) -> TokenCount:
    """Count messages and tools: by the model's tokenizer where it has one, else about four characters a token."""
    if model.custom_get_token_ids is None:
        return TokenCount(
            count_tokens_approximately(messages, tools=list(tools) if tools else None), exact=False
        )
    plain = all(isinstance(message.content, str) for message in messages)
    counted = model.get_num_tokens_from_messages(list(messages), tools)
    return TokenCount(counted, exact=plain and not tools)


def fit_window(
    model: BaseLanguageModel[Any], request: ChatRequest, limit: int, on_overflow: Overflow
) -> ChatRequest:
    """Check that a request fits; raise what says by how much it does not, or leave out the oldest messages."""
    if _is_surely_short(request, limit):
        return request
    counted = model.count_tokens(request.messages, request.tools)  # type: ignore[attr-defined]
    if counted.n <= limit:
        return request
    if on_overflow == "trim":
        return _trimmed(model, request, limit, counted)
    raise _overflow(model, counted, limit)


def _is_surely_short(request: ChatRequest, limit: int) -> bool:
    """Whether not even a token per byte would pass the limit: then nothing need be counted."""
    if request.tools:
        return False
    size = 0
    for message in request.messages:
        if (
            not isinstance(message.content, str)
            or message.additional_kwargs
            or getattr(message, "tool_calls", None)
        ):
            return False
        size += 4 * len(message.content) + 16
    return size <= limit


def _trimmed(
    model: BaseLanguageModel[Any], request: ChatRequest, limit: int, counted: TokenCount
) -> ChatRequest:
    count = model.count_tokens  # type: ignore[attr-defined]
    tools = count([], request.tools).n if request.tools else 0
    kept = trim_messages(
        request.messages,
        max_tokens=max(0, limit - tools),
        token_counter=lambda messages: count(messages).n,
        strategy="last",
        include_system=True,
        start_on="human",
    )
    if not kept or kept[-1] is not request.messages[-1]:
        raise _overflow(model, counted, limit)
    dropped = len(request.messages) - len(kept)
    trimmed = request.replace(messages=kept)
    trimmed.notes.append(f"left out the oldest {dropped} messages to fit {limit} tokens")
    return trimmed


def _overflow(
    model: BaseLanguageModel[Any], counted: TokenCount, limit: int
) -> ContextOverflowError:
    about = "" if counted.exact else "about "
    return ContextOverflowError(
        f"the request is {about}{counted.n} tokens, {counted.n - limit} more than the {limit} the model takes: "
        'shorten it (foldline.messages.trim_messages), or set on_overflow="trim"',
        provider=model._provider,
        model=model._model_name,
        code="max_input_tokens",
    )
