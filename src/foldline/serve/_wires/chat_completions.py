"""OpenAI's Chat Completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline._io import ASYNC
from foldline.serve._answers import AnyRun
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import Events
from foldline.serve._sse import PING, SseResponse, event
from foldline.serve._wire_server import JsonResponse, Server, WireCall
from foldline.serve._wires.answer_view import chat_request, read_chat
from foldline.serve._wires.chat_request import decode_messages, decode_options
from foldline.serve._wires.completion_view import (
    ChoiceView,
    completion_head,
    completion_json,
    usage_chunk,
)
from foldline.serve._wires.openai_errors import OpenAIErrors
from foldline.serve._wires.options import usable_options
from foldline.serve.apps import RunRequest, ServedApp

__all__ = ["WIRE", "open_streams", "routes", "start_runs", "stream_choices", "wants_usage"]

DONE: Final = b"data: [DONE]\n\n"
MOST_CHOICES: Final = 128
WIRE: Final = OpenAIErrors("chat-completions")


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    return [Route("/v1/chat/completions", server.endpoint(WIRE, complete), methods=["POST"])]


async def complete(call: WireCall) -> Response:
    """Answer a conversation, once or `n` times; each answer is a separate run."""
    body, app = await read_chat(call)
    messages = decode_messages(body, call.server.settings)
    options = usable_options(app, decode_options(body, call.server.settings))
    streams, count = body.flag("stream"), body.integer("n", 1, MOST_CHOICES) or 1
    shows_usage = wants_usage(body)
    request = chat_request(app, messages, options, streams=streams)
    runs = await start_runs(call, app, [request.copy() for _ in range(count)])
    head = completion_head(runs[0].info, app)
    views = [ChoiceView(head, app, index) for index in range(count)]
    if not streams:
        await call.wait(app, *runs)
        for view, run in zip(views, runs, strict=True):
            view.consume(await run.all_events())
        return JsonResponse(completion_json(head, views, [run.info for run in runs]))
    events = await open_streams(call, app, runs)
    pieces = stream_choices(head, views, runs, events, shows_usage=shows_usage)
    return SseResponse(pieces, on_leave=call.on_leave(app, *runs))


def wants_usage(body: Body) -> bool:
    """Whether a stream ends with a chunk of its usage."""
    options = body.object("stream_options")
    return options is not None and options.flag("include_usage")


async def start_runs(
    call: WireCall, app: ServedApp, requests: Sequence[RunRequest]
) -> list[AnyRun]:
    """Start a run for each choice; if one cannot start, none goes on."""
    runs: list[AnyRun] = []
    try:
        for request in requests:
            run = await call.start(app, request)
            runs.append(run)
    except Exception:
        await call.stop(*runs)
        raise
    return runs


async def open_streams(
    call: WireCall, app: ServedApp, runs: list[AnyRun]
) -> dict[int, AsyncGenerator[Events, None]]:
    """Follow all runs; where one fails before its first content, stop them all."""
    events: dict[int, AsyncGenerator[Events, None]] = {}
    try:
        for index, run in enumerate(runs):
            events[index] = await call.open_stream(run, app)
    except Exception:
        for stream in events.values():
            await stream.aclose()
        await call.stop(*runs)
        raise
    return events


async def stream_choices(
    head: JsonObject,
    views: Sequence[ChoiceView],
    runs: Sequence[AnyRun],
    events: dict[int, AsyncGenerator[Events, None]],
    *,
    shows_usage: bool,
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of all choices as they come, then their ends and the usage."""
    async with aclosing(_batches(events)) as batches:
        async for index, batch in batches:
            if not batch:
                yield PING
                continue
            view = views[index]
            pieces = b"".join(event(piece) for _, item in batch for piece in view.pieces(item))
            if pieces:
                yield pieces
    for view, run in zip(views, runs, strict=True):
        problem = view.problem(run.info)
        if problem is not None:
            yield event(WIRE.error_body(problem))
            return
    tail = b"".join(event(piece) for view in views for piece in view.tail())
    if shows_usage:
        tail += event(usage_chunk(head, views))
    yield tail + DONE


async def _batches(
    events: dict[int, AsyncGenerator[Events, None]],
) -> AsyncGenerator[tuple[int, Events], None]:
    if len(events) == 1:
        async with aclosing(events[0]) as batches:
            async for batch in batches:
                yield 0, batch
        return
    async with aclosing(ASYNC.merge(events)) as merged:
        async for index, batch in merged:
            yield index, batch
