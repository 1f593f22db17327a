"""`RemoteRunnable`: an app of another `foldline serve`, called like any runnable.

It uses the native wire: a stream whose connection breaks is resumed after its last event, with no event lost or
repeated.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from foldline._io.drive import drive
from foldline._run import Run
from foldline._sse import SSEDecoder
from foldline.exceptions import (
    FoldlineError,
    MalformedStreamError,
    ModelConnectionError,
    ModelError,
    ModelQuotaError,
    StreamClosedError,
    StreamInterruptedError,
    UsageError,
    status_error_class,
)
from foldline.load import dumpd, load
from foldline.messages import convert_to_messages
from foldline.messages._view import ChunkView
from foldline.providers._wire import MALFORMED_PAYLOAD_ERRORS
from foldline.runnables.base import Runnable
from foldline.serve._json_object import JsonObject
from foldline.tracers._trace_out import trace_headers
from foldline.transports import Request, Response, SizeLimits, Timeouts, Transport
from foldline.transports._default import default_transport
from foldline.utils._options import check_options
from foldline.utils.json import JsonError, parse_wire
from foldline.workflows._run_events import jsonable
from foldline.workflows.interrupts import Command

__all__ = ["RemoteRunnable"]

RECONNECTS: Final = 5
PAUSE: Final = 0.2
LIMITS: Final = SizeLimits()
MAX_WAIT: Final = 1e9
"""Longer waits that a server asks for are not believed."""


class RemoteRunnable(Runnable[Any, Any]):
    """Calls an app of a server.

    ```python {test="skip: needs a server"}
    from foldline.serve import RemoteRunnable

    agent = RemoteRunnable("http://127.0.0.1:8000", app="weather", key="fl_...")
    print(agent.invoke({"messages": "Oslo?"})["messages"][-1].text)
    ```
    """

    @check_options()
    def __init__(
        self,
        url: str,
        *,
        app: str | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Take the server's address, the app's name (where it serves several), and the caller's key."""
        if not url.startswith(("http://", "https://")):
            raise UsageError(
                f"url of a RemoteRunnable begins with http:// or https://: {url!r:.80}"
            )
        if transport is not None and not callable(getattr(transport, "open", None)):
            raise UsageError(
                f"transport of a RemoteRunnable is a Transport, not a {type(transport).__name__}"
            )
        self.url: str = url.rstrip("/")
        self.app = app
        self.name = app or "remote"
        self._key = key
        self._timeouts = timeouts or Timeouts()
        self._transport = transport

    def __repr__(self) -> str:
        return f"RemoteRunnable({self.url!r}, app={self.app!r})"

    # -- running

    async def _invoke_body(self, input: object, run: Run) -> object:
        body = {**self._body(input, run), "wait": True}
        path = self._path(body)
        result = await self._json(run, "POST", path, body)
        with _reading():
            return revive(result.get("output"))

    async def _stream_body(self, input: object, run: Run) -> AsyncGenerator[Any, None]:
        view = RemotePieces()
        body = {**self._body(input, run), "stream": True}
        async with aclosing(self._events(body, run)) as events:
            async for event in events:
                with _reading():
                    pieces = view.take(event)
                for piece in pieces:
                    yield piece

    def _path(self, body: JsonObject) -> str:
        run_id = body.pop("resume_run", None)
        return f"/runs/{_quote(run_id)}/resume" if run_id else "/runs"

    def _body(self, input: object, run: Run) -> JsonObject:
        body: JsonObject = {"app": self.app} if self.app is not None else {}
        thread = run.configurable.get("thread_id")
        if thread is not None:
            body["thread_id"] = str(thread)
        if isinstance(input, Command):
            run_id = run.configurable.get("run_id")
            if run_id is None:
                raise ModelError(
                    "an answer needs the run that asked: pass config={'configurable': {'run_id': …}}"
                )
            return {"resume_run": str(run_id), "answers": jsonable(input.resume)}
        body["input"] = jsonable(dumpd(input))
        if run.kwargs:
            body["options"] = jsonable(dict(run.kwargs))
        return body

    async def _events(self, body: JsonObject, run: Run) -> AsyncGenerator[JsonObject, None]:
        """Yield the events of a new run; where the connection breaks, resume after the last one."""
        run_id, last, breaks = None, 0, 0
        request = self._request("POST", self._path(body), body)
        while True:
            try:
                async with (
                    self._open(request, run) as response,
                    aclosing(self._read(response)) as events,
                ):
                    async for event in events:
                        with _reading():
                            last = int(event.get("seq", last))
                            data = event["params"]["data"]
                            if event["method"] == "run":
                                run_id = data.get("run_id", run_id)
                                if data["event"] != "started":
                                    _raise_if_failed(data)
                                    return
                        yield event
                raise StreamInterruptedError("the stream ended before the run did")
            except (ModelConnectionError, StreamInterruptedError):
                breaks += 1
                if run_id is None or breaks > RECONNECTS:
                    raise
                await run.io.sleep(PAUSE * breaks)
                request = self._request("GET", f"/runs/{_quote(run_id)}/events?after={last}", None)

    # -- HTTP

    def _request(self, method: str, path: str, body: object) -> Request:
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        data = json.dumps(body).encode() if body is not None else b""
        return Request(
            url=self.url + path, method=method, headers=headers, body=data, timeouts=self._timeouts
        )

    def _open(self, request: Request, run: Run) -> AbstractAsyncContextManager[Response]:
        transport = self._transport or default_transport()
        handlers = run.manager.handlers if run.manager is not None else ()
        if headers := trace_headers(handlers, run.id):
            request = replace(request, headers={**headers, **request.headers})
        return transport.open(request, blocking=run.io.blocking)

    async def _json(self, run: Run, method: str, path: str, body: object) -> JsonObject:
        async with self._open(self._request(method, path, body), run) as response:
            await _check(response)
            text = await response.read()
            with _reading():
                return _read_object(text)

    async def _read(self, response: Response) -> AsyncGenerator[JsonObject, None]:
        await _check(response)
        decoder = SSEDecoder(LIMITS.sse_line, LIMITS.sse_event)
        async with aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                for event in decoder.feed(chunk):
                    with _reading():
                        parsed = _read_object(event.data)
                    yield parsed
                if decoder.error is not None:
                    raise decoder.error

    # -- runs

    def stop(self, run_id: str) -> None:
        """End a run."""
        drive(self._json(Run.blocking(None), "POST", f"/runs/{_quote(run_id)}/stop", {}))

    async def astop(self, run_id: str) -> None:
        """End a run."""
        await self._json(Run.asynchronous(None), "POST", f"/runs/{_quote(run_id)}/stop", {})


