"""Record what a server said, and say it again without one.

`RecordingTransport` writes one line of JSON per call, with keys and cookies struck out; `ReplayTransport` answers from
such a file and keeps the requests it got, so that a test can look at what was sent. A recorded fault is replayed too.
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
HIDDEN = "***"
FRAMING = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})
"""Response headers that no longer hold for the decoded body."""


class RecordingTransport:
    """Passes calls on to `inner` and writes each one to `path`.

    ```python
    from foldline.transports import default_transport

    transport = RecordingTransport(default_transport(), "recordings/hello.jsonl")
    ```
    """

    def __init__(self, inner: Transport, path: str | Path) -> None:
        self.inner = inner
        self.path: Path = Path(path)

    def open(self, request: Request, *, blocking: bool) -> AbstractAsyncContextManager[Response]:
        """Send a request and record what comes of it."""
        return _RecordedOpening(self, request, blocking=blocking)

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


class _RecordedOpening:
    def __init__(self, transport: RecordingTransport, request: Request, *, blocking: bool) -> None:
        self._transport = transport
        self._request = request
        self._inner = transport.inner.open(request, blocking=blocking)
        self._began = time.monotonic()
        self._response: _RecordedResponse | None = None

    async def __aenter__(self) -> Response:
        try:
            inner = await self._inner.__aenter__()
        except FoldlineError as error:
            self._write({"error": _error_to_json(error)})
            raise
        self._response = _RecordedResponse(self._request, inner, self._began)
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
    __slots__ = ("_began", "_inner", "recorded")

    def __init__(self, request: Request, inner: Response, began: float) -> None:
        headers = {name: value for name, value in inner.headers.items() if name not in FRAMING}
        super().__init__(request, _NoExchange(), Clock(request.timeouts), inner.status, headers)
        self._inner = inner
        self._began = began
        self.recorded: dict[str, Any] = {
            "status": inner.status,
            "headers": _struck_out(headers),
            "first_byte": self._since(),
            "chunks": [],
        }

    async def chunks(self, *, progress_only: bool = False) -> AsyncGenerator[bytes, None]:
        """Pass the body on, and remember it."""
        async with aclosing(self._inner.chunks(progress_only=progress_only)) as chunks:
            try:
                async for chunk in chunks:
                    self.recorded["chunks"].append([self._since(), _bytes_to_json(chunk)])
                    yield chunk
            except ModelError as error:
                self.recorded["error"] = _error_to_json(error)
                raise

    read = HttpResponse.read_chunks

    def progress(self) -> None:
        """Restart the idle clock."""
        self._inner.progress()

    def conclude(self) -> None:
        """Wait no longer than a moment for the end."""
        self._inner.conclude()

    def _since(self) -> float:
        return round(time.monotonic() - self._began, 4)


class _NoExchange:
    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        raise NotImplementedError

    async def read(self, budget: float | None) -> bytes | None:
        raise NotImplementedError

    def buffered_body(self) -> bytes | None:
        """Nothing is known of the end before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Nothing to free: the recorded response belongs to its own context."""


class ReplayTransport:
    """Answers from a recording: the request's method, path and JSON body choose the line; each line answers once.

    `repeat` lets the last matching line answer again; `pace` waits as the server did (1.0) or in part (0.5).
    """

    def __init__(self, path: str | Path, *, repeat: bool = False, pace: float = 0.0) -> None:
        self.path: Path = Path(path)
        self.requests: list[Request] = []
        """Every request that was asked, in order."""
        self._repeat = repeat
        self._pace = pace
        self._lines = [_line(text, self.path) for text in _read(self.path)]
        self._used: set[int] = set()

    def open(self, request: Request, *, blocking: bool) -> AbstractAsyncContextManager[Response]:
        """Answer a request from the recording."""
        return ResponseContext(request, partial(self._begin, blocking=blocking))

    def close(self) -> None:
        """Nothing to drop."""

    async def aclose(self) -> None:
        """Nothing to drop."""

    def _begin(self, request: Request, *, blocking: bool) -> _ReplayExchange:
        self.requests.append(request)
        return _ReplayExchange(self._find(request), blocking=blocking, pace=self._pace)

    def _find(self, request: Request) -> dict[str, Any]:
        wanted = _matched_on(request_to_json(request))
        same = [at for at, line in enumerate(self._lines) if _matched_on(line["request"]) == wanted]
        fresh = [at for at in same if at not in self._used]
        if fresh:
            self._used.add(fresh[0])
            return dict(self._lines[fresh[0]]["response"])
        if same and self._repeat:
            return dict(self._lines[same[-1]]["response"])
        if same:
            raise UsageError(
                f"{self.path}: this request was recorded {len(same)} time(s) and is asked for once more: "
                "record it again, or pass repeat=True"
            )
        raise UsageError(
            f"{self.path}: no recording answers this request.\n{self._difference(wanted)}"
        )

    def _difference(self, wanted: str) -> str:
        known = [_matched_on(line["request"]) for line in self._lines]
        if not known:
            return "The file holds no recordings."
        nearest = max(
            known, key=lambda one: difflib.SequenceMatcher(None, one, wanted).quick_ratio()
        )
        lines = difflib.unified_diff(
            nearest.splitlines(),
            wanted.splitlines(),
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
        self._now = 0.0

    async def start(self, budget: float | None) -> tuple[int, Iterable[tuple[str, str]]]:
        if "status" not in self._recorded:
            raise _error_from_json(self._recorded["error"])
        await self._wait_until(self._recorded.get("first_byte", 0.0))
        return self._recorded["status"], self._recorded["headers"].items()

    async def read(self, budget: float | None) -> bytes | None:
        for at, chunk in self._chunks:
            await self._wait_until(at)
            return _bytes_from_json(chunk)
        if "error" in self._recorded:
            raise _error_from_json(self._recorded["error"])
        return None

    def buffered_body(self) -> bytes | None:
        """Nothing is known of the end before it is read."""
        return None

    async def close(self, *, finished: bool) -> None:
        """Nothing to free."""

    async def _wait_until(self, at: float) -> None:
        if self._pace and at > self._now:
            await self._io.sleep((at - self._now) * self._pace)
        self._now = at


def request_to_json(request: Request) -> dict[str, Any]:
    """Return a request as it is recorded: no key of header or query is kept."""
    return {
        "method": request.method,
        "url": SECRET_IN_QUERY.sub(rf"\1{HIDDEN}", request.url),
        "headers": _struck_out({name.lower(): value for name, value in request.headers.items()}),
        "body": _body_to_json(request.body),
    }


def _matched_on(request: Mapping[str, Any]) -> str:
    parts = urlsplit(request["url"])
    chosen = {"method": request["method"], "path": parts.path, "body": request["body"]}
    return json.dumps(chosen, indent=1, sort_keys=True, ensure_ascii=False)


def _struck_out(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if SECRET.search(name) else value for name, value in headers.items()}


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
        raise UsageError(f"{path}: no recording can be read: {error.strerror}") from error


def _line(text: str, path: Path) -> dict[str, Any]:
    try:
        line = json.loads(text)
        line["request"]["method"], line["response"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: this line is not a recorded call: {text[:80]!r}") from error
    return dict(line)
