"""Anthropic's Messages: `POST /v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.serve._event_reader import Op
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent, Events
from foldline.serve._log.records import RunRecord
from foldline.serve._sse import PING, SseResponse, event
from foldline.serve._token_estimate import CHARACTERS_PER_TOKEN, count_characters
from foldline.serve._wire_server import JsonResponse, Server, WireCall
from foldline.serve._wires.answer_view import AnswerView, chat_request, read_chat
from foldline.serve._wires.anthropic_request import decode_messages, decode_options
from foldline.serve._wires.options import usable_options
from foldline.serve._wires.usage import UsageTotal
from foldline.serve.apps import ServedApp
from foldline.serve.errors import ErrorKind, ServeError

__all__ = ["routes"]

ERROR_TYPES: Final[dict[ErrorKind, str]] = {
    "authentication": "authentication_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "rate_limit": "rate_limit_error",
    "budget": "billing_error",
    "invalid_request": "invalid_request_error",
    "too_large": "request_too_large",
    "conflict": "conflict_error",
    "overloaded": "overloaded_error",
    "timeout": "timeout_error",
}
STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_use": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
}


class AnthropicErrors:
    """The errors of Anthropic's wire."""

    name = "anthropic-messages"
    cancels = True

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""
        kind = ERROR_TYPES.get(error.kind, "api_error")
        return {"type": "error", "error": {"type": kind, "message": error.message}, **error.ids}


WIRE: Final = AnthropicErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    return [
        Route("/v1/messages", server.endpoint(WIRE, answer), methods=["POST"]),
        Route("/v1/messages/count_tokens", server.endpoint(WIRE, count_tokens), methods=["POST"]),
    ]


async def answer(call: WireCall) -> Response:
    """Answer a conversation."""
    body, app = await read_chat(call)
    messages = decode_messages(body, call.server.settings)
    options = usable_options(app, decode_options(body, call.server.settings))
    streams = body.flag("stream")
    run = await call.start(app, chat_request(app, messages, options, streams=streams))
    view = MessageView(run.info, app)
    if not streams:
        await call.wait(app, run)
        view.consume(await run.all_events())
        return JsonResponse(view.message_json(run.info))
    events = await call.open_stream(run, app)
    return SseResponse(_stream(view, run.info, events), on_leave=call.on_leave(app, run))


async def count_tokens(call: WireCall) -> Response:
    """Count the tokens of a request without a call of a model."""
    body = await call.body()
    app = call.app(body.name("model"))
    messages = decode_messages(body, call.server.settings)
    options = decode_options(body, call.server.settings, counts=True)
    if app.model is not None:
        count = app.model.count_tokens(messages, options.get("tools")).n
    else:
        count = count_characters(messages) // CHARACTERS_PER_TOKEN
    return JsonResponse({"input_tokens": max(1, count)})


async def _stream(
    view: MessageView, info: RunRecord, events: AsyncGenerator[Events, None]
) -> AsyncGenerator[bytes, None]:
    async for batch in events:
        if not batch:
            yield PING if not view.has_begun else event({"type": "ping"}, "ping")
            continue
        pieces = b"".join(
            event(piece, piece["type"]) for _, item in batch for piece in view.pieces(item)
        )
        if pieces:
            yield pieces
    problem = view.problem(info)
    if problem is not None:
        yield event(WIRE.error_body(problem), "error")
        return
    yield b"".join(event(piece, piece["type"]) for piece in view.tail())


class MessageView(AnswerView):
    """The view of a run as a message of Anthropic, as events or as one object."""

    def __init__(self, info: RunRecord, app: ServedApp) -> None:
        super().__init__(app)
        self._id = f"msg_{info.id}"
        self._model = app.name
        self._content: list[JsonObject] = []
        self._places: dict[int, int] = {}
        self._reason = "end_turn"
        self._refusal: JsonObject | None = None
        self.has_begun = False

    def pieces(self, item: EncodedEvent) -> Iterator[JsonObject]:
        """Return the events of one event of the log."""
        for op in self.read(item):
            for piece in self._take(op):
                if not self.has_begun:
                    self.has_begun = True
                    yield {"type": "message_start", "message": self._message([], None)}
                yield piece

    def _take(self, op: Op) -> Iterator[JsonObject]:
        match op.kind:
            case "text-start":
                yield self._open(op, {"type": "text", "text": ""})
            case "text":
                self._block(op)["text"] += op.text
                yield self._delta(op, {"type": "text_delta", "text": op.text})
            case "reasoning-start":
                yield self._open(op, {"type": "thinking", "thinking": "", "signature": ""})
            case "reasoning":
                self._block(op)["thinking"] += op.text
                yield self._delta(op, {"type": "thinking_delta", "thinking": op.text})
            case "reasoning-end":
                signature = (op.data.get("extras") or {}).get("signature") or ""
                self._block(op)["signature"] = signature
                yield self._delta(op, {"type": "signature_delta", "signature": signature})
                yield self._close(op)
            case "text-end":
                yield self._close(op)
            case "call-start" | "call-args" | "call-end" if not self.is_agent:
                yield from self._take_call(op)
            case "refusal-end":
                category = (op.data.get("extras") or {}).get("category")
                explanation = op.text or None
                self._refusal = {
                    "type": "refusal", "category": category, "explanation": explanation,
                }  # fmt: skip
            case "message-end":
                reason = STOP_REASONS.get(self.finish_reason(op), "end_turn")
                self._reason = reason if self._refusal is None else "refusal"
            case _:
                pass

    def _take_call(self, op: Op) -> Iterator[JsonObject]:
        if op.kind == "call-start":
            block = {"type": "tool_use", "id": op.text, "name": op.data["name"], "input": {}}
            yield self._open(op, block)
        elif op.kind == "call-args":
            yield self._delta(op, {"type": "input_json_delta", "partial_json": op.text})
        else:
            args = op.data.get("args")
            if not isinstance(args, dict):
                self.fail("the model called a tool with broken arguments")
            else:
                self._block(op)["input"] = args
            yield self._close(op)

    def _open(self, op: Op, block: JsonObject) -> JsonObject:
        self._places[op.number] = len(self._content)
        self._content.append(dict(block))
        return {
            "type": "content_block_start",
            "index": self._places[op.number],
            "content_block": block,
        }

    def _block(self, op: Op) -> JsonObject:
        return self._content[self._places[op.number]]

    def _delta(self, op: Op, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._places[op.number], "delta": delta}

    def _close(self, op: Op) -> JsonObject:
        return {"type": "content_block_stop", "index": self._places[op.number]}

    def _message(self, content: object, reason: str | None) -> JsonObject:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            **self._details(),
            "usage": self._usage(),
        }

    def _details(self) -> JsonObject:
        """Return the words of a refusal, where Anthropic has them."""
        return {"stop_details": self._refusal} if self._refusal is not None else {}

    def _usage(self) -> dict[str, int]:
        return (self.usage or UsageTotal()).as_messages()

    def tail(self) -> Iterator[JsonObject]:
        """Return the last events."""
        if not self.has_begun:
            yield {"type": "message_start", "message": self._message([], None)}
        delta = {"stop_reason": self._reason, "stop_sequence": None, **self._details()}
        yield {"type": "message_delta", "delta": delta, "usage": self._usage()}
        yield {"type": "message_stop"}

    def message_json(self, info: RunRecord) -> JsonObject:
        """Return the message, or raise the run's error."""
        problem = self.problem(info)
        if problem is not None:
            raise problem
        content = [block for block in self._content if block["type"] != "text" or block["text"]]
        return self._message(content, self._reason)
