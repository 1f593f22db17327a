"""What a vendor's wire has in common with any other's: a decoder's shape, how failures read, when to come back.

Pure: nothing here waits, and nothing here knows a vendor.
"""

from __future__ import annotations

import json
import json.encoder
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from foldline.exceptions import (
    ContextOverflowError,
    FoldlineError,
    MalformedStreamError,
    ModelError,
    UsageError,
    status_error_class,
)
from foldline.language_models.call.request import ChatRequest
from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.messages.dicts import finished_blocks
from foldline.protocol.events import Event
from foldline.utils.json import dumps_canonical

__all__ = [
    "ODD",
    "ErrorTable",
    "Fail",
    "Failure",
    "Malformed",
    "WireDecoder",
    "check_tool_results",
    "digest",
    "dump_body",
    "dump_text",
    "error_class",
    "guarded",
    "guarded_value",
    "is_error_body",
    "malformed_payload",
    "merge_settings",
    "plain_id",
    "read_failure",
    "request_id",
    "retry_after",
]

T = TypeVar("T")
ErrorTable: TypeAlias = Mapping[str, type[ModelError]]
"""Vendor's code or type of error -> error class."""
Block: TypeAlias = dict[str, Any]
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

    def feed(self, data: Any, event: str) -> list[Event]:  # noqa: ANN401  each vendor's decoder names its own TypedDict
        """Take one payload of the stream; `event` is the name that the stream gave it."""

    def whole(self, data: Any) -> list[Event]:  # noqa: ANN401  each vendor's decoder names its own TypedDict
        """Take an answer that came in one piece: the events that its stream would have given."""

    def end(self, *, marked: bool) -> list[Event]:
        """Return the last events, or raise `StreamTruncatedError` where the vendor never said that it was done.

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
    request_id: str | None = None
    """The request's id, where the body tells it."""


def read_failure(body: object) -> Failure:
    """Find code, type, message and status in an error's JSON, wherever the vendor put them."""
    if isinstance(body, list) and body:  # Google wraps the errors of a stream in a list
        body = body[0]
    told_id = body.get("request_id") if isinstance(body, dict) else None
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
        request_id=told_id if isinstance(told_id, str) and told_id else None,
    )


def is_error_body(data: object) -> bool:
    """Say whether a whole answer tells of an error; gateways send the event of a stream, or a list, as body."""
    if isinstance(data, list) and data:
        data = data[0]
    return isinstance(data, dict) and (bool(data.get("error")) or data.get("type") == "error")


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
    """Return the vendor's id of a request."""
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


def _is_status(value: object) -> bool:
    text = str(value)
    return not isinstance(value, bool) and text.isdecimal() and 400 <= int(text[:4]) < 600


# -- what a decoder stumbles over

Malformed = Callable[..., MalformedStreamError]

ODD: Final = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What a decoder may stumble with over JSON that is not of the vendor's shape."""


def guarded(
    malformed: Malformed, hear: Callable[..., list[Event]], *args: object, **kwargs: object
) -> list[Event]:
    """Call a decoder; what it stumbles over is the vendor's fault, and said to be."""
    try:
        return hear(*args, **kwargs)
    except FoldlineError:
        raise
    except ODD as error:
        raise malformed_payload(malformed, error) from error


def guarded_value(malformed: Malformed, read: Callable[..., T], *args: object) -> T:
    """Call what reads a payload; what it stumbles over is the vendor's fault, and said to be."""
    try:
        return read(*args)
    except FoldlineError:
        raise
    except ODD as error:
        raise malformed_payload(malformed, error) from error


def malformed_payload(malformed: Malformed, error: Exception) -> MalformedStreamError:
    """Make the error of a payload that a decoder stumbled over."""
    return malformed(f"the provider sent what its format has no place for: {error!r:.200}")


# -- the body of a request, as JSON

ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)


def _writer() -> Callable[[Any, Any], Iterable[str]]:
    """Return what writes JSON as `ENCODER` does, which would make this for every body anew: as dear as a short body."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return ENCODER.iterencode
    escape = json.encoder.encode_basestring
    flags = (ENCODER.sort_keys, ENCODER.skipkeys, ENCODER.allow_nan)
    made: Callable[[Any, Any], Iterable[str]] = make(
        None, ENCODER.default, escape, None, ": ", ", ", *flags
    )
    return made


WRITE: Final = _writer()


def dump_body(body: dict[str, Any]) -> bytes:
    """Write a body; a lone surrogate is kept, escaped."""
    try:
        return "".join(WRITE(body, 0)).encode()
    except UnicodeEncodeError:
        return json.dumps(body, allow_nan=False).encode()
    except RecursionError:
        raise UsageError("the request cannot be written as JSON: it contains itself") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from error


def dump_text(value: object) -> str:
    """Write JSON that is sent as text inside a body: the arguments of a call, a schema."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise UsageError("the request cannot be written as JSON: it contains itself") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from error


def digest(value: object) -> str:
    """Return a name of a value that does not show it."""
    return sha256(dumps_canonical(value).encode()).hexdigest()


# -- ids of calls


def plain_id(id: str, refused: re.Pattern[str], longest: int = 64) -> str:
    """Return an id in the characters and the length that a vendor takes; an id that must change stays unlike others."""
    plain = refused.sub("_", id)
    if plain == id and 0 < len(id) <= longest:
        return id
    return f"{plain[: longest - 17]}-{sha256(id.encode(errors='surrogatepass')).hexdigest()[:16]}"


# -- results of calls in a history

CALLS: Final = ("tool_call", "invalid_tool_call")
CALL_NOTHING: Final = frozenset({HumanMessage, SystemMessage})
"""Most messages, known at a glance: to ask a Pydantic class whether something is one of it is dear."""


def check_tool_results(messages: list[BaseMessage]) -> None:
    """Refuse results of calls that nobody made; providers do too, but less clearly (F-U09)."""
    made: set[str] = set()
    for place, message in enumerate(messages):
        if type(message) in CALL_NOTHING:
            continue
        if isinstance(message, AIMessage):
            calls = [*message.tool_calls, *message.invalid_tool_calls]
            made |= {str(call["id"]) for call in calls if call.get("id")}
        elif isinstance(message, ToolMessage) and message.tool_call_id not in made:
            made |= _calls_in_blocks(messages[:place])
            if message.tool_call_id in made:
                continue
            raise UsageError(
                f"messages[{place}] is the result of the call {message.tool_call_id!r}, but no message before it "
                "makes that call: send the AIMessage with the call too (trim_messages keeps pairs together)"
            )


def _calls_in_blocks(messages: list[BaseMessage]) -> set[str]:
    """Find calls that a message has only in its content, in the words of the provider that wrote it."""
    blocks: list[Block] = [
        dict(block)
        for message in messages
        if isinstance(message, AIMessage) and isinstance(message.content, list)
        for block in finished_blocks(message)
    ]
    return {str(id) for block in blocks for id in _ids_of_call(block) if id}


def _ids_of_call(block: Block) -> list[Any]:
    """Return the ids by which the result of a call may name it; nothing where a block is no call."""
    kind, extras, value = block["type"], block.get("extras"), block.get("value")
    if kind in CALLS:
        return [block.get("id")]
    if kind == "server_tool_call" and isinstance(extras, dict):
        return [extras.get("call_id")]  # the client runs it: OpenAI's computer and local shell
    if kind == "non_standard" and isinstance(value, dict):
        return [value.get("call_id"), value.get("id")]
    return []
