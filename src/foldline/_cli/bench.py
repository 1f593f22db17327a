"""`foldline bench`: how fast a model is here; with `--suite`, the benchmarks of a clone of foldline."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from foldline._cli.choose import choose_model, name_of, prepare
from foldline._cli.terminal import echo, table
from foldline.exceptions import UsageError

if TYPE_CHECKING:
    from foldline.language_models.base_chat_model import BaseChatModel

__all__ = ["bench"]


def bench(prompt: str, *, model: str | None, runs: int, suite: bool, as_json: bool) -> int:
    """Run a model several times and print the times."""
    if suite:
        return _run_suite()
    chat_model = choose_model(model)
    prepare(chat_model)
    times = [_time(chat_model, prompt) for _ in range(runs)]
    # The first run loads the model or opens the connection: it is shown, but not in the median.
    later_runs = times[1:] or times
    middle = {key: _middle([run_times[key] for run_times in later_runs]) for key in times[0]}
    if as_json:
        echo(json.dumps({"model": name_of(chat_model), "runs": times, "median": middle}))
        return 0
    echo(f"{name_of(chat_model)}, {runs} runs; the median leaves out the first")
    rows = [
        (str(number), *_cells(run_times))
        for number, run_times in [
            *((str(at), run_times) for at, run_times in enumerate(times, 1)),
            ("median", middle),
        ]
    ]
    table(("run", "first token", "whole answer", "tokens", "tokens/s"), rows)
    return 0


def _time(model: BaseChatModel, prompt: str) -> dict[str, float | None]:
    start = time.perf_counter()
    first: float | None = None
    stream = model.stream_v2(prompt)
    for event in stream:
        if first is None and event["event"] == "content-block-delta":
            first = time.perf_counter()
    end = time.perf_counter()
    usage = stream.output.usage_metadata
    tokens = usage.get("output_tokens") if usage else None
    generation_time = end - (first or start)
    return {
        "first_token": (first or end) - start,
        "seconds": end - start,
        "tokens": tokens,
        "tokens_per_second": (tokens - 1) / generation_time
        if tokens and tokens > 1 and generation_time
        else None,
    }


def _middle(values: list[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.median(numbers) if numbers else None


def _cells(times: dict[str, float | None]) -> tuple[str, str, str, str]:
    first, total = times["first_token"], times["seconds"]
    tokens, rate = times["tokens"], times["tokens_per_second"]
    return (
        f"{(first or 0) * 1000:.0f} ms",
        f"{total or 0:.2f} s",
        "?" if tokens is None else f"{tokens:.0f}",
        "?" if rate is None else f"{rate:.1f}",
    )


def _run_suite() -> int:
    script = Path("scripts/bench")
    if not script.is_file() or not Path("src/foldline").is_dir():
        raise UsageError(
            "--suite runs scripts/bench of a clone of foldline: run it in the clone's folder"
        )
    sys.stdout.flush()
    return subprocess.run([str(script)], check=False).returncode
