"""Records the answers of a server, and replays them without one.

`RecordingTransport` writes one line of JSON per call, with keys and cookies redacted; `ReplayTransport` answers from
such a file and records the requests, so that a test can check what was sent. A recorded error is replayed too.
"""

from __future__ import annotations

import base64
import difflib
import json
import re
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from foldline import exceptions
from foldline._io import ASYNC, BLOCKING
from foldline.exceptions import FoldlineError, ModelError, UsageError
from foldline.transports._body import Clock, HttpResponse, ResponseContext
from foldline.transports.base import Request, Response, Transport

__all__ = ["RecordingTransport", "ReplayTransport"]

SECRET = re.compile(
    r"key|token|secret|auth|cookie|password|signature|organization|project", re.IGNORECASE
)
SECRET_IN_QUERY = re.compile(r"([?&][^=&]*(?:key|token|secret|sig)[^=&]*=)[^&#]*", re.IGNORECASE)
REDACTED = "***"
FRAMING = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})
"""Response headers that are wrong for the decoded body."""


class RecordingTransport:
    """Forwards calls to `inner` and writes each one to `path`.

    ```python
    from foldline.transports import default_transport

    transport = RecordingTransport(default_transport(), "recordings/hello.jsonl")
    ```
    """

    def __init__(self, inner: Transport, path: str | Path) -> None:
        self.inner = inner
        self.path: Path = Path(path)

    def open(self, request: Request, *, blocking: bool) -> AbstractAsyncContextManager[Response]:
        """Send a request and record the response."""
        return _RecordingExchange(self, request, blocking=blocking)

    def close(self) -> None:
        """Drop idle connections."""
        self.inner.close()

    async def aclose(self) -> None:
        """Drop idle connections."""
        await self.inner.aclose()

    def write(self, line: dict[str, Any]) -> None:
        """Append one call to the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


class _RecordingExchange:
    def __init__(self, transport: RecordingTransport, request: Request, *, blocking: bool) -> None:
        self._transport = transport
        self._request = request
        self._inner = transport.inner.open(request, blocking=blocking)
        self._start_time = time.monotonic()
        self._response: _RecordedResponse | None = None

    async def __aenter__(self) -> Response:
        try:
            inner = await self._inner.__aenter__()
        except FoldlineError as error:
            self._write({"error": _error_to_json(error)})
            raise
        self._response = _RecordedResponse(self._request, inner, self._start_time)
        return self._response

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._inner.__aexit__(kind, error, trace)
        finally:
            if self._response is not None:
                self._write(self._response.recorded)

    def _write(self, response: dict[str, Any]) -> None:
        self._transport.write({"request": request_to_json(self._request), "response": response})


class _RecordedResponse(HttpResponse):
    __slots__ = ("_inner", "_start_time", "recorded")

    def __init__(self, request: Request, inner: Response, start_time: float) -> None:
        headers = {name: value for name, value in inner.headers.items() if name not in FRAMING}
        super().__init__(request, _NoExchange(), Clock(request.timeouts), inner.status, headers)
        self._inner = inner
        self._start_time = start_time
        self.recorded: dict[str, Any] = {
            "status": inner.status,
            "headers": _redact(headers),
            "first_byte": self._elapsed(),
            "chunks": [],
        }

    async def chunks(self, *, progress_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the body, and record it."""
        async with aclosing(self._inner.chunks(progress_only=progress_only)) as chunks:
            try:
                async for chunk in chunks:
                    self.recorded["chunks"].append([self._elapsed(), _bytes_to_json(chunk)])
                    yield chunk
            except ModelError as error:
                self.recorded["error"] = _error_to_json(error)
                raise

    read = HttpResponse.read_chunks

    def progress(self) -> None:
        """Restart the idle clock."""
        self._inner.progress()

    def conclude(self) -> None:
        """Wait only a moment longer for the end."""
        self._inner.conclude()

    def _elapsed(self) -> float:
        return round(time.monotonic() - self._start_time, 4)


class _NoExchange:
    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        raise NotImplementedError

    async def read(self, budget: float | None) -> bytes | None:
        raise NotImplementedError

    def buffered_body(self) -> bytes | None:
        """Return None: the end is not known before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Do nothing: the recorded response is closed by its own context."""


