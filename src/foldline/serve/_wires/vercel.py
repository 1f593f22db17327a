"""Vercel's UI message stream: `POST /api/chat`, `GET /api/chat/{id}/stream`, `POST /api/chat/{id}/stop`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from foldline.serve._answers import AnyRun
from foldline.serve._event_reader import ChatReader, Op
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent, Events
from foldline.serve._sse import PING, SseResponse, event
from foldline.serve._wire_server import JsonResponse, Server, WireCall, error_of
from foldline.serve._wires.approvals import (
    action_requests,
    find_active,
    match_calls,
    require_asking_run,
)
from foldline.serve._wires.conversation import client_id, set_conversation
from foldline.serve._wires.media import block_of_url, data_url
from foldline.serve.apps import RunRequest
from foldline.serve.errors import ServeError
from foldline.workflows.interrupts import Command

__all__ = ["routes"]

HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}
DONE: Final = b"data: [DONE]\n\n"
FINISH_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "tool_use": "tool-calls",
    "content_filter": "content-filter",
    "refusal": "content-filter",
}


class VercelErrors:
    """The errors of the AI SDK, which shows the body of an HTTP error."""

    name = "vercel"
    cancels = False

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""
        code = {"code": error.code} if error.code is not None else {}
        return {"error": error.message, "kind": error.kind, **code, **error.ids}


WIRE: Final = VercelErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    all_routes = []
    for head in ("/api/chat", "/api/chat/{app}"):
        all_routes += [
            Route(head, server.endpoint(WIRE, chat), methods=["POST"]),
            Route(f"{head}/{{id}}/stream", server.endpoint(WIRE, reconnect), methods=["GET"]),
            Route(f"{head}/{{id}}/stop", server.endpoint(WIRE, stop), methods=["POST"]),
        ]
    return all_routes


def _app_name(call: WireCall, body: Body | None = None) -> str | None:
    name = call.request.path_params.get("app")
    return name if name is not None else body.name("app") if body is not None else None


async def chat(call: WireCall) -> Response:
    """Answer a conversation of UI messages, or continue after approvals."""
    body = await call.body()
    app = call.app(_app_name(call, body))
    thread = body.name("id")
    items = body.objects("messages", most=call.server.settings.max_messages, least=1)
    approvals = _approvals(items[-1])
    request = RunRequest()
    if approvals or body.get("resume") is not None:
        if thread is None or not app.has_threads:
            raise ServeError(
                "conflict", f"{app.name} keeps no threads: nothing waits for an answer"
            )
        others = body.mapping("resume")
        ids = {*others, *(key.rpartition(":")[0] for key in approvals)}
        asking_run = await require_asking_run(call, thread, ids)
        request.command = Command(resume=_answers(asking_run.questions, approvals, others))
        run: AnyRun = await call.resume(app, request, asking_run)
    else:
        messages = [message for item in items for message in _decode_message(item)]
        await set_conversation(call, app, request, thread, messages)
        run = await call.start(app, request, thread=thread)
    events = await call.open_stream(run, app)
    return SseResponse(
        _stream(call, run.info.id, events, is_continued=request.command is not None),
        headers=HEADERS,
        on_leave=call.on_leave(app, run),
    )


async def reconnect(call: WireCall) -> Response:
    """Stream the chat's active run from its start; answer 204 where there is none."""
    info = await find_active(call, call.path("id"))
    if info is None:
        return Response(status_code=204)
    events = call.server.host.follow(info.id)
    return SseResponse(_stream(call, info.id, events), headers=HEADERS)


async def stop(call: WireCall) -> Response:
    """Stop the chat's active run."""
    info = await find_active(call, call.path("id"))
    if info is not None:
        await call.server.host.stop(info)
    return JsonResponse({"stopped": info is not None})


