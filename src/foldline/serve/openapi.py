"""The description of the server's routes (OpenAPI 3.1) at `/openapi.json`, made from the routes themselves."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from foldline import __version__
from foldline.serve.server import Call, JsonResponse

__all__ = ["describe", "openapi_json"]

Json = Any
PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
MESSAGES: Final = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "object", "required": ["role"], "properties": {"role": {"type": "string"}}},
}
BODIES: Final[dict[str, Json]] = {
    "/v1/chat/completions": {
        "required": ["messages"],
        "properties": {
            "model": {"type": "string"},
            "messages": MESSAGES,
            "stream": {"type": "boolean"},
            "temperature": {"type": "number"},
            "max_tokens": {"type": "integer"},
            "tools": {"type": "array", "items": {"type": "object"}},
        },
    },
    "/v1/responses": {
        "required": ["input"],
        "properties": {
            "model": {"type": "string"},
            "input": {"type": ["string", "array"]},
            "stream": {"type": "boolean"},
            "previous_response_id": {"type": "string"},
        },
    },
    "/v1/messages": {
        "required": ["messages", "max_tokens"],
        "properties": {
            "model": {"type": "string"},
            "messages": MESSAGES,
            "max_tokens": {"type": "integer"},
            "stream": {"type": "boolean"},
        },
    },
    "/v1/embeddings": {
        "required": ["input"],
        "properties": {"model": {"type": "string"}, "input": {"type": ["string", "array"]}},
    },
    "/runs": {
        "required": ["input"],
        "properties": {
            "app": {"type": "string"},
            "input": {},
            "stream": {"type": "boolean"},
            "wait": {"type": "boolean"},
            "thread_id": {"type": "string"},
        },
    },
}
"""What the most used requests look like; the others are JSON objects."""


async def openapi_json(call: Call) -> Response:
    """Describe the server."""
    return JsonResponse(describe(call.request.app.routes))


def describe(routes: Any) -> Json:
    """Return the description of routes."""
    paths: dict[str, Json] = {}
    for route in routes:
        if isinstance(route, Route):
            path = PARAMETER.sub(r"{\1}", route.path)
            for method in sorted((route.methods or set()) - {"HEAD"}):
                paths.setdefault(path, {})[method.lower()] = _operation(route, method)
    return {
        "openapi": "3.1.0",
        "info": {"title": "foldline serve", "version": __version__},
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(route: Route, method: str) -> Json:
    names = PARAMETER.findall(route.path)
    name = re.sub(r"\W+", "_", route.path).strip("_")
    made: dict[str, Json] = {
        "operationId": f"{method.lower()}_{name}",
        "parameters": [
            {"name": part, "in": "path", "required": True, "schema": {"type": "string"}}
            for part in names
        ],
        "responses": {
            "200": {"description": "The answer: JSON, or a stream of server-sent events."},
            "default": {"description": "An error, in the wire's own shape."},
        },
    }
    if method in ("POST", "PATCH"):
        schema = {"type": "object", **BODIES.get(route.path, {})}
        made["requestBody"] = {
            "required": True, "content": {"application/json": {"schema": schema}},
        }  # fmt: skip
    return made
