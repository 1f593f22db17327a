"""`ServeError`: why a request failed, before a wire encodes it; and the mapping from exceptions to it.

Three kinds of texts reach a client: those of our own decoding of a request, those of the check of an app's input before
its run, and those of `PublicError`, which an app raises on purpose. Texts of providers, of the app and of its libraries
stay on the server, in its log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import ValidationError

from foldline.exceptions import (
    BudgetExceeded,
    ContextOverflowError,
    EmptyInputError,
    FlowError,
    FlowFinishedError,
    FoldlineError,
    InvalidAnswerError,
    LimitExceededError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelPermissionDeniedError,
    ModelQuotaError,
    ModelRateLimitError,
    ModelRefusalError,
    ModelTimeoutError,
    NothingToResumeError,
    RateLimitError,
    SchemaError,
    SecurityError,
    StructuredOutputError,
    ThreadBusyError,
    ThreadConflictError,
    UnknownCheckpointError,
    UnknownInterruptError,
    UsageError,
    is_invalid_resume,
)
from foldline.serve._request_facts import REQUEST

__all__ = [
    "PublicError",
]

ErrorKind = Literal[
    "invalid_request",
    "too_large",
    "authentication",
    "permission",
    "not_found",
    "conflict",
    "unprocessable",
    "budget",
    "rate_limit",
    "overloaded",
    "timeout",
    "upstream",
    "internal",
    "unavailable",
]

STATUSES: Final[dict[ErrorKind, int]] = {
    "invalid_request": 400,
    "too_large": 413,
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "conflict": 409,
    "unprocessable": 422,
    "budget": 402,
    "rate_limit": 429,
    "overloaded": 503,
    "timeout": 504,
    "upstream": 502,
    "internal": 500,
    "unavailable": 503,
}

KINDS: Final[dict[int, ErrorKind]] = {status: kind for kind, status in reversed(STATUSES.items())}
"""The first kind of each status."""
PROVIDER_FAULTS: Final[frozenset[ErrorKind]] = frozenset(
    {"rate_limit", "overloaded", "timeout", "upstream"}
)
"""Kinds of errors of a run that its provider caused; the operator of the server reads about them in its log."""
LONGEST_MESSAGE: Final = 600
BUSY_SECONDS: Final = 1.0
"""When a client may try again on a thread that has a run."""
SECRETS: Final = re.compile(
    r"(?i)\b(?:sk|pk|rk|fl|gsk|xai|key|api|tok|ghp|hf|AIza|AKIA)[-_][A-Za-z0-9_\-*]{6,}|"
    r"\b(?:AIza|AKIA|eyJ)[A-Za-z0-9_\-.]{10,}|"
    r"(?i:bearer\s+\S+)|[A-Za-z0-9_\-+/]{40,}"
)


@dataclass
class ServeError(Exception):
    """A failed request: the kind of error, and a sentence for the client."""

    kind: ErrorKind
    message: str
    retry_after: float | None = None
    code: str | None = None
    run_id: str | None = None
    """The run that failed; by default that of the current request."""

    def __post_init__(self) -> None:
        super().__init__(self.message)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUSES[self.kind]

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the HTTP answer."""
        if self.retry_after is None:
            return {}
        return {"retry-after": str(max(1, int(self.retry_after + 0.999)))}

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the current request and of the run, for the error's body on every wire."""
        facts = REQUEST.get()
        run_id = self.run_id or (facts.run_id if facts is not None else None)
        ids = {"request_id": facts.id} if facts is not None else {}
        return {**ids, "run_id": run_id} if run_id is not None else ids

    def as_json(self) -> dict[str, object]:
        """Return the error as JSON for the run log."""
        data: dict[str, object] = {"kind": self.kind, "message": self.message}
        if self.retry_after is not None:
            data["retry_after"] = self.retry_after
        if self.code is not None:
            data["code"] = self.code
        return data

    @classmethod
    def from_json(cls, data: dict[str, object]) -> ServeError:
        """Read an error from the run log."""
        kind = data.get("kind")
        wait = data.get("retry_after")
        code = data.get("code")
        return cls(
            kind if kind in STATUSES else "internal",
            str(data.get("message", "the run failed")),
            float(wait) if isinstance(wait, int | float) else None,
            code if isinstance(code, str) else None,
        )


