"""Payloads of each wire that scenarios are built from: an error event, a tool call, an unknown chunk."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.frames import call_frames, exception_frame
from tests.faults.wires import SSE, Wire, payload_of
from tests.servers.script import Answer

CODES: dict[str, dict[str, Any]] = {
    # kind -> type of chat completions, code of Responses, type of Anthropic, (code, status) of Google
    "api": {"openai": "server_error", "anthropic": "api_error", "google": (500, "INTERNAL")},
    "overloaded": {"openai": "overloaded_error", "anthropic": "overloaded_error", "google": (503, "UNAVAILABLE")},
    "rate": {"openai": "rate_limit_exceeded", "anthropic": "rate_limit_error", "google": (429, "RESOURCE_EXHAUSTED")},
    "quota": {"openai": "insufficient_quota", "anthropic": "billing_error", "google": ()},
    "key": {"openai": "invalid_api_key", "anthropic": "authentication_error", "google": (401, "UNAUTHENTICATED")},
}  # fmt: skip


def opening(wire: Wire) -> list[bytes]:
    """The events up to the first text."""
    return wire.pieces()[: wire.first_text()]


def event(data: Any, name: str | None = None) -> bytes:
    """One server-sent event."""
    first = f"event: {name}\n" if name else ""
    return f"{first}data: {json.dumps(data)}\n\n".encode()


def error_event(wire: Wire, kind: str, number: int) -> bytes:
    """Return an error inside a stream; `number` is its place in it. None where the vendor has no such error."""
    if wire.name == "bedrock" or (wire.name == "google" and kind == "quota"):
        return exception_frame(kind) if wire.name == "bedrock" else b""
    if kind in ("text", "bare"):
        bare = {"message": "it broke", "type": "error", "code": 500}
        return event({"error": "it broke"} if kind == "text" else bare, "error")
    if wire.name == "google":
        code, status = CODES[kind]["google"]
        return event({"error": {"code": code, "status": status, "message": "it broke"}})
    word = CODES[kind]["anthropic" if wire.name == "anthropic" else "openai"]
    if wire.name == "anthropic":
        return event({"type": "error", "error": {"type": word, "message": "it broke"}}, "error")
    if wire.name == "responses":
        data = {"type": "error", "code": word, "message": "it broke", "sequence_number": number}
        return event(data, "error")
    return event({"error": {"message": "it broke", "type": word, "code": word}})


def status_body(wire: Wire, status: int) -> Any:
    """An error's body as the vendor words it."""
    if wire.name == "google":
        return {"error": {"code": status, "message": "it broke"}}
    if wire.name == "bedrock":
        return {"message": "it broke"}
    if wire.name == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": "it broke"}}
    return {"error": {"message": "it broke", "type": "invalid_request_error", "code": None}}


def insert_odd(wire: Wire) -> list[bytes]:
    """Return the plain answer with an unknown event in it."""
    pieces = wire.pieces()
    at = wire.first_text()
    if wire.name == "anthropic":
        unknown_event = event({"type": "telemetry", "x": 1}, "telemetry")
    elif wire.name == "responses":  # numbers must go on: put it at the end, before the last
        last = payload_of(pieces[-1])
        number = last["sequence_number"]
        unknown_event = event({"type": "response.odd", "sequence_number": number}, "response.odd")
        moved = {**last, "sequence_number": last["sequence_number"] + 1}
        return [*pieces[:-1], unknown_event, event(moved, last["type"])]
    elif wire.name == "google":
        unknown_event = event(
            {"candidates": [{"index": 0, "content": {"parts": [{"odd": {"a": 1}}]}}]}
        )
    else:
        unknown_event = event({"id": "x", "choices": [{"index": 0, "delta": {"odd": 1}}]})
    return [*pieces[:at], unknown_event, *pieces[at:]]


def renumbered(wire: Wire, numbers: list[int]) -> Answer | None:
    """The plain answer of Responses with other sequence numbers on its first events."""
    if wire.name != "responses":
        return None
    pieces = wire.pieces()
    renumbered_pieces = [
        event({**payload_of(piece), "sequence_number": number}, payload_of(piece)["type"])
        for piece, number in zip(pieces, numbers, strict=False)
    ]
    return Answer([*renumbered_pieces, *pieces[len(numbers) :]], headers=SSE, framing="chunked")


def call_stream(
    wire: Wire, arguments: str, *, is_cut: bool = False, ends: bool = True
) -> Answer | None:
    """Return an answer that calls `add` with these arguments as text; Gemini's arguments are not text."""
    if wire.name == "google":
        return None
    if wire.name == "bedrock":
        return call_frames(arguments, is_cut=is_cut, ends=ends)
    speak = {"anthropic": _anthropic_call, "responses": _responses_call}.get(wire.name, _chat_call)
    body, end = speak(arguments, is_cut=is_cut)
    return Answer([*body, *(end if ends else [])], headers=SSE, framing="chunked")


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _chat_call(arguments: str, *, is_cut: bool) -> tuple[list[bytes], list[bytes]]:
    def chunk(delta: Any, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        envelope = {"id": "c", "object": "chat.completion.chunk", "model": "m", "created": 1}
        return event({**envelope, "choices": [choice]})

    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": ""}}  # fmt: skip
    slices = [
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": half}}]})
        for half in _halves(arguments)
    ]
    end = [chunk({}, "length" if is_cut else "tool_calls"), b"data: [DONE]\n\n"]
    return [chunk({"role": "assistant", "tool_calls": [first]}), *slices], end


def _anthropic_call(arguments: str, *, is_cut: bool) -> tuple[list[bytes], list[bytes]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "role": "assistant", "model": "m", "content": [], "usage": usage}
    block = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
    body: list[Any] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for half in _halves(arguments):
        delta = {"type": "input_json_delta", "partial_json": half}
        body.append({"type": "content_block_delta", "index": 0, "delta": delta})
    reason = "max_tokens" if is_cut else "tool_use"
    end: list[Any] = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return [event(data, data["type"]) for data in body], [event(data, data["type"]) for data in end]


def _responses_call(arguments: str, *, is_cut: bool) -> tuple[list[bytes], list[bytes]]:
    response = {"id": "r", "created_at": 1, "model": "m", "status": "in_progress", "output": []}
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "add", "arguments": ""}  # fmt: skip
    final_item = {**item, "arguments": arguments, "status": "incomplete" if is_cut else "completed"}
    status = "incomplete" if is_cut else "completed"
    final = {**response, "status": status, "output": [final_item]}
    if is_cut:
        final["incomplete_details"] = {"reason": "max_output_tokens"}
    body: list[Any] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
    ]
    kind = "response.function_call_arguments"
    body += [
        {"type": f"{kind}.delta", "item_id": "fc_1", "output_index": 0, "delta": half}
        for half in _halves(arguments)
    ]
    end: list[Any] = [
        {"type": f"{kind}.done", "item_id": "fc_1", "output_index": 0, "arguments": arguments},
        {"type": "response.output_item.done", "output_index": 0, "item": final_item},
        {"type": f"response.{status}", "response": final},
    ]
    numbered = [
        event({**data, "sequence_number": number}, data["type"])
        for number, data in enumerate([*body, *end])
    ]
    return numbered[: len(body)], numbered[len(body) :]
