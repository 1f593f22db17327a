"""MCP: `POST /mcp`, every app a tool. Stateless: each request is answered with JSON, there are no sessions."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline import __version__
from foldline.messages import HumanMessage
from foldline.serve._event_reader import ChatReader, text_of_output
from foldline.serve._json_body import Body, parse_json
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent
from foldline.serve._wire_server import ClientLeftError, JsonResponse, Server, WireCall, error_of
from foldline.serve._wires.native import decode_input
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ErrorKind, ServeError

__all__ = ["routes"]

NO_REQUEST: Final = "a request of JSON-RPC 2.0 is needed"
VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NAME: Final = re.compile(r"[^A-Za-z0-9_.\-]")
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32601, -32602, -32603
CODES: Final[dict[ErrorKind, int]] = {
    "invalid_request": INVALID_REQUEST,
    "too_large": INVALID_REQUEST,
}


class McpErrors:
    """The errors of JSON-RPC."""

    name = "mcp"
    cancels = True

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""
        code = {"not_json": PARSE_ERROR}.get(error.code or "", CODES.get(error.kind, INTERNAL))
        return _problem(None, code, error.message, error.ids)


WIRE: Final = McpErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    if not server.settings.mcp:
        return []
    return [
        Route("/mcp", server.endpoint(WIRE, answer), methods=["POST"]),
        Route("/mcp", server.endpoint(WIRE, refuse), methods=["GET", "DELETE"]),
    ]


async def refuse(call: WireCall) -> Response:
    """Refuse GET and DELETE: there are no streams and no sessions."""
    return JsonResponse(
        _problem(None, METHOD_NOT_FOUND, "POST only"), status_code=405, headers={"allow": "POST"}
    )


async def answer(call: WireCall) -> Response:
    """Answer a request, or several."""
    message = parse_json(await call.bytes())
    if isinstance(message, list):
        if not 0 < len(message) <= 64:
            raise ServeError("invalid_request", "a batch has 1 to 64 requests")
        answers = [
            answer_json
            for item in message
            if (answer_json := await _answer_one(call, item)) is not None
        ]
        return JsonResponse(answers) if answers else Response(status_code=202)
    if not _is_request(message):
        raise ServeError("invalid_request", NO_REQUEST)
    answer_json = await _answer_one(call, message)
    return Response(status_code=202) if answer_json is None else JsonResponse(answer_json)


def _is_request(message: object) -> bool:
    return isinstance(message, dict) and message.get("jsonrpc") == "2.0"


async def _answer_one(call: WireCall, message: object) -> JsonObject | None:
    if not _is_request(message):
        return _problem(None, INVALID_REQUEST, NO_REQUEST)
    assert isinstance(message, dict)
    id, method = message.get("id"), message.get("method")
    if "method" not in message or id is None:
        return None  # a notification, or a response
    handler = METHODS.get(method) if isinstance(method, str) else None
    if handler is None:
        return _problem(id, METHOD_NOT_FOUND, f"there is no method {str(method)[:80]!r}")
    try:
        params = Body(message.get("params") or {}, "params")
        return {"jsonrpc": "2.0", "id": id, "result": await handler(call, params)}
    except (
        ClientLeftError
    ):  # nobody waits for the rest of a batch, and the next tool would cost money
        raise
    except ServeError as error:
        code = INVALID_PARAMS if error.status < 500 else INTERNAL
        return _problem(id, code, error.message, error.ids)


def _problem(id: object, code: int, message: str, data: JsonObject | None = None) -> JsonObject:
    error: JsonObject = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": id, "error": {**error, "data": data} if data else error}


async def _initialize(call: WireCall, params: Body) -> JsonObject:
    version = params.maybe_text("protocolVersion", longest=32)
    return {
        "protocolVersion": version if version in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "foldline", "version": __version__},
    }


async def _ping(call: WireCall, params: Body) -> JsonObject:
    return {}


def _tool_name(app: ServedApp) -> str:
    return NAME.sub("_", app.name)[:64]


def _is_chat(app: ServedApp) -> bool:
    return app.kind in ("model", "agent")


def _tool(app: ServedApp) -> JsonObject:
    schema: object = {
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What to say to it."}},
        "required": ["message"],
    }
    if not _is_chat(app):
        input_schema = app.target.get_input_schema().model_json_schema()
        is_object = input_schema.get("type") == "object" and input_schema.get("properties")
        schema = (
            input_schema if is_object else {"type": "object", "properties": {"input": input_schema}}
        )
    what = {"model": "Ask the model", "agent": "Give a task to the agent"}.get(app.kind, "Run")
    return {"name": _tool_name(app), "description": f"{what} {app.name}.", "inputSchema": schema}


async def _list_tools(call: WireCall, params: Body) -> JsonObject:
    key = call.caller.key
    tools = [
        _tool(app)
        for app in call.server.apps.values()
        if app.kind != "embeddings" and (key is None or key.allows(app.name))
    ]
    return {"tools": tools}


async def _call_tool(call: WireCall, params: Body) -> JsonObject:
    name = params.text("name", longest=256)
    matches = [
        app
        for app in call.server.apps.values()
        if app.kind != "embeddings" and _tool_name(app) == name
    ]
    if not matches:
        raise ServeError("not_found", f"there is no tool {name[:80]!r}")
    app = call.app(matches[0].name)
    arguments = params.object("arguments") or Body({})
    if _is_chat(app):
        value = app.input_of_chat([HumanMessage(arguments.text("message"))])
    else:
        fields = arguments.value
        is_plain = "input" in fields and not _tool(app)["inputSchema"].get("title")
        value = decode_input(fields["input"] if is_plain else fields, app)
    run = await call.start(app, RunRequest(value, streams=False))
    await call.wait(app, run)
    if run.info.status != "success":
        error = error_of(run.info)
        content = [{"type": "text", "text": error.message}]
        return {"content": content, "isError": True, "_meta": error.ids}
    text = _last_text(await run.all_events(), run.output, app)
    return {"content": [{"type": "text", "text": text}], "isError": False}


def _last_text(events: list[EncodedEvent], output: object, app: ServedApp) -> str:
    if not _is_chat(app):
        return text_of_output(output)
    reader, text = ChatReader(), ""
    for item in events:
        for op in reader.read(item):
            if op.kind == "message":
                text = ""
            elif op.kind in ("text", "refusal"):
                text += op.text
    return text


METHODS: Final[dict[str, Callable[[WireCall, Body], Awaitable[JsonObject]]]] = {
    "initialize": _initialize,
    "ping": _ping,
    "tools/list": _list_tools,
    "tools/call": _call_tool,
}
