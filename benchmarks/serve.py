"""CPU of `foldline serve` per request and per event, beside litellm's proxy on the same stub, in one run.

    .venv/bin/python -m benchmarks.serve [--litellm PATH/bin/litellm] [--requests 300]

The stub answers as OpenAI's chat completions do. CPU is that of the server's process, from /proc; memory is its RSS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
ROOT = Path(__file__).parent.parent


def chunk(text: str | None, reason: str | None = None) -> bytes:
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


async def stub(port: int, events: int) -> None:
    """Serve chat completions: whole, or `events` chunks in pieces of ten."""
    end = chunk(None, "stop") + b"data: [DONE]\n\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                if b'"stream":true' in body.replace(b" ", b""):
                    writer.write(
                        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                    )
                    for start in range(0, events, 10):
                        data = b"".join(chunk(f"word{n} ") for n in range(start, start + 10))
                        writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                        await writer.drain()
                        await asyncio.sleep(0.01)
                    writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(end), end))
                else:
                    writer.write(
                        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                        % (len(WHOLE), WHOLE)
                    )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def cpu(pid: int) -> float:
    """Seconds of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory(pid: int) -> float:
    """MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


async def load(url: str, key: str, count: int, parallel: int, *, streams: bool) -> None:
    """Send requests, some at a time; read everything."""
    body = {
        "model": "stub", "messages": [{"role": "user", "content": "hi"}], "stream": streams,
    }  # fmt: skip
    limits = httpx.Limits(max_connections=parallel)
    async with httpx.AsyncClient(limits=limits, timeout=120) as client:
        queue = iter(range(count))

        async def work() -> None:
            for _ in queue:
                answer = await client.post(
                    f"{url}/v1/chat/completions",
                    json=body,
                    headers={"authorization": f"Bearer {key}"},
                )
                assert answer.status_code == 200, answer.text
                assert not streams or b"[DONE]" in answer.content

        await asyncio.gather(*(work() for _ in range(parallel)))


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert process.poll() is None
        try:
            if httpx.get(url, timeout=2).status_code < 500:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise TimeoutError(url)


def measure(
    name: str,
    command: list[str],
    port: int,
    health: str,
    environment: dict[str, str],
    args: argparse.Namespace,
) -> dict[str, float]:
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        cwd=tempfile.gettempdir(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url + health, process)
        run: Callable[..., None] = lambda count, parallel, streams=False: asyncio.run(  # noqa: E731
            load(url, "sk-1234", count, parallel, streams=streams)
        )
        run(20, 4)
        run(4, 4, streams=True)
        before = cpu(process.pid)
        run(args.requests, 8)
        per_request = (cpu(process.pid) - before) / args.requests
        before = cpu(process.pid)
        run(args.streams, args.parallel, streams=True)
        per_event = (cpu(process.pid) - before) / args.streams / args.events
        found = {
            "CPU per request, µs": per_request * 1e6,
            "CPU per streamed event, µs": per_event * 1e6,
            "memory, MB": memory(process.pid),
        }
        if args.long and name == "foldline":
            sizes = []
            for _ in range(4):
                run(args.long // 4, 16)
                sizes.append(round(memory(process.pid), 1))
            print("memory after each quarter of", args.long, "requests:", sizes)
        return found
    finally:
        process.terminate()
        process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--litellm")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--parallel", type=int, default=20)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--long", type=int, default=0)
    parser.add_argument("--stub", type=int)
    args = parser.parse_args()
    if args.stub:
        asyncio.run(stub(args.stub, args.events))
        return
    upstream, ours, theirs = 18471, 18472, 18473
    command = [
        sys.executable,
        "-m",
        "benchmarks.serve",
        "--stub",
        str(upstream),
        "--events",
        str(args.events),
    ]
    source = subprocess.Popen(command, cwd=ROOT)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            time.sleep(1.5)
            config = Path(folder) / "serve.toml"
            config.write_text(
                f'[models]\nstub = {{ use = "openai:stub", options = {{ base_url = "http://127.0.0.1:{upstream}/v1", '
                "use_responses_api = false }} }\n".replace("}} }", "} }")
            )
            environment = {"OPENAI_API_KEY": "x", "FOLDLINE_DATA_DIR": folder}
            serve = [
                sys.executable, "-m", "foldline.cli", "serve", "--config", str(config), "--port", str(ours),
                "--log", f"{folder}/runs.db", "--no-trace",
            ]  # fmt: skip
            results["foldline"] = measure("foldline", serve, ours, "/readyz", environment, args)
            if args.litellm:
                other = Path(folder) / "litellm.yaml"
                other.write_text(
                    "model_list:\n  - model_name: stub\n    litellm_params:\n      model: openai/stub\n"
                    f"      api_base: http://127.0.0.1:{upstream}/v1\n      api_key: x\n"
                )
                proxy = [
                    args.litellm,
                    "--config",
                    str(other),
                    "--port",
                    str(theirs),
                    "--host",
                    "127.0.0.1",
                ]
                environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
                results["litellm"] = measure(
                    "litellm", proxy, theirs, "/health/liveliness", environment, args
                )
        finally:
            source.terminate()
    for name, figures in results.items():
        print(name, {key: round(value, 1) for key, value in figures.items()})


if __name__ == "__main__":
    main()
