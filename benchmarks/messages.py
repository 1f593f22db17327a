"""What making and adding message chunks costs, ours beside langchain-core's, in one run.

    python benchmarks/messages.py --peer path/to/python-with-langchain-core

Each figure is the best of several rounds, in microseconds per item; the peer runs the same code in a subprocess, with
`langchain_core` in the place of `weft`.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

TEXT_CHUNKS = 4_000
TOOL_SLICES = 4_000
ROUNDS = 5


def measure(package: str, *, big: int = 0, quick: bool = False) -> dict[str, float]:
    """Give microseconds per item for each thing measured, with the messages of `package`."""
    chunk = import_module(f"{package}.messages").AIMessageChunk
    rounds = 2 if quick else ROUNDS
    figures = {
        "make a text chunk": per_item(lambda: make(chunk, 2_000), 2_000, rounds),
        "add two text chunks": per_item(pairs(chunk, 2_000), 2_000, rounds),
        f"accumulate {TEXT_CHUNKS} text chunks": per_item(
            accumulation(texts(chunk, TEXT_CHUNKS)), TEXT_CHUNKS, rounds
        ),
        f"accumulate {TOOL_SLICES} tool-call slices": per_item(
            accumulation(slices(chunk, TOOL_SLICES)), TOOL_SLICES, 1
        ),
    }
    if big:
        figures[f"accumulate {big} text chunks"] = per_item(accumulation(texts(chunk, big)), big, 2)
        figures[f"accumulate {big} tool-call slices"] = per_item(
            accumulation(slices(chunk, big)), big, 1
        )
    return figures


def per_item(work: Callable[[], None], items: int, rounds: int) -> float:
    """Time some work in processor time, best of several rounds, without the collector's pauses."""
    best = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            start = time.process_time()
            work()
            best = min(best, time.process_time() - start)
    finally:
        gc.enable()
    return best / items * 1e6


def make(chunk: Any, number: int) -> None:
    for _ in range(number):
        chunk(content="token ")


def pairs(chunk: Any, number: int) -> Callable[[], None]:
    left, right = chunk(content="Hello"), chunk(content=" world")

    def work() -> None:
        for _ in range(number):
            left + right

    return work


def texts(chunk: Any, number: int) -> list[Any]:
    return [chunk(content="token ") for _ in range(number)]


def slices(chunk: Any, number: int) -> list[Any]:
    """Give the slices of one call whose argument is a long string."""

    def piece(args: str, name: str | None = None, id: str | None = None) -> Any:
        return chunk(
            content="", tool_call_chunks=[{"name": name, "args": args, "id": id, "index": 0}]
        )

    body = [piece("words and ") for _ in range(number - 2)]
    return [piece('{"text": "', "write", "call_1"), *body, piece('"}')]


def accumulation(chunks: list[Any]) -> Callable[[], None]:
    """Add chunks up, and read what came of it."""

    def work() -> None:
        total = chunks[0]
        for chunk in chunks[1:]:
            total = total + chunk
        assert total.content is not None
        if total.tool_call_chunks:
            assert list(total.tool_calls[0]["args"]) == ["text"]

    return work


def beside(
    peer: str, *, big: int = 0, quick: bool = False
) -> dict[str, tuple[float, float | None]]:
    """Measure ours here and the peer's in a subprocess: name -> (ours, theirs)."""
    command = [peer, __file__, "--package", "langchain_core", "--json"]
    run = subprocess.run(
        [*command, "--quick"] if quick else command, capture_output=True, check=True
    )
    theirs = json.loads(run.stdout)
    return {
        name: (cost, theirs.get(name))
        for name, cost in measure("weft", big=big, quick=quick).items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="a Python that has langchain-core")
    parser.add_argument("--package", default="weft")
    parser.add_argument("--big", type=int, default=0, help="also accumulate this many chunks")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.peer:
        for name, (ours, theirs) in beside(asked.peer, big=asked.big, quick=asked.quick).items():
            ratio = f"{theirs:10.2f} us  1/{theirs / ours:.1f}" if theirs else ""
            print(f"{name:40} {ours:10.3f} us {ratio}")
        return
    figures = measure(asked.package, big=asked.big, quick=asked.quick)
    print(json.dumps(figures)) if asked.json else print(*figures.items(), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
