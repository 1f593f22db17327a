"""Injects the faults of embeddings, sync and async at once, judges what a caller got, and compares the two.

A fault is *silent* when vectors came back that the server did not mean, *untyped* when something left the library that
is no `FoldlineError`, *unequal* when the async call came to another end than the sync one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from foldline.exceptions import FoldlineError, ModelError
from foldline.transports import NativeTransport, Transport
from tests.faults.embedding_scenarios import EmbeddingScenario
from tests.faults.embedding_wires import EMBEDDING_WIRES, KEY, TEXTS, VECTORS, EmbeddingWire
from tests.faults.matrix import Report
from tests.servers import FaultServer

ENTRIES = ("embed_documents", "aembed_documents")
Pair = tuple[EmbeddingWire, str]


class EmbeddingInjector:
    """Asks every wire in both ways; waits between attempts are left out."""

    def __init__(self, server: FaultServer, transport: Transport | None = None) -> None:
        self.server = server
        self.transport = transport or NativeTransport()

    def run(self, scenarios: Iterable[EmbeddingScenario]) -> Report:
        report = Report()
        with ThreadPoolExecutor(len(EMBEDDING_WIRES)) as threads:
            for scenario in scenarios:
                self._inject(report, scenario, threads)
        self.transport.close()
        return report

    def _inject(
        self, report: Report, scenario: EmbeddingScenario, threads: ThreadPoolExecutor
    ) -> None:
        wires = [wire for wire in EMBEDDING_WIRES.values() if self._teach(scenario, wire)]
        async_outcomes = asyncio.run(self._ask_async(report, scenario, wires))
        blocking = list(threads.map(lambda wire: self._ask_sync(scenario, wire), wires))
        counts = self.server.used([_path(wire, entry) for wire in wires for entry in ENTRIES])
        for wire, first, second in zip(wires, blocking, async_outcomes, strict=True):
            for entry, outcome in zip(ENTRIES, (first, second), strict=True):
                hits = counts[_path(wire, entry)]
                self._judge(report, scenario, wire, f"{scenario.id}, {wire.name}, {entry}", outcome, hits)  # fmt: skip
            hits = tuple(counts[_path(wire, entry)] for entry in ENTRIES)
            if (*describe(first), hits[0]) != (*describe(second), hits[1]):
                report.wrong.append(
                    f"{scenario.id}, {wire.name}: UNEQUAL, {describe(first)} and {describe(second)}, hits {hits}"
                )

    def _teach(self, scenario: EmbeddingScenario, wire: EmbeddingWire) -> bool:
        answers = scenario.make_answers(wire)
        if answers is None:
            return False
        self.server.script_all([_path(wire, entry) for entry in ENTRIES], *answers)
        return True

    def _model(self, scenario: EmbeddingScenario, wire: EmbeddingWire, entry: str) -> Any:
        fields = {"transport": self.transport, **scenario.fields}
        if wire.name in ("google", "vertex") and "dimensions" in fields:
            fields["output_dimensionality"] = fields.pop("dimensions")
        return wire.model(f"{self.server.url}/{wire.name}/{entry}", **fields)

    def _ask_sync(self, scenario: EmbeddingScenario, wire: EmbeddingWire) -> Any:
        try:
            return self._model(scenario, wire, ENTRIES[0]).embed_documents(TEXTS)
        except BaseException as error:  # noqa: BLE001  the judge looks at it
            return error

    async def _ask_async(
        self, report: Report, scenario: EmbeddingScenario, wires: list[EmbeddingWire]
    ) -> list[Any]:
        calls = [self._model(scenario, wire, ENTRIES[1]).aembed_documents(TEXTS) for wire in wires]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(0)
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            report.wrong.append(f"{scenario.id}: tasks left behind: {tasks}")
        return outcomes

    def _judge(
        self,
        report: Report,
        scenario: EmbeddingScenario,
        wire: EmbeddingWire,
        place: str,
        outcome: Any,
        hits: int,
    ) -> None:
        report.injected += 1
        if not isinstance(outcome, BaseException):
            if scenario.raises:
                report.silent.append(f"{place}: SILENT, {outcome!r:.120}")
            elif outcome != VECTORS:
                report.silent.append(f"{place}: SILENT, other vectors: {outcome!r:.120}")
        elif not isinstance(outcome, FoldlineError):
            report.untyped.append(f"{place}: UNTYPED, {outcome!r:.200}")
            return
        else:
            report.signalled += 1
            if fault := _judge_error(scenario, outcome):
                report.wrong.append(f"{place}: {fault}")
        if scenario.hits is not None and wire.batch > 1 and hits != scenario.hits:
            report.wrong.append(f"{place}: {hits} requests instead of {scenario.hits}")


def _judge_error(scenario: EmbeddingScenario, error: FoldlineError) -> str | None:
    if not scenario.raises:
        return f"an error where there is none: {error!r}"
    if not isinstance(error, scenario.raises):
        return f"{type(error).__name__} ({error}) instead of {scenario.raises}"
    if KEY in f"{error} {vars(error)}":
        return "the error shows the key"
    if isinstance(error, ModelError) and not (error.provider and error.model and error.attempts):
        return f"it does not say where: {error.provider}:{error.model}, {error.attempts} attempts"
    return None


def describe(outcome: Any) -> tuple[Any, ...]:
    """The parts of an outcome that a sync and an async call must share."""
    if not isinstance(outcome, BaseException):
        return ("vectors", outcome)
    names = (
        "provider",
        "model",
        "status",
        "code",
        "attempts",
        "retry_after",
        "is_retryable",
        "phase",
    )
    facts = {name: getattr(outcome, name, None) for name in names}
    if isinstance(facts["retry_after"], float):
        facts["retry_after"] = round(facts["retry_after"], -2)  # of a date, it is counted from now
    return (type(outcome).__name__, facts)


def _path(wire: EmbeddingWire, entry: str) -> str:
    return f"/{wire.name}/{entry}{wire.path}"
