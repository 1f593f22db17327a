"""The section of docs/benchmarks.md about the server, from benchmarks/serve.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "serve.json"
GOAL = 5.0
"""litellm's CPU over ours, at least."""


def server_section() -> str:
    """Return the section; a sentence where nothing was measured yet."""
    if not RESULTS.exists():
        return "Not taken yet: `python -m benchmarks.serve --save`."
    result: dict[str, Any] = json.loads(RESULTS.read_text())
    lines = [
        "| processor time | no server | `foldline serve` | litellm's proxy | ratio | goal | |",
        "|---|---:|---:|---:|---:|---|---|",
        _row(result, "per request", "request", "requests_ratio"),
        _row(result, "per streamed event", "event", "events_ratio"),
    ]
    return "\n".join([*lines, "", _remarks(result)])


def _row(result: dict[str, Any], label: str, name: str, ratio_name: str) -> str:
    foldline, alone = result["foldline"][name], result["direct"][name]
    litellm = result.get("litellm")
    if litellm is None:
        return f"| {label} | {alone:,.0f} µs | {foldline:,.0f} µs | | | ≤ 1/{GOAL:g} | |"
    ratio = litellm[ratio_name]
    verdict = "met" if ratio >= GOAL else "**MISSED**"
    return (
        f"| {label} | {alone:,.0f} µs | {foldline:,.0f} µs | {litellm[name]:,.0f} µs | 1/{ratio:.1f} | ≤ 1/{GOAL:g} "
        f"| {verdict} |"
    )


def _remarks(result: dict[str, Any]) -> str:
    sentences = [
        f"Taken {result['taken']} on {result['machine']}, load {result['load']}, medians of {result['rounds']} rounds, "
        "also of the ratio."
    ]
    litellm = result.get("litellm")
    memory = f"The server's process has {result['foldline']['memory']:,.0f} MB"
    sentences.append(
        f"{memory}, litellm's {litellm['memory']:,.0f} MB." if litellm is not None else f"{memory}."
    )
    held = result.get("held")
    if held is not None:
        more = held["memory_after"] - held["memory_before"]
        sentences.append(
            f"{held['streams']} streams of ten seconds held at once all ended whole after {held['seconds']:.1f} s, for "
            f"{held['cpu_seconds']:.1f} s of CPU and {more:,.0f} MB more memory."
        )
    long = result.get("long")
    if long is not None:
        sizes = ", ".join(f"{size:,.0f}" for size in long["memory"])
        sentences.append(f"Memory after each quarter of {long['requests']:,} requests: {sizes} MB.")
    return " ".join(sentences)