class PublicError(FoldlineError):
    """An error of an app for its client: the message and the status reach it on every API.

    ```python
    from foldline.serve import PublicError


    def book(seats: int) -> str:
        if seats > 9:
            raise PublicError("at most 9 seats can be booked at once", status=422)
        return f"{seats} seats are booked"
    ```
    """

    def __init__(self, message: str, status: int = 400) -> None:
        if status not in KINDS:
            known = ", ".join(map(str, sorted(KINDS)))
            raise UsageError(f"PublicError(status={status!r}): the statuses are {known}")
        super().__init__(message)
        self.status = status


class KeyLimitError(BudgetExceeded):
    """A model call does not fit the limits of the key; agents neither retry it nor show it to the model."""

    def __init__(self, failure: ServeError, *, patience: float = 0.0) -> None:
        super().__init__(failure.message, patience=patience)
        self.failure = failure


def mask_secrets(text: str) -> str:
    """Mask what looks like a key in a text, and cut it to `LONGEST_MESSAGE`."""
    short = SECRETS.sub("…", text)
    return short if len(short) <= LONGEST_MESSAGE else short[:LONGEST_MESSAGE] + "…"


STARTS: Final[tuple[tuple[type[BaseException], ErrorKind, str, str], ...]] = (
    (
        NothingToResumeError,
        "conflict",
        "already_answered",
        "there is nothing to answer: the question was answered before, or none is open",
    ),
    (
        UnknownInterruptError,
        "unprocessable",
        "unknown_question",
        "the answer does not say which open question it is for: send {id: answer} with ids of open questions",
    ),
    (InvalidAnswerError, "unprocessable", "invalid_answer", ""),
    (
        UnknownCheckpointError,
        "not_found",
        "unknown_checkpoint",
        "this thread has no checkpoint of that id: take one of its history",
    ),
    (
        FlowFinishedError,
        "conflict",
        "finished",
        "the run of this thread is finished, and its input was another one: use another thread",
    ),
    (
        EmptyInputError,
        "unprocessable",
        "empty_thread",
        "there is nothing to continue: the thread is empty; send an input",
    ),
    (
        ThreadBusyError,
        "conflict",
        "thread_busy",
        "another run of this thread is going on: wait until it ends, and run one at a time per thread",
    ),
    (
        ThreadConflictError,
        "conflict",
        "thread_conflict",
        "another run has continued this thread meanwhile: run one at a time per thread",
    ),
)
"""Why a run of a thread cannot start, or go on: its kind, its code on every wire, and what the client gets.

Without a sentence here the client gets that of the error, which is about the request alone.
"""

REFUSALS: Final = tuple(row[0] for row in STARTS if row[0] is not ThreadConflictError)
"""Errors with which an app refuses to start a run; nothing has run."""

FIXED_MESSAGES: Final[tuple[tuple[type[BaseException], ErrorKind, str], ...]] = (
    (
        ModelAuthenticationError,
        "upstream",
        "the model's provider did not take this server's key: tell the operator of the server",
    ),
    (
        ModelPermissionDeniedError,
        "upstream",
        "this server may not use that model at its provider: tell the operator of the server",
    ),
    (ModelNotFoundError, "upstream", "the model's provider does not have that model"),
    (
        ModelQuotaError,
        "upstream",
        "this server's account at the provider is used up: tell the operator of the server",
    ),
    (ModelRateLimitError, "rate_limit", "the model's provider has too many requests: try later"),
    (RateLimitError, "rate_limit", "too many requests for this model: try later"),
    (ModelOverloadedError, "overloaded", "the model's provider is overloaded: try later"),
    (ModelTimeoutError, "timeout", "the model did not answer in time"),
    (ModelConnectionError, "upstream", "the model's provider could not be reached"),
    (ModelRefusalError, "upstream", "the model refused to answer: change the request"),
    (StructuredOutputError, "upstream", "the model's answer did not fit the schema"),
)
"""Errors whose text stays on the server -> what the client gets instead; the first that fits is used."""

