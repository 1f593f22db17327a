"""The table: as lines on the terminal, as benchmarks/results.json, as docs/benchmarks.md with its plots."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.chats import section as chats_section
from benchmarks.jobs import section
from benchmarks.plots import draw
from benchmarks.serve_report import server_section
from benchmarks.table import PLOTS, ROWS, Row

Values = dict[str, float]
NAMED = (
    "langchain-core",
    "langchain-openai",
    "langchain-anthropic",
    "langchain",
    "pydantic-ai-slim",
    "litellm",
    "openai",
    "anthropic",
)


def ratio(row: Row, values: Values) -> float | None:
    """Return our value divided by the peer's; where there is no peer, by the floor."""
    against = row.peer if row.peer is not None else row.floor
    foldline_value, peer_value = values.get("foldline"), values.get(against or "")
    return foldline_value / peer_value if foldline_value is not None and peer_value else None


def line(row: Row, values: Values) -> str:
    """One row for the terminal."""
    figures = "  ".join(f"{side} {_number(value)}" for side, value in values.items())
    return f"{row.name:52} {_ratio(row, values):>8} {_target(row):>16} {_verdict(row, values):7} {figures} {row.unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(row: Row, values: Values) -> str:
    share = ratio(row, values)
    if share is None:
        return "–"
    return f"1/{1 / share:.1f}" if share < 1 else f"{share:.2f}"


def _target(row: Row) -> str:
    parts = []
    if row.target is not None:
        parts.append(f"≤ 1/{1 / row.target:.0f}" if row.target <= 0.5 else f"≤ {row.target:g}")
    if row.floor_target is not None:
        parts.append(f"≤ {row.floor_target:g} × floor")
    if row.limit is not None:
        parts.append(f"≤ {row.limit:g}")
    return ", ".join(parts)


def _verdict(row: Row, values: Values) -> str:
    return {True: "met", False: "MISSED", None: ""}[row.met(values)]


def results(measured: dict[str, Values], curves: dict[str, Any], before: Any, peers: str) -> Any:
    """Return the results to commit; rows that were not measured now stay as they were."""
    rows = dict(before.get("rows", {}))
    for row in ROWS:
        if (values := measured.get(row.name)) is not None:
            rounded = {side: float(f"{value:.4g}") for side, value in values.items()}
            share = ratio(row, values)
            rows[row.name] = {"ratio": float(f"{share:.4g}") if share else None, "values": rounded}
    rows = {row.name: rows[row.name] for row in ROWS if row.name in rows}
    return {
        "taken": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": {"foldline": metadata.version("foldline"), **_versions(peers)},
        "rows": rows,
        "curves": curves or before.get("curves", {}),
    }


def _versions(peers: str) -> dict[str, str]:
    if not peers:
        return {}
    code = f"from importlib.metadata import version\nfor n in {NAMED!r}: print(n, version(n))"
    output = subprocess.run([peers, "-c", code], capture_output=True, text=True, check=False).stdout
    return dict(line.split() for line in output.splitlines())


