"""OpenAI's Chat Completions: `POST /v1/chat/completions`, `GET /v1/models`, `POST /v1/embeddings`."""

from __future__ import annotations

import base64
import struct
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ErrorKind, ServeError, failure_of
from foldline.serve.live import Events
from foldline.serve.log.records import RunInfo
from foldline.serve.reader import ChatReader, Op
from foldline.serve.server import Call, JsonResponse, Server, error_of
from foldline.serve.sse import PING, EventStream, event
from foldline.serve.wires.chat_request import decode_messages, decode_options
from foldline.serve.wires.media import data_url
from foldline.serve.wires.options import usable_options

__all__ = ["FINISH_REASONS", "OpenAIErrors", "routes", "usage_json"]

Json = Any
DONE: Final = b"data: [DONE]\n\n"
FINISH_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
ERROR_TYPES: Final[dict[ErrorKind, str]] = {
    "authentication": "authentication_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "rate_limit": "rate_limit_error",
    "budget": "insufficient_quota",
    "invalid_request": "invalid_request_error",
    "too_large": "invalid_request_error",
    "conflict": "conflict_error",
}
ERROR_CODES: Final[dict[ErrorKind, str]] = {
    "authentication": "invalid_api_key",
    "not_found": "model_not_found",
    "rate_limit": "rate_limit_exceeded",
    "budget": "insufficient_quota",
}


class OpenAIErrors:
    """How OpenAI's wires say errors."""

    def __init__(self, name: str, *, cancels: bool = True) -> None:
        self.name = name
        self.cancels = cancels

    def error_body(self, error: ServeError) -> Json:
        """Return the JSON of an error."""
        return {
            "error": {
                "message": error.message,
                "type": ERROR_TYPES.get(error.kind, "server_error"),
                "param": None,
                "code": error.code or ERROR_CODES.get(error.kind),
            }
        }


WIRE: Final = OpenAIErrors("chat-completions")


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    return [
        Route("/v1/chat/completions", server.endpoint(WIRE, complete), methods=["POST"]),
        Route("/v1/models", server.endpoint(WIRE, list_models), methods=["GET"]),
        Route("/v1/models/{model:path}", server.endpoint(WIRE, show_model), methods=["GET"]),
        Route("/v1/embeddings", server.endpoint(WIRE, embed), methods=["POST"]),
    ]


async def complete(call: Call) -> Response:
    """Answer a conversation."""
    body = await call.body()
    app = call.app(body.name("model"))
    if app.kind == "embeddings":
        raise body.refuse("model", "makes embeddings, no chat")
    messages = decode_messages(body, call.server.settings)
    options = usable_options(app, decode_options(body, call.server.settings))
    streams = body.flag("stream")
    stream_options = body.object("stream_options")
    shows_usage = stream_options is not None and stream_options.flag("include_usage")
    try:
        request = RunRequest(app.input_of_chat(messages), options)
    except ValueError as error:
        raise failure_of(error) from error
    run = await call.start(app, request)
    view = Completion(run.info, app, shows_usage=shows_usage)
    if not streams:
        await call.wait(run, app)
        for item in run.events:
            for _ in view.pieces(item):
                pass
        return JsonResponse(view.whole(run.info))
    events = await call.opened(run, app)
    return EventStream(_stream(view, run.info, events), on_leave=call.on_leave(run, app))


async def _stream(
    view: Completion, info: RunInfo, events: AsyncGenerator[Events, None]
) -> AsyncGenerator[bytes, None]:
    async for batch in events:
        if not batch:
            yield PING
            continue
        pieces = b"".join(event(piece) for _, item in batch for piece in view.pieces(item))
        if pieces:
            yield pieces
    problem = view.problem(info)
    if problem is not None:
        yield event(WIRE.error_body(problem))
        return
    tail = b"".join(event(piece) for piece in view.tail())
    yield tail + DONE


