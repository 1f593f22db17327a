"""The fault server itself: raw asyncio in a process of its own, taught over a control port.

Run as `python -m tests.servers.process [certificate.pem]`; prints its ports as one line of JSON. On every HTTP/1.1 port
it also acts as a forward proxy (absolute request targets, CONNECT); one port is a SOCKS5 proxy. It stops when its
standard input closes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import struct
import sys
import time
from collections import defaultdict
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers.echo import say_back
from tests.servers.http2 import Http2Connection

REASONS = {200: "OK", 307: "Temporary Redirect", 404: "Not Found"}


class World:
    """The state of the server: scripts, requests, open connections."""

    def __init__(self) -> None:
        self.reset()
        self.open: set[Any] = set()
        self.opened = 0
        self.resets = 0

    def reset(self) -> None:
        self.gate = asyncio.Event()
        self.scripts: dict[str, list[dict[str, Any]]] = {}
        self.used: dict[str, int] = defaultdict(int)
        self.requests: list[dict[str, Any]] = []

    def next_answer(self, path: str) -> dict[str, Any] | None:
        script = self.scripts.get(path)
        if not script:
            return None
        turn = self.used[path]
        self.used[path] += 1
        return script[min(turn, len(script) - 1)]


class Connection(asyncio.Protocol):
    """One client connection; a lost connection stops the answer at once."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.buffer = bytearray()
        self.more = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.tunnel: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.world.open.add(self)
        self.world.opened += 1
        self.number = self.world.opened
        self.writable = asyncio.Event()
        self.writable.set()
        self.task = asyncio.get_running_loop().create_task(self.serve())

    def data_received(self, data: bytes) -> None:
        if self.tunnel is not None:
            self.tunnel.write(data)
            return
        self.buffer += data
        self.more.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.world.open.discard(self)
        if self.tunnel is not None:
            self.tunnel.close()
        if self.task is not None:
            self.task.cancel()

    async def until(self, enough: Any) -> Any:
        while not (result := enough()):
            self.more.clear()
            await self.more.wait()
        return result

    async def serve(self) -> None:
        try:
            while not self.transport.is_closing():
                request = await self.read_request()
                if request["method"] == "CONNECT" and request["path"] not in self.world.scripts:
                    await self.connect(request)
                    return
                await self.answer(request)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001  a test server says what it tripped over
            print(f"fault server: {error!r}", file=sys.stderr)
            self.transport.abort()

    async def read_request(self) -> dict[str, Any]:
        end = await self.until(lambda: self.buffer.find(b"\r\n\r\n") + 1)
        head, self.buffer = bytes(self.buffer[: end - 1]), self.buffer[end + 3 :]
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _version = first.split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
        size = int(headers.get("content-length", "0"))
        await self.until(lambda: len(self.buffer) >= size)
        body, self.buffer = bytes(self.buffer[:size]), self.buffer[size:]
        path = urlsplit(target).path if method != "CONNECT" else target
        request = {
            "method": method,
            "target": target,
            "path": path,
            "headers": headers,
            "body": base64.b64encode(body).decode(),
            "connection": self.number,
            "port": self.name,
            "time": time.time(),
        }
        self.world.requests.append(request)
        return request

    async def connect(self, request: dict[str, Any]) -> None:
        await self.open_tunnel(request["target"])
        self.transport.write(b"HTTP/1.1 200 OK\r\n\r\n")

    async def open_tunnel(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: Tunnel(self.transport), host, int(port))
        self.tunnel = transport

    async def answer(self, request: dict[str, Any]) -> None:
        answer = self.world.next_answer(request["path"]) or builtin(request)
        answer = cut_by_query(answer, request["target"])
        await self.steps(answer["before"], "raw")
        if answer["framing"] != "raw":
            self.transport.write(head_of(answer))
        await self.steps(answer["steps"], answer["framing"])
        if answer["framing"] == "chunked":
            self.transport.write(b"0\r\n\r\n")
        if answer["framing"] in ("close", "raw"):
            self.transport.close()
        if answer["close_after"] is not None:
            await asyncio.sleep(answer["close_after"])
            self.transport.close()

    async def steps(self, steps: list[list[Any]], framing: str) -> None:
        for kind, value in steps:
            if kind == "send":
                await self.send(base64.b64decode(value), framing)
            elif kind == "part":
                size, piece = value[0], base64.b64decode(value[1])
                self.transport.write((b"%x\r\n" % size if framing == "chunked" else b"") + piece)
            elif kind == "repeat":
                times, pause, piece = value[0], value[1], base64.b64decode(value[2])
                for _ in range(times):
                    await self.send(piece, framing)
                    await asyncio.sleep(pause)
            elif kind == "wait":
                await asyncio.sleep(value)
            elif kind == "stall":
                await asyncio.sleep(3600)
            elif kind == "gate":
                await self.world.gate.wait()
            else:
                await self.end(kind)

    async def send(self, piece: bytes, framing: str) -> None:
        self.transport.write(
            b"%x\r\n%s\r\n" % (len(piece), piece) if framing == "chunked" else piece
        )
        await self.writable.wait()
        await asyncio.sleep(0)

    async def end(self, how: str) -> None:
        if how == "rst":
            await asyncio.sleep(0.005)  # let what was written leave before it is thrown away
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, linger
            )
            self.transport.abort()
        else:
            self.transport.close()
        await asyncio.sleep(3600)


