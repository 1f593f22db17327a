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

What foldline costs beside what its users would pick instead, and beside the floor: the same work with plain dicts and
functions, or over HTTP with a bare client (`pyreqwest`, a Rust client, and `json.loads`) and with a raw socket. All of
a row is measured in one run, in turn, round after round, each side in a process of its own, for at least a tenth of a
second; a row shows our median, and every other side in the median of its proportions to us within a round, because
this machine may be twice as fast in one second as in the next (there is one round under `--quick`; rows that were
never measured are left out). It is processor time unless the row says wall. Over HTTP the other end is a stub in a
process of its own, which sends bytes rendered beforehand.

    scripts/bench                  print the table (some minutes)
    scripts/bench --quick          one round of each row
    scripts/bench --only HTTP      some rows
    scripts/bench --check          fail where a ratio grew by over a quarter since the table below (some minutes)
    scripts/bench --save           renew this page, its plots and benchmarks/results.json

Taken {taken} on {machine}, Python {python}; load {load} when it ended: the machine was {busy}, so trust the ratios and
not the microseconds. Versions: {versions}.

| measure | floor | foldline | peer | ratio | target | | other peers |
|---|---:|---:|---:|---:|---|---|---|
{table}

{counted} Lines marked MISSED are work to do, not rounding.

The peer is LangChain unless there is none. Of the events of a v2 stream (`stream_v2`), LangChain's number is that of
`stream_events(version="v3")` on a model whose author wrote `_stream`, which is every model of its users; ours is a
model that gives events itself, as every provider of ours does. The same holds for adding up chunks of text. The rows
"bridged" have `_stream` on both sides.

The floor of an import is the least that has a Pydantic model in it: `pydantic` itself, and one class of one field,
whose schema is not built. Messages and chat models are Pydantic models to their users (FastAPI, `model_dump`,
validation), so importing one cannot cost less.

## While somebody watches

The rows "one handler" have on both sides the same handler, whose hooks do nothing. What such a handler is given is made
when it looks: `serialized` is written at the first look, an id is made once for a run, a hook is called with nothing
looked up a second time. The rows of the SQLite tracer and of OpenTelemetry compare our chain with the same chain under
one empty handler, in processor time of the whole process, so that what a thread writes counts. A chain is four runs.
"Bare spans" is the chain under a handler of twenty lines that makes four spans with OpenTelemetry's own library, "bare
rows" the chain and four ready rows, with their tags and words, written into the same tables of SQLite: no tracer in
Python can cost less than these, and where they themselves are above 1.5 × the floor the target cannot be met. What is
between them and ours is finding out what a span or a row says, and in SQLite writing what went in and came out as JSON.

`benchmarks/independent.py` measures the rows with one handler again, without this harness: by pyperf, or on a busy
machine in processor time. Its ratios are to agree with the table within 20 %.

## Many items

`python -m benchmarks.jobs --items 1000000` asks for each of a million items a prompt, a model that answers at once and
a parser, so that what is counted is what is around a model ([a million prompts](batches.md)).

{jobs}

Memory does not grow with the items: what grows until it is full is SQLite's page cache, 16 MB. The awaited job asks a
fake model that has only a sync method, in a thread for each item, as every such model of LangChain's users.

## A server

What one request costs `foldline serve`, run log and key included, beside litellm's proxy in front of the same stub, and
beside the same call in a program without a server (`scripts/bench --server`). All sides take turns in one run; an
answer that is wanted at once is asked of the provider at once, a streamed one as a stream of 100 events.

{server}

## Scaling

Straight lines are what is wanted. Every handler after the first costs the same again; the first also pays for the id,
the metadata and the form of what starts. A run costs somewhat more the deeper it stands, on both sides. A call goes
through its history once, by the classes of the messages, and a provider writes each message down: a line, because
messages may be changed between two calls, and because the body that is sent grows with them. A message that is plain
text takes a short way. Tools are described when they are bound, each compared only with those of its name, and
described again only when something in them has changed.

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