ERRORS_OF_RUNS: Final[tuple[tuple[type[BaseException], ErrorKind, str, str | None], ...]] = (
    (
        ContextOverflowError,
        "invalid_request",
        "the request is too long for the model",
        "context_length_exceeded",
    ),
    (
        ModelInvalidRequestError,
        "invalid_request",
        "the model's provider refused the request as invalid: the server's log says why",
        None,
    ),
    (BudgetExceeded, "budget", "a limit of usage that the app has set is exceeded", None),
)
"""Errors of calls inside a run -> what the client gets."""


def failure_of(error: BaseException) -> ServeError:
    """Return the error that the client gets for an exception of the decoding of its request."""
    return _known_failure(error) or _sentence_about_request(error) or failure_of_run(error)


def failure_of_run(error: BaseException, run: str = "") -> ServeError:
    """Return the error that the client gets for an exception of a run: its text stays on the server."""
    failure = _known_failure(error)
    if failure is not None:
        return failure
    if isinstance(error, ValidationError) and is_invalid_resume(error):
        return _invalid_value(error)
    for kind_of_error, kind, message, code in ERRORS_OF_RUNS:
        if isinstance(error, kind_of_error):
            return ServeError(kind, message, code=code)
    if isinstance(error, ModelError) and not isinstance(error, LimitExceededError):
        return ServeError("upstream", f"the model's answer failed ({type(error).__name__})")
    return ServeError("internal", f"the app failed: run {run}" if run else "the app failed")


def _known_failure(error: BaseException) -> ServeError | None:
    """Return the error for an exception with a kind and a sentence of its own; None for others."""
    if isinstance(error, ServeError):
        return error
    if isinstance(error, KeyLimitError):
        return error.failure
    if isinstance(error, PublicError):
        return ServeError(KINDS[error.status], str(error)[:LONGEST_MESSAGE])
    for start_error, kind, code, message in STARTS:
        if isinstance(error, start_error):
            wait = BUSY_SECONDS if start_error is ThreadBusyError else None
            return ServeError(kind, message or mask_secrets(str(error)), wait, code)
    for kind_of_error, kind, message in FIXED_MESSAGES:
        if isinstance(error, kind_of_error):
            return ServeError(kind, message, _wait_of(error, kind))
    return None


def _wait_of(error: BaseException, kind: ErrorKind) -> float | None:
    if kind not in ("rate_limit", "overloaded"):
        return None
    wait = getattr(error, "retry_after", None) or getattr(error, "wait", None)
    return float(wait) if wait is not None else 1.0


def _sentence_about_request(error: BaseException) -> ServeError | None:
    """Return the error for an exception that the request caused; None for others."""
    if isinstance(error, ContextOverflowError):
        message = f"the request is too long for the model: {error.message}"
        return ServeError("invalid_request", mask_secrets(message), code="context_length_exceeded")
    if isinstance(error, ModelInvalidRequestError | LimitExceededError):
        return ServeError("invalid_request", mask_secrets(error.message or str(error)))
    if isinstance(error, BudgetExceeded):
        return ServeError("budget", mask_secrets(str(error)))
    if isinstance(error, ValidationError):
        return _invalid_value(error)
    if isinstance(error, UsageError | SchemaError | SecurityError | FlowError):
        return ServeError("invalid_request", mask_secrets(str(error)))
    return None


def _invalid_value(error: ValidationError) -> ServeError:
    sentence = validation_sentence(error)
    if is_invalid_resume(error):
        message = f"the answer does not fit its question: {sentence}"
        return ServeError("unprocessable", mask_secrets(message), code="invalid_answer")
    return ServeError("invalid_request", mask_secrets(sentence))


def validation_sentence(error: ValidationError) -> str:
    """Return what is wrong with an input, without repeating the input."""
    parts = [
        f"{'.'.join(str(place) for place in item['loc']) or 'the input'}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False)[:5]
    ]
    return "; ".join(parts)
