"""The parts of wire formats that all vendors share: the decoder protocol, error bodies, JSON bodies, histories.

Pure: no I/O, and nothing specific to a vendor.
"""

from __future__ import annotations

import json
import json.encoder
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, ParamSpec, Protocol, TypeAlias, TypeVar

from foldline.exceptions import (
    ContextOverflowError,
    FoldlineError,
    MalformedStreamError,
    ModelAPIError,
    ModelError,
    ModelRateLimitError,
    UsageError,
    status_error_class,
)
from foldline.language_models._call.request import ChatRequest
from foldline.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.messages.dicts import finished_blocks
from foldline.protocol.events import Event
from foldline.utils.json import dumps_canonical

__all__ = [
    "MALFORMED_PAYLOAD_ERRORS",
    "ErrorTable",
    "Fail",
    "Malformed",
    "WireDecoder",
    "WireFailure",
    "answered_ids",
    "check_messages",
    "digest",
    "dump_body",
    "dump_text",
    "error_class",
    "guarded",
    "is_error_body",
    "malformed_payload",
    "merge_settings",
    "plain_id",
    "read_failure",
    "request_id",
    "retry_after",
]

P = ParamSpec("P")
T = TypeVar("T")
ErrorTable: TypeAlias = Mapping[str, type[ModelError]]
"""Vendor's code or type of error -> error class."""
Block: TypeAlias = dict[str, Any]
Fail: TypeAlias = Callable[[Any], ModelError]
"""Builds the typed error of an error body inside a stream; passed to decoders."""

NO_ALIASES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {}
REQUEST_ID_HEADERS: Final = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "cf-ray",
)
CALLER_FAULTS: Final = frozenset({400, 401, 402, 403, 404, 413, 422})
"""Statuses that the same request gets again."""
CONTEXT_OVERFLOW: Final = (  # compiled when an error is read
    r"(?i)maximum context length|context[ _](?:length|window|size)|too many (?:input )?tokens"
    r"|prompt is too long|exceeds? (?:the )?(?:available |maximum )?(?:context|number of tokens)|input is too long"
)
"""Messages of vendors that have no error code for a prompt that is too long."""


class WireDecoder(Protocol):
    """Turns one answer of a vendor into events. Fed parsed JSON; does no I/O."""

    def feed(self, data: Any, event: str) -> list[Event]:  # noqa: ANN401  each vendor's decoder names its own TypedDict
        """Return the events of one payload of a stream; `event` is its SSE event name."""

    def decode_answer(self, data: Any) -> list[Event]:  # noqa: ANN401  each vendor's decoder names its own TypedDict
        """Return the events of an answer that is not streamed: the same that its stream would produce."""

    def end(self, *, marked: bool) -> list[Event]:
        """Return the last events, or raise `StreamTruncatedError` if the answer is incomplete.

        `marked`: whether the end marker (`[DONE]`) was received.
        """


def merge_settings(
    settings: Mapping[str, Any],
    request: ChatRequest,
    equivalents: Mapping[str, Mapping[str, tuple[str, ...]]] = NO_ALIASES,
) -> dict[str, Any]:
    """Return a model's settings, overridden by the options of a call.

    An option also overrides settings with the same meaning under another name: `equivalents` maps an option to these
    settings and to the keys of each that it replaces (none: the setting as a whole).
    """
    merged = dict(settings)
    for name, value in request.options.items():
        if value is None:
            continue
        for setting, keys in (equivalents.get(name) or {}).items():
            if setting not in merged or request.options.get(setting) is not None:
                continue
            overruled = merged.pop(setting)
            if keys and (
                remaining := {key: overruled[key] for key in overruled if key not in keys}
            ):
                merged[setting] = remaining
        merged[name] = value
    if request.stop:
        merged["stop"] = request.stop
    return merged


@dataclass(frozen=True, slots=True)
class WireFailure:
    """An error as the vendor reports it."""

    code: str | None = None
    kind: str | None = None
    message: str | None = None
    status: int | None = None
    request_id: str | None = None
    """The request's id, if the body contains it."""


def read_failure(body: object) -> WireFailure:
    """Return the code, type, message and status of an error's JSON, in any vendor's layout."""
    if isinstance(body, list) and body:  # Google wraps the errors of a stream in a list
        body = body[0]
    error = _error_in(body)
    if isinstance(error, str):
        return WireFailure(message=error)
    if not isinstance(error, dict):
        return WireFailure()
    request_id = body.get("request_id") if isinstance(body, dict) else None
    kind = error.get("type") or error.get("status")
    numbers = (error.get("code"), error.get("status"), error.get("status_code"))
    return WireFailure(
        code=_as_text(error.get("code")),
        kind=None if kind == "error" else _as_text(kind),
        message=_as_text(error.get("message") or error.get("detail")),
        status=next((int(str(number)) for number in numbers if _is_status(number)), None),
        request_id=request_id if isinstance(request_id, str) and request_id else None,
    )


