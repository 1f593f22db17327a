"""`ModelFallbackMiddleware`: calls other models in order if the model fails."""

from __future__ import annotations

from typing import Any

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, ModelHandler
from foldline.agents.requests import ModelRequest, ModelResponse
from foldline.chat_models import init_chat_model
from foldline.exceptions import BlockingCallError, BudgetExceeded
from foldline.runnables.base import Runnable
from foldline.utils._options import check_options

__all__ = [
    "ModelFallbackMiddleware",
]

ModelOrName = str | Runnable[Any, Any]
"""A name, a chat model, or a runnable around one: with options, retries or fallbacks."""

NO_FALLBACK_ERRORS = (BudgetExceeded, BlockingCallError)
"""Errors that another model would not fix."""


def as_model(model: ModelOrName) -> Any:  # noqa: ANN401  a chat model, or a runnable that wraps one
    """Return the chat model of a name; a model is returned unchanged."""
    return init_chat_model(model) if isinstance(model, str) else model


class ModelFallbackMiddleware(AgentMiddleware):
    """Calls other models if the first one fails."""

    @check_options()
    def __init__(self, first_model: ModelOrName, *additional_models: ModelOrName) -> None:
        """Set the models, by name or as objects."""
        self.models = [as_model(model) for model in (first_model, *additional_models)]

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        failure: Exception | None = None
        for model in (request.model, *self.models):
            try:
                return await handler(request.override(model=model))
            except NO_FALLBACK_ERRORS:
                raise
            except Exception as error:  # noqa: BLE001
                failure = error
        assert failure is not None
        raise failure
