"""`ModelFallbackMiddleware`: other models stand in, in their order, when the model fails."""

from __future__ import annotations

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, ModelHandler
from foldline.agents.requests import ModelRequest, ModelResponse
from foldline.chat_models import init_chat_model
from foldline.exceptions import BlockingCallError, BudgetExceeded
from foldline.language_models.chat_models import BaseChatModel

__all__ = ["ModelFallbackMiddleware", "as_model"]

NOT_THE_MODELS = (BudgetExceeded, BlockingCallError)
"""Errors that another model would not mend."""


def as_model(model: str | BaseChatModel) -> BaseChatModel:
    """Return the chat model of a name; a model is returned as it is."""
    return init_chat_model(model) if isinstance(model, str) else model


class ModelFallbackMiddleware(AgentMiddleware):
    """Ask other models when the first one fails."""

    def __init__(
        self, first_model: str | BaseChatModel, *additional_models: str | BaseChatModel
    ) -> None:
        """Name the models, or give them."""
        self.models = [as_model(model) for model in (first_model, *additional_models)]

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        failure: Exception | None = None
        for model in (request.model, *self.models):
            try:
                return await handler(request.override(model=model))
            except NOT_THE_MODELS:
                raise
            except Exception as error:  # noqa: BLE001
                failure = error
        assert failure is not None
        raise failure
