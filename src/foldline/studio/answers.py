"""Answers of endpoints: JSON, server-sent events, and errors as sentences. Blocking work runs in a thread."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from foldline._io import ASYNC
from foldline.exceptions import FoldlineError, StoreError, UsageError
from foldline.studio.messages import shorten_paths
from foldline.tracers._redact import Redactor

__all__ = ["Endpoint", "answer_json", "endpoint", "event", "read_body", "stream", "threaded"]

P = ParamSpec("P")
T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
MOST_BODY = 32_000_000
NO_STORE = {"cache-control": "no-store"}


def answer_json(value: object, status: int = 200) -> Response:
    """Return a value as JSON that every browser reads."""
    return JSONResponse(value, status, headers=NO_STORE)


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
        except (UsageError, ValidationError, ValueError) as error:
            return answer_json({"error": plain_error(error)}, 400)
        except FoldlineError as error:
            return answer_json({"error": plain_error(error)}, 502)

    return answer


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
    return value


def event(name: str, value: object, place: int | None = None) -> bytes:
    """Return a server-sent event; a browser that lost the connection sends the last place when it asks again."""
    number = "" if place is None else f"id: {place}\n"
    return f"event: {name}\n{number}data: {json.dumps(value, default=str)}\n\n".encode()


def stream(events: AsyncGenerator[bytes, None]) -> Response:
    """Return server-sent events as they come."""
    headers = {**NO_STORE, "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
