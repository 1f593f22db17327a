"""The same faults with other clients: which raise an error, and what a caller gets instead.

Each client runs in an environment of its own (`scripts/faults --peers` makes them) and in a process of its own, which
knows nothing of foldline: it is given addresses and says what calling them came to. `foldline` is asked by the same
harness.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.matrix import SCENARIOS
from tests.faults.payloads import call_stream
from tests.faults.scenario import Scenario
from tests.faults.wires import WIRES
from tests.servers import FaultServer
from tests.servers.client import ROOT

CLIENTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # name -> environment, wire, whose exceptions count as typed
    "foldline": (".venv", "chat", ("foldline",)),
    "foldline-anthropic": (".venv", "anthropic", ("foldline",)),
    "openai": (".venv-peers", "chat", ("openai",)),
    "anthropic": (".venv-peers", "anthropic", ("anthropic",)),
    "langchain-openai": (".venv-peers", "chat", ("langchain_core", "langchain_openai", "openai")),
    "langchain-anthropic": (".venv-peers", "anthropic", ("langchain_core", "langchain_anthropic", "anthropic")),
    "pydantic-ai": (".venv-peers", "chat", ("pydantic_ai", "openai")),
    "litellm": (".venv-litellm", "chat", ("litellm", "openai")),
}  # fmt: skip

OURS_ALONE = ("F-S09", "F-H08", "F-T08", "F-T09", "F-U01", "F-S13")
"""Rows that rest on limits, clocks or guarantees which only foldline has; no client is measured by them here."""
STRICT = (
    "bomb",
    "NaN",
    "Infinity",
    "HTTP/3.7",
    "folded",
    "headers without end",
    "before the colon",
)
"""Nor by these, where being lax loses nothing."""


def must_signal() -> list[Scenario]:
    """The scenarios that any client must tell of."""
    scenarios = [scenario for scenario in SCENARIOS if scenario.raises and not scenario.may_pass]
    return [
        scenario
        for scenario in scenarios
        if scenario.row not in OURS_ALONE and not any(word in scenario.name for word in STRICT)
    ]


def compare() -> dict[str, Any]:
    """Ask every client that is installed."""
    figures: dict[str, Any] = {}
    with FaultServer.start() as server:
        for name, (environment, wire, typed) in CLIENTS.items():
            python = ROOT / environment / "bin" / "python"
            if python.exists():
                figures[name] = PeerProcess(server, name, wire, python, typed).figures()
    return figures


class PeerProcess:
    """One client under questions."""

    def __init__(
        self, server: FaultServer, name: str, wire: str, python: Path, typed: tuple[str, ...]
    ) -> None:
        self.server = server
        self.name = name
        self.wire = WIRES[wire]
        self.python = python
        self.typed = typed

    def figures(self) -> dict[str, Any]:
        """Return the figures of this client."""
        outcomes = self._faults()
        kinds = Counter(self._kind(outcome["outcome"]) for outcome in outcomes)
        silent = sorted({outcome["id"] for outcome in outcomes if outcome["outcome"] == "answer"})
        untyped = Counter(
            outcome["outcome"]
            for outcome in outcomes
            if self._kind(outcome["outcome"]) == "untyped"
        )
        return {
            "version": self._ask({"task": "version"})[0]["version"],
            "scenarios": len({outcome["id"] for outcome in outcomes}),
            "faults": len(outcomes),
            "silent": kinds["silent"],
            "silent_scenarios": silent,
            "untyped": kinds["untyped"],
            "untyped_classes": dict(untyped.most_common(8)),
            **self._loops(),
            **self._forks(),
            **self._calls(),
        }

    def _kind(self, outcome: str) -> str:
        if outcome == "answer":
            return "silent"
        return "typed" if outcome.split(".")[0] in self.typed else "untyped"

    def _faults(self) -> list[dict[str, Any]]:
        jobs = []
        for place, scenario in enumerate(must_signal()):
            answers = scenario.make_answers(self.wire)
            if answers is None:
                continue
            answer_list = answers if isinstance(answers, list | tuple) else [answers]
            paths = [f"/{place}{path}" for path in self.wire.paths]
            self.server.script_all(paths, *answer_list)
            # A client that requested a whole answer need not read events: a stream's fault is for streams.
            is_stream = answer_list[0].headers.get("content-type") == "text/event-stream"
            ways = (
                ["stream", "astream"] if is_stream else ["invoke", "stream", "ainvoke", "astream"]
            )
            jobs.append({"id": scenario.id, "base": f"{self.server.url}/{place}", "ways": ways})
        return self._ask({"task": "faults", "jobs": jobs})

    def _loops(self) -> dict[str, int]:
        before = self.server.stats()["seen"]
        (reply,) = self._ask({"task": "loops", "base": f"{self.server.url}/say"})
        requests = self.server.stats()["seen"] - before
        return {"loops_right_of_20": reply["right"], "requests_of_20_loops": requests}

    def _forks(self) -> dict[str, int]:
        (reply,) = self._ask({"task": "forks", "base": f"{self.server.url}/say"})
        return {"forked_wrong_of_100": reply["wrong"]}

    def _calls(self) -> dict[str, str]:
        """Tool calls cut short, by the end of the stream and by length, read by the client's own agent."""
        arguments = '{"path": "/home/user/project/build", "force": true}'
        bases = []
        for at in (12, 18, 24, 30, 37):
            for ends in (False, True):
                answer = call_stream(self.wire, arguments[:at], is_cut=True, ends=ends)
                assert answer is not None
                base = f"/cut{at}{ends}"
                self.server.script_all([f"{base}{path}" for path in self.wire.paths], answer)
                bases.append(self.server.url + base)
        (reply,) = self._ask({"task": "calls", "bases": bases})
        description = (
            "no agent of its own" if reply["ran"] is None else f"{reply['ran']} of {len(bases)}"
        )
        return {"truncated_calls_executed": description}

    def _ask(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        program = subprocess.run(
            [self.python, "-m", "tests.faults.peer_worker", self.name],
            input=json.dumps(order), capture_output=True, text=True, timeout=900, cwd=ROOT, check=False,
        )  # fmt: skip
        lines = [line for line in program.stdout.splitlines() if line.startswith("{")]
        assert lines, f"{self.name} {order['task']}: {program.stderr[-2000:]}"
        return [json.loads(line) for line in lines]
