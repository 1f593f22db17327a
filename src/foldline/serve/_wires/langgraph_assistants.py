"""LangGraph's assistants: the served apps."""

from __future__ import annotations

import time

from starlette.responses import Response

from foldline.serve._json_object import JsonObject
from foldline.serve._wire_server import JsonResponse, WireCall
from foldline.serve.apps import ServedApp
from foldline.serve.errors import ServeError

__all__ = ["info", "search_assistants", "show_assistant", "show_graph", "show_schemas"]


async def info(call: WireCall) -> Response:
    """Return the version and the features of this server."""
    return JsonResponse({"version": "foldline", "flags": {"assistants": True, "crons": False}})


def _assistant(app: ServedApp) -> JsonObject:
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    return {
        "assistant_id": app.name,
        "graph_id": app.name,
        "name": app.name,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": now,
        "updated_at": now,
        "description": None,
    }


async def search_assistants(call: WireCall) -> Response:
    """List the apps."""
    body = await call.body(may_be_empty=True)
    graph = body.maybe_text("graph_id")
    key = call.caller.key
    assistants = [
        _assistant(app)
        for app in call.server.apps.values()
        if app.kind != "embeddings"
        and (key is None or key.allows(app.name))
        and graph in (None, app.name)
    ]
    limit = body.integer("limit", 0, 1_000)
    offset = body.integer("offset", 0, 1_000_000) or 0
    return JsonResponse(assistants[offset:][: limit if limit is not None else 100])


def _find(call: WireCall) -> ServedApp:
    app = call.app(call.path("assistant_id"))
    if app.kind == "embeddings":
        raise ServeError("not_found", f"{app.name} makes embeddings: it is not an assistant")
    return app


async def show_assistant(call: WireCall) -> Response:
    """Show an app."""
    return JsonResponse(_assistant(_find(call)))


async def show_graph(call: WireCall) -> Response:
    """Return the graph of an app."""
    return JsonResponse(_find(call).target.get_graph().to_json())


async def show_schemas(call: WireCall) -> Response:
    """Return the schemas of an app's input and output."""
    app = _find(call)
    schemas: JsonObject = {"graph_id": app.name, "config_schema": None, "context_schema": None}
    for name, method in (
        ("input_schema", "get_input_schema"),
        ("output_schema", "get_output_schema"),
    ):
        try:
            schemas[name] = getattr(app.target, method)().model_json_schema()
        except Exception:  # noqa: BLE001  an app without a JSON schema has none
            schemas[name] = None
    schemas["state_schema"] = schemas["output_schema"]
    return JsonResponse(schemas)