PAGE = """# Benchmarks

<!-- Written by `scripts/bench --save`: change the script, not this page. -->

The cost of foldline compared with its alternatives and with a floor. The floor is the same work with plain dicts and
functions, or over HTTP with a bare client (`pyreqwest`, a Rust client, and `json.loads`) and with a raw socket.

All sides of a row are measured in one run, in turns, in several rounds (one with `--quick`). Each side is a separate
process and runs for at least a tenth of a second per round. The value of foldline is its median. The value of every
other side is computed from the median of its ratios to foldline within a round, because the speed of this machine may
double from one second to the next. Rows that were never measured are left out. Times are processor time unless the row
says wall. Over HTTP the server is a stub in a separate process, which sends prepared bytes.

    scripts/bench                  print the table (some minutes)
    scripts/bench --quick          one round of each row
    scripts/bench --only HTTP      some rows
    scripts/bench --check          fail if a ratio grew by over a quarter since the table below (some minutes)
    scripts/bench --save           update this page, its plots and benchmarks/results.json

Taken {taken} on {machine}, Python {python}; load {load} when it ended: the machine was {busy}, so the ratios are
more reliable than the microseconds. Versions: {versions}.

| measure | floor | foldline | peer | ratio | target | | other peers |
|---|---:|---:|---:|---:|---|---|---|
{table}

{counted} The rows marked MISSED remain to be improved.

The peer is LangChain if it has the feature. In the rows of v2 streams (`stream_v2`), LangChain's value is that of
`stream_events(version="v3")` on a model that implements `_stream`, as all its models do; foldline's model produces
events directly, as all its providers do. The same holds for adding up chunks of text. In the rows "bridged", the models
of both sides implement `_stream`.

The floor of an import is the smallest program with a Pydantic model: `pydantic` itself, and one class with one field,
whose schema is not built. Messages and chat models are Pydantic models (for FastAPI, `model_dump` and validation), so
importing one cannot cost less.

## Handlers and tracers

In the rows "one handler", both sides have the same handler, whose methods do nothing. Its arguments are created only
when they are used: `serialized` is built at its first use, and an id is created once per run.

The rows of the SQLite tracer and of OpenTelemetry compare a chain of four runs with the same chain under one empty
handler. They measure the processor time of the complete process, so that the work of a writing thread counts. "Bare
spans" is the chain under a handler of twenty lines that creates four spans with OpenTelemetry's own library. "Bare
rows" is the chain, plus writing four prepared rows, with their tags and search words, into the same SQLite tables. No
tracer in Python can cost less than these; if they are above 1.5 × the floor, the target cannot be met. The tracers
additionally compute the contents of a span or row, and in SQLite write inputs and outputs as JSON.

`benchmarks/independent.py` measures the rows with one handler again, without this harness: with pyperf, or on a busy
machine in processor time. Its ratios should agree with the table within 20 %.

## Many items

`python -m benchmarks.jobs --items 1000000` runs a chain of a prompt, a fake model that answers immediately and a parser
for each of a million items. So it measures the overhead around a model ([a million prompts](batches.md)).

{jobs}

Memory does not grow with the number of items, except for SQLite's page cache, until it has 16 MB. The async job calls a
fake model that has only a sync method, so each call runs in a thread, as for every such model.

## Long chats

A turn of a chat with a checkpointer, early and late in its thread, beside LangGraph (`python -m benchmarks.chats`). A
turn is a question and an answer of 500 characters; times are processor time, also that of the system for the disk.
foldline waits until each step is on the disk, LangGraph writes behind the run by default.

{chats}

## A server

The cost of one request to `foldline serve`, including run log and key, compared with litellm's proxy in front of the
same stub, and with the same call in a program without a server (`scripts/bench --server`). All sides take turns in one
run. Requests without streaming are sent to the provider without streaming; streamed ones have 100 events.

{server}

## Scaling

Ideally, the cost per item does not depend on the number of items. Every handler after the first costs the same; the
first one additionally costs the id, the metadata and the description of the run. A run costs slightly more the deeper
it is nested, on both sides. The cost of a call is linear in the length of its history: every message is checked and
encoded in each call, because messages may change between two calls and because the body contains all of them. A
message of plain text takes a shorter path. Tools are encoded when they are bound, and again only when they change.

{plots}
"""


def write_page(root: Path, stored: Any) -> None:
    """Write docs/benchmarks.md and docs/images/*.svg from the results."""
    rows = [(row, stored["rows"][row.name]["values"]) for row in ROWS if row.name in stored["rows"]]
    verdicts = [met for row, values in rows if (met := row.met(values)) is not None]
    missed = verdicts.count(False)
    page = PAGE.format(
        taken=stored["taken"],
        machine=stored["machine"],
        python=stored["python"],
        load="/".join(map(str, stored["load"])),
        busy="busy with other work" if stored["load"][0] > 3 else "quiet",
        versions=", ".join(f"{name} {version}" for name, version in stored["versions"].items()),
        table="\n".join(_table_row(row, values) for row, values in rows),
        counted=f"{len(verdicts) - missed} of {len(verdicts)} targets are met, {missed} missed.",
        jobs=section(root),
        chats=chats_section(root),
        server=server_section(),
        plots="\n\n".join(_plots(root, stored["curves"])) or "Not taken yet.",
    )
    (root / "docs" / "benchmarks.md").write_text(page)


def _table_row(row: Row, values: Values) -> str:
    def cell(side: str | None) -> str:
        value = values.get(side or "")
        return f"{_number(value)} {row.unit}".strip() if value is not None else ""

    shown_sides = {"foldline", row.floor, row.peer}
    others = ", ".join(
        f"{side} {_number(value)}" for side, value in values.items() if side not in shown_sides
    )
    verdict = _verdict(row, values).replace("MISSED", "**MISSED**")
    name = row.name.replace("|", "\\|")
    return (
        f"| {name} | {cell(row.floor)} | {cell('foldline')} | {cell(row.peer)} | {_ratio(row, values)} "
        f"| {_target(row)} | {verdict} | {others} |"
    )


def _plots(root: Path, curves: dict[str, Any]) -> list[str]:
    images = root / "docs" / "images"
    images.mkdir(exist_ok=True)
    links = []
    for name, (title, x_name, y_name, _) in PLOTS.items():
        if name not in curves:
            continue
        lines: dict[str, list[tuple[float, float]]] = {}
        for x, values in curves[name]:
            for side, y in values.items():
                lines.setdefault(side, []).append((x, max(y, 0.001)))
        (images / f"{name}.svg").write_text(draw(title, x_name, y_name, lines))
        links.append(f"![{title}](images/{name}.svg)")
        links.append(_caption(title, y_name, lines))
    return links


def _caption(title: str, y_name: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    parts = []
    for side, line_ in lines.items():
        (x1, y1), (x2, y2) = line_[0], line_[-1]
        parts.append(f"{side} {_number(y1)} at {x1:,} and {_number(y2)} at {x2:,}")
    return f"{title}, {y_name}: {'; '.join(parts)}."


if __name__ == "__main__":
    sys.exit("run scripts/bench")
