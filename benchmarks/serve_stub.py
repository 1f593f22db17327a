"""An upstream for the benchmarks of the server: chat completions with answers that are always the same."""

from __future__ import annotations

import asyncio
import json

HELD_EVENTS, HELD_PAUSE = 50, 0.2
"""A stream that is held: an event every fifth of a second, ten seconds long."""


def chunk(text: str | None, reason: str | None = None) -> bytes:
    """Return one event."""
    delta = {"content": text} if text is not None else {}
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    body = {
        "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": [choice],
    }  # fmt: skip
    return b"data: " + json.dumps(body).encode() + b"\n\n"


WHOLE = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "stub",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    }
).encode()
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
WHOLE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
END = chunk(None, "stop") + b"data: [DONE]\n\n"


async def serve_stub(port: int, events: int) -> None:
    """Answer whole, in `events` chunks ten at a time, or slowly where the message is "hold"."""

    async def stream(writer: asyncio.StreamWriter, count: int, step: int, pause: float) -> None:
        writer.write(STREAM_HEAD)
        for start in range(0, count, step):
            data = b"".join(chunk(f"word{n} ") for n in range(start, start + step))
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
            await asyncio.sleep(pause)
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(END), END))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                _, _, tail = head.lower().partition(b"content-length:")
                length = int(tail.split(b"\r\n")[0] or 0)
                body = (await reader.readexactly(length)).replace(b" ", b"")
                if b'"stream":true' not in body:
                    writer.write(WHOLE_HEAD % len(WHOLE) + WHOLE)
                elif b'"hold"' in body:
                    await stream(writer, HELD_EVENTS, 1, HELD_PAUSE)
                else:
                    await stream(writer, events, 10, 0.01)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()
