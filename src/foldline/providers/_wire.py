"""What a vendor's wire has in common with any other's: a decoder's shape, how failures read, when to come back.

Pure: nothing here waits, and nothing here knows a vendor.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from foldline.exceptions import ContextOverflowError, ModelError, status_error_class

if TYPE_CHECKING:
    from foldline.language_models.request import ChatRequest
    from foldline.protocol.events import Event

__all__ = [
    "ErrorTable",
    "Fail",
    "Failure",
    "WireDecoder",
    "error_class",
    "merge_settings",
    "read_failure",
    "request_id",
    "retry_after",
]

ErrorTable: TypeAlias = Mapping[str, type[ModelError]]
"""Vendor's code or type of error -> error class."""
Fail: TypeAlias = Callable[[Any], ModelError]
"""What a decoder is given to build the typed error of an error body that came inside a stream."""

NO_WORDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {}
REQUEST_ID_HEADERS: Final = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "cf-ray",
)
OVERFLOW: Final = (  # compiled when an error is read
    r"(?i)maximum context length|context[ _](?:length|window|size)|too many (?:input )?tokens"
    r"|prompt is too long|exceeds? (?:the )?(?:available |maximum )?(?:context|number of tokens)|input is too long"
)
"""How vendors without a code of its own for it say that the prompt does not fit."""


class WireDecoder(Protocol):
    """Turns one answer of a vendor into events. Fed parsed JSON; does no I/O."""

    def feed(self, data: Any, event: str) -> list[Event]:  # noqa: ANN401
        """Take one payload of the stream; `event` is the name that the stream gave it."""

    def whole(self, data: Any) -> list[Event]:  # noqa: ANN401
        """Take an answer that came in one piece: the events that its stream would have given."""

    def end(self, *, marked: bool) -> list[Event]:
        """Give the last events, or raise `StreamTruncatedError` where the vendor never said that it was done.

        `marked` says whether the end marker (`[DONE]`) was seen.
        """


def merge_settings(
    settings: Mapping[str, Any],
    request: ChatRequest,
    in_other_words: Mapping[str, Mapping[str, tuple[str, ...]]] = NO_WORDS,
) -> dict[str, Any]:
    """Overlay a model's settings with the options of a call.

    An option also overrules settings that say the same in other words: `in_other_words` names them, and which keys of
    such a setting are meant (none: all of it).
    """
    said = dict(settings)
    for name, value in request.options.items():
        if value is None:
            continue
        for word, keys in (in_other_words.get(name) or {}).items():
            if word not in said or request.options.get(word) is not None:
                continue
            overruled = said.pop(word)
            if keys and (rest := {key: overruled[key] for key in overruled if key not in keys}):
                said[word] = rest
        said[name] = value
    if request.stop:
        said["stop"] = request.stop
    return said


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a vendor words it."""

    code: str | None = None
    kind: str | None = None
    message: str | None = None
    status: int | None = None


def read_failure(body: Any) -> Failure:  # noqa: ANN401  whatever JSON an error is
    """Find code, type, message and status in an error's JSON, wherever the vendor put them."""
    if isinstance(body, list) and body:  # Google wraps the errors of a stream in a list
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else body
    if error is None and isinstance(body, dict):
        error = body
    if isinstance(error, str):
        return Failure(message=error)
    if not isinstance(error, dict):
        return Failure()
    if "message" not in error and isinstance(error.get("error"), dict):
        error = error["error"]
    code, kind = error.get("code"), error.get("type") or error.get("status")
    status = next(
        (
            given
            for given in (code, error.get("status"), error.get("status_code"))
            if _is_status(given)
        ),
        None,
    )
    message = error.get("message") or error.get("detail")
    return Failure(
        code=None if code is None else str(code),
        kind=None if kind is None or kind == "error" else str(kind),
        message=None if message is None else str(message),
        status=int(status) if status is not None else None,
    )


def error_class(failure: Failure, status: int | None, table: ErrorTable) -> type[ModelError] | None:
    """Choose the class of an error: the vendor's code, its type, what it says, then the HTTP status."""
    for word in (failure.code, failure.kind):
        if word and word in table:
            return table[word]
    status = status or failure.status
    if status in (400, 413, 422) and failure.message and re.search(OVERFLOW, failure.message):
        return ContextOverflowError
    return status_error_class(status) if status else None


def request_id(headers: Mapping[str, str]) -> str | None:
    """Give the vendor's id of a request."""
    return next((headers[name] for name in REQUEST_ID_HEADERS if name in headers), None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read Retry-After: seconds, milliseconds or a date; None where absent or nonsense."""
    if (millis := headers.get("retry-after-ms")) is not None:
        return _number(millis, 0.001)
    given = headers.get("retry-after")
    if given is None:
        return None
    seconds = _number(given, 1.0)
    if seconds is not None:
        return seconds
    try:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415  rarely sent, and slow to import

        when = parsedate_to_datetime(given)
        return max(0.0, when.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _number(text: str, scale: float) -> float | None:
    try:
        value = float(text) * scale
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _is_status(value: Any) -> bool:  # noqa: ANN401
    text = str(value)
    return not isinstance(value, bool) and text.isdecimal() and 400 <= int(text[:4]) < 600
