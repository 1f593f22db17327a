"""The rows: what is measured, for whom, how, and what design.md wants of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measure. `target` is the ratio to the peer, `floor_target` to the floor, `limit` the number itself."""

    name: str
    scenario: str
    unit: str = "µs"
    sides: tuple[str, ...] = ("floor", "foldline", "langchain")
    measure: str = "cpu"
    options: dict[str, Any] = field(default_factory=dict)
    peer: str | None = "langchain"
    floor: str | None = "floor"
    target: float | None = None
    floor_target: float | None = None
    limit: float | None = None
    rounds: int = 7
    note: str = ""
    is_slow: bool = False
    """Whether a round of the peer takes seconds: `--check` leaves it out."""

    @property
    def compared(self) -> tuple[str, ...]:
        """The sides that a target compares: ours, the peer and the floor."""
        return tuple(side for side in self.sides if side in ("foldline", self.peer, self.floor))

    @property
    def is_checked(self) -> bool:
        """Whether `--check` measures it: where there is a ratio, and it does not take long."""
        against = self.floor if self.peer is None else self.peer
        return against in self.sides and not self.is_slow

    def met(self, values: dict[str, float]) -> bool | None:
        """Whether the targets hold; None where there is none, or nothing to compare with."""
        foldline_value, checks = values.get("foldline"), []
        if foldline_value is None:
            return None
        if self.target is not None and self.peer in values:
            checks.append(foldline_value <= self.target * values[self.peer])
        if self.floor_target is not None and self.floor in values:
            checks.append(foldline_value <= self.floor_target * values[self.floor])
        if self.limit is not None:
            checks.append(foldline_value <= self.limit)
        return all(checks) if checks else None


BOTH = ("foldline", "langchain")
HTTP = ("socket", "bare", "foldline", "langchain", "openai", "pydantic-ai", "litellm")
STREAMS = ("socket", "bare", "foldline", "langchain", "openai", "litellm")
OF_ANTHROPIC = ("socket", "bare", "foldline", "langchain", "anthropic")
IMPORTS = ("floor", "foldline", "langchain", "openai", "pydantic-ai", "litellm")


def _import(what: str, sides: tuple[str, ...], target: float | None, name: str) -> Row:
    return Row(name, "processes.importing", "ms", sides, "value", {"what": what}, target=target)


def _events(kind: str, count: int, rounds: int, sides: tuple[str, ...] = BOTH) -> Row:
    return Row(
        f"v2 stream, per {kind} event, {count:,} events",
        "scenarios.events",
        sides=sides,
        options={"kind": kind, "count": count},
        target=1 / 10,
        rounds=rounds,
        note="LangChain's is its bridge over `_stream`, the path its users have; ours a native model",
    )


def _traced(name: str, tracer: str, bare: str) -> Row:
    return Row(
        f"prompt | model | parser, invoke, {name}",
        "tracer_scenarios.chain",
        sides=("floor", bare, "foldline"),
        options={"tracer": tracer},
        peer=None,
        floor_target=1.5,
        note="the floor is the same chain of ours with one empty handler; what the tracer's thread does counts",
    )


