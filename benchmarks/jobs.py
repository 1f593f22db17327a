"""Many items through `batch_job`, beside a plain asyncio loop, Ray and LangChain's `abatch`; see docs/batches.md.

    python -m benchmarks.jobs --items 1000000
    python -m benchmarks.jobs --items 100000 --only ray
    .venv-peers/bin/python benchmarks/jobs.py --items 20000 --only langchain

`--save` keeps what was seen in benchmarks/jobs.json and renews its section of docs/benchmarks.md.

Each side is asked the same: a prompt, a model that answers at once, a parser. What is counted is what is
around a model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIDES = {
    "floor": "a plain asyncio loop, nothing kept (floor)",
    "job": "`batch_job`, every answer in SQLite",
    "job_async": "the same, awaited (`aresults`)",
    "ray": "the same on Ray, two workers (time of the driver, which keeps the store)",
    "langchain": "LangChain's `abatch`, nothing kept",
}
"""Measurement -> its name in the table."""
ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "jobs.json", ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- jobs begin -->", "<!-- jobs end -->"


MARKS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
"""Numbers of answers at which the memory and the time so far are noted."""
marks: dict[int, tuple[int, float]] = {}


def note(finished: int) -> None:
    """Note the peak of memory in MB and the processor time in seconds when some answers are there."""
    if finished in MARKS:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        marks[finished] = peak, round(time.process_time(), 1)


def rows(count: int) -> Iterator[dict[str, str]]:
    return ({"topic": f"thing {number}"} for number in range(count))


def chain() -> Any:
    from foldline.language_models import FakeListChatModel
    from foldline.output_parsers import StrOutputParser
    from foldline.prompts import ChatPromptTemplate

    model = FakeListChatModel(responses=["a short answer"])
    return ChatPromptTemplate.from_template("Say something of {topic}") | model | StrOutputParser()


def floor(count: int) -> int:
    """Ask by hand: tasks, sixteen at a time, nothing kept."""

    async def answer(row: dict[str, str]) -> str:
        await asyncio.sleep(0)
        return f"Say something of {row['topic']}"

    async def main() -> int:
        limit, finished = asyncio.Semaphore(16), 0

        async def work(row: dict[str, str]) -> None:
            nonlocal finished
            async with limit:
                await answer(row)
                finished += 1

        pending: set[asyncio.Task[None]] = set()
        for row in rows(count):
            pending.add(asyncio.create_task(work(row)))
            if len(pending) >= 1000:
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*pending)
        return finished

    return asyncio.run(main())


def job(count: int) -> int:
    with (
        tempfile.TemporaryDirectory() as folder,
        chain().batch_job(rows(count), store=Path(folder, "j.db")) as batch_job,
    ):
        finished = 0
        for _ in batch_job.results():
            finished += 1
            note(finished)
        return finished


def job_async(count: int) -> int:
    async def main() -> int:
        with (
            tempfile.TemporaryDirectory() as folder,
            chain().batch_job(rows(count), store=Path(folder, "j.db")) as batch_job,
        ):
            finished = 0
            async for _ in batch_job.aresults():
                finished += 1
                note(finished)
            return finished

    return asyncio.run(main())


def ray(count: int) -> int:
    from foldline.batches import RayExecutor

    with (
        RayExecutor(workers=2, num_cpus=0.5, object_store_memory=80 * 1024 * 1024) as executor,
        tempfile.TemporaryDirectory() as folder,
        chain().batch_job(rows(count), store=Path(folder, "j.db"), executor=executor) as batch_job,
    ):
        finished = 0
        for _ in batch_job.results():
            finished += 1
            note(finished)
        return finished


def langchain(count: int) -> int:
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate

    model = FakeListChatModel(responses=["a short answer"])
    batch_chain = (
        ChatPromptTemplate.from_template("Say something of {topic}") | model | StrOutputParser()
    )
    return len(asyncio.run(batch_chain.abatch(list(rows(count)), {"max_concurrency": 16})))


def measure(side: str, count: int, *, is_kept: bool) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    finished = globals()[side](count)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert finished == count, (finished, count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    row = {"side": side, "items": count, "cpu_us": round(cpu / count * 1e6, 1), "wall_us": round(wall / count * 1e6, 1),
           "peak_mb": peak, "load": round(os.getloadavg()[0], 1), "marks": marks}  # fmt: skip
    print(json.dumps(row), flush=True)
    if is_kept:
        keep({"taken": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), **row})


def keep(row: dict[str, Any]) -> None:
    """Keep what was seen of one side, and renew the section of the page."""
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows[row["side"]] = row
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    before, _, page = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + section(ROOT) + page.partition(END)[2])


def section(root: Path) -> str:
    """Return the section of docs/benchmarks.md about jobs, from what was kept."""
    file = root / "benchmarks" / "jobs.json"
    rows = json.loads(file.read_text()) if file.exists() else {}
    lines = [
        BEGIN,
        "",
        "| | items | processor time per item | wall per item | peak memory | load | taken |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for side in [name for name in SIDES if name in rows]:
        row = rows[side]
        lines.append(
            f"| {SIDES[side]} | {row['items']:,} | {row['cpu_us']:.0f} µs | {row['wall_us']:.0f} µs "
            f"| {row['peak_mb']} MB | {row['load']} | {row['taken']} |"
        )
    job = rows.get("job", {}).get("marks")
    if job:
        peaks = ", ".join(
            f"{memory} MB at {int(finished):,}" for finished, (memory, _) in job.items()
        )
        lines += ["", f"Peak memory of `batch_job` while it ran: {peaks}."]
    return "\n".join([*lines, "", END])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--only", choices=SIDES)
    parser.add_argument("--save", action="store_true", help="keep what was seen")
    parser.add_argument("--here", action="store_true", help="measure in this process")
    options = parser.parse_args()
    if options.here or options.only == "langchain":
        measure(options.only, options.items, is_kept=options.save)
        return
    sides = [options.only] if options.only else [side for side in SIDES if side != "langchain"]
    for side in sides:
        command = [
            sys.executable,
            __file__,
            "--items",
            str(options.items),
            "--only",
            side,
            "--here",
        ]
        subprocess.run(command + (["--save"] if options.save else []), check=True)


if __name__ == "__main__":
    main()
