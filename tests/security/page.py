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


def _fuzz(figures: Figures) -> str:
    targets = figures["targets"]
    fewest = min(target["inputs"] for target in targets.values())
    failures = sum(target["failures"] for target in targets.values())
    total = sum(target["inputs"] for target in targets.values())
    return f"{total:,} inputs to {len(targets)} targets (at least {fewest:,} each), {failures} failures"


def _chunkings(figures: Figures) -> str:
    cut_count = sum(figures["targets"][name]["inputs"] for name in ("sse", "partial_json", "http1"))
    streams = sum(
        target["inputs"] for name, target in figures["targets"].items() if "_stream" in name
    )
    return f"{cut_count:,} cut at random and compared with the whole; {streams:,} provider streams fed in two pieces"


def _kills(figures: Figures) -> str:
    stores = figures["stores"].values()
    kills, record_count = (
        sum(store[name] for store in stores) for name in ("kills", "acknowledged")
    )
    faults = sum(store["faults"] for store in stores)
    fewest = min((store.get("least", 0) for store in stores), default=0)
    each = f" (at least {fewest} each)" if fewest else ""
    return f"{kills:,} kills, {record_count:,} records acknowledged{each}, {faults} lost, torn or out of order"


def _mutants(figures: Figures) -> str:
    return ", ".join(
        f"{name} {100 * subject['killed'] // subject['tried']} % of {subject['tried']}"
        for name, subject in figures["subjects"].items()
    )


ROWS: list[tuple[str, str, str, str, Say]] = [
    # figure, section of the JSON, target, peers, our words
    (
        "scenarios × wires × entry points", "matrix", "≥ 150, ≥ 2,000 faults", "–",
        lambda figures: f"{figures['scenarios']} scenarios, {figures['injected']:,} faults injected",
    ),
    (
        "faults of embeddings × endpoints, sync and async", "embeddings", "0 silent, 0 untyped, 0 unequal", "–",
        lambda figures: f"{figures['scenarios']} scenarios, {figures['injected']:,} faults injected; "
        f"{figures['silent']} silent, {figures['untyped']} untyped, {figures['wrong']} wrong or unequal",
    ),
    (
        "silent successes among faults that must be reported", "matrix", "0", "5–14 per client of 13–22",
        lambda figures: str(figures["silent"]),
    ),
    ("exceptions that escape untyped", "matrix", "0", "0–8", lambda figures: str(figures["untyped"])),
    (
        "recorded streams cut at every byte × {end, FIN, RST}", "cuts", "≥ 100,000, all typed", "–",
        lambda figures: f"{figures['cuts']:,} cuts, {figures['wrong']} wrong",
    ),
    ("random chunkings that give the same events", "fuzz", "1,000,000", "–", _chunkings),
    ("fuzz inputs", "fuzz", "≥ 10,000,000 and ≥ 200,000 each, 0 failures", "–", _fuzz),
    (
        "truncated tool calls executed", "truncated_calls", "0", "LangChain 5 of 5; pydantic-ai 0 of 3",
        lambda figures: f"{figures['executed']} of {figures['answers']:,}",
    ),
    (
        "cancelled at the n-th await: lost / leaked", "cancels", "0 / 0 over ≥ 10,000",
        "langchain-openai on 3.11: 10 of 10 lost",
        lambda figures: f"{figures['lost']} / {figures['leaked']} of {figures['points']:,}",
    ),
    (
        "20 × `asyncio.run`, one model: answers / requests", "one_model", "20 / 20", "10/20; 20/39",
        lambda figures: f"{figures['loops_right_of_20']} / {figures['requests_of_20_loops']}",
    ),
    (
        "wrong answers of forked children", "one_model", "0 of 100", "21–53 of 100",
        lambda figures: f"{figures['forked_wrong']} of {figures['forked']}",
    ),
    (
        "wrong answers of 64 threads on one model", "one_model", "0", "–",
        lambda figures: f"{figures['threads_wrong']} of {figures['threads']:,}",
    ),
    (
        "streams held open in one process", "held", "5,000, 0 failures", "only 200 were tried",
        lambda figures: f"{figures['right']:,} of {figures['streams']:,} right, {figures['bytes_per_stream']:,} "
        f"bytes each, {max(figures['files_left'], 0)} files left open",
    ),
    (
        "100 kB of tool arguments in 2,000 deltas", "speed", "< 0.2 s", "29.6 s",
        lambda figures: f"{figures['tool_args_seconds']} s",
    ),
    (
        "1 MB of hostile JSON, the slowest", "speed", "< 1 s", "32 KB already 23.5 s",
        lambda figures: f"{figures['hostile_seconds']} s ({figures['hostile_slowest']}); searched for in prose "
        f"or fed in 4 kB slices {figures['searched_seconds']} s",
    ),
    ("mutants killed by the tests of their file", "mutants", "≥ 100 and ≥ 90 % each", "–", _mutants),
    ("`kill -9` during writes", "kills", "≥ 1,000 kills with ≥ 10 records each, 0 lost or torn", "–", _kills),
]  # fmt: skip


