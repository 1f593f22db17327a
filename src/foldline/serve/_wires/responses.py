"""OpenAI's Responses: `POST /v1/responses`. Responses are stored and chained by `previous_response_id`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.messages import BaseMessage, SystemMessage
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import Events
from foldline.serve._log.records import RunRecord
from foldline.serve._sse import PING, SseResponse, event
from foldline.serve._wire_server import JsonResponse, Server, WireCall
from foldline.serve._wires.answer_view import chat_request, read_chat
from foldline.serve._wires.options import usable_options
from foldline.serve._wires.responses_request import decode_items, decode_options
from foldline.serve._wires.responses_view import WIRE, ResponseView
from foldline.serve.apps import ServedApp
from foldline.serve.errors import ServeError

__all__ = ["routes"]

PREFIX: Final = "resp_"
LONGEST_CHAIN: Final = 1_000
ITEM_ID: Final = re.compile(r"(?:msg|fc|ctc|rs|ig)_([0-9a-f-]{36})_\d{1,9}")
SHOWN: Final = (
    "temperature", "top_p", "max_output_tokens", "instructions", "metadata", "tools", "tool_choice",
    "parallel_tool_calls", "text", "reasoning", "store",
)  # fmt: skip


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    return [
        Route("/v1/responses", server.endpoint(WIRE, create), methods=["POST"]),
        Route("/v1/responses/{id}", server.endpoint(WIRE, show), methods=["GET"]),
        Route("/v1/responses/{id}", server.endpoint(WIRE, delete), methods=["DELETE"]),
        Route("/v1/responses/{id}/cancel", server.endpoint(WIRE, cancel), methods=["POST"]),
        Route("/v1/responses/{id}/input_items", server.endpoint(WIRE, inputs), methods=["GET"]),
    ]


async def create(call: WireCall) -> Response:
    """Answer a request."""
    body, app = await read_chat(call)
    await _resolve_references(call, body)
    messages = decode_items(body, call.server.settings, app)
    options = usable_options(app, decode_options(body, call.server.settings, app))
    streams, stores = body.flag("stream"), body.flag("store", default=True)
    previous = body.name("previous_response_id")
    history = await _history(call, previous, app) if previous is not None else []
    instructions = body.maybe_text("instructions")
    system = [SystemMessage(instructions)] if instructions else []
    conversation = [*system, *history, *messages]
    if not messages and not history:
        raise body.refuse("input", "is needed")
    echo = {name: body.get(name) for name in SHOWN if body.get(name) is not None}
    record = {"input": body.get("input"), "previous": previous, "shown": echo}
    request = chat_request(app, conversation, options, streams=streams)
    run = await call.start(app, request, logged_request=record)
    run.forgets = not stores
    view = ResponseView(run.info, app)
    if not streams:
        await call.wait(app, run)
        view.consume(await run.all_events())
        problem = view.problem(run.info)
        if problem is not None:
            raise problem
        return JsonResponse(view.response(view.status(run.info)))
    events = await call.open_stream(run, app)
    return SseResponse(_stream(call, view, run.info, events), on_leave=call.on_leave(app, run))


async def _resolve_references(call: WireCall, body: Body) -> None:
    """Replace references to items by the items."""
    items = body.get("input")
    if not isinstance(items, list) or len(items) > call.server.settings.max_messages:
        return
    outputs: dict[str, JsonObject] = {}
    for place, item in enumerate(items):
        if not isinstance(item, dict) or item.get("type") != "item_reference":
            continue
        id = str(item.get("id"))
        match = ITEM_ID.fullmatch(id)
        if match is not None and match[1] not in outputs:
            view = await _view(call, await _find(call, f"{PREFIX}{match[1]}"))
            outputs[match[1]] = {item["id"]: item for item in view.output}
        output = outputs[match[1]].get(id) if match is not None else None
        if output is None:
            raise ServeError("not_found", f"there is no item {id[:80]!r}")
        items[place] = output


async def _stream(
    call: WireCall,
    view: ResponseView,
    info: RunRecord,
    events: AsyncGenerator[Events, None],
    after: int = -1,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a response after a number."""
    async for batch in events:
        if not batch:
            yield PING
            continue
        pieces = b"".join(
            event(piece, piece["type"])
            for _, item in batch
            for piece in view.pieces(item)
            if piece["sequence_number"] > after
        )
        if pieces:
            yield pieces
    if not info.is_over:
        info = await call.server.host.find(call.caller, info.id)
    yield b"".join(event(piece, piece["type"]) for piece in view.tail(info))


