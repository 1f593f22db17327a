"""The context window of a model: a request that is too long raises, or loses its oldest messages."""

from __future__ import annotations

from foldline.exceptions import ContextOverflowError
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.policy import CallContext, Policy
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.count import TokenCount
from foldline.messages import AIMessage, trim_messages

__all__ = ["WindowPolicy"]


class WindowPolicy(Policy):
    """Checks that a request fits the model's window."""

    __slots__ = ("_call", "_limit")

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where the limit is known."""
        return bool(call.settings.max_input_tokens or call.profile.get("max_input_tokens"))

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._limit: int = call.settings.max_input_tokens or call.profile["max_input_tokens"]

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Raise an error with the excess if a request is too long, or drop the oldest messages."""
        if _is_surely_short(request, self._limit):
            return request
        model = self._call.model
        token_count = model.count_tokens(request.messages, request.tools)
        if token_count.n <= self._limit:
            return request
        if self._call.settings.on_overflow == "trim":
            return _trim(model, request, self._limit, token_count)
        raise _overflow(model, token_count, self._limit)


def _is_surely_short(request: ChatRequest, limit: int) -> bool:
    """Return whether even one token per byte would not exceed the limit: then no count is needed."""
    if request.options.get("tools"):
        return False
    size = 0
    for message in request.messages:
        if (
            not isinstance(message.content, str)
            or message.additional_kwargs
            or (isinstance(message, AIMessage) and message.tool_calls)
        ):
            return False
        size += 4 * len(message.content) + 16
    return size <= limit


def _trim(
    model: CallModel, request: ChatRequest, limit: int, token_count: TokenCount
) -> ChatRequest:
    tools = model.count_tokens([], request.tools).n if request.tools else 0
    messages = trim_messages(
        request.messages,
        max_tokens=max(0, limit - tools),
        token_counter=lambda messages: model.count_tokens(messages).n,
        strategy="last",
        include_system=True,
        start_on="human",
    )
    if not messages or messages[-1] is not request.messages[-1]:
        raise _overflow(model, token_count, limit)
    dropped_count = len(request.messages) - len(messages)
    trimmed = request.replace(messages=messages)
    trimmed.notes.append(f"left out the oldest {dropped_count} messages to fit {limit} tokens")
    return trimmed


def _overflow(model: CallModel, token_count: TokenCount, limit: int) -> ContextOverflowError:
    prefix = "" if token_count.exact else "about "
    return ContextOverflowError(
        f"the request is {prefix}{token_count.n} tokens, {token_count.n - limit} more than the {limit} "
        'the model takes: shorten it (foldline.messages.trim_messages), or set on_overflow="trim"',
        provider=model._provider,
        model=model._model_name,
        code="max_input_tokens",
    )
