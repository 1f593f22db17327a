"""`create_app`: the studio as an ASGI app, its page and its JSON API behind one guard."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from foldline.exceptions import MissingExtraError

try:
    from starlette.applications import Starlette
except ImportError as error:
    raise MissingExtraError('the studio needs Starlette: pip install "foldline[studio]"') from error

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from foldline import __version__
from foldline.exceptions import StoreError
from foldline.studio._answers import answer_json, endpoint, plain_error, threaded
from foldline.studio._datasets import DatasetRoutes
from foldline.studio._guard import Guard
from foldline.studio._playground import Playground
from foldline.studio._threads import ThreadRoutes
from foldline.studio._traces import TraceRoutes
from foldline.studio.settings import StudioSettings
from foldline.tracers.store import TraceStore
from foldline.utils._data_places import is_url

__all__ = ["create_app"]

PAGE = Path(__file__).parent / "page"
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}
FOREVER = {"cache-control": "public, max-age=31536000, immutable"}
"""Headers of built files, whose names change with their content."""


def create_app(settings: StudioSettings | None = None, **options: Any) -> Starlette:
    """Return the studio as an ASGI app; options are those of `StudioSettings`.

    Served alone, or mounted: `Mount("/studio", create_app(authorize=...))`.
    """
    settings = settings or StudioSettings(**options)
    playground, store = Playground(settings), TraceStore(settings.traces)
    routes: list[BaseRoute] = [
        Route("/", _page),
        Route("/assets/{name}", _asset),
        Route("/api/info", endpoint(_Info(settings, store).answer)),
        *TraceRoutes(settings, store).routes(),
        *playground.routes(),
        *ThreadRoutes(settings, store, playground).routes(),
        *DatasetRoutes(settings, store, playground).routes(),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        yield
        playground.close()
        store.close()

    return Starlette(
        routes=routes, lifespan=lifespan, middleware=[Middleware(Guard, settings=settings)]
    )


async def _page(request: Request) -> Response:
    headers = {"cache-control": "no-cache"}
    return FileResponse(PAGE / "index.html", media_type="text/html", headers=headers)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    file = PAGE / "assets" / name
    if file.suffix not in TYPES or not file.is_file() or file.parent != PAGE / "assets":
        return answer_json({"error": "there is no such file"}, 404)
    return FileResponse(file, media_type=TYPES[file.suffix], headers=FOREVER)


class _Info:
    """Answers the page's first request: the version, the file, and what is wrong with it."""

    def __init__(self, settings: StudioSettings, store: TraceStore) -> None:
        self._settings = settings
        self._store = store

    async def answer(self, request: Request) -> Response:
        """Return the facts about this studio."""
        is_there, problem, lost = await threaded(self._look)
        return answer_json(
            {
                "version": __version__,
                "file": self._name(),
                "is_there": is_there,
                "problem": problem,
                "lost": lost,
                "apps": sorted(self._settings.apps),
                "tools": sorted(self._settings.tools),
            }
        )

    def _name(self) -> str:
        """Return the last part of a path or a URL: the page need not know the machine."""
        name = self._store.name.rpartition("/")[2]
        return f"PostgreSQL: {name}" if is_url(self._settings.traces) else name

    def _look(self) -> tuple[bool, str | None, dict[str, Any] | None]:
        """Return whether there are traces, what is wrong with them, and how many runs could not be written."""
        lost = None
        try:
            is_there = self._store.exists()
            if is_there:
                self._store.find(limit=1)
                losses = self._store.losses()
                if losses:
                    runs = sum(loss["runs"] for loss in losses)
                    lost = {"runs": runs, "last": losses[0]["end_time"]}
        except (StoreError, json.JSONDecodeError) as error:
            return True, plain_error(error), None
        return is_there, None, lost