class Completion:
    """The view of a run as one chat completion, in chunks or whole."""

    def __init__(self, info: RunInfo, app: ServedApp, *, shows_usage: bool) -> None:
        self._reader = ChatReader()
        self._is_agent = app.kind == "agent"
        self._shows_usage = shows_usage
        self._head = {
            "id": f"chatcmpl-{info.id}",
            "object": "chat.completion.chunk",
            "created": int(info.created),
            "model": app.name,
        }
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, Json]] = {}
        self._annotations: list[Json] = []
        self._images: list[Json] = []
        self._reason = "stop"
        self._usage: Json = None
        self._has_begun = False
        self._separates = False
        self._error: ServeError | None = None

    def pieces(self, item: dict[str, Json]) -> Iterator[Json]:
        """Give the chunks of one event of the log."""
        for op in self._reader.read(item):
            delta = self._delta(op)
            if delta is None:
                continue
            if not self._has_begun:
                self._has_begun = True
                delta = {"role": "assistant", **delta}
                delta.setdefault("content", None if "tool_calls" in delta else "")
            yield self._chunk(delta)

    def _delta(self, op: Op) -> Json:
        match op.kind:
            case "text":
                return {"content": self._say(op.text)}
            case "reasoning":
                self._reasoning.append(op.text)
                return {"reasoning_content": op.text}
            case "call-start" if not self._is_agent:
                return self._start_call(op)
            case "call-args" if not self._is_agent:
                made = self._calls[op.number]
                made["function"]["arguments"] += op.text
                return {
                    "tool_calls": [{"index": made["index"], "function": {"arguments": op.text}}]
                }
            case _:
                return self._note(op)

    def _note(self, op: Op) -> Json:
        match op.kind:
            case "text-end":
                notes = [
                    _citation(note)
                    for note in op.data.get("annotations") or ()
                    if note.get("type") == "citation" and note.get("url")
                ]
                self._annotations += notes
                return {"annotations": notes} if notes else None
            case "block" if op.text == "image":
                image = {"type": "image_url", "image_url": {"url": data_url(op.data)}}
                self._images.append(image)
                return {"images": [image]}
            case "message-end":
                self._separates = bool(self._text)
                self._finish(op)
            case "reset":
                self._error = ServeError("upstream", "the model began its answer again")
            case "ask":
                self._error = ServeError("conflict", "asks a person")
            case _:
                pass
        return None

    def _say(self, text: str) -> str:
        """Note a piece of text; answers of one agent's several turns are parted by an empty line."""
        if self._separates:
            self._separates = False
            text = f"\n\n{text}"
        self._text.append(text)
        return text

    def _start_call(self, op: Op) -> Json:
        index = len(self._calls)
        function = {"name": op.data["name"], "arguments": ""}
        self._calls[op.number] = {
            "index": index, "id": op.text, "type": "function", "function": dict(function),
        }  # fmt: skip
        return {
            "tool_calls": [
                {"index": index, "id": op.text, "type": "function", "function": function}
            ]
        }

    def _finish(self, op: Op) -> None:
        reason = op.text
        if self._is_agent and reason == "tool_use":
            reason = "stop"
        if reason == "error":
            self._error = ServeError("upstream", "the model's answer ended with an error")
        self._reason = FINISH_REASONS.get(reason, "stop")
        usage = op.data.get("usage")
        if usage:
            self._usage = usage_json(usage, self._usage)

    def problem(self, info: RunInfo) -> ServeError | None:
        """Return what must be told instead of an end; None where the run ended well."""
        if info.status != "success":
            return error_of(info)
        return self._error

    def _chunk(self, delta: Json, reason: str | None = None) -> Json:
        return {
            **self._head,
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
        }

    def tail(self) -> Iterator[Json]:
        """Give the last chunks."""
        if not self._has_begun:
            yield self._chunk({"role": "assistant", "content": ""})
        yield self._chunk({}, self._reason)
        if self._shows_usage:
            yield {**self._head, "choices": [], "usage": self._usage or usage_json({}, None)}

    def whole(self, info: RunInfo) -> Json:
        """Return the completion, or raise what the run ended with."""
        problem = self.problem(info)
        if problem is not None:
            raise problem
        message: dict[str, Json] = {
            "role": "assistant",
            "content": "".join(self._text) if self._text or not self._calls else None,
            "refusal": None,
        }
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [
                {name: value for name, value in made.items() if name != "index"}
                for made in self._calls.values()
            ]
        if self._annotations:
            message["annotations"] = self._annotations
        if self._images:
            message["images"] = self._images
        choice = {
            "index": 0, "message": message, "logprobs": None, "finish_reason": self._reason,
        }  # fmt: skip
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": self._usage or usage_json({}, None),
        }


def _citation(note: Json) -> Json:
    return {
        "type": "url_citation",
        "url_citation": {
            "url": note["url"],
            "title": note.get("title") or "",
            "start_index": note.get("start_index") or 0,
            "end_index": note.get("end_index") or 0,
        },
    }


def usage_json(usage: Json, before: Json) -> Json:
    """Return a usage in OpenAI's words, with what was used before."""
    given, made = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    cached = (usage.get("input_token_details") or {}).get("cache_read") or 0
    thought = (usage.get("output_token_details") or {}).get("reasoning") or 0
    if before:
        given += before["prompt_tokens"]
        made += before["completion_tokens"]
        cached += before["prompt_tokens_details"]["cached_tokens"]
        thought += before["completion_tokens_details"]["reasoning_tokens"]
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


# -- models and embeddings


def _model_json(app: ServedApp, created: int) -> Json:
    owner = app.label.partition(":")[0] if app.model is not None else "foldline"
    return {"id": app.name, "object": "model", "created": created, "owned_by": owner}


async def list_models(call: Call) -> Response:
    """List what is served and may be used."""
    key = call.caller.key
    shown = [app for app in call.server.apps.values() if key is None or key.allows(app.name)]
    now = int(time.time())
    return JsonResponse({"object": "list", "data": [_model_json(app, now) for app in shown]})


async def show_model(call: Call) -> Response:
    """Show one of them."""
    return JsonResponse(_model_json(call.app(call.path("model")), int(time.time())))


async def embed(call: Call) -> Response:
    """Turn texts into vectors."""
    body = await call.body()
    name = body.name("model")
    if name is None:
        made = [app for app in call.server.apps.values() if app.kind == "embeddings"]
        if len(made) != 1:
            raise body.refuse("model", "is needed")
        name = made[0].name
    app = call.app(name)
    if app.kind != "embeddings":
        raise body.refuse("model", "is no embeddings model")
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    most = call.server.settings.max_batch * 8
    if (
        not isinstance(texts, list)
        or not 0 < len(texts) <= most
        or not all(isinstance(text, str) and text for text in texts)
    ):
        raise body.refuse("input", f"must be a text or a list of 1 to {most} texts, none empty")
    form = body.text("encoding_format", "float", longest=16)
    vectors = await call.server.host.embed(call.caller, app, texts)
    data = [
        {
            "object": "embedding",
            "index": place,
            "embedding": vector if form == "float" else _packed(vector),
        }
        for place, vector in enumerate(vectors)
    ]
    tokens = sum(len(text) for text in texts) // 4 + 1
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return JsonResponse({"object": "list", "data": data, "model": app.name, "usage": usage})


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