class RemotePieces:
    """Turns a run's events into the chunks that the app itself would stream."""

    def __init__(self) -> None:
        self._view = ChunkView("v0")
        self._is_agent = False

    def take(self, event: Mapping[str, Any]) -> list[Any]:
        """Return the pieces of one event."""
        method, params = event["method"], event["params"]
        data = params["data"]
        if params["namespace"]:
            return []
        if method in ("lifecycle", "updates", "values"):
            self._is_agent = True
        if method == "updates":
            return [{data["node"]: revive(data["values"])}]
        if method == "input.requested":
            return [{"__interrupt__": [{"id": data["interrupt_id"], "value": data["payload"]}]}]
        if method == "chunk":
            return [revive(data)]
        if method == "messages" and not self._is_agent:
            chunk = self._view.feed(data)
            return [chunk] if chunk is not None else []
        return []


def revive(value: object) -> object:
    """Load the messages and documents in an answer, and nothing else."""
    if isinstance(value, list):
        return [revive(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("lc") == 1 and value.get("type") == "constructor":
        try:
            return load(value)
        except FoldlineError:
            return value
    if isinstance(value.get("messages"), list):
        items = [dict(item) if isinstance(item, dict) else item for item in value["messages"]]
        value = {**value, "messages": convert_to_messages(items)}
    return {name: revive(item) for name, item in value.items()}


@contextmanager
def _reading() -> Iterator[None]:
    """Raise `MalformedStreamError` for an answer that is not one of `foldline serve`."""
    try:
        yield
    except JsonError as error:
        raise _malformed(str(error)) from error
    except FoldlineError:
        raise
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise _malformed(f"its format has no place for it: {error!r:.200}") from error


def _malformed(reason: str) -> MalformedStreamError:
    return MalformedStreamError(
        f"the server sent what is no answer of a run ({reason}): is the address that of `foldline serve`?",
        provider="foldline serve",
    )


def _read_object(text: str | bytes) -> JsonObject:
    value = parse_wire(text)
    if not isinstance(value, dict):
        raise TypeError(f"a JSON object is expected, not {type(value).__name__}")
    return dict(value)


def _quote(run_id: object) -> str:
    return quote(str(run_id), safe="")


async def _check(response: Response) -> None:
    if response.status < 400:
        return
    text = (await response.read_error()).decode("utf-8", "replace")
    try:
        problem = _read_object(text)["error"]
        message, wait = str(problem["message"]), problem.get("retry_after")
    except MALFORMED_PAYLOAD_ERRORS:
        message, wait = text[:200], None
    if type(wait) not in (int, float) or not 0 <= wait < MAX_WAIT:
        wait = None
    raise status_error_class(response.status)(
        message, provider="foldline serve", status=response.status, retry_after=wait
    )


def _raise_if_failed(data: Mapping[str, Any]) -> None:
    if data["event"] in ("success", "waiting"):
        return
    problem = data.get("error") or {"message": f"the run was {data['event']}", "kind": "stopped"}
    statuses = {"rate_limit": 429, "invalid_request": 400, "budget": 402, "overloaded": 529}
    kind = statuses.get(str(problem.get("kind")), 500)
    cls = ModelQuotaError if kind == 402 else status_error_class(kind)
    if data["event"] == "stopped":
        raise StreamClosedError(str(problem["message"]), provider="foldline serve")
    raise cls(str(problem["message"]), provider="foldline serve", status=kind)
