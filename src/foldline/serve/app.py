"""`create_app`: an ASGI app with every wire, to be served or mounted."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from foldline._items.base import BaseStore
from foldline.callbacks.base import BaseCallbackHandler
from foldline.exceptions import UsageError
from foldline.serve._auto_resume import AutoResume
from foldline.serve._keys import KeyStore
from foldline.serve._log.run_log import ServerLog
from foldline.serve._metrics import Metrics
from foldline.serve._metrics_beat import MetricsBeat
from foldline.serve._openapi import openapi_json
from foldline.serve._request_facts import SERVER
from foldline.serve._request_layer import RequestLayer, templates_of
from foldline.serve._run_host import RunHost
from foldline.serve._sse import RAW_SEND
from foldline.serve._studio_mount import studio_routes
from foldline.serve._systemd import notify_ready
from foldline.serve._wire_server import JsonResponse, Server, WireCall
from foldline.serve._wires import (
    agui,
    anthropic_messages,
    chat_completions,
    langgraph,
    langserve,
    mcp,
    native,
    openai_models,
    responses,
    text_completions,
    thread_protocol,
    vercel,
)
from foldline.serve.apps import Servable, ServedApp, as_apps
from foldline.serve.errors import ServeError
from foldline.serve.settings import ServeSettings
from foldline.tracers._open import open_tracer
from foldline.utils._options import check_names
from foldline.utils._short_repr import short_repr

__all__ = ["ServeApp", "create_app"]

WIRES = (
    chat_completions, text_completions, openai_models, responses, anthropic_messages, langgraph, thread_protocol,
    native, vercel, agui, mcp, langserve,
)  # fmt: skip
"""In the order in which their routes are matched: the first that fits answers."""


HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[^\s\[\]/?#@\\]*)(?::[0-9]*)?")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class PlainWire(native.NativeErrors):
    """The endpoints of the server itself."""

    name = SERVER


class ServeApp(Starlette):
    """The ASGI app; `app.server` has the apps, runs and keys behind it."""

    __repr__ = short_repr

    server: Server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; one for a host that is no name gets an error, and no address is made from it."""
        if scope["type"] == "http" and not all(
            HOST.fullmatch(value) for name, value in scope["headers"] if name == b"host"
        ):
            error = ServeError("invalid_request", "the header Host is no name of a host")
            await self.server.error_response(native.WIRE, error)(scope, receive, send)
            return
        scope[RAW_SEND] = send
        try:
            await super().__call__(scope, receive, send)
        finally:
            del scope[
                RAW_SEND
            ]  # the server knows the scope: a circle, and garbage is collected rarely


def _read_settings(settings: ServeSettings | None, options: dict[str, Any]) -> ServeSettings:
    """Return the settings of the caller, or those of the options; both would leave one of them without effect."""
    if not isinstance(settings, ServeSettings | None):
        raise UsageError(f"settings is a ServeSettings, not {settings!r:.80}")
    if settings is not None and options:
        raise UsageError(
            f"create_app takes settings=ServeSettings(…) or options ({', '.join(options)}), not both: set them in "
            "the settings"
        )
    check_names("create_app", options, [field.name for field in fields(ServeSettings)])
    return settings or ServeSettings(**options)


def _check_arguments(callbacks: Sequence[object], store: object, metrics_folder: object) -> None:
    for handler in callbacks:
        if not isinstance(handler, BaseCallbackHandler):
            raise UsageError(f"callbacks is a list of callback handlers, not of {handler!r:.80}")
    if not isinstance(metrics_folder, str | None):
        raise UsageError(f"metrics_folder is a folder, not {metrics_folder!r:.80}")
    if not isinstance(store, BaseStore | None):
        raise UsageError(f"store is a store such as InMemoryStore(), not {store!r:.80}")


