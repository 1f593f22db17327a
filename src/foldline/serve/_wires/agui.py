"""AG-UI 1.0: `POST /agui` (or `/agui/{app}`)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.serve._answers import AnyRun
from foldline.serve._event_reader import ChatReader, Op
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent, Events
from foldline.serve._log.records import RunRecord
from foldline.serve._sse import PING, SseResponse, event
from foldline.serve._wire_server import JsonResponse, Server, WireCall, error_of
from foldline.serve._wires.approvals import (
    action_requests,
    match_calls,
    require_asking_run,
)
from foldline.serve._wires.conversation import client_id, set_conversation
from foldline.serve._wires.media import block_of_data, block_of_url
from foldline.serve._wires.options import check_tool_name
from foldline.serve._wires.request_parts import (
    decode_call,
    decode_content,
    decode_tools,
    function_tool,
    required_name,
)
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ServeError
from foldline.workflows.interrupts import Command

__all__ = ["routes"]

VERSION: Final = "1.0"
RECENT_RUNS: Final = 100
"""How many of the last runs of a thread are searched for the one to stop."""


class AguiErrors:
    """The errors of AG-UI before the stream."""

    name = "agui"
    cancels = False

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""
        code = error.code or error.kind
        return {"type": "RUN_ERROR", "message": error.message, "code": code, "rawEvent": error.ids}


WIRE: Final = AguiErrors()


def routes(server: Server) -> list[Route]:
    """Return the routes of this wire."""
    return [
        Route("/agui", server.endpoint(WIRE, run_agent), methods=["POST"]),
        Route("/agui/stop", server.endpoint(WIRE, stop_run), methods=["POST"]),
        Route("/agui/{app}", server.endpoint(WIRE, run_agent), methods=["POST"]),
    ]


async def run_agent(call: WireCall) -> Response:
    """Run an agent, a model or a chain; or continue with `resume`."""
    body = await call.body()
    app = call.app(call.request.path_params.get("app"))
    thread, run_name = body.name("threadId"), body.name("runId")
    if thread is None or run_name is None:
        raise body.refuse("threadId", "and runId are needed")
    request, names = RunRequest(), {"run_id": run_name}
    tools = _decode_tools(body, app, call)
    if tools:
        request.options["tools"] = tools
    if body.get("resume"):
        entries = body.objects("resume", most=256)
        asking_run = await _asking_run(call, entries, app, thread)
        request.command = Command(resume=_answers(entries, asking_run))
        run: AnyRun = await call.resume(app, request, asking_run, logged_request=names)
    else:
        most = call.server.settings.max_messages
        messages = [
            message
            for item in body.objects("messages", most=most)
            for message in _decode_message(item)
        ]
        if not messages:
            raise body.refuse("messages", "must have a message")
        await set_conversation(call, app, request, thread, messages)
        run = await call.start(app, request, thread=thread, logged_request=names)
    events = await call.open_stream(run, app)
    view = AguiView(run.info.id, thread, run_name)
    return SseResponse(_stream(call, view, run.info, events), on_leave=call.on_leave(app, run))


async def stop_run(call: WireCall) -> Response:
    """Stop a run by the names that the client gave it."""
    body = await call.body()
    thread, run_name = required_name(body, "threadId"), required_name(body, "runId")
    host, owner = call.server.host, call.caller.owner
    runs: list[RunRecord] = await host.call(
        lambda: host.log.runs(owner, thread=thread, limit=RECENT_RUNS)
    )
    for info in runs:
        if info.wire == WIRE.name and (info.request or {}).get("run_id") == run_name:
            await host.stop(info)
            return JsonResponse({"threadId": thread, "runId": run_name})
    raise ServeError("not_found", f"there is no run {run_name[:80]!r} in this thread")


async def _stream(
    call: WireCall, view: AguiView, info: RunRecord, events: AsyncGenerator[Events, None]
) -> AsyncGenerator[bytes, None]:
    yield event(view.start())
    async for batch in events:
        pieces = b"".join(event(piece) for _, item in batch for piece in view.pieces(item))
        yield pieces or PING
    now = await call.server.host.find(call.caller, info.id)
    yield b"".join(event(piece) for piece in view.end(now))


class AguiView:
    """The view of a run as AG-UI events. Empty deltas are left out: the protocol refuses them."""

    def __init__(self, id: str, thread: str, run_name: str) -> None:
        self._reader = ChatReader()
        self._id = id
        self._names = {"threadId": thread, "runId": run_name}
        self._count = 0
        self._message = f"{id}-0"
        self._text: str | None = None
        self._calls: list[tuple[str, str, object]] = []
        self._call_ids: dict[int, tuple[str, str]] = {}
        self._interrupts: list[JsonObject] = []
        self._model_metadata: JsonObject = {}
        self._usage: list[JsonObject] = []
        self._error: str | None = None

    def start(self) -> JsonObject:
        """Return the first event."""
        return {"type": "RUN_STARTED", **self._names, "protocolVersion": VERSION}

    def pieces(self, item: EncodedEvent) -> Iterator[JsonObject]:
        """Return the events of one event of the log."""
        for op in self._reader.read(item):
            yield from self._take(op)

    def _take(self, op: Op) -> Iterator[JsonObject]:
        match op.kind:
            case "message":
                self._count += 1
                self._message = f"{self._id}-{self._count}"
                self._calls = []
                self._model_metadata = op.data
            case "refusal-end":
                yield {"type": "CUSTOM", "name": "refusal", "value": op.data}
            case "text" | "refusal":  # the protocol has no message for refusals
                if self._text is None:
                    self._text = self._message
                    yield {
                        "type": "TEXT_MESSAGE_START", "messageId": self._text, "role": "assistant",
                    }  # fmt: skip
                yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._text, "delta": op.text}
            case "reasoning-start" | "reasoning" | "reasoning-end":
                yield from self._take_reasoning(op)
            case "call-start" | "call-args" | "call-end":
                yield from self._take_call(op)
            case "message-end":
                yield from self._close_text()
                self._finish(op)
            case _:
                yield from self._take_other(op)

    def _close_text(self) -> Iterator[JsonObject]:
        if self._text is not None:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._text}
            self._text = None

    def _take_reasoning(self, op: Op) -> Iterator[JsonObject]:
        id = f"{self._id}-r{op.number}"
        if op.kind == "reasoning-start":
            yield from self._close_text()
            yield {"type": "REASONING_START", "messageId": id}
            yield {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
        elif op.kind == "reasoning":
            yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": op.text}
        else:
            yield {"type": "REASONING_MESSAGE_END", "messageId": id}
            yield {"type": "REASONING_END", "messageId": id}

    def _take_call(self, op: Op) -> Iterator[JsonObject]:
        if op.kind == "call-start":
            yield from self._close_text()
            self._call_ids[op.number] = (op.text, op.data["name"])
            yield {
                "type": "TOOL_CALL_START",
                "toolCallId": op.text,
                "toolCallName": op.data["name"],
                "parentMessageId": self._message,
            }
            return
        id, name = self._call_ids[op.number]
        if op.kind == "call-args":
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": op.text}
            return
        self._calls.append((id, name, op.data.get("args")))
        yield {"type": "TOOL_CALL_END", "toolCallId": id}

    def _take_other(self, op: Op) -> Iterator[JsonObject]:
        match op.kind:
            case "tool-end":
                output = op.data["output"]
                yield {
                    "type": "TOOL_CALL_RESULT",
                    "messageId": f"{op.text}-result",
                    "toolCallId": op.text,
                    "content": output if isinstance(output, str) else json.dumps(output),
                    "role": "tool",
                }
            case "ask":
                self._interrupts.append(self._interrupt(op))
            case "custom":
                yield {"type": "CUSTOM", "name": "custom", "value": op.data}
            case "block":
                yield {"type": "CUSTOM", "name": op.text, "value": op.data}
            case "reset":
                self._error = "the model began its answer again"
            case _:
                pass

    def _interrupt(self, op: Op) -> JsonObject:
        pairs = match_calls(op.data, self._calls)
        reason = "tool_call" if pairs else "input_required"
        interrupt: JsonObject = {
            "id": op.text,
            "reason": reason,
            "metadata": {"value": op.data},
        }
        if len(pairs) == 1 and pairs[0][0] is not None:
            interrupt["toolCallId"] = pairs[0][0]
        return interrupt

    def _finish(self, op: Op) -> None:
        if op.text == "error":
            self._error = "the model's answer ended with an error"
        usage = op.data.get("usage")
        if usage:
            input_tokens, output_tokens = (
                usage.get("input_tokens") or 0,
                usage.get("output_tokens") or 0,
            )
            counts = {
                "inputTokens": input_tokens,
                "outputTokens": output_tokens,
                "totalTokens": input_tokens + output_tokens,
            }
            reasoning_tokens = (usage.get("output_token_details") or {}).get("reasoning")
            cached_tokens = (usage.get("input_token_details") or {}).get("cache_read")
            if reasoning_tokens:
                counts["reasoningTokens"] = reasoning_tokens
            if cached_tokens:
                counts["cachedInputTokens"] = cached_tokens
            model_fields = {
                key: self._model_metadata[key]
                for key in ("provider", "model")
                if self._model_metadata.get(key)
            }
            self._usage.append({**model_fields, **counts})

    def end(self, info: RunRecord) -> Iterator[JsonObject]:
        """Return the last events."""
        yield from self._close_text()
        usage = {"usage": self._usage} if self._usage else {}
        if info.status == "success" and self._error is None:
            yield {"type": "RUN_FINISHED", **self._names, "outcome": {"type": "success"}, **usage}
        elif info.status == "waiting":
            outcome = {"type": "interrupt", "interrupts": self._interrupts}
            yield {"type": "RUN_FINISHED", **self._names, "outcome": outcome, **usage}
        elif info.status == "stopped":
            yield {"type": "RUN_FINISHED", **self._names, "outcome": {"type": "cancelled"}, **usage}
        else:
            problem = error_of(info) if info.status != "success" else None
            message = problem.message if problem is not None else str(self._error)
            code = problem.code or problem.kind if problem is not None else "upstream"
            ids = {"rawEvent": problem.ids} if problem is not None else {}
            yield {"type": "RUN_ERROR", "message": message, "code": code, **ids}


# -- requests


async def _asking_run(
    call: WireCall, entries: list[Body], app: ServedApp, thread: str
) -> RunRecord:
    if not app.has_threads:
        raise ServeError("conflict", f"{app.name} keeps no threads: nothing waits for an answer")
    return await require_asking_run(
        call, thread, {entry.text("interruptId", longest=256) for entry in entries}
    )


def _answers(entries: list[Body], asking_run: RunRecord) -> JsonObject:
    questions = {item["interrupt_id"]: item for item in asking_run.questions}
    answers: JsonObject = {}
    for entry in entries:
        id = entry.text("interruptId", longest=256)
        if id not in questions:
            raise entry.refuse("interruptId", "names no open question")
        answers[id] = _decision(entry, len(action_requests(questions[id]["payload"])))
    return answers


def _decision(entry: Body, count: int) -> object:
    payload = entry.get("payload")
    is_plain = not (isinstance(payload, dict) and "decisions" in payload)
    if entry.text("status") == "cancelled":
        return {"decisions": [{"type": "reject"}] * count} if count else None
    if count and is_plain:
        approved = payload is True or (
            isinstance(payload, dict) and payload.get("approved") is True
        )
        return {"decisions": [{"type": "approve" if approved else "reject"}] * count}
    return payload


def _decode_tools(body: Body, app: ServedApp, call: WireCall) -> list[JsonObject]:
    if body.get("tools") and app.kind != "model":
        raise body.refuse("tools", f"are not taken by {app.name}, which has its own")
    return decode_tools(body, call.server.settings, function_tool)


def _decode_message(item: Body) -> list[BaseMessage]:
    role = item.text("role")
    if role in ("system", "developer"):
        return [SystemMessage(_content(item))]
    if role == "user":
        return [HumanMessage(_content(item), id=client_id(item))]
    if role == "assistant":
        return [_decode_assistant(item)]
    if role == "tool":
        return [ToolMessage(_content(item), tool_call_id=required_name(item, "toolCallId"))]
    if role in ("reasoning", "activity"):
        return []
    raise item.refuse("role", "must be user, assistant, system, developer or tool")


def _decode_assistant(item: Body) -> AIMessage:
    calls: list[Any] = []
    for call in item.objects("toolCalls", most=256):
        function = call.object("function")
        if function is None:
            raise call.refuse("function", "is needed")
        id, text = call.text("id", longest=256), function.text("arguments", "{}")
        decoded = decode_call(id, check_tool_name(function), text)
        if decoded["type"] != "tool_call":
            raise function.refuse("arguments", "must be a JSON object")
        calls.append(decoded)
    content = _content(item) if item.get("content") is not None else ""
    return AIMessage(content, tool_calls=calls)


def _content(item: Body) -> str | list[Any]:
    return decode_content(item, "content", _decode_part)


def _decode_part(part: Body) -> JsonObject:
    kind = part.text("type")
    if kind == "text":
        return {"type": "text", "text": part.text("text")}
    source = part.object("source")
    if kind not in ("image", "audio", "video", "document") or source is None:
        raise part.refuse("type", "must be text, image, audio, video or document, with a source")
    block_type = "file" if kind == "document" else kind
    if source.text("type") == "data":
        media = source.text("mimeType", longest=128)
        return block_of_data(source.text("value"), media, block_type)
    return block_of_url(source, "value", source.text("value"), block_type)