ROWS = [
    _import("messages", ("floor", *BOTH), 1 / 2, "import HumanMessage, CPU"),
    _import("openai", IMPORTS, 1 / 4, "import ChatOpenAI, CPU"),
    _import("anthropic", ("floor", *BOTH, "anthropic"), None, "import ChatAnthropic, CPU"),
    _import("agents", (*BOTH, "pydantic-ai"), None, "import create_agent, CPU"),
    _import("chain", BOTH, None, "import a prompt and a parser, CPU"),
    Row(
        "import ChatOpenAI, modules loaded",
        "processes.importing",
        "",
        IMPORTS,
        "value",
        {"what": "openai", "of": "modules"},
        rounds=1,
    ),
    Row(
        "import ChatOpenAI, memory",
        "processes.importing",
        "MB",
        IMPORTS,
        "value",
        {"what": "openai", "of": "memory"},
        target=1 / 2,
        rounds=3,
    ),
    Row(
        "packages to install, core + OpenAI + Anthropic",
        "processes.packages",
        "",
        (*BOTH, "openai", "pydantic-ai", "litellm"),
        "value",
        limit=6,
        rounds=1,
        is_slow=True,
    ),
    Row("make a HumanMessage", "scenarios.make_message"),
    Row("make a text chunk", "scenarios.make_chunk", sides=BOTH, target=1 / 4),
    Row("add two text chunks", "scenarios.add_two", sides=BOTH, target=1 / 4),
    Row("add up 4,000 text chunks, per chunk", "scenarios.add_chunks", sides=BOTH, rounds=3),
    Row(
        "add up 4,000 tool slices, per slice",
        "scenarios.add_chunks",
        sides=BOTH,
        options={"kind": "tool", "count": 4000},
        target=1 / 100,
        rounds=1,
        is_slow=True,
    ),
    Row("fake invoke", "scenarios.invoke", target=1 / 8),
    Row(
        "fake invoke, one handler",
        "scenarios.invoke",
        sides=BOTH,
        options={"handler": True},
        target=1 / 5,
    ),
    Row("v1 stream, per text chunk", "scenarios.stream_text", target=1 / 5),
    Row(
        "v1 stream, per text chunk, one handler",
        "scenarios.stream_text",
        sides=BOTH,
        options={"handler": True},
        target=1 / 4,
    ),
    Row(
        "stream and add up 4,000 text chunks, per chunk",
        "scenarios.stream_and_add",
        sides=BOTH,
        options={"native": True},
        target=1 / 10,
        note="each from the model its users have: ours gives events, LangChain's has a `_stream`",
    ),
    Row(
        "stream and add up 4,000 text chunks, bridged from `_stream`",
        "scenarios.stream_and_add",
        sides=BOTH,
        rounds=3,
    ),
    Row(
        "stream and add up 4,000 tool slices, per slice",
        "scenarios.stream_and_add",
        sides=BOTH,
        options={"kind": "tool"},
        target=1 / 100,
        rounds=1,
        is_slow=True,
    ),
    _events("text", 1000, 5, ("floor", *BOTH)),
    _events("text", 10_000, 3, ("floor", *BOTH)),
    _events("text", 200_000, 1, ("floor", "foldline")),
    _events("reasoning", 1000, 3),
    _events("tool", 1000, 3),
    _events("tool", 10_000, 1, ("foldline",)),
    Row(
        "v2 stream bridged from `_stream`, per text event",
        "scenarios.bridged_events",
        sides=BOTH,
        options={"count": 5000},
        rounds=3,
    ),
    Row(
        "memory kept for replay, per delta",
        "scenarios.replay_memory",
        "bytes",
        BOTH,
        "value",
        target=1 / 4,
        rounds=1,
    ),
    Row(
        "memory of a history, per message",
        "scenarios.history_memory",
        "bytes",
        ("floor", *BOTH),
        "value",
        target=0.9,
        rounds=1,
    ),
    Row("ten-lambda sequence", "scenarios.ten_lambdas", target=1 / 15),
    Row("prompt | model | parser, invoke", "scenarios.chain", sides=BOTH, target=1 / 8),
    Row(
        "prompt | model | parser, invoke, one handler",
        "scenarios.chain",
        sides=BOTH,
        options={"handler": True},
        target=1 / 5,
    ),
    _traced("SQLite tracer", "sqlite", "bare rows"),
    _traced("OpenTelemetry", "otel", "bare spans"),
    Row(
        "prompt | model | parser, batch of 1,000, per input",
        "scenarios.chain",
        sides=BOTH,
        options={"way": "batch"},
        target=1 / 8,
        rounds=3,
    ),
    Row(
        "prompt | model | parser, abatch of 1,000, per input",
        "scenarios.chain",
        sides=BOTH,
        options={"way": "abatch"},
        target=1 / 8,
        rounds=3,
    ),
    Row(
        "astream_events, per event",
        "scenarios.chain",
        sides=BOTH,
        options={"way": "astream_events"},
        target=1 / 8,
        rounds=3,
    ),
    Row(
        "astream_events, per run of a short answer",
        "scenarios.chain",
        sides=BOTH,
        options={"way": "astream_events_whole"},
        target=1 / 8,
        rounds=3,
    ),
    Row(
        "prompt | model | parser, streamed, per piece",
        "scenarios.chain",
        sides=BOTH,
        options={"way": "stream"},
        target=1 / 8,
        rounds=3,
    ),
    Row(
        "streamed item through three generators",
        "scenarios.streamed_item",
        floor_target=2,
        note="the floor is the bare generators, which are themselves about an eighth of LangChain",
    ),
    Row(
        "partial JSON of 2,000 slices, per slice",
        "scenarios.json_parser",
        sides=BOTH,
        target=1 / 20,
        rounds=2,
        is_slow=True,
    ),
    Row("format a chat prompt", "scenarios.prompt", target=1 / 5),
    Row("format a prompt of one text", "scenarios.text_prompt", target=1 / 5),
    Row("call of a @tool", "scenarios.tool", target=1 / 5),
    Row("bind 200 tools, per tool", "scenarios.bind_tools", sides=BOTH, rounds=3),
    Row("agent, per turn", "scenarios.agent_turn", sides=BOTH, target=1 / 10),
    Row("graph, per node", "graph_scenarios.node", sides=BOTH, target=1 / 5),
    Row(
        "graph, per node, checkpoints in memory",
        "graph_scenarios.node",
        sides=BOTH,
        options={"saver": True},
        target=1 / 5,
    ),
    Row(
        "graph, disk of a turn of 2 KB in SQLite",
        "graph_scenarios.storage",
        "KiB",
        ("foldline",),
        "value",
        peer=None,
        limit=6,
        rounds=3,
    ),
    Row(
        "graph, a turn among 10,000 threads in one file, to one among 100",
        "graph_scenarios.threads",
        "×",
        ("foldline",),
        "value",
        peer=None,
        limit=1.5,
        rounds=3,
    ),
    Row(
        "flow, going on after 1,000 finished steps",
        "graph_scenarios.resume",
        "ms",
        ("foldline",),
        "value",
        peer=None,
        limit=100,
        rounds=5,
    ),
    Row(
        "peak memory of a program: import, 1,000 calls, one long stream",
        "processes.peak",
        "MB",
        BOTH,
        "value",
        rounds=3,
        is_slow=True,
    ),
    Row(
        "local embeddings, per chunk of 200 words",
        "scenarios.embeddings",
        sides=("floor", "foldline"),
        peer=None,
        floor_target=1.2,
        rounds=3,
        note="the floor is llama.cpp's own server, asked directly with the same batch",
        is_slow=True,
    ),
    Row(
        "search 100,000 vectors",
        "scenarios.vectors",
        sides=("floor", "foldline"),
        measure="wall",
        peer=None,
        floor_target=1.3,
        note="the floor is the bare product of NumPy",
        is_slow=True,
    ),
    Row(
        "HTTP call, CPU",
        "http_scenarios.call",
        sides=HTTP,
        floor="bare",
        target=1 / 8,
        floor_target=2.5,
        rounds=25,
    ),
    Row("HTTP call, wall", "http_scenarios.call", sides=HTTP, floor="bare", measure="wall"),
    Row(
        "HTTP call, Responses, CPU",
        "http_scenarios.call",
        sides=STREAMS[:-1],
        floor="bare",
        options={"api": "responses"},
        target=1 / 8,
    ),
    Row(
        "HTTP call, Anthropic, CPU",
        "http_scenarios.call",
        sides=OF_ANTHROPIC,
        floor="bare",
        options={"api": "anthropic"},
        target=1 / 8,
    ),
    Row(
        "HTTP stream, CPU per text chunk",
        "http_scenarios.stream",
        sides=STREAMS,
        floor="bare",
        target=1 / 15,
        floor_target=3,
    ),
    Row(
        "HTTP stream, CPU per tool slice",
        "http_scenarios.stream",
        sides=STREAMS,
        floor="bare",
        options={"kind": "tool"},
        target=1 / 15,
        floor_target=3,
    ),
    Row(
        "HTTP stream, Responses, CPU per text chunk",
        "http_scenarios.stream",
        sides=STREAMS[:-1],
        floor="bare",
        options={"api": "responses"},
    ),
    Row(
        "HTTP stream, Anthropic, CPU per text chunk",
        "http_scenarios.stream",
        sides=OF_ANTHROPIC,
        floor="bare",
        options={"api": "anthropic"},
    ),
    Row(
        "HTTP stream, Anthropic, CPU per tool slice",
        "http_scenarios.stream",
        sides=OF_ANTHROPIC,
        floor="bare",
        options={"api": "anthropic", "kind": "tool"},
    ),
    Row(
        "500 concurrent calls, CPU per call",
        "http_scenarios.concurrent",
        sides=("bare", "foldline", "langchain", "openai", "pydantic-ai"),
        floor="bare",
        target=1 / 20,
        rounds=7,
        is_slow=True,
    ),
    Row(
        "1,000 open streams, memory per stream",
        "http_scenarios.open_streams",
        "kB",
        ("foldline", "langchain", "openai"),
        "value",
        rounds=1,
        floor=None,
        is_slow=True,
    ),
    Row(
        "cold start to the first word, wall",
        "processes.cold_start",
        "ms",
        ("floor", "foldline", "langchain", "openai", "litellm"),
        "value",
        target=1 / 4,
    ),
]