def _range(name: str, after: str) -> Say:
    def say(clients: Figures) -> str:
        numbers = sorted(client[name] for client in clients.values())
        counts = sorted({client["faults"] for client in clients.values()})
        faults = "–".join(f"{count:,}" for count in (counts[0], counts[-1])[: len(counts)])
        return f"{numbers[0]:,}–{numbers[-1]:,} {after.format(faults=faults)}"

    return say


def _each(name: str) -> Say:
    return lambda clients: "; ".join(
        f"{client} {figures[name]}"
        for client, figures in clients.items()
        if figures[name] != NO_AGENT
    )


NO_AGENT = "no agent of its own"
MEASURED: dict[str, Say] = {
    # figure -> the peers' value by the same harness, in place of published ones
    "silent successes among faults that must be reported": _range(
        "silent", "of {faults} per client"
    ),
    "exceptions that escape untyped": _range("untyped", "of {faults} per client"),
    "truncated tool calls executed": _each("truncated_calls_executed"),
    "20 × `asyncio.run`, one model: answers / requests": lambda clients: "; ".join(
        sorted(
            {
                f"{client['loops_right_of_20']} / {client['requests_of_20_loops']}"
                for client in clients.values()
            }
        )
    ),
    "wrong answers of forked children": _range("forked_wrong_of_100", "of 100"),
}


def draw(sections: Figures) -> str:
    """Return the tables."""
    parts = [_figures(sections)]
    if "peers" in sections:
        parts.append(_peers(sections["peers"]))
    if "fuzz" in sections:
        parts.append(_targets(sections["fuzz"]))
    if "kills" in sections:
        parts.append(_stores(sections["kills"]))
    return "\n\n".join(parts)


def _figures(sections: Figures) -> str:
    lines = [
        "| figure | foldline | target | peers, November 2026 | again with |",
        "|---|---|---|---|---|",
    ]
    clients = {
        name: figures
        for name, figures in sections.get("peers", {}).get("clients", {}).items()
        if not name.startswith("foldline")
    }
    for figure, section, target, peer_figure, say in ROWS:
        section_figures = sections.get(section)
        peers = MEASURED[figure](clients) if clients and figure in MEASURED else peer_figure
        foldline_figure = say(section_figures) if section_figures else NOT_YET
        command = f"`{section_figures['command']}`" if section_figures else ""
        lines.append(f"| {figure} | {foldline_figure} | {target} | {peers} | {command} |")
    dates = sorted(
        {f"{part['commit']} ({part['date']})" for part in sections.values() if "commit" in part}
    )
    machine = next((part for part in sections.values() if "cores" in part), None)
    if machine:
        machine_text = f"{machine['system']}, {machine['cores']} cores, Python {machine['python']}"
        lines += ["", f"Taken at {', '.join(dates)} on {machine_text}."]
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
        if all(isinstance(figures.get(name), str | int | float) for figures in clients.values())
    ]
    lines += [f"| client | {' | '.join(name.replace('_', ' ') for name in names)} |"]
    lines += ["|---|" + "---:|" * len(names)]
    lines += [
        f"| {client} | {' | '.join(str(figures[name]) for name in names)} |"
        for client, figures in clients.items()
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
        f"| {name} | {target['inputs']:,} | {target['refused']:,} | {target['rate']:,.0f} | {target['failures']} |"
        for name, target in fuzz["targets"].items()
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
        f"| {name} | {store['kills']} | {store['before_the_first']} | {store['acknowledged']:,} | {store['faults']} |"
        for name, store in kills["stores"].items()
    ]
    return "\n".join(lines)


def renewed(page: str, sections: Figures) -> str:
    """Return the page with its tables drawn anew."""
    before, after = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{draw(sections)}\n\n{END}{after.split(END)[1]}"


def save(section: str, command: str, figures: Figures) -> None:
    """Keep the figures of a run, which draws the page."""
    from tests.faults.__main__ import keep, run_facts

    keep(section, {**run_facts(command), **figures})


def main() -> int:
    sections = json.loads(KEPT.read_text(encoding="utf-8"))
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), sections), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
