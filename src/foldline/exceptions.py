"""Every error that foldline raises, in one tree, split by who must act.

```
* FoldlineError
  x ModelError                  the call failed; .provider .model .is_retryable .partial ...
    + ModelConnectionError        the request did not arrive (retryable)
    + ModelTimeoutError           no answer in time (retryable); .phase
    + ModelStatusError            got an HTTP error; .status .body .request_id .retry_after
      - ModelAuthenticationError 401 · ModelPermissionDeniedError 403 · ModelNotFoundError 404
      - ModelInvalidRequestError 400/413/422
        . ContextOverflowError
      - ModelRateLimitError 429 (retryable) · ModelQuotaError 429 (not) · ModelOverloadedError 529 (retryable)
      - ModelAPIError 5xx (retryable)
    + MalformedStreamError        the vendor broke the event grammar
    + StreamInterruptedError      the connection broke in the middle (retryable)
    + StreamTruncatedError        the stream ended without its end marker (retryable)
      - EmptyStreamError            it had no chunk at all (a ValueError too)
    + StreamClosedError           the stream was closed before its end
    + LimitExceededError          something was larger than its limit
    + StructuredOutputError       the answer never fitted the schema; .raw .issues .usage (an OutputParserException too)
      - ModelRefusalError           the model refused, so that there is no answer to read; .refusal .raw_message
    + OutputRejectedError         a guard rejected the answer; .guard .partial
  x OutputParserException       the model's text did not parse; .llm_output .observation
  x ToolException               raised by a tool to inform the model
  x BlockingCallError           `invoke` reached work that needs an event loop
  x BudgetExceeded              a usage limit was exceeded; .used .limit
  x RateLimitError              a rate limiter refused a request; .wait
  x SchemaError                 serialised data does not fit (load)
    + UnknownCheckpointError      a thread has no checkpoint of that id
  x StoreError                  a cache, history or store failed
    + ThreadBusyError             another run owns the thread; .thread_id .owner .retry_after
    + ThreadConflictError         another run has continued the thread, or taken it over
  x DocumentError               a file or page could not be read as a document; .source
  x SecurityError               refused: the request is outside what was allowed
  x MissingExtraError           an optional package is not installed; has the command
  x TracerException             a tracer got an event of an unknown run
  x UsageError                  foldline was called incorrectly; says what to write instead
    + EmptyInputError             None continues a thread, and the thread is empty
    + NothingToResumeError        an answer, and no question is open
    + InvalidAnswerError          an answer that does not fit its question
    + UnknownInterruptError       an answer for no open question (a RuntimeError too); .reason
    + MissingKeyError             a name or reference that does not exist (a KeyError too)
    + UnsupportedError            this object does not support that (a NotImplementedError too)
    + RecursionLimitError         a runnable called runnables deeper than recursion_limit
  x FlowError                   a flow or a graph could not continue
    + FlowChangedError            the flow no longer matches its journal; names the first difference
    + FlowInterruptedError        it stopped for human input; .interrupts .thread_id
    + StepTimeoutError            a step took longer than its timeout
    + InvalidUpdateError          a node returned a key, a type or a pair of updates that the state cannot accept
    + InvalidRouteError           a route leads to an unknown node
    + GraphRecursionError         more steps than recursion_limit
    + RunCancelledError           somebody has cancelled the run of a thread; .thread_id .sender
```

`str(error)` of a model error begins with the model: `acme:anvil-1: slow down`. This file imports nothing of foldline.
"""

from __future__ import annotations

from typing import Any, Literal

