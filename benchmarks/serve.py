"""CPU of `foldline serve` per request and per event, beside litellm's proxy and a program without a server, in one run.

    .venv/bin/python -m benchmarks.serve [--litellm .venv-litellm-proxy/bin/litellm] [--rounds 5] [--save]

The stub answers as OpenAI's chat completions do. CPU is that of the server's processes, from /proc; memory is its RSS.
Both servers want a key. The sides take turns, round after round; a ratio is the median of the rounds' ratios.
`--held 500` opens so many streams at once, `--long 10000` sends so many requests and looks at the memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.report import write_page
from benchmarks.serve_report import RESULTS
from benchmarks.serve_stub import serve_stub

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
ROOT = Path(__file__).parent.parent
MEASURED = Path(__file__).parent / "results.json"
UPSTREAM, OURS, THEIRS = 18471, 18472, 18473
MASTER_KEY = "sk-0Kf7vQ2xN9bTz4LrWm8YcHs3"
"""Of the proxy on loopback, for the time of the run; it takes no short one."""


def processes(pid: int) -> list[int]:
    """Return a process and its children."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    pids = [pid]
    for each in pids:
        pids += parents.get(each, [])
    return pids


def cpu(pid: int) -> float:
    """Return the seconds of a process, its threads and its children."""
    total = 0
    for each in processes(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    return total / TICK


def memory(pid: int) -> float:
    """Return the MB of a process and its children."""
    pages = 0
    for each in processes(pid):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
    return pages * PAGE / 1e6


class Side:
    """One server as a process, and what it cost in each round."""

    def __init__(
        self, name: str, command: list[str], port: int, health: str, environment: dict[str, str]
    ) -> None:
        self.name = name
        self.key = ""
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[float] = []
        self.events: list[float] = []
        self._health = health
        self._errors = tempfile.NamedTemporaryFile(suffix=f"-{name}")  # noqa: SIM115  closed by `stop`
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            cwd=tempfile.gettempdir(),
            stdout=self._errors,
            stderr=self._errors,
        )

    def wait(self) -> None:
        """Wait until it answers; where it ends instead, raise with what it wrote."""
        end = time.monotonic() + 180
        while time.monotonic() < end:
            if self.process.poll() is not None:
                text = Path(self._errors.name).read_text()[-3_000:]
                raise RuntimeError(f"{self.name} ended before it answered:\n{text}")
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(self.url + self._health, timeout=2).status_code < 500:
                    return
            time.sleep(0.2)
        raise TimeoutError(self.name)

    def load(self, count: int, parallel: int, text: str = "hi", *, streams: bool = False) -> None:
        """Send requests, some at a time."""
        asyncio.run(send(self.url, self.key, count, parallel, text, streams=streams))

    def measure(self, args: argparse.Namespace) -> None:
        """Take one round."""
        before = cpu(self.process.pid)
        self.load(args.requests, 8)
        self.requests.append((cpu(self.process.pid) - before) / args.requests * 1e6)
        before = cpu(self.process.pid)
        self.load(args.streams, args.parallel, streams=True)
        cpu_seconds = cpu(self.process.pid) - before
        self.events.append(cpu_seconds / args.streams / args.events * 1e6)

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(60)
        self._errors.close()


async def send(url: str, key: str, count: int, parallel: int, text: str, *, streams: bool) -> None:
    """Send requests, some at a time; read everything."""
    body = {"model": "stub", "messages": [{"role": "user", "content": text}], "stream": streams}
    limits = httpx.Limits(max_connections=parallel)
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(limits=limits, timeout=120, headers=headers) as client:
        queue = iter(range(count))

        async def work() -> None:
            for _ in queue:
                answer = await client.post(f"{url}/v1/chat/completions", json=body)
                assert answer.status_code == 200, answer.text
                assert not streams or b"[DONE]" in answer.content

        await asyncio.gather(*(work() for _ in range(parallel)))


async def call_directly(args: argparse.Namespace) -> dict[str, float]:
    """Do what the server does for a request, in a program of one's own: the same model, no server."""
    from foldline.providers.openai import ChatOpenAI

    model = ChatOpenAI(
        model="stub",
        api_key="x",
        base_url=f"http://127.0.0.1:{UPSTREAM}/v1",
        use_responses_api=False,
    )

    async def consume() -> None:
        async for _ in await model.astream_v2("hi"):
            pass

    async def together(body: Any, count: int, parallel: int) -> float:
        queue = iter(range(count))

        async def work() -> None:
            for _ in queue:
                await body()

        before = time.process_time()
        await asyncio.gather(*(work() for _ in range(parallel)))
        return (time.process_time() - before) / count * 1e6

    await together(consume, 4, 4)
    per_request = await together(lambda: model.ainvoke("hi"), args.requests, 8)
    per_stream = await together(consume, args.streams, args.parallel)
    return {"request": per_request, "event": per_stream / args.events}


def direct(args: argparse.Namespace) -> dict[str, float]:
    """Measure the program without a server, in a process of its own."""
    command = [
        sys.executable, "-m", "benchmarks.serve", "--direct", "--events", str(args.events),
        "--requests", str(args.requests), "--streams", str(args.streams), "--parallel", str(args.parallel),
    ]  # fmt: skip
    process = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(process.stdout)
    return result


