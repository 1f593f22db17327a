"""Draws the tables of docs/reliability.md from docs/reliability.json: `python -m tests.security.page`.

The runs write the figures (`--save`); the words around the tables are the page's own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
PAGE, KEPT = DOCS / "reliability.md", DOCS / "reliability.json"
BEGIN, END = "<!-- figures: drawn by `python -m tests.security.page` -->", "<!-- figures end -->"
NOT_YET = "not taken yet"
Figures = dict[str, Any]
Say = Callable[[Figures], str]


def _fuzz(one: Figures) -> str:
    targets = one["targets"]
    least = min(target["inputs"] for target in targets.values())
    failures = sum(target["failures"] for target in targets.values())
    total = sum(target["inputs"] for target in targets.values())
    return (
        f"{total:,} inputs to {len(targets)} targets (at least {least:,} each), {failures} failures"
    )


def _chunkings(one: Figures) -> str:
    cut = sum(one["targets"][name]["inputs"] for name in ("sse", "partial_json", "http1"))
    streams = sum(target["inputs"] for name, target in one["targets"].items() if "_stream" in name)
    return f"{cut:,} cut at random and compared with the whole; {streams:,} provider streams fed in two pieces"


def _kills(one: Figures) -> str:
    stores = one["stores"].values()
    kills, kept = (sum(store[name] for store in stores) for name in ("kills", "acknowledged"))
    faults = sum(store["faults"] for store in stores)
    least = min((store.get("least", 0) for store in stores), default=0)
    each = f" (at least {least} each)" if least else ""
    return (
        f"{kills:,} kills, {kept:,} records acknowledged{each}, {faults} lost, torn or out of order"
    )


def _mutants(one: Figures) -> str:
    return ", ".join(
        f"{name} {100 * subject['killed'] // subject['tried']} % of {subject['tried']}"
        for name, subject in one["subjects"].items()
    )


ROWS: list[tuple[str, str, str, str, Say]] = [
    # figure, section of the JSON, target, peers, our words
    (
        "scenarios × wires × entry points", "matrix", "≥ 150, ≥ 2,000 faults", "–",
        lambda one: f"{one['scenarios']} scenarios, {one['injected']:,} faults injected",
    ),
    (
        "faults of embeddings × endpoints, sync and async", "embeddings", "0 silent, 0 untyped, 0 unequal", "–",
        lambda one: f"{one['scenarios']} scenarios, {one['injected']:,} faults injected; {one['silent']} silent, "
        f"{one['untyped']} untyped, {one['wrong']} wrong or unequal",
    ),
    (
        "silent successes among faults that must be reported", "matrix", "0", "5–14 per client of 13–22",
        lambda one: str(one["silent"]),
    ),
    ("exceptions that escape untyped", "matrix", "0", "0–8", lambda one: str(one["untyped"])),
    (
        "recorded streams cut at every byte × {end, FIN, RST}", "cuts", "≥ 100,000, all typed", "–",
        lambda one: f"{one['cuts']:,} cuts, {one['wrong']} wrong",
    ),
    ("random chunkings that give the same events", "fuzz", "1,000,000", "–", _chunkings),
    ("fuzz inputs", "fuzz", "≥ 10,000,000 and ≥ 200,000 each, 0 failures", "–", _fuzz),
    (
        "truncated tool calls executed", "truncated_calls", "0", "LangChain 5 of 5; pydantic-ai 0 of 3",
        lambda one: f"{one['executed']} of {one['answers']:,}",
    ),
    (
        "cancelled at the n-th await: lost / leaked", "cancels", "0 / 0 over ≥ 10,000",
        "langchain-openai on 3.11: 10 of 10 lost",
        lambda one: f"{one['lost']} / {one['leaked']} of {one['points']:,}",
    ),
    (
        "20 × `asyncio.run`, one model: answers / requests", "one_model", "20 / 20", "10/20; 20/39",
        lambda one: f"{one['loops_right_of_20']} / {one['requests_of_20_loops']}",
    ),
    (
        "wrong answers of forked children", "one_model", "0 of 100", "21–53 of 100",
        lambda one: f"{one['forked_wrong']} of {one['forked']}",
    ),
    (
        "wrong answers of 64 threads on one model", "one_model", "0", "–",
        lambda one: f"{one['threads_wrong']} of {one['threads']:,}",
    ),
    (
        "streams held open in one process", "held", "5,000, 0 failures", "only 200 were tried",
        lambda one: f"{one['right']:,} of {one['streams']:,} right, {one['bytes_per_stream']:,} bytes each, "
        f"{max(one['files_left'], 0)} files left open",
    ),
    (
        "100 kB of tool arguments in 2,000 deltas", "speed", "< 0.2 s", "29.6 s",
        lambda one: f"{one['tool_args_seconds']} s",
    ),
    (
        "1 MB of hostile JSON, the slowest", "speed", "< 1 s", "32 KB already 23.5 s",
        lambda one: f"{one['hostile_seconds']} s ({one['hostile_slowest']}); searched for in prose or fed in 4 kB "
        f"slices {one['searched_seconds']} s",
    ),
    ("mutants killed by the tests of their file", "mutants", "≥ 100 and ≥ 90 % each", "–", _mutants),
    ("`kill -9` during writes", "kills", "≥ 1,000 kills with ≥ 10 records each, 0 lost or torn", "–", _kills),
]  # fmt: skip


def _range(name: str, after: str) -> Say:
    def say(clients: Figures) -> str:
        found = sorted(one[name] for one in clients.values())
        return f"{found[0]:,}–{found[-1]:,} {after.format(**next(iter(clients.values())))}"

    return say


def _each(name: str) -> Say:
    return lambda clients: "; ".join(
        f"{client} {one[name]}" for client, one in clients.items() if one[name] != NO_AGENT
    )


NO_AGENT = "no agent of its own"
MEASURED: dict[str, Say] = {
    # figure -> what the same harness found of the peers, in place of what is known from elsewhere
    "silent successes among faults that must be reported": _range(
        "silent", "of {faults} per client"
    ),
    "exceptions that escape untyped": _range("untyped", "of {faults} per client"),
    "truncated tool calls executed": _each("truncated_calls_executed"),
    "20 × `asyncio.run`, one model: answers / requests": lambda clients: "; ".join(
        sorted(
            {
                f"{one['loops_right_of_20']} / {one['requests_of_20_loops']}"
                for one in clients.values()
            }
        )
    ),
    "wrong answers of forked children": _range("forked_wrong_of_100", "of 100"),
}


def draw(kept: Figures) -> str:
    """Give the tables."""
    parts = [_figures(kept)]
    if "peers" in kept:
        parts.append(_peers(kept["peers"]))
    if "fuzz" in kept:
        parts.append(_targets(kept["fuzz"]))
    if "kills" in kept:
        parts.append(_stores(kept["kills"]))
    return "\n\n".join(parts)


def _figures(kept: Figures) -> str:
    lines = [
        "| figure | foldline | target | peers, November 2026 | again with |",
        "|---|---|---|---|---|",
    ]
    clients = {
        name: one
        for name, one in kept.get("peers", {}).get("clients", {}).items()
        if not name.startswith("foldline")
    }
    for figure, section, target, known, say in ROWS:
        one = kept.get(section)
        peers = MEASURED[figure](clients) if clients and figure in MEASURED else known
        ours = say(one) if one else NOT_YET
        command = f"`{one['command']}`" if one else ""
        lines.append(f"| {figure} | {ours} | {target} | {peers} | {command} |")
    taken = sorted({f"{one['commit']} ({one['date']})" for one in kept.values() if "commit" in one})
    machine = next((one for one in kept.values() if "cores" in one), None)
    if machine:
        where = f"{machine['system']}, {machine['cores']} cores, Python {machine['python']}"
        lines += ["", f"Taken at {', '.join(taken)} on {where}."]
    return "\n".join(lines)


def _peers(peers: Figures) -> str:
    lines = [
        "The same faults with other clients, by the same harness (`scripts/faults --peers`):",
        "",
    ]
    clients = peers["clients"]
    names = [
        name
        for name in next(iter(clients.values()), {})
        if all(isinstance(one.get(name), str | int | float) for one in clients.values())
    ]
    lines += [f"| client | {' | '.join(name.replace('_', ' ') for name in names)} |"]
    lines += ["|---|" + "---:|" * len(names)]
    lines += [
        f"| {client} | {' | '.join(str(one[name]) for name in names)} |"
        for client, one in clients.items()
    ]
    return "\n".join(lines)


def _targets(fuzz: Figures) -> str:
    lines = [
        f"Fuzzing (`{fuzz['command']}`):",
        "",
        "| target | inputs | refused with a typed error | per second | failures |",
    ]
    lines += ["|---|---:|---:|---:|---:|"]
    lines += [
        f"| {name} | {one['inputs']:,} | {one['refused']:,} | {one['rate']:,.0f} | {one['failures']} |"
        for name, one in fuzz["targets"].items()
    ]
    return "\n".join(lines)


def _stores(kills: Figures) -> str:
    lines = [
        f"Kills (`{kills['command']}`):",
        "",
        "| store | kills | earlier kills | acknowledged | faults |",
    ]
    lines += ["|---|---:|---:|---:|---:|"]
    lines += [
        f"| {name} | {one['kills']} | {one['before_the_first']} | {one['acknowledged']:,} | {one['faults']} |"
        for name, one in kills["stores"].items()
    ]
    return "\n".join(lines)


def renewed(page: str, kept: Figures) -> str:
    """Give the page with its tables drawn anew."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{draw(kept)}\n\n{END}{rest.split(END)[1]}"


def save(section: str, command: str, figures: Figures) -> None:
    """Keep the figures of a run, which draws the page."""
    from tests.faults.__main__ import about, keep

    keep(section, {**about(command), **figures})


def main() -> int:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