async def _stream(
    call: WireCall, id: str, events: AsyncGenerator[Events, None], *, is_continued: bool = False
) -> AsyncGenerator[bytes, None]:
    view = UiStream(id, is_continued=is_continued)
    async for batch in events:
        pieces = b"".join(event(piece) for _, item in batch for piece in view.pieces(item))
        yield pieces or PING
    info = await call.server.host.find(call.caller, id)
    ending: list[JsonObject] = list(view.close())
    if info.status == "stopped":
        ending.append({"type": "abort", "reason": "stopped"})
    elif info.status not in ("success", "waiting"):
        ending.append({"type": "error", "errorText": error_of(info).message})
    elif view.error is not None:
        ending.append({"type": "error", "errorText": view.error})
    else:
        result = info.result or {}
        metadata = {"usage": result.get("usage"), "cost": result.get("cost"), "runId": info.id}
        ending.append({"type": "finish", "finishReason": view.reason, "messageMetadata": metadata})
    yield b"".join(event(piece) for piece in ending) + DONE


class UiStream:
    """The view of a run as a UI message stream."""

    def __init__(self, id: str, *, is_continued: bool) -> None:
        self._reader = ChatReader()
        self._id = id
        self._is_continued = is_continued
        self._has_begun = False
        self._is_in_step = False
        self._calls: list[tuple[str, str, object]] = []
        self._names: dict[int, tuple[str, str]] = {}
        self._refusals: set[int] = set()
        self._has_refused = False
        self._sources = 0
        self.reason = "stop"
        self.error: str | None = None

    def pieces(self, item: EncodedEvent) -> Iterator[JsonObject]:
        """Return the chunks of one event of the log."""
        if not self._has_begun:
            self._has_begun = True
            yield (
                {"type": "start"}
                if self._is_continued
                else {"type": "start", "messageId": self._id}
            )
        for op in self._reader.read(item):
            yield from self._take(op)

    def close(self) -> Iterator[JsonObject]:
        """End the open step."""
        if not self._has_begun:
            yield {"type": "start"}
        if self._is_in_step:
            self._is_in_step = False
            yield {"type": "finish-step"}

    def _take(self, op: Op) -> Iterator[JsonObject]:
        match op.kind:
            case "message":
                yield from self.close()
                self._is_in_step = True
                self._calls = []
                yield {"type": "start-step"}
            case "text-start" | "reasoning-start":
                yield {"type": op.kind, "id": f"b{op.number}"}
            case "text" | "reasoning":
                yield {"type": f"{op.kind}-delta", "id": f"b{op.number}", "delta": op.text}
            case "refusal":
                yield from self._refuse(op)
            case "refusal-end":
                if op.text:
                    yield {"type": "text-end", "id": f"b{op.number}"}
                self._has_refused = True
            case "reasoning-end":
                yield {"type": op.kind, "id": f"b{op.number}"}
            case "text-end":
                yield {"type": op.kind, "id": f"b{op.number}"}
                yield from self._citations(op)
            case "call-start" | "call-args" | "call-end":
                yield from self._take_call(op)
            case _:
                yield from self._take_other(op)

    def _refuse(self, op: Op) -> Iterator[JsonObject]:
        """Show a refusal as text, since the protocol has no part for it; the finish reason says what it is."""
        if op.number not in self._refusals:
            self._refusals.add(op.number)
            yield {"type": "text-start", "id": f"b{op.number}"}
        yield {"type": "text-delta", "id": f"b{op.number}", "delta": op.text}

    def _citations(self, op: Op) -> Iterator[JsonObject]:
        for note in op.data.get("annotations") or ():
            if note.get("type") == "citation" and note.get("url"):
                self._sources += 1
                yield {
                    "type": "source-url",
                    "sourceId": f"s{self._sources}",
                    "url": note["url"],
                    **({"title": note["title"]} if note.get("title") else {}),
                }

    def _take_call(self, op: Op) -> Iterator[JsonObject]:
        if op.kind == "call-start":
            name = op.data["name"]
            self._names[op.number] = (op.text, name)
            yield {"type": "tool-input-start", "toolCallId": op.text, "toolName": name}
            return
        id, name = self._names[op.number]
        if op.kind == "call-args":
            yield {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": op.text}
            return
        args = op.data.get("args")
        if isinstance(args, dict):
            self._calls.append((id, name, args))
            yield {
                "type": "tool-input-available", "toolCallId": id, "toolName": name, "input": args,
            }  # fmt: skip
        else:
            yield {
                "type": "tool-input-error", "toolCallId": id, "toolName": name, "input": args,
                "errorText": str(op.data.get("error") or "the arguments are broken"),
            }  # fmt: skip

    def _take_other(self, op: Op) -> Iterator[JsonObject]:
        match op.kind:
            case "tool-end":
                yield self._result(op)
            case "tool-delta":
                yield {
                    "type": "tool-output-available", "toolCallId": op.text, "output": op.data,
                    "preliminary": True,
                }  # fmt: skip
            case "ask":
                yield from self._ask(op)
            case "block" if op.text in ("image", "audio", "video", "file"):
                url = data_url(op.data)
                if url is not None:
                    kind = op.data.get("mime_type") or "application/octet-stream"
                    yield {"type": "file", "url": url, "mediaType": kind}
            case "custom":
                yield {"type": "data-custom", "data": op.data, "transient": True}
            case "message-end":
                reason = "refusal" if self._has_refused else op.text
                self.reason = FINISH_REASONS.get(reason, "other")
                if op.text == "error":
                    self.error = "the model's answer ended with an error"
            case "reset":
                self.error = "the model began its answer again"
            case _:
                pass

    def _result(self, op: Op) -> JsonObject:
        if op.data.get("is_denied"):
            return {"type": "tool-output-denied", "toolCallId": op.text}
        if op.data["is_error"]:
            text = str(op.data["output"])
            return {"type": "tool-output-error", "toolCallId": op.text, "errorText": text}
        return {"type": "tool-output-available", "toolCallId": op.text, "output": op.data["output"]}

    def _ask(self, op: Op) -> Iterator[JsonObject]:
        pairs = match_calls(op.data, self._calls)
        for place, (call_id, _) in enumerate(pairs):
            if call_id is not None:
                approval = f"{op.text}:{place}"
                yield {
                    "type": "tool-approval-request", "approvalId": approval, "toolCallId": call_id,
                }  # fmt: skip
        if not pairs or any(call_id is None for call_id, _ in pairs):
            yield {
                "type": "data-interrupt", "id": op.text, "data": {"id": op.text, "value": op.data},
            }  # fmt: skip


# -- requests


def _approvals(item: Body) -> JsonObject:
    """Return the answers to approvals in a message, by the approvals' ids."""
    decisions: JsonObject = {}
    if item.text("role") == "assistant":
        for part in item.objects("parts", most=1_000):
            approval = part.object("approval")
            if approval is not None and part.get("state") == "approval-responded":
                id = approval.text("id", longest=256)
                decision: JsonObject = {"type": "approve"}
                if not approval.flag("approved"):
                    decision = {"type": "reject"}
                    reason = approval.maybe_text("reason", longest=10_000)
                    if reason:
                        decision["message"] = reason
                decisions[id] = decision
    return decisions


def _answers(questions: list[JsonObject], approvals: JsonObject, others: JsonObject) -> JsonObject:
    answers: JsonObject = {}
    for question in questions:
        id = question["interrupt_id"]
        if id in others:
            answers[id] = others[id]
            continue
        count = len(action_requests(question["payload"]))
        decisions = [approvals.get(f"{id}:{place}") for place in range(count)]
        if not count or None in decisions:
            raise ServeError("invalid_request", "not every question has an answer yet")
        answers[id] = {"decisions": decisions}
    return answers


def _decode_message(item: Body) -> list[BaseMessage]:
    """Return a UI message as messages, without tool calls: the server has those in its thread."""
    role = item.text("role")
    parts: list[Any] = []
    for part in item.objects("parts", most=1_000):
        kind = part.text("type")
        if kind == "text":
            parts.append({"type": "text", "text": part.text("text")})
        elif kind == "file":
            media = part.text("mediaType", "application/octet-stream", longest=128)
            head = media.partition("/")[0]
            block_type = head if head in ("image", "audio", "video") else "file"
            parts.append(block_of_url(part, "url", part.text("url"), block_type))
    if role == "user":
        return [HumanMessage(parts, id=client_id(item))] if parts else []
    if role == "assistant":
        texts = "".join(part["text"] for part in parts if part["type"] == "text")
        return [AIMessage(texts)] if texts else []
    if role == "system":
        return [SystemMessage(parts)] if parts else []
    raise item.refuse("role", "must be user, assistant or system")
