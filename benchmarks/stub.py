"""A stub of three APIs in a process of its own: chat completions, Responses and Anthropic messages, all pre-rendered.

    python -m benchmarks.stub        prints its port, then serves until its standard input ends

The request's model says what to answer: `text-200` is 200 words, `tool-200` one call whose arguments come in 200
slices, `hold-1` a stream that says a word and stays open. Every event of a stream is a write of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import cache
from typing import Any

MODEL = re.compile(rb'"model":\s*"(?:[a-z]+/)?(text|tool|hold)-(\d+)"')
LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
STREAMED = re.compile(rb'"stream":\s*true')
WORD = "word "
WORDS = ("word ", "loom ", "warp ", "yarn ", "silk ")
"""A stream says them in turn: litellm breaks off an answer that repeats itself."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n"
Pieces = list[bytes]


def _data(value: Any, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


def _chunked_answer(events: list[bytes], *, is_open: bool) -> Pieces:
    pieces = [HEAD % b"text/event-stream" + b"transfer-encoding: chunked\r\n\r\n"]
    pieces += [b"%x\r\n%s\r\n" % (len(event), event) for event in events]
    return pieces if is_open else [*pieces, b"0\r\n\r\n"]


def _whole_answer(value: Any) -> Pieces:
    body = json.dumps(value).encode()
    head = HEAD % b"application/json" + b"content-length: %d\r\n\r\n" % len(body)
    return [head + body]


def completions(kind: str, count: int, *, is_streamed: bool) -> Pieces:
    """Render an answer of `/v1/chat/completions`."""
    base = {"id": "chatcmpl-1", "created": 1, "model": "stub", "system_fingerprint": "fp"}
    usage = {"prompt_tokens": 5, "completion_tokens": count, "total_tokens": count + 5}
    function = {"name": "write", "arguments": json.dumps({"text": WORD * count})}
    call = {"id": "call_1", "type": "function", "function": function}
    if not is_streamed:
        message: dict[str, Any] = {"role": "assistant", "content": WORD * count, "refusal": None}
        if kind == "tool":
            message.update(content=None, tool_calls=[call])
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return _whole_answer(
            {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        )

    def chunk(delta: Any, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return _data({**base, "object": "chat.completion.chunk", "choices": [choice]})

    events = [chunk({"role": "assistant", "content": ""})]
    if kind == "tool":
        opening = {**call, "index": 0, "function": {"name": "write", "arguments": ""}}
        events.append(chunk({"tool_calls": [opening]}))
        pieces = ['{"text": "', *[WORD] * count, '"}']
        events += [
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
            for piece in pieces
        ]
    else:
        rendered = [chunk({"content": word}) for word in WORDS]
        events += [rendered[place % len(WORDS)] for place in range(count)]
    if kind == "hold":
        return _chunked_answer(events, is_open=True)
    events.append(chunk({}, "tool_calls" if kind == "tool" else "stop"))
    events.append(_data({**base, "object": "chat.completion.chunk", "choices": [], "usage": usage}))
    return _chunked_answer([*events, b"data: [DONE]\n\n"], is_open=False)


def responses(kind: str, count: int, *, is_streamed: bool) -> Pieces:
    """Render an answer of `/v1/responses`: text."""
    usage = {
        "input_tokens": 5,
        "output_tokens": count,
        "total_tokens": count + 5,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    part = {"type": "output_text", "text": WORD * count, "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    base = {"id": "resp_1", "object": "response", "created_at": 1, "model": "stub", "error": None}
    base |= {"incomplete_details": None, "instructions": None, "metadata": {}, "tools": []}
    base |= {"tool_choice": "auto", "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0}
    final_item = {**item, "content": [part]}
    response = {**base, "status": "completed", "output": [final_item], "usage": usage}
    if not is_streamed:
        return _whole_answer(response)
    number = iter(range(count + 10))

    def event(name: str, **fields: Any) -> bytes:
        return _data({"type": name, "sequence_number": next(number), **fields}, name)

    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    first_response = {**base, "status": "in_progress", "output": [], "usage": None}
    first_item = {**item, "status": "in_progress", "content": []}
    delta = "response.output_text.delta"
    events = [
        event("response.created", response=first_response),
        event("response.output_item.added", output_index=0, item=first_item),
        event("response.content_part.added", **place, part={**part, "text": ""}),
        *[event(delta, **place, delta=WORD, logprobs=[]) for _ in range(count)],
        event("response.output_text.done", **place, text=WORD * count, logprobs=[]),
        event("response.content_part.done", **place, part=part),
        event("response.output_item.done", output_index=0, item=final_item),
        event("response.completed", response=response),
    ]
    return _chunked_answer(events, is_open=False)


def messages(kind: str, count: int, *, is_streamed: bool) -> Pieces:
    """Render an answer of `/v1/messages`."""
    base = {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub"}
    usage = {"input_tokens": 5, "output_tokens": count}
    block: dict[str, Any] = {"type": "text", "text": WORD * count}
    if kind == "tool":
        block = {"type": "tool_use", "id": "call_1", "name": "write"}
        block["input"] = {"text": WORD * count}
    stop = "tool_use" if kind == "tool" else "end_turn"
    stop_fields = {"stop_reason": stop, "stop_sequence": None}
    if not is_streamed:
        return _whole_answer({**base, "content": [block], **stop_fields, "usage": usage})

    def event(name: str, **fields: Any) -> bytes:
        return _data({"type": name, **fields}, name)

    first_message = {
        **base,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    if kind == "tool":
        first_block = {**block, "input": {}}
        slices = ['{"text": "', *[WORD] * count, '"}']
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in slices]
    else:
        first_block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": WORD}] * count
    events = [
        event("message_start", message=first_message),
        event("content_block_start", index=0, content_block=first_block),
        *[event("content_block_delta", index=0, delta=delta) for delta in deltas],
        event("content_block_stop", index=0),
        event("message_delta", delta=stop_fields, usage=usage),
        event("message_stop"),
    ]
    return _chunked_answer(events, is_open=False)


APIS = {b"completions": completions, b"responses": responses, b"messages": messages}


@cache
def answer(path: bytes, kind: str, count: int, *, is_streamed: bool) -> Pieces:
    """Render an answer once; the path's last word selects the API."""
    return APIS[path.rpartition(b"/")[2]](kind, count, is_streamed=is_streamed)


class Stub(asyncio.Protocol):
    """One connection: reads requests, writes what was rendered before."""

    def __init__(self) -> None:
        self.seen = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.seen += data
        while (end := self.seen.find(b"\r\n\r\n")) >= 0:
            match = LENGTH.search(self.seen, 0, end)
            size = end + 4 + (int(match[1]) if match else 0)
            if len(self.seen) < size:
                return
            head, body = self.seen[:end], self.seen[end + 4 : size]
            self.seen = self.seen[size:]
            self.reply(head.split(b" ", 2)[1].partition(b"?")[0], body)

    def reply(self, path: bytes, body: bytes) -> None:
        model = MODEL.search(body)
        if model is None or path.rpartition(b"/")[2] not in APIS:
            self.transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        is_streamed = STREAMED.search(body) is not None
        for piece in answer(path, model[1].decode(), int(model[2]), is_streamed=is_streamed):
            self.transport.write(piece)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Stub, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
