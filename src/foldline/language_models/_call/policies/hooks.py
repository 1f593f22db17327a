"""The hooks of a call: `ModelHooks` may replace its request, its result and its error."""

from __future__ import annotations

from foldline.language_models._call.policies.model_hooks import ModelHooks
from foldline.language_models._call.policy import CallContext, Policy
from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage

__all__ = ["HooksPolicy"]


class HooksPolicy(Policy):
    """Runs the functions of `ModelHooks`."""

    __slots__ = ("_hooks", "_io")

    applies_to = "settings"

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where the call has hooks."""
        return call.settings.hooks is not None

    def __init__(self, call: CallContext) -> None:
        self._hooks = call.settings.hooks or ModelHooks()
        self._io = call.run.io

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Let `hooks.before` replace the request."""
        return await self._hooks.run_before(request, self._io)

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        """Let `hooks.after` replace the answer."""
        return await self._hooks.run_after(request, message, self._io)

    async def on_error(self, request: ChatRequest, error: Exception) -> Exception | AIMessage:
        """Let `hooks.on_error` replace the error, by another one or by an answer."""
        return await self._hooks.run_on_error(request, error, self._io)
