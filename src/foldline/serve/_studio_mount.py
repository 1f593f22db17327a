"""The studio at `/studio` of a server: for this machine where there are no keys, else for keys with `--studio`."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from starlette.requests import Request
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from foldline.serve._wire_server import Server
from foldline.serve._wires.native import WIRE
from foldline.serve.errors import ServeError

__all__ = ["studio_routes"]

logger = logging.getLogger("foldline.serve")
PROMPT: Final = 'Basic realm="foldline studio: any name, the key as the password", charset="UTF-8"'


def studio_routes(server: Server) -> list[BaseRoute]:
    """Mount the studio where it is installed and runs are traced."""
    traces = server.settings.traces
    if traces is None or find_spec("foldline.studio") is None:
        return []
    try:
        agents = {name: app.target for name, app in server.apps.items() if app.has_threads}
        # The studio's own check of host names would refuse the server's name; `StudioGuard` checks instead.
        studio = import_module("foldline.studio").create_app(
            traces=traces, apps=agents, hosts=("*",), run_logs=(server.settings.log,)
        )
    except Exception:
        # The server works without it.
        logger.warning("the studio is not shown", exc_info=True)
        return []
    return [Mount("/studio", StudioGuard(server, studio))]


class StudioGuard:
    """Lets in callers that may see the runs of all keys. Changes need the studio's own header too."""

    def __init__(self, server: Server, app: ASGIApp) -> None:
        self._server = server
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "http":
            try:
                await self._check(Request(scope, receive))
            except ServeError as error:
                response = self._server.error_response(WIRE, error)
                if error.kind == "authentication":
                    response.headers["www-authenticate"] = PROMPT
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _check(self, request: Request) -> None:
        caller = await self._server.caller(request)
        if caller.key is None:
            self._server.check_local(request)
        elif not caller.key.studio:
            raise ServeError(
                "permission",
                "this key does not open the studio, which shows the runs of all keys: "
                "`foldline serve keys add NAME --studio` makes one that does",
            )