def start_ours(folder: str) -> Side:
    """Start `foldline serve` with one key."""
    config = Path(folder) / "serve.toml"
    options = f'base_url = "http://127.0.0.1:{UPSTREAM}/v1", use_responses_api = false'
    config.write_text(f'[models]\nstub = {{ use = "openai:stub", options = {{ {options} }} }}\n')
    environment = {"OPENAI_API_KEY": "x", "FOLDLINE_DATA_DIR": folder}
    tool, log = [sys.executable, "-m", "foldline", "serve"], ["--log", f"{folder}/runs.db"]
    key = subprocess.run(
        [*tool, "keys", "add", "bench", *log],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    command = [*tool, "--config", str(config), "--port", str(OURS), *log, "--no-trace"]
    side = Side("foldline", command, OURS, "/readyz", environment)
    side.key = key
    return side


def start_litellm(folder: str, program: str) -> Side:
    """Start litellm's proxy: no database, no telemetry, no prices from the network."""
    config = Path(folder) / "litellm.yaml"
    config.write_text(
        "model_list:\n  - model_name: stub\n    litellm_params:\n      model: openai/stub\n"
        f"      api_base: http://127.0.0.1:{UPSTREAM}/v1\n      api_key: x\n"
        "litellm_settings:\n  telemetry: false\n  turn_off_message_logging: true\n"
    )
    command = [
        str(Path(program).absolute()), "--config", str(config), "--port", str(THEIRS),
        "--host", "127.0.0.1", "--num_workers", "1", "--telemetry", "False",
    ]  # fmt: skip
    environment = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MASTER_KEY": MASTER_KEY,
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
    }
    side = Side("litellm", command, THEIRS, "/health/liveliness", environment)
    side.key = MASTER_KEY
    return side


@contextlib.contextmanager
def upstream(args: argparse.Namespace) -> Iterator[None]:
    """Run the stub."""
    command = [
        sys.executable, "-m", "benchmarks.serve", "--stub", "--events", str(args.events),
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        time.sleep(1.5)
        yield
    finally:
        process.terminate()
        process.wait(20)


def hold(side: Side, count: int) -> dict[str, float]:
    """Open streams of ten seconds, all at once; return the seconds until the last has ended, and the memory."""
    before, start = memory(side.process.pid), time.monotonic()
    cpu_before = cpu(side.process.pid)
    side.load(count, count, "hold", streams=True)
    seconds = time.monotonic() - start
    return {
        "streams": count,
        "seconds": seconds,
        "cpu_seconds": cpu(side.process.pid) - cpu_before,
        "memory_before": before,
        "memory_after": memory(side.process.pid),
    }


def keep_on(side: Side, count: int) -> list[float]:
    """Send many requests; return the memory after each quarter."""
    sizes = []
    for _ in range(4):
        side.load(count // 4, 16)
        sizes.append(round(memory(side.process.pid), 1))
    return sizes


def rounds(sides: list[Side], args: argparse.Namespace) -> dict[str, Any]:
    """Take turns; return medians, and the medians of the ratios within a round."""
    alone: list[dict[str, float]] = []
    for side in sides:
        side.load(40, 8)
        side.load(8, 8, streams=True)
    for _ in range(args.rounds):
        for side in sides:
            side.measure(args)
        alone.append(direct(args))
    foldline_side = sides[0]
    result: dict[str, Any] = {
        side.name: {
            "request": statistics.median(side.requests),
            "event": statistics.median(side.events),
            "memory": memory(side.process.pid),
        }
        for side in sides
    }
    result["direct"] = {
        name: statistics.median(figures[name] for figures in alone) for name in ("request", "event")
    }
    for side in sides[1:]:
        for name in ("requests", "events"):
            pairs = zip(getattr(side, name), getattr(foldline_side, name), strict=True)
            result[side.name][f"{name}_ratio"] = statistics.median(a / b for a, b in pairs)
    return result


def main() -> None:
    """Measure, print, and with `--save` keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--litellm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--parallel", type=int, default=20)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--held", type=int, default=0)
    parser.add_argument("--long", type=int, default=0)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--stub", action="store_true")
    parser.add_argument("--direct", action="store_true")
    args = parser.parse_args()
    if args.stub:
        asyncio.run(serve_stub(UPSTREAM, args.events))
        return
    if args.direct:
        print(json.dumps(asyncio.run(call_directly(args))))
        return
    with tempfile.TemporaryDirectory() as folder, upstream(args):
        sides = [start_ours(folder)]
        try:
            if args.litellm:
                sides.append(start_litellm(folder, args.litellm))
            for side in sides:
                side.wait()
            result = rounds(sides, args)
            if args.held:
                result["held"] = hold(sides[0], args.held)
            if args.long:
                sizes = keep_on(sides[0], args.long)
                result["long"] = {"requests": args.long, "memory": sizes}
        finally:
            for side in sides:
                side.stop()
    result["rounds"] = args.rounds
    result["taken"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    result["machine"] = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    result["load"] = "/".join(f"{each:.1f}" for each in os.getloadavg())
    text = json.dumps(result, indent=1)
    print(text)
    if args.save:
        RESULTS.write_text(f"{text}\n")
        write_page(ROOT, json.loads(MEASURED.read_text()))


if __name__ == "__main__":
    main()
