"""`ModelRetryMiddleware` and `ToolRetryMiddleware`: retry with exponential backoff.

A chat model already retries until the first event is delivered; this middleware is for further retries, and for tools.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from foldline._retry import Backoff, around
from foldline._run import Run
from foldline.agents._tool_calls import PROGRAM_ERRORS, error_message
from foldline.agents.middleware.base import AgentMiddleware, Handler, ModelHandler
from foldline.agents.requests import ModelRequest, ModelResponse, ToolCallRequest
from foldline.exceptions import BudgetExceeded, ModelError, UsageError
from foldline.messages import AIMessage
from foldline.tools.base import BaseTool
from foldline.utils._options import check_options
from foldline.utils._signature import show_defaults
from foldline.workflows._thread_log import ends_run

__all__ = [
    "ModelRetryMiddleware",
    "ToolRetryMiddleware",
    "default_retry_on",
]

RetryOn = tuple[type[Exception], ...] | type[Exception] | Callable[[Exception], bool]
OnFailure = Literal["continue", "error"] | Callable[[Exception], str]
NOT_RETRYABLE = (BudgetExceeded, *PROGRAM_ERRORS)


def default_retry_on(error: Exception) -> bool:
    """Whether a retry may succeed."""
    if isinstance(error, ModelError):
        return error.is_retryable
    return not isinstance(error, NOT_RETRYABLE)


class _Retry(AgentMiddleware):
    @show_defaults
    @check_options(
        at_least={"max_retries": 0, "backoff_factor": 0, "initial_delay": 0, "max_delay": 0}
    )
    def __init__(
        self,
        *,
        max_retries: int = 2,
        retry_on: RetryOn = default_retry_on,
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
    ) -> None:
        """Set how often to retry, on which errors, the delays, and what to do after the last failure."""
        if max_retries < 0 or initial_delay < 0 or max_delay < 0 or backoff_factor < 0:
            raise UsageError("max_retries, backoff_factor and the delays must not be negative")
        self.max_retries = max_retries
        self.retry_on = retry_on
        self.on_failure = on_failure
        self.backoff_factor = backoff_factor
        self.initial_delay = initial_delay
        self.max_delay = max_delay
        self.jitter = jitter

    def _is_retryable(self, error: Exception) -> bool:
        if isinstance(self.retry_on, tuple | type):
            return isinstance(error, self.retry_on)
        return bool(self.retry_on(error))

    def _delay(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt; the first is 0."""
        jitter = around(0.25) if self.jitter else None
        backoff = Backoff(self.initial_delay, self.backoff_factor, self.max_delay, jitter=jitter)
        return backoff.delay(attempt + 1)

    async def _retry(
        self, request: object, handler: Handler, run: Run
    ) -> tuple[Any, Exception | None]:
        for attempt in range(self.max_retries + 1):
            try:
                return await handler(request), None
            except Exception as error:
                if ends_run(error) or not self._is_retryable(error):
                    raise
                failure = error
            if attempt < self.max_retries:
                await run.io.sleep(self._delay(attempt))
        return None, failure

    def _failure_text(self, error: Exception, subject: str) -> str:
        if callable(self.on_failure):
            return self.on_failure(error)
        if self.on_failure == "error":
            raise error
        return f"{subject} failed after {self.max_retries + 1} attempts: {type(error).__name__}: {error}"


class ModelRetryMiddleware(_Retry):
    """Calls the model again if it fails; after the last attempt it raises, or ends with a message."""

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        response: ModelResponse
        response, error = await self._retry(request, handler, run)
        if error is None:
            return response
        return ModelResponse([AIMessage(self._failure_text(error, "the model"))])


class ToolRetryMiddleware(_Retry):
    """Calls a tool again if it raises; after the last attempt it raises, or sends the error to the model."""

    @check_options(
        at_least={"max_retries": 0, "backoff_factor": 0, "initial_delay": 0, "max_delay": 0}
    )
    def __init__(self, *, tools: Sequence[BaseTool | str] | None = None, **kwargs: Any) -> None:
        """Set the tools (None: all) and the retry options."""
        super().__init__(**kwargs)
        self.tool_names = (
            None
            if tools is None
            else {tool if isinstance(tool, str) else tool.name for tool in tools}
        )
        self.named_tools = frozenset(self.tool_names or ())

    async def _around_tool(self, request: ToolCallRequest, handler: Handler, run: Run) -> object:
        name = request.tool_call["name"]
        if self.tool_names is not None and name not in self.tool_names:
            return await handler(request)
        result, error = await self._retry(request, handler, run)
        if error is None:
            return result
        return error_message(request.tool_call, self._failure_text(error, name))