__all__ = [
    "BlockingCallError",
    "BudgetExceeded",
    "ContextOverflowError",
    "DocumentError",
    "EmptyInputError",
    "EmptyStreamError",
    "FlowChangedError",
    "FlowError",
    "FlowInterruptedError",
    "FoldlineError",
    "GraphRecursionError",
    "InvalidAnswerError",
    "InvalidRouteError",
    "InvalidUpdateError",
    "LangChainException",
    "LimitExceededError",
    "MalformedStreamError",
    "MissingExtraError",
    "MissingKeyError",
    "ModelAPIError",
    "ModelAuthenticationError",
    "ModelConnectionError",
    "ModelError",
    "ModelInvalidRequestError",
    "ModelNotFoundError",
    "ModelOverloadedError",
    "ModelPermissionDeniedError",
    "ModelQuotaError",
    "ModelRateLimitError",
    "ModelRefusalError",
    "ModelStatusError",
    "ModelTimeoutError",
    "NothingToResumeError",
    "OutputParserException",
    "OutputRejectedError",
    "RateLimitError",
    "RecursionLimitError",
    "RunCancelledError",
    "SchemaError",
    "SecurityError",
    "StepTimeoutError",
    "StoreError",
    "StreamClosedError",
    "StreamInterruptedError",
    "StreamTruncatedError",
    "StructuredOutputError",
    "ThreadBusyError",
    "ThreadConflictError",
    "ToolException",
    "TracerException",
    "UnknownCheckpointError",
    "UnknownInterruptError",
    "UnsupportedError",
    "UsageError",
    "status_error_class",
]


def __dir__() -> list[str]:
    return sorted(__all__)


TimeoutPhase = Literal["connect", "first_byte", "idle", "total", "pool"]


class FoldlineError(Exception):
    """The root of all errors that foldline raises itself."""


LangChainException = FoldlineError
"""The root, under LangChain's name."""


class ModelError(FoldlineError):
    """A model call failed. `partial` is the part of the answer that had arrived, as an `AIMessage`."""

    is_retryable: bool = False

    def __init__(
        self,
        message: str = "",
        *,
        provider: str | None = None,
        model: str | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        body: str | None = None,
        partial: Any = None,  # noqa: ANN401  an AIMessage, a class of a layer above
        is_retryable: bool | None = None,
    ) -> None:
        self.message = message
        self.provider = provider
        self.model = model
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        self.body = body
        self.partial = partial
        self.attempts = 1
        if is_retryable is not None:
            self.is_retryable = is_retryable
        super().__init__(message)

    def __str__(self) -> str:
        where = ":".join(part for part in (self.provider, self.model) if part)
        return f"{where}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only fields are in __dict__, which the default reduce would lose.
        return (type(self), (self.message,), self.__dict__)


class ModelConnectionError(ModelError):
    """The request never reached the provider."""

    is_retryable = True


class ModelTimeoutError(ModelError):
    """No answer in time; `phase` says which timeout expired."""

    is_retryable = True
    phase: TimeoutPhase = "total"


class ModelStatusError(ModelError):
    """The provider answered with an HTTP error; its complete body is in `body`."""


class ModelAuthenticationError(ModelStatusError):
    """The key is missing, wrong or expired (401)."""


class ModelPermissionDeniedError(ModelStatusError):
    """The key may not do this (403)."""


class ModelNotFoundError(ModelStatusError):
    """No such model or endpoint (404)."""


class ModelInvalidRequestError(ModelStatusError):
    """The provider refused the request as written (400, 413, 422)."""


class ContextOverflowError(ModelInvalidRequestError):
    """The messages are longer than the model's context window."""


class ModelRateLimitError(ModelStatusError):
    """Too many requests; `retry_after` is how long to wait, if the provider said so (429)."""

    is_retryable = True


class ModelQuotaError(ModelStatusError):
    """The account is out of credit or over its spend limit; waiting does not help."""


class ModelOverloadedError(ModelStatusError):
    """The provider is overloaded (529)."""

    is_retryable = True


class ModelAPIError(ModelStatusError):
    """The provider failed on its side (5xx)."""

    is_retryable = True


class MalformedStreamError(ModelError):
    """The bytes or events of the provider break its grammar."""


class StreamInterruptedError(ModelError):
    """The connection broke in the middle of the answer."""

    is_retryable = True


class StreamTruncatedError(ModelError):
    """The stream ended without an end marker."""

    is_retryable = True


class EmptyStreamError(StreamTruncatedError, ValueError):
    """A model's stream had no chunk at all."""

    is_retryable = False


class StreamClosedError(ModelError):
    """The stream was closed before its end."""


class OutputRejectedError(ModelError):
    """A guard rejected the answer, which is in `partial`."""

    guard: str | None = None


