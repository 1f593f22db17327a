"""`RequestLayer`: around every request: its id, its trace, its line of the access log, and its numbers."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foldline.serve._forwarded import TrustedProxies
from foldline.serve._metrics import Metrics
from foldline.serve._request_facts import REQUEST, RequestFacts, request_id_of
from foldline.serve._sse import RAW_SEND
from foldline.utils._trace_context import TRACE, RunTrace, TraceContext

__all__ = ["RequestLayer", "templates_of"]

access_logger = logging.getLogger("foldline.access")

NO_ROUTE: Final = "(none)"
REQUEST_ID: Final = b"x-request-id"


def templates_of(routes: Sequence[BaseRoute]) -> dict[Any, str]:
    """Return the template of each endpoint: paths of requests may hold names of people."""
    return {
        route.endpoint if isinstance(route, Route) else route.app: route.path
        for route in routes
        if isinstance(route, Route | Mount)
    }


class _Answer:
    """What was sent of an answer."""

    __slots__ = ("_id", "_send", "_send_raw", "is_over", "is_stream", "size", "status")

    def __init__(self, send: Send, send_raw: Send, id: str) -> None:
        self._send = send
        self._send_raw = send_raw
        self._id = id.encode("ascii")
        self.status = 0
        self.size = 0
        self.is_over = False
        self.is_stream = False

    @property
    def transport(self) -> object:
        """The connection, where the server of HTTP shows it."""
        return getattr(getattr(self._send_raw, "__self__", None), "transport", None)

    async def send_piece(self, message: Message) -> None:
        """Pass a piece of a stream on, without the layers between."""
        self.size += len(message["body"])
        await self._send_raw(message)

    async def send(self, message: Message) -> None:
        """Pass a message on, the first with the id of the request."""
        if message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))
            await self._send(message)
            self.is_over = not message.get("more_body", False)
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (REQUEST_ID, self._id)]
            self.is_stream = (b"x-accel-buffering", b"no") in headers
            message = {**message, "headers": headers}
        await self._send(message)


class RequestLayer:
    """The outermost layer of the server."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        templates: Mapping[Any, str],
        has_access_log: bool = False,
        sends_traces: bool = True,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._templates = templates
        self._has_access_log = has_access_log
        self._sends_traces = sends_traces
        self._proxies = TrustedProxies(trusted_proxies) if trusted_proxies else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._proxies is not None:
            self._proxies.apply(scope)
        headers = Headers(scope=scope)
        facts = RequestFacts(
            request_id_of(headers.get("x-request-id")),
            trace=TraceContext.of(headers.get("traceparent"), headers.get("tracestate")),
        )
        answer = _Answer(send, scope.get(RAW_SEND, send), facts.id)
        scope[RAW_SEND] = answer.send_piece
        token = REQUEST.set(facts)
        trace_token = TRACE.set(RunTrace(facts.trace, is_sent=self._sends_traces))
        is_broken = True
        try:
            await self._app(scope, receive, answer.send)
            is_broken = False
        finally:
            self._note(scope, facts, answer, is_broken=is_broken)
            REQUEST.reset(token)
            TRACE.reset(trace_token)

    def _note(self, scope: Scope, facts: RequestFacts, answer: _Answer, *, is_broken: bool) -> None:
        seconds = time.monotonic() - facts.start
        status = answer.status or 500
        self._metrics.add("http_requests_total", facts.wire, str(status))
        self._metrics.observe("http_request_seconds", seconds, facts.wire)
        if not self._has_access_log:
            return
        ending = _ending(facts, answer, is_broken=is_broken)
        route = self._templates.get(scope.get("endpoint"), NO_ROUTE)
        client = scope.get("client")
        access = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            "bytes": answer.size,
            "client": client[0] if client else "",
            "ending": ending,
        }
        text = " ".join(f"{name}={value}" for name, value in access.items())
        access_logger.info(text, extra={"access": access})


def _ending(facts: RequestFacts, answer: _Answer, *, is_broken: bool) -> str:
    """Return how an answer ended: `left` if the client did not wait for its end."""
    if is_broken or answer.status >= 500:
        return "error"
    if not answer.is_over:
        return "left"
    is_failed = answer.is_stream and facts.run is not None and facts.run.info.status == "error"
    return "error" if is_failed else "done"