class ReplayTransport:
    """Answers from a recording: the request's method, path and JSON body select the line; each line is used once.

    `repeat` lets the last matching line answer again; `pace` waits as the server did (1.0) or in part (0.5).
    """

    def __init__(self, path: str | Path, *, repeat: bool = False, pace: float = 0.0) -> None:
        self.path: Path = Path(path)
        self.requests: list[Request] = []
        """Every request, in order."""
        self._repeat = repeat
        self._pace = pace
        self._lines = [_line(text, self.path) for text in _read(self.path)]
        self._used: set[int] = set()

    def open(self, request: Request, *, blocking: bool) -> AbstractAsyncContextManager[Response]:
        """Answer a request from the recording."""
        return ResponseContext(request, partial(self._begin, blocking=blocking))

    def close(self) -> None:
        """Do nothing: there are no connections."""

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    def _begin(self, request: Request, *, blocking: bool) -> _ReplayExchange:
        self.requests.append(request)
        return _ReplayExchange(self._find(request), blocking=blocking, pace=self._pace)

    def _find(self, request: Request) -> dict[str, Any]:
        request_text = _match_text(request_to_json(request))
        matches = [
            index
            for index, line in enumerate(self._lines)
            if _match_text(line["request"]) == request_text
        ]
        unused = [index for index in matches if index not in self._used]
        if unused:
            self._used.add(unused[0])
            return dict(self._lines[unused[0]]["response"])
        if matches and self._repeat:
            return dict(self._lines[matches[-1]]["response"])
        if matches:
            raise UsageError(
                f"{self.path}: this request was recorded {len(matches)} time(s) and is asked for once more: "
                "record it again, or pass repeat=True"
            )
        raise UsageError(
            f"{self.path}: no recording answers this request.\n{self._difference(request_text)}"
        )

    def _difference(self, request_text: str) -> str:
        recorded_texts = [_match_text(line["request"]) for line in self._lines]
        if not recorded_texts:
            return "The file holds no recordings."
        nearest = max(
            recorded_texts,
            key=lambda text: difflib.SequenceMatcher(None, text, request_text).quick_ratio(),
        )
        lines = difflib.unified_diff(
            nearest.splitlines(),
            request_text.splitlines(),
            "nearest recording",
            "this request",
            lineterm="",
            n=2,
        )
        return "\n".join(lines)


class _ReplayExchange:
    def __init__(self, recorded: dict[str, Any], *, blocking: bool, pace: float) -> None:
        self._recorded = recorded
        self._chunks = iter(recorded.get("chunks", []))
        self._io = BLOCKING if blocking else ASYNC
        self._pace = pace
        self._elapsed = 0.0

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        if "status" not in self._recorded:
            raise _error_from_json(self._recorded["error"])
        await self._wait_until(self._recorded.get("first_byte", 0.0))
        return self._recorded["status"], self._recorded["headers"].items()

    async def read(self, budget: float | None) -> bytes | None:
        for seconds, chunk in self._chunks:
            await self._wait_until(seconds)
            return _bytes_from_json(chunk)
        if "error" in self._recorded:
            raise _error_from_json(self._recorded["error"])
        return None

    def buffered_body(self) -> bytes | None:
        """Return None: the end is not known before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Do nothing: there are no connections."""

    async def _wait_until(self, seconds: float) -> None:
        if self._pace and seconds > self._elapsed:
            await self._io.sleep((seconds - self._elapsed) * self._pace)
        self._elapsed = seconds


def request_to_json(request: Request) -> dict[str, Any]:
    """Return a request as it is recorded, without the keys in headers and query."""
    return {
        "method": request.method,
        "url": SECRET_IN_QUERY.sub(rf"\1{REDACTED}", request.url),
        "headers": _redact({name.lower(): value for name, value in request.headers.items()}),
        "body": _body_to_json(request.body),
    }


def _match_text(request: Mapping[str, Any]) -> str:
    parts = urlsplit(request["url"])
    matched_parts = {"method": request["method"], "path": parts.path, "body": request["body"]}
    return json.dumps(matched_parts, indent=1, sort_keys=True, ensure_ascii=False)


def _redact(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: REDACTED if SECRET.search(name) else value for name, value in headers.items()}


def _body_to_json(body: bytes) -> object:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return _bytes_to_json(body)


def _bytes_to_json(data: bytes) -> object:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _bytes_from_json(data: str | dict[str, str]) -> bytes:
    return data.encode("utf-8") if isinstance(data, str) else base64.b64decode(data["base64"])


def _error_to_json(error: FoldlineError) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        "message": str(error),
        "phase": getattr(error, "phase", None),
    }


def _error_from_json(recorded: Mapping[str, Any]) -> FoldlineError:
    name = recorded["type"]
    kind = getattr(exceptions, name) if name in exceptions.__all__ else FoldlineError
    error: FoldlineError = kind(recorded["message"])
    if recorded.get("phase"):
        error.phase = recorded["phase"]  # type: ignore[attr-defined]
    return error


def _read(path: Path) -> list[str]:
    try:
        return [text for text in path.read_text(encoding="utf-8").splitlines() if text.strip()]
    except OSError as error:
        raise UsageError(f"{path}: the recording cannot be read: {error.strerror}") from error


def _line(text: str, path: Path) -> dict[str, Any]:
    try:
        line = json.loads(text)
        line["request"]["method"], line["response"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: this line is not a recorded call: {text[:80]!r}") from error
    return dict(line)