class SocksConnection(Connection):
    """A SOCKS5 proxy (RFC 1928, 1929); a script under `host:port` answers with its status as the reply code."""

    async def serve(self) -> None:
        try:
            user = await self.greet()
            _, _, _, kind = await self.take(4)
            if kind == 3:
                host = (await self.take((await self.take(1))[0])).decode()
            else:
                host = socket.inet_ntop(
                    socket.AF_INET if kind == 1 else socket.AF_INET6,
                    await self.take(4 if kind == 1 else 16),
                )
            target = f"{host}:{int.from_bytes(await self.take(2), 'big')}"
            self.world.requests.append(
                {"method": "SOCKS5", "target": target, "path": target, "headers": {"user": user},
                 "body": "", "connection": self.number, "port": self.name, "time": time.time()}
            )  # fmt: skip
            answer = self.world.next_answer(target)
            code = 0 if answer is None else answer["status"]
            await self.steps([] if answer is None else answer["before"], "raw")
            if code == 0:
                await self.open_tunnel(target)
            self.transport.write(bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0]))
        except asyncio.CancelledError:
            pass

    async def greet(self) -> str:
        """Agree on how to log in; gives `user:password`, or nothing."""
        _, count = await self.take(2)
        if 2 not in await self.take(count):
            self.transport.write(b"\x05\x00")
            return ""
        self.transport.write(b"\x05\x02")
        _, size = await self.take(2)
        name = await self.take(size)
        password = await self.take((await self.take(1))[0])
        self.transport.write(b"\x01\x00")
        return (name + b":" + password).decode()

    async def take(self, size: int) -> bytes:
        await self.until(lambda: len(self.buffer) >= size)
        piece, self.buffer = bytes(self.buffer[:size]), self.buffer[size:]
        return piece


class Tunnel(asyncio.Protocol):
    """The far side of a CONNECT."""

    def __init__(self, back: asyncio.Transport) -> None:
        self.back = back

    def data_received(self, data: bytes) -> None:
        self.back.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.back.close()