async def _find(call: WireCall, id: str) -> RunRecord:
    if not id.startswith(PREFIX):
        raise ServeError("not_found", f"there is no response {id[:80]!r}")
    try:
        info = await call.server.host.find(call.caller, id.removeprefix(PREFIX))
    except ServeError:
        info = None
    if info is None or info.wire != WIRE.name:
        raise ServeError("not_found", f"there is no response {id[:80]!r}")
    return info


async def _view(call: WireCall, info: RunRecord) -> ResponseView:
    view = ResponseView(info, call.app(info.app))
    host = call.server.host
    after = 0
    while batch := await host.call(host.log.events, info.id, after):
        after = batch[-1][0]
        view.consume(item for _, item in batch)
    return view


async def _history(call: WireCall, previous: str, app: ServedApp) -> list[BaseMessage]:
    """Return the inputs and outputs of the previous responses."""
    turns: list[list[BaseMessage]] = []
    id: str | None = previous
    while id is not None:
        if len(turns) >= LONGEST_CHAIN:
            raise ServeError("invalid_request", "the chain of responses is too long")
        info = await _find(call, id)
        if not info.is_over:
            raise ServeError("conflict", f"{id} is under way")
        view = await _view(call, info)
        items: list[JsonObject] = [
            item for item in view.output if item["type"] != "image_generation_call"
        ]
        before = info.request or {}
        settings = call.server.settings
        question = decode_items(Body({"input": before.get("input")}), settings, app)
        answer = decode_items(Body({"input": items}), settings, app)
        turns.append([*question, *answer])
        id = before.get("previous")
    return [message for turn in reversed(turns) for message in turn]


async def show(call: WireCall) -> Response:
    """Show a stored response; with `stream=true`, its events after `starting_after`."""
    info = await _find(call, call.path("id"))
    query = call.request.query_params
    if query.get("stream") == "true":
        text = query.get("starting_after", "-1")
        if re.fullmatch(r"-?[0-9]{1,12}", text) is None:
            raise ServeError("invalid_request", "starting_after must be a number")
        view = ResponseView(info, call.app(info.app))
        host = call.server.host
        return SseResponse(_stream(call, view, info, host.follow(info.id), int(text)))
    view = await _view(call, info)
    return JsonResponse(view.response(view.status(info), _problem(view, info)))


def _problem(view: ResponseView, info: RunRecord) -> ServeError | None:
    return view.problem(info) if info.is_over else None


async def delete(call: WireCall) -> Response:
    """Delete a response."""
    info = await _find(call, call.path("id"))
    if not info.is_over:
        raise ServeError("conflict", "the response is under way: cancel it first")
    host = call.server.host
    await host.call(host.log.delete_run, info.id)
    return JsonResponse({"id": f"{PREFIX}{info.id}", "object": "response", "deleted": True})


async def cancel(call: WireCall) -> Response:
    """End a response that is under way."""
    info = await _find(call, call.path("id"))
    await call.server.host.stop(info)
    view = await _view(call, info)
    return JsonResponse(view.response("cancelled" if not info.is_over else view.status(info)))


async def inputs(call: WireCall) -> Response:
    """List the input items of a response."""
    info = await _find(call, call.path("id"))
    items = (info.request or {}).get("input")
    if isinstance(items, str):
        part = {"type": "input_text", "text": items}
        items = [{"type": "message", "role": "user", "content": [part]}]
    data = [{"id": f"in_{place}", **item} for place, item in enumerate(items or [])]
    return JsonResponse({"object": "list", "data": data, "has_more": False})