def _error_in(body: object) -> object:
    """Return the error in a body: under `error`, under that of a gateway around it, or the body itself."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if error is None:
        error = body
    if isinstance(error, dict) and "message" not in error:
        inner = error.get("error")
        return inner if isinstance(inner, dict) else error
    return error


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)


def is_error_body(data: object) -> bool:
    """Whether an answer is an error; some gateways send a stream's error event, or a list, as the body."""
    if isinstance(data, list) and data:
        data = data[0]
    return isinstance(data, dict) and (bool(data.get("error")) or data.get("type") == "error")


def error_class(
    failure: WireFailure, status: int | None, table: ErrorTable
) -> type[ModelError] | None:
    """Return the class of an error: by the vendor's code, its type, its message, then the HTTP status.

    A word that contradicts the status is passed over: gateways call every failure a `server_error`.
    """
    status = status or failure.status
    for word in (failure.code, failure.kind):
        if word and word in table and not _contradicts(table[word], status):
            return table[word]
    if (
        status in (400, 413, 422)
        and failure.message
        and re.search(CONTEXT_OVERFLOW, failure.message)
    ):
        return ContextOverflowError
    return status_error_class(status) if status else None


def _contradicts(cls: type[ModelError], status: int | None) -> bool:
    """Whether a class is of the server's faults, and the status of the caller's, which no retry mends (F-H04)."""
    if status == 429:
        return cls is ModelAPIError
    return status in CALLER_FAULTS and cls.is_retryable and cls is not ModelRateLimitError


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the vendor's id of a request."""
    return next((headers[name] for name in REQUEST_ID_HEADERS if name in headers), None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After (seconds, milliseconds or a date); None if absent or invalid."""
    if (millis := headers.get("retry-after-ms")) is not None:
        return _number(millis, 0.001)
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value, 1.0)
    if seconds is not None:
        return seconds
    try:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415  rarely sent, and slow to import

        when = parsedate_to_datetime(value)
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


# -- malformed payloads

Malformed = Callable[..., MalformedStreamError]

MALFORMED_PAYLOAD_ERRORS: Final = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
)
"""The exceptions a decoder may raise on JSON that does not have the vendor's format."""


def guarded(malformed: Malformed, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that reads a payload; raise `MalformedStreamError` if it does not have the vendor's format."""
    try:
        return read(*args, **kwargs)
    except FoldlineError:
        raise
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise malformed_payload(malformed, error) from error


def malformed_payload(malformed: Malformed, error: Exception) -> MalformedStreamError:
    """Return the error of a payload that a decoder could not read."""
    return malformed(f"the provider sent what its format has no place for: {error!r:.200}")


# -- the body of a request, as JSON

ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)


def _writer() -> Callable[[Any, Any], Iterable[str]]:
    """Return `ENCODER`'s writer, built once: `ENCODER` would build it for every body, at the cost of a short body."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return ENCODER.iterencode
    escape = json.encoder.encode_basestring
    flags = (ENCODER.sort_keys, ENCODER.skipkeys, ENCODER.allow_nan)
    write: Callable[[Any, Any], Iterable[str]] = make(
        None, ENCODER.default, escape, None, ": ", ", ", *flags
    )
    return write


WRITE: Final = _writer()


def dump_body(body: dict[str, Any]) -> bytes:
    """Return a body as JSON; a lone surrogate is kept, escaped."""
    try:
        return "".join(WRITE(body, 0)).encode()
    except UnicodeEncodeError:
        return json.dumps(body, allow_nan=False).encode()
    except RecursionError:
        raise UsageError("the request cannot be written as JSON: it contains itself") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from error


def dump_text(value: object) -> str:
    """Return JSON that is sent as text inside a body: the arguments of a call, a schema."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise UsageError("the request cannot be written as JSON: it contains itself") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from error


def digest(value: object) -> str:
    """Return the SHA-256 digest of a value's JSON."""
    return sha256(dumps_canonical(value).encode()).hexdigest()


# -- ids of calls


def plain_id(id: str, refused: re.Pattern[str], max_length: int = 64) -> str:
    """Return an id with characters and a length that a vendor accepts; changed ids stay distinct."""
    plain = refused.sub("_", id)
    if plain == id and 0 < len(id) <= max_length:
        return id
    return (
        f"{plain[: max_length - 17]}-{sha256(id.encode(errors='surrogatepass')).hexdigest()[:16]}"
    )


# -- what a history must fulfil before it is sent

CALLS: Final = ("tool_call", "invalid_tool_call")
CALL_TYPES: Final = ("tool_call", "tool_use", "function_call")
"""Types of blocks that are calls, in the formats of providers."""
RESULT_KEYS: Final = ("tool_use_id", "toolUseId", "tool_call_id", "call_id")
"""The id of the call, in a result that is a block in a provider's own format."""
TYPES_WITHOUT_CALLS: Final = frozenset({HumanMessage, SystemMessage})
"""Checked first by exact type: `isinstance` with a Pydantic class is slow."""


def check_messages(messages: list[BaseMessage]) -> None:
    """Raise on an empty history, on a result without its call and on a call without its result (F-U09)."""
    if not messages:
        raise UsageError(
            "there is no message to send: pass text, or a list with at least one message "
            '([HumanMessage("…")])'
        )
    call_ids: set[str] = set()
    unanswered: dict[str, tuple[int, str]] = {}
    """Id -> the place of the message that makes the call, and the tool's name."""
    for place, message in enumerate(messages):
        if type(message) in TYPES_WITHOUT_CALLS:
            continue
        if isinstance(message, AIMessage):
            for call in message.tool_calls or _calls_of_content(message):
                id = str(call.get("id") or "")
                unanswered[id] = (place, call["name"])
                call_ids |= {id} if id else set()
            call_ids |= {str(call["id"]) for call in message.invalid_tool_calls if call.get("id")}
        elif isinstance(message, FunctionMessage):
            unanswered.pop("", None)  # the result of OpenAI's first form of calls, which has no id
        elif isinstance(message, ToolMessage):
            unanswered.pop(message.tool_call_id, None)
            if message.tool_call_id not in call_ids:
                call_ids |= _calls_in_blocks(messages[:place])
                _check_call(message, place, call_ids)
    if unanswered:
        _check_answered(messages, unanswered)


def answered_ids(messages: Iterable[BaseMessage]) -> set[str]:
    """Return the ids of the calls that have a result. A call that did not parse is sent only if it has one."""
    return {
        message.tool_call_id
        for message in messages
        if type(message) not in TYPES_WITHOUT_CALLS and isinstance(message, ToolMessage)
    }


def _check_call(message: ToolMessage, place: int, call_ids: set[str]) -> None:
    if message.tool_call_id not in call_ids:
        raise UsageError(
            f"messages[{place}] is the result of the call {message.tool_call_id!r}, but no message before it "
            "makes that call: send the AIMessage with the call too (trim_messages keeps pairs together)"
        )


def _check_answered(messages: list[BaseMessage], unanswered: dict[str, tuple[int, str]]) -> None:
    first = min(place for place, _ in unanswered.values())
    in_blocks = set(_results_in_blocks(messages[first + 1 :]))
    missing = {id: entry for id, entry in unanswered.items() if id not in in_blocks}
    if not missing:
        return
    id, (place, name) = next(iter(missing.items()))
    if not id:
        raise UsageError(
            f"messages[{place}] calls the tool {name!r} without an id, so that no result can belong to it: give the "
            "call an id, and add ToolMessage(..., tool_call_id=<that id>) after it"
        )
    others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    raise UsageError(
        f"messages[{place}] calls the tool {name!r} (call {id!r}){others}, but no message after it has the result: "
        f"add ToolMessage(..., tool_call_id={id!r}) after it, or leave out the message with the call"
    )


def _results_in_blocks(messages: list[BaseMessage]) -> Iterator[str]:
    """Yield the ids of results that messages have in their content, in a provider's own format."""
    for message in messages:
        if id := message.additional_kwargs.get("tool_call_id"):
            yield str(id)
        for block in message.content if isinstance(message.content, list) else ():
            if isinstance(block, dict):
                inner = block.get("toolResult")
                fields = {**block, **inner} if isinstance(inner, dict) else block
                yield from (str(fields[key]) for key in RESULT_KEYS if fields.get(key))


def _calls_of_content(message: AIMessage) -> list[Any]:
    """Return the calls that a message has only in its content, where they are known as calls and sent."""
    if isinstance(message.content, str) or not any(
        isinstance(block, dict) and (block.get("type") in CALL_TYPES or "toolUse" in block)
        for block in message.content
    ):
        return []
    return [block for block in finished_blocks(message) if block["type"] == "tool_call"]


def _calls_in_blocks(messages: list[BaseMessage]) -> set[str]:
    """Return the ids of calls that messages have only in their content, in a provider's own format."""
    blocks: list[Block] = [
        dict(block)
        for message in messages
        if isinstance(message, AIMessage) and isinstance(message.content, list)
        for block in finished_blocks(message)
    ]
    return {str(id) for block in blocks for id in _ids_of_call(block) if id}


def _ids_of_call(block: Block) -> list[Any]:
    """Return the ids that a tool result may use for a call; [] if a block is not a call."""
    kind, extras, value = block["type"], block.get("extras"), block.get("value")
    if kind in CALLS:
        return [block.get("id")]
    if kind == "server_tool_call" and isinstance(extras, dict):
        return [extras.get("call_id")]  # the client runs it: OpenAI's computer and local shell
    if kind == "non_standard" and isinstance(value, dict):
        return [value.get("call_id"), value.get("id")]
    return []