def builtin(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a path without a script: `/echo`, `/say/...` and `/ok`; anything else is a 404."""
    status, body = 404, b"no script for this path"
    headers = {}
    if request["path"].startswith("/echo"):
        status, body = (
            200,
            json.dumps({**request, "body": base64.b64decode(request["body"]).decode()}).encode(),
        )
    elif request["path"].startswith("/say/"):
        kind, body = say_back(request["path"], json.loads(base64.b64decode(request["body"])))
        status, headers = 200, {"content-type": kind}
    elif request["path"] == "/ok":
        status, body = 200, b"ok"
    steps = [["send", base64.b64encode(body).decode()]]
    return {"status": status, "headers": headers, "framing": "length", "before": [], "steps": steps,
            "close_after": None, "promise": None}  # fmt: skip


def head_of(answer: dict[str, Any]) -> bytes:
    """The status line and headers of an answer."""
    status = answer["status"]
    headers = dict(answer["headers"])
    if answer["framing"] == "length":
        true = sum(
            len(base64.b64decode(value)) for kind, value in answer["steps"] if kind == "send"
        )
        headers["content-length"] = str(answer["promise"] or true)
    elif answer["framing"] == "chunked":
        headers["transfer-encoding"] = "chunked"
    else:
        headers["connection"] = "close"
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    return f"HTTP/1.1 {status} {REASONS.get(status, 'Said')}\r\n{lines}\r\n".encode("latin-1")


def cut_by_query(answer: dict[str, Any], target: str) -> dict[str, Any]:
    """Apply `?cut=120&how=rst` (fin, rst, or clean): the same script cut anywhere, without teaching it anew."""
    query = parse_qs(urlsplit(target).query)
    if "cut" not in query:
        return answer
    remaining, how = int(query["cut"][0]), query.get("how", ["fin"])[0]
    steps: list[list[Any]] = []
    total = sum(len(base64.b64decode(value)) for kind, value in answer["steps"] if kind == "send")
    promise = answer["promise"] or max(total, remaining + 1)
    for kind, value in answer["steps"]:
        piece = base64.b64decode(value) if kind == "send" else b""
        if len(piece) > remaining:
            part = base64.b64encode(piece[:remaining]).decode()
            steps.append(["part", [len(piece), part]] if how != "clean" else ["send", part])
            break
        steps.append([kind, value])
        remaining -= len(piece)
    if how == "clean":  # the message ends as it should, the stream in it does not
        return {**answer, "steps": [step for step in steps if step[1]]}
    return {**answer, "steps": [*steps, [how, None]], "promise": promise}


async def control(world: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Obey lines of JSON: {"do": "script", ...}."""
    while line := await reader.readline():
        order = json.loads(line)
        writer.write(json.dumps(obey(world, order)).encode() + b"\n")
        await writer.drain()
    writer.close()


def obey(world: World, order: dict[str, Any]) -> Any:
    """Carry out one order of the control port."""
    match order["do"]:
        case "script":
            for path in order.get("paths") or [order["path"]]:
                world.scripts[path] = order["answers"]
                world.used[path] = 0
        case "seen":
            return [
                request for request in world.requests if order["path"] in (None, request["path"])
            ]
        case "used":
            return {path: world.used[path] for path in order["paths"]}
        case "stats":
            return {"open": len(world.open), "opened": world.opened, "seen": len(world.requests),
                    "resets": world.resets}  # fmt: skip
        case "gate":
            world.gate.set()
        case "drop":
            for connection in list(world.open):
                connection.transport.abort()
        case "reset":
            world.reset()
    return True


async def main() -> None:
    """Listen on six ports and wait for standard input to close."""
    world = World()
    loop = asyncio.get_running_loop()
    ports: dict[str, int] = {}
    context = None
    if len(sys.argv) > 1:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1])
    for name, tls in (("http", None), ("other", None), ("https", context)):
        if name == "https" and tls is None:
            continue
        server = await loop.create_server(
            lambda name=name: Connection(world, name), "127.0.0.1", 0, ssl=tls, backlog=4096
        )
        ports[name] = server.sockets[0].getsockname()[1]
    server = await loop.create_server(lambda: SocksConnection(world, "socks"), "127.0.0.1", 0)
    ports["socks"] = server.sockets[0].getsockname()[1]
    if len(sys.argv) > 1:
        second = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        second.load_cert_chain(sys.argv[1])
        second.set_alpn_protocols(["h2"])

        def answer_of(request: dict[str, Any]) -> dict[str, Any]:
            return world.next_answer(request["path"]) or builtin(request)

        server = await loop.create_server(
            lambda: Http2Connection(world, answer_of), "127.0.0.1", 0, ssl=second
        )
        ports["http2"] = server.sockets[0].getsockname()[1]
    teacher = await asyncio.start_server(
        lambda r, w: control(world, r, w), "127.0.0.1", 0, limit=2**30
    )
    ports["control"] = teacher.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    teacher.close()


if __name__ == "__main__":
    asyncio.run(main())