LENGTHS = (100, 1000, 10_000, 50_000, 200_000)
CONCURRENCY = (1, 10, 50, 100, 250, 500)
HISTORIES = (10, 100, 1000, 10_000, 50_000)
HANDLERS = (0, 1, 2, 8)
DEPTHS = (1, 3, 10, 30, 100)
TOOLS = (1, 10, 50, 200, 500)


def curve(
    scenario: str,
    option: str,
    values: tuple[int, ...],
    limits: dict[str, int],
    measure: str = "cpu",
) -> list[Row]:
    """Make the rows behind a plot; a side whose cost grows is measured up to its limit only."""
    rows = []
    for value in values:
        sides = tuple(side for side, limit in limits.items() if value <= limit)
        rows.append(
            Row(
                f"{scenario} {value}",
                scenario,
                sides=sides,
                options={option: value},
                measure=measure,
                rounds=1,
            )
        )
    return rows


BOTH_ALL = {"foldline": 50_000, "langchain": 50_000}

PLOTS = {
    "cost-per-handler": (
        "CPU per call of a fake model against the number of handlers",
        "handlers",
        "µs per call",
        curve("scenarios.handlers", "count", HANDLERS, BOTH_ALL),
    ),
    "cost-per-depth": (
        "CPU per run, under one handler, against how deep runs are nested",
        "runs within one another",
        "µs per run",
        curve("scenarios.nesting", "depth", DEPTHS, {"foldline": 100, "langchain": 30}),
    ),
    "cost-per-history": (
        "CPU per call against the length of the history",
        "messages",
        "µs per call",
        curve("scenarios.history", "length", HISTORIES, BOTH_ALL),
    ),
    "cost-per-tools": (
        "CPU per call against the number of tools bound",
        "tools",
        "µs per call",
        curve("scenarios.bound_tools", "count", TOOLS, BOTH_ALL),
    ),
    "cost-per-delta": (
        "CPU per delta against the length of a v2 stream",
        "deltas",
        "µs per delta",
        curve("scenarios.events", "count", LENGTHS, {"foldline": 200_000, "langchain": 10_000}),
    ),
    "cost-per-call": (
        "CPU per call against calls in flight",
        "calls at once",
        "µs per call",
        curve(
            "http_scenarios.concurrent",
            "count",
            CONCURRENCY,
            {"bare": 500, "foldline": 500, "langchain": 500},
        ),
    ),
    "memory-of-history": (
        "Memory per message against the length of a history",
        "messages",
        "bytes per message",
        curve(
            "scenarios.history_memory",
            "count",
            HISTORIES,
            {"floor": 50_000, "foldline": 50_000, "langchain": 50_000},
            "value",
        ),
    ),
}
