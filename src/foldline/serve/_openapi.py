"""The description of the server's routes (OpenAPI 3.1) at `/openapi.json`, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from foldline import __version__
from foldline.serve._json_object import JsonObject
from foldline.serve._wire_server import JsonResponse, WireCall

__all__ = ["describe", "openapi_json"]

PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
TEXT: Final = {"type": "string"}
FLAG: Final = {"type": "boolean"}
COUNT: Final = {"type": "integer", "minimum": 1}
OBJECT: Final = {"type": "object"}
OBJECTS: Final = {"type": "array", "items": OBJECT}
CONTENT: Final = {"anyOf": [TEXT, OBJECTS]}
APP: Final = {"type": "string", "x-app": True}
"""A name of an app, which is replaced by the names that the caller may use."""


def _objects(required: list[str], **properties: object) -> JsonObject:
    item = {"type": "object", "required": required, "properties": properties}
    return {"type": "array", "minItems": 1, "items": item}


def _body(required: list[str], **properties: object) -> JsonObject:
    return {"required": required, "properties": properties}


ROLES: Final = {"enum": ["system", "user", "assistant", "tool"]}
MESSAGES: Final = _objects(["role", "content"], role=ROLES, content=CONTENT)
CONFIG: Final = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": TEXT},
        "metadata": OBJECT,
        "configurable": {"type": "object", "properties": {"thread_id": TEXT}},
    },
}
SAMPLING: Final = {
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "stream": FLAG,
    "tools": OBJECTS,
}
RUN: Final = _body(
    ["input"],
    assistant_id=APP,
    input={},
    stream_mode={"enum": ["values", "updates", "messages", "messages-tuple", "custom", "events"]},
    config=CONFIG,
    multitask_strategy={"enum": ["reject", "enqueue", "interrupt", "rollback"]},
)
PARTS: Final = _objects(["type"], type={"enum": ["text", "file"]}, text=TEXT, url=TEXT)
CHAT: Final = _body(
    ["messages"],
    id=TEXT,
    messages=_objects(["role", "parts"], id=TEXT, role=ROLES, parts=PARTS),
    trigger={"enum": ["submit-message", "regenerate-message"]},
)
AGUI: Final = _body(
    ["threadId", "runId", "messages"],
    threadId=TEXT,
    runId=TEXT,
    messages=_objects(["role", "content"], id=TEXT, role=ROLES, content=CONTENT),
    tools=OBJECTS,
    resume=OBJECTS,
)
INVOKE: Final = _body(["input"], input={}, config=CONFIG)
BODIES: Final[JsonObject] = {
    "/v1/chat/completions": _body(
        ["messages"],
        model=APP,
        messages=MESSAGES,
        max_tokens=COUNT,
        n=COUNT,
        logprobs=FLAG,
        **SAMPLING,
    ),
    "/v1/completions": _body(
        ["prompt"],
        model=APP,
        prompt={"anyOf": [TEXT, {"type": "array", "items": TEXT}]},
        max_tokens=COUNT,
        n=COUNT,
        **SAMPLING,
    ),
    "/v1/responses": _body(
        ["input"], model=APP, input=CONTENT, previous_response_id=TEXT, store=FLAG, **SAMPLING
    ),
    "/v1/messages": _body(
        ["messages", "max_tokens"],
        model=APP,
        messages=MESSAGES,
        max_tokens=COUNT,
        system=CONTENT,
        **SAMPLING,
    ),
    "/v1/messages/count_tokens": _body(["messages"], model=APP, messages=MESSAGES),
    "/v1/embeddings": _body(
        ["input"],
        model=APP,
        input={
            "anyOf": [
                TEXT,
                {
                    "type": "array",
                    "items": {"anyOf": [TEXT, COUNT, {"type": "array", "items": COUNT}]},
                },
            ]
        },
    ),
    "/runs": _body(
        ["input"],
        app=APP,
        input={},
        stream=FLAG,
        wait=FLAG,
        thread_id=TEXT,
        options=OBJECT,
        config=CONFIG,
    ),
    "/runs/{run_id}/resume": _body([], answers={}, stream=FLAG, wait=FLAG),
    "/api/chat": CHAT,
    "/api/chat/{app}": CHAT,
    "/agui": AGUI,
    "/agui/{app}": AGUI,
    "/agui/stop": _body(["threadId", "runId"], threadId=TEXT, runId=TEXT),
    "/threads": _body(
        [], thread_id=TEXT, metadata=OBJECT, if_exists={"enum": ["raise", "do_nothing"]}
    ),
    "/threads/{thread_id}/state": _body(["values"], values={}, as_node=TEXT, checkpoint_id=TEXT),
    "/threads/{thread_id}/commands": _body(
        ["id", "method"],
        id={"type": "integer"},
        method={"enum": ["run.start", "input.respond", "run.cancel"]},
        params={
            "type": "object",
            "properties": {"assistant_id": APP, "input": {}, "interrupt_id": TEXT, "response": {}},
        },
    ),
    "/threads/{thread_id}/stream/events": _body(
        ["channels"],
        channels={"type": "array", "items": TEXT},
        since={"type": "integer", "minimum": 0},
    ),
    "/threads/{thread_id}/runs": RUN,
    "/threads/{thread_id}/runs/stream": RUN,
    "/threads/{thread_id}/runs/wait": RUN,
    "/runs/stream": RUN,
    "/runs/wait": RUN,
    **{f"{head}/{verb}": INVOKE for head in ("", "/{app}") for verb in ("invoke", "stream")},
    **{
        f"{head}/{verb}": _body(
            ["input"], input={}, config=CONFIG, include_types={"type": "array", "items": TEXT}
        )
        for head in ("", "/{app}")
        for verb in ("stream_log", "stream_events")
    },
    **{
        f"{head}/batch": _body(["inputs"], inputs={"type": "array"}, config=CONFIG)
        for head in ("", "/{app}")
    },
    "/mcp": _body(
        ["jsonrpc", "method"],
        jsonrpc={"const": "2.0"},
        id={"type": ["integer", "string"]},
        method={"enum": ["initialize", "ping", "tools/list", "tools/call"]},
        params=OBJECT,
    ),
}
"""Routes -> the JSON schemas of their requests. Other requests are plain JSON objects."""
APP_PARAMETERS: Final = frozenset({"app", "assistant_id", "model"})


async def openapi_json(call: WireCall) -> Response:
    """Describe the server to a caller, with the names of the apps that it may use."""
    key = call.caller.key
    names = [name for name in call.server.apps if key is None or key.allows(name)]
    return JsonResponse(describe(call.request.app.routes, names))


def describe(routes: Iterable[BaseRoute], names: list[str]) -> JsonObject:
    """Return the OpenAPI description of routes."""
    paths: JsonObject = {}
    for route in routes:
        if isinstance(route, Route):
            path = PARAMETER.sub(r"{\1}", route.path)
            for method in sorted((route.methods or set()) - {"HEAD"}):
                paths.setdefault(path, {})[method.lower()] = _operation(route, method, names)
    return {
        "openapi": "3.1.0",
        "info": {"title": "foldline serve", "version": __version__},
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(route: Route, method: str, names: list[str]) -> JsonObject:
    parameters = [
        {
            "name": part,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "enum": names} if part in APP_PARAMETERS else TEXT,
        }
        for part in PARAMETER.findall(route.path)
    ]
    label = re.sub(r"\W+", "_", route.path).strip("_")
    operation: JsonObject = {
        "operationId": f"{method.lower()}_{label}",
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer: JSON, or a stream of server-sent events."},
            "default": {"description": "An error, in the wire's own shape."},
        },
    }
    if method in ("POST", "PATCH"):
        schema = _with_names({"type": "object", **BODIES.get(route.path, {})}, names)
        operation["requestBody"] = {
            "required": True, "content": {"application/json": {"schema": schema}},
        }  # fmt: skip
    return operation


def _with_names(schema: object, names: list[str]) -> object:
    if isinstance(schema, list):
        return [_with_names(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-app"):
        return {"type": "string", "enum": names}
    return {name: _with_names(item, names) for name, item in schema.items()}