def create_app(
    apps: Servable | Mapping[str, Servable],
    *,
    settings: ServeSettings | None = None,
    callbacks: Sequence[BaseCallbackHandler] = (),
    store: BaseStore | None = None,
    metrics_folder: str | None = None,
    **options: Any,
) -> ServeApp:
    """Return an ASGI app that serves a runnable, an agent or a model, or several by name.

    Options are those of `ServeSettings`: `create_app({"weather": agent}, log="runs.db")`. Served alone or mounted into
    another app. Where that app does not run the lifespan of mounted apps, the first request opens the run log. Clients
    of LangGraph read and write `store`, by default the one that the apps have. With `metrics_folder`, a folder that the
    workers of one server share, `/metrics` is the sum over them.
    """
    settings = _read_settings(settings, options)
    _check_arguments(callbacks, store, metrics_folder)
    served: dict[str, ServedApp] = as_apps(apps)
    log = ServerLog(settings.log)
    handlers = list(callbacks)
    tracer = open_tracer(settings.traces) if settings.traces is not None else None
    if tracer is not None:
        handlers.append(tracer)
    metrics = Metrics(has_keys=settings.metrics_keys)
    host = RunHost(log, settings, metrics, handlers)
    server = Server(served, settings, host, KeyStore(log.database), store or _shared_store(served))
    routes: list[BaseRoute] = [
        Route("/healthz", _healthz),
        Route("/readyz", _Ready(server).answer),
        Route("/startupz", _startupz),
        Route("/openapi.json", server.endpoint(native.WIRE, openapi_json)),
    ]
    beat = MetricsBeat(server, metrics_folder)
    if settings.metrics:
        routes.append(Route("/metrics", _MetricsPage(server, beat).answer))
    for wire in WIRES:
        routes += wire.routes(server)

    if settings.studio:
        routes += studio_routes(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            await host.open()
            stack.push_async_callback(host.close)
            if tracer is not None:
                stack.callback(tracer.close)
            if settings.auto_resume:
                stack.push_async_callback(AutoResume(server).start().stop)
            if settings.metrics:
                beat.start()
                stack.push_async_callback(beat.close)
            notify_ready()
            yield

    middleware = _middleware(settings, metrics, routes)
    app = ServeApp(routes=routes, lifespan=lifespan, middleware=middleware)
    app.server = server
    return app


def _middleware(
    settings: ServeSettings, metrics: Metrics, routes: Sequence[BaseRoute]
) -> list[Middleware]:
    middleware = [
        Middleware(
            RequestLayer,
            metrics=metrics,
            templates=templates_of(routes),
            has_access_log=bool(settings.access_log),
            sends_traces=settings.trace_out,
            trusted_proxies=settings.trusted_proxies,
        )
    ]
    if settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.cors_origins),
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=["x-vercel-ai-ui-message-stream", "retry-after", "x-request-id"],
            )
        )
    return middleware


def _shared_store(apps: Mapping[str, ServedApp]) -> BaseStore | None:
    """Return the store of the apps, if it is one."""
    stores = {id(store): store for app in apps.values() if (store := app.store) is not None}
    return next(iter(stores.values())) if len(stores) == 1 else None


async def _healthz(_: Request) -> Response:
    return JsonResponse({"status": "ok"})


async def _startupz(_: Request) -> Response:
    return JsonResponse({"status": "started"})  # the apps are loaded before the first request


class _Ready:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def answer(self, _: Request) -> Response:
        host = self._server.host
        if host.is_draining:
            return JsonResponse({"status": "draining"}, status_code=503)
        try:
            await host.call(host.log.database.rows, "SELECT 1")
        except Exception:  # noqa: BLE001  with any error of the log, the server is not ready
            return JsonResponse({"status": "the run log does not answer"}, status_code=503)
        return JsonResponse({"status": "ready"})


class _MetricsPage:
    """The page for Prometheus; it needs a key where there are keys, unless the settings let this machine in."""

    def __init__(self, server: Server, beat: MetricsBeat) -> None:
        self._server = server
        self._beat = beat
        self._with_key = server.endpoint(PlainWire(), self._page)

    async def answer(self, request: Request) -> Response:
        if self._server.settings.metrics_key == "none":
            try:
                self._server.check_local(request)
            except ServeError:
                pass  # of another machine: it needs a key
            else:
                return PlainTextResponse(await self._beat.page(), media_type=METRICS_TYPE)
        return await self._with_key(request)

    async def _page(self, _: WireCall) -> Response:
        return PlainTextResponse(await self._beat.page(), media_type=METRICS_TYPE)