class OutputParserException(FoldlineError, ValueError):
    """The model's text did not parse."""

    def __init__(
        self,
        error: object,
        observation: str | None = None,
        llm_output: str | None = None,
        send_to_llm: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
    ) -> None:
        if send_to_llm and (observation is None or llm_output is None):
            raise ValueError("send_to_llm=True needs both `observation` and `llm_output`")
        self.observation = observation
        self.llm_output = llm_output
        self.send_to_llm = send_to_llm
        super().__init__(error)


class StructuredOutputError(ModelError, OutputParserException):
    """The model's answer did not fit the schema, also after retries."""

    raw: Any = None
    """The last raw answer (an `AIMessage`)."""
    issues: list[str]
    """What was wrong with it, one sentence each."""
    usage: Any = None
    """Tokens of every attempt, summed."""
    value: Any = None
    """The object so far, of an answer that was rejected while it streamed."""


class ModelRefusalError(StructuredOutputError):
    """The model refused, and the answer was needed: raised by structured output and by parsers of JSON and tool calls.

    Providers report a refusal as a successful answer, so `invoke` of a model returns the message. The same request is
    refused again: it is never retryable. Name this error in `with_fallbacks` to ask another model.
    """

    refusal: str = ""
    """The words of the refusal; empty if the provider gave none."""

    def __init__(
        self,
        message: str = "the model refused to answer",
        *,
        raw_message: Any = None,  # noqa: ANN401  an AIMessage, a class of a layer above
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.raw = self.partial = raw_message if raw_message is not None else self.partial
        self.issues = [message]

    @property
    def raw_message(self) -> Any:  # noqa: ANN401  as above
        """The message with the refusal, under LangChain's name."""
        return self.raw

    @classmethod
    def from_refusal(cls, refusal: Any, *, raw_message: Any) -> ModelRefusalError:  # noqa: ANN401  a refusal block
        """Return the error of a refusal block of a message."""
        text = refusal.get("refusal") or ""
        extras = refusal.get("extras") or {}
        reasons = [f"{name}={value!r}" for name, value in extras.items() if name in REFUSAL_EXTRAS]
        where = f" ({', '.join(reasons)})" if reasons else ""
        error = cls(
            f"the model refused{where}: {text or 'it gave no reason'} "
            "(change the request, or let another model answer: with_fallbacks)",
            raw_message=raw_message,
        )
        error.refusal = text
        return error


REFUSAL_EXTRAS = ("category", "block_reason", "finish_reason", "stop_reason")
"""The extras of a refusal block that its error names."""


class ToolException(FoldlineError):
    """Raised by a tool to inform the model of a failure; the agent continues."""


class TracerException(FoldlineError):
    """A tracer got an event of an unknown run."""


class BlockingCallError(FoldlineError, NotImplementedError):
    """A sync call reached work that needs an event loop; a NotImplementedError, as in LangChain."""


class BudgetExceeded(FoldlineError):
    """A usage limit was exceeded; see `used` and `limit`."""

    def __init__(
        self,
        message: str,
        *,
        used: float | None = None,
        limit: float | None = None,
        patience: float = 0.0,
    ) -> None:
        self.used = used
        self.limit = limit
        self.patience = patience
        """Seconds for which a ledger is asked again: other requests may leave room."""
        self.partial: Any = None  # the answer that exceeded the limit, if there was one
        super().__init__(message)


class RateLimitError(FoldlineError):
    """A rate limiter refused a request: it never fits, or not within `max_wait`."""

    def __init__(self, message: str, *, wait: float | None = None) -> None:
        self.wait = wait
        """Seconds after which it might be allowed, if that is known."""
        super().__init__(message)


class LimitExceededError(ModelError):
    """Something was larger than its limit."""


class SchemaError(FoldlineError, ValueError):
    """Serialised data does not match what may be loaded."""


class UnknownCheckpointError(SchemaError):
    """A thread has no checkpoint of the id that was given; nothing was run."""


class StoreError(FoldlineError):
    """A cache, history or store failed."""

    ends_run: bool = False
    """Whether it was the log of a thread, without which its run cannot continue."""


class ThreadConflictError(StoreError):
    """Another run has continued this thread, or has taken it over; nothing was written."""


class ThreadBusyError(ThreadConflictError):
    """Another run owns this thread and is alive; nothing was written."""

    def __init__(
        self,
        message: str,
        thread_id: str = "",
        owner: str = "",
        *,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.thread_id = thread_id
        self.owner = owner
        """The run that owns the thread."""
        self.retry_after = retry_after
        """Seconds after which another try is worthwhile, where that is known."""


class DocumentError(FoldlineError):
    """A file or page could not be read as a document; `source` says which."""

    def __init__(self, message: str, source: str = "") -> None:
        super().__init__(message)
        self.source = source


class SecurityError(FoldlineError):
    """Refused: the request is outside what the caller allowed."""


class MissingExtraError(FoldlineError, ImportError):
    """An optional package is not installed; the message has the command."""


class UsageError(FoldlineError, ValueError):
    """foldline was called incorrectly; the message says what to write instead."""


class EmptyInputError(UsageError):
    """A run was called with None, which continues a thread, and the thread is empty."""


class FlowFinishedError(UsageError):
    """A flow was called on a thread whose run is finished, with another input; nothing was run."""


class NothingToResumeError(UsageError):
    """An answer was given, and no question is open: it was answered, or the thread never stopped for one."""


class UnknownInterruptError(UsageError, RuntimeError):
    """An answer does not say which open question it is for; nothing was written."""

    def __init__(self, message: str, reason: str = "not_pending") -> None:
        super().__init__(message)
        self.reason = reason
        """`"ambiguous"`, `"not_pending"` or `"empty_map"`."""


class InvalidAnswerError(UsageError):
    """An answer does not fit its question, which stays open; nothing was written."""


class MissingKeyError(UsageError, KeyError):
    """A name, a variable or a reference does not exist."""

    __str__ = Exception.__str__  # KeyError's own would quote the sentence


class UnsupportedError(UsageError, NotImplementedError):
    """The object does not support this operation."""


class RecursionLimitError(UsageError, RecursionError):
    """A runnable called runnables deeper than `recursion_limit`."""


class FlowError(FoldlineError):
    """A flow or a graph could not continue."""


class FlowChangedError(FlowError):
    """The flow no longer matches the journal of its thread; the message names the first difference."""


class FlowInterruptedError(FlowError):
    """A flow that was called as a function stopped for human input; answer with `flow.thread(id).resume(…)`."""

    def __init__(self, message: str, interrupts: list[Any], thread_id: str | None) -> None:
        super().__init__(message)
        self.interrupts = interrupts
        self.thread_id = thread_id


class StepTimeoutError(FlowError, TimeoutError):
    """A step took longer than its timeout."""


class InvalidUpdateError(FlowError):
    """A node returned a key, a type or a pair of updates that the state cannot accept."""


class InvalidRouteError(FlowError):
    """A route leads to an unknown node."""


class GraphRecursionError(FlowError, RecursionError):
    """A graph took more steps than `recursion_limit`."""


class RunCancelledError(FlowError):
    """Somebody has cancelled the run of a thread between two steps; what it did is stored."""

    def __init__(self, message: str, thread_id: str = "", sender: str | None = None) -> None:
        super().__init__(message)
        self.thread_id = thread_id
        self.sender = sender
        """Who has cancelled it, where that was given."""


STATUS_CLASSES: dict[int, type[ModelStatusError]] = {
    400: ModelInvalidRequestError,
    401: ModelAuthenticationError,
    402: ModelQuotaError,
    403: ModelPermissionDeniedError,
    404: ModelNotFoundError,
    408: ModelAPIError,
    409: ModelAPIError,
    413: ModelInvalidRequestError,
    422: ModelInvalidRequestError,
    429: ModelRateLimitError,
    529: ModelOverloadedError,
}


def status_error_class(status: int) -> type[ModelStatusError]:
    """Return the error class of an HTTP status; unknown 4xx are invalid requests, 5xx are API errors."""
    if status in STATUS_CLASSES:
        return STATUS_CLASSES[status]
    return ModelAPIError if status >= 500 else ModelInvalidRequestError


REOPENED = "foldline_questions"
"""The attribute of the error of an answer that does not fit its question: the questions that stay open."""


def is_invalid_resume(error: BaseException) -> bool:
    """Whether an error says that an answer does not fit the `response_schema` of its question, which stays open."""
    return hasattr(error, REOPENED)
