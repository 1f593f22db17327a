"""The HTTP/2 port of the fault server: the same scripts, over `h2`."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset


class Http2Connection(asyncio.Protocol):
    """One client connection, many streams."""

    def __init__(self, world: Any, answer_of: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.world = world
        self.answer_of = answer_of
        self.http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.requests: dict[int, dict[str, Any]] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.world.open.add(self)
        self.world.opened += 1
        self.number = self.world.opened
        self.http.initiate_connection()
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.world.open.discard(self)
        for task in self.tasks.values():
            task.cancel()

    def flush(self) -> None:
        self.transport.write(self.http.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self.http.receive_data(data):
            if isinstance(event, RequestReceived):
                self.requests[event.stream_id] = {"headers": dict(event.headers), "body": b""}
            elif isinstance(event, DataReceived):
                self.requests[event.stream_id]["body"] += event.data
                self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamReset) and event.stream_id in self.tasks:
                self.world.resets += 1
                self.tasks[event.stream_id].cancel()
            if isinstance(event, StreamEnded):
                answering = self.answer(event.stream_id)
                self.tasks[event.stream_id] = asyncio.get_running_loop().create_task(answering)
        self.flush()

    def record(self, stream: int) -> dict[str, Any]:
        request = self.requests.pop(stream)
        headers = request["headers"]
        record = {
            "method": headers[":method"],
            "target": headers[":path"],
            "path": headers[":path"].split("?")[0],
            "headers": headers,
            "body": base64.b64encode(request["body"]).decode(),
            "connection": self.number,
            "port": "http2",
            "time": time.time(),
        }
        self.world.requests.append(record)
        return record

    async def answer(self, stream: int) -> None:
        answer = self.answer_of(self.record(stream))
        if answer["before"]:
            await asyncio.sleep(
                3600
            )  # of what may come before the headers, only a stall is known here
        headers = [(":status", str(answer["status"])), *answer["headers"].items()]
        self.http.send_headers(stream, headers)
        for kind, value in answer["steps"]:
            if kind == "send":
                self.http.send_data(stream, base64.b64decode(value))
                self.flush()
            elif kind == "wait":
                await asyncio.sleep(value)
            elif kind == "stall":
                await asyncio.sleep(3600)
            elif kind == "rst":
                self.http.reset_stream(stream, error_code=2)
                self.flush()
                return
            elif kind == "fin":
                self.transport.close()
                return
        self.http.end_stream(stream)
        self.flush()
