"""Answers of endpoints: JSON, server-sent events, and errors as sentences. Blocking work runs in a thread."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from foldline._io import ASYNC
from foldline.exceptions import FoldlineError, StoreError, UsageError
from foldline.studio._messages import shorten_paths
from foldline.tracers._redact import Redactor

__all__ = [
    "Endpoint",
    "answer_json",
    "endpoint",
    "event",
    "read_body",
    "run_app_code",
    "stream",
    "threaded",
]

P = ParamSpec("P")
T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
MOST_BODY = 32_000_000
NO_STORE = {"cache-control": "no-store"}


def answer_json(value: object, status: int = 200) -> Response:
    """Return a value as JSON that every browser reads."""
    try:
        return JSONResponse(value, status, headers=NO_STORE)
    except UnicodeEncodeError:  # half a character, which UTF-8 has not: written as an escape
        text = json.dumps(value, allow_nan=False)
        return Response(text, status, headers=NO_STORE, media_type="application/json")


async def threaded(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread."""
    result: T = await ASYNC.call(function, *args, **kwargs)
    return result


def endpoint(function: Endpoint) -> Endpoint:
    """Answer errors with a sentence: 400 a bad request, 404 not found, 409 a damaged file, 502 a failed model."""

    @wraps(function)
    async def answer(request: Request) -> Response:
        try:
            return await function(request)
        except LookupError as error:
            return answer_json({"error": str(error.args[0]) if error.args else "not there"}, 404)
        except StoreError as error:
            return answer_json({"error": plain_error(error)}, 409)
        except (UsageError, ValidationError, ValueError, OverflowError) as error:
            return answer_json({"error": plain_error(error)}, 400)
        except RecursionError:
            return answer_json({"error": "the request is nested too deep"}, 400)
        except FoldlineError as error:
            return answer_json({"error": plain_error(error)}, 502)

    return answer


async def run_app_code(code: Awaitable[T]) -> T:
    """Wait for code of the program that is looked at; what it raises is answered as its error, not as the studio's."""
    try:
        return await code
    except FoldlineError:
        raise
    except Exception as error:
        raise FoldlineError(f"{type(error).__name__}: {error}") from error


def plain_error(error: BaseException) -> str:
    """Return the text of an error, without secrets and without the folders of this machine."""
    text = shorten_paths(Redactor().text(str(error) or type(error).__name__))
    return FOLDERS.sub(lambda match: match[1], text)


FOLDERS = re.compile(r"(?<![\w:/])/(?:[^\s/:'\"]+/)+([^\s/:'\"]+)")
"""A path from the root on -> its last part."""


async def read_body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY:
            raise UsageError(f"more than {MOST_BODY:,} bytes were sent")
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("the request must be a JSON object")
    _check(value)
    return value


TEXT = "a text"
OBJECT = "an object"
OBJECTS = "a list of objects"
TEXTS = "a list of texts"
NUMBER = "a finite number"
FIELDS = {
    "answer": TEXT, "args": OBJECT, "checkpoint_id": TEXT, "comment": TEXT, "expected": TEXT, "forked_from": TEXT,
    "form": TEXT, "id": TEXT, "message": TEXT, "messages": OBJECTS, "model": TEXT, "name": TEXT, "parameters": OBJECT,
    "run_id": TEXT, "schema": OBJECT, "tools": TEXTS, "value": NUMBER,
}  # fmt: skip
"""What the fields of requests are; the same name is the same thing everywhere. `resume` is any JSON value."""
MESSAGE_FIELDS = {
    "name": TEXT, "role": TEXT, "text": TEXT, "tool_call_id": TEXT, "tool_calls": OBJECTS,
}  # fmt: skip
CHECKS: dict[str, Callable[[Any], bool]] = {
    TEXT: lambda value: isinstance(value, str),
    OBJECT: lambda value: isinstance(value, dict),
    OBJECTS: lambda value: (
        isinstance(value, list) and all(isinstance(item, dict) for item in value)
    ),
    TEXTS: lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    NUMBER: lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    ),
}


def _check(body: dict[str, Any]) -> None:
    """Raise for a field of another type than the page sends."""
    _check_fields(body, FIELDS, "")
    for place, message in enumerate(body.get("messages") or []):
        _check_fields(message, MESSAGE_FIELDS, f"messages[{place}].")
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            raise UsageError(f"messages[{place}].content must be a text or a list of blocks")


def _check_fields(fields: dict[str, Any], kinds: dict[str, str], where: str) -> None:
    for name, kind in kinds.items():
        value = fields.get(name)
        if value is not None and not CHECKS[kind](value):
            raise UsageError(f"{where}{name} must be {kind}")


def event(name: str, value: object, place: int | None = None) -> bytes:
    """Return a server-sent event; a browser that lost the connection sends the last place when it asks again."""
    number = "" if place is None else f"id: {place}\n"
    return f"event: {name}\n{number}data: {json.dumps(value, default=str)}\n\n".encode()


def stream(events: AsyncGenerator[bytes, None]) -> Response:
    """Return server-sent events as they come."""
    headers = {**NO_STORE, "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
