"""Injects scenarios: every wire, every entry point, over loopback; and judges what a caller got.

A fault is *silent* when the caller got an answer and nothing else, *untyped* when something left the library that is
no `FoldlineError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from foldline.exceptions import FoldlineError, ModelError
from foldline.language_models import BaseChatModel
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.messages import AIMessage, BaseMessage
from foldline.transports import NativeTransport, Transport
from tests.faults.frames import BEDROCK
from tests.faults.http_scenarios import http_scenarios
from tests.faults.scenario import Scenario
from tests.faults.stream_scenarios import stream_scenarios
from tests.faults.wires import ENTRIES, WIRES, Wire
from tests.servers import FaultServer

SCENARIOS = [*stream_scenarios(), *http_scenarios()]
EVERY_WIRE: dict[str, Wire] = {**WIRES, BEDROCK.name: BEDROCK}
ONCE = RetryPolicy(max_retries=1, initial=0, jitter=False)


@dataclass
class Outcome:
    """The result of one call: text, message, error."""

    message: Any = None
    error: BaseException | None = None
    text: str | None = None
    """The text that a stream delivered; None for calls that deliver the end only."""
    second_error: BaseException | None = None
    """What reading `.output` of a failed stream raised."""


@dataclass
class Report:
    """Counts of the outcomes of the injected faults."""

    injected: int = 0
    signalled: int = 0
    silent: list[str] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [*self.silent, *self.untyped, *self.wrong]


def ask(model: BaseChatModel, entry: str) -> Outcome:
    """Ask in a blocking way."""
    outcome = Outcome()
    try:
        if entry == "invoke":
            outcome.message = model.invoke("Hi")
        elif entry == "stream":
            outcome.text = ""
            for chunk in model.stream("Hi"):
                _add_chunk(outcome, chunk)
        else:
            stream = model.stream_v2("Hi")
            outcome.text = ""
            try:
                for piece in stream.text:
                    outcome.text += piece
                outcome.message = stream.output
            except BaseException:
                try:
                    _ = stream.output
                except BaseException as second_error:  # noqa: BLE001
                    outcome.second_error = second_error
                raise
    except BaseException as error:  # noqa: BLE001  the judge looks at it
        outcome.error = error
    return outcome


async def aask(model: BaseChatModel, entry: str) -> Outcome:
    """Ask and await."""
    outcome = Outcome()
    try:
        if entry == "ainvoke":
            outcome.message = await model.ainvoke("Hi")
        elif entry == "astream":
            outcome.text = ""
            async for chunk in model.astream("Hi"):
                _add_chunk(outcome, chunk)
        else:
            stream = await model.astream_v2("Hi")
            outcome.text = ""
            try:
                async for piece in stream.text:
                    outcome.text += piece
                outcome.message = await stream
            except BaseException:
                try:
                    await stream
                except BaseException as second_error:  # noqa: BLE001
                    outcome.second_error = second_error
                raise
    except BaseException as error:  # noqa: BLE001  the judge looks at it
        outcome.error = error
    return outcome


def _add_chunk(outcome: Outcome, chunk: Any) -> None:
    outcome.message = chunk if outcome.message is None else outcome.message + chunk
    outcome.text = (outcome.text or "") + str(chunk.text)


class Injector:
    """Teaches the server one scenario after another and asks."""

    def __init__(self, server: FaultServer, transport: Transport | None = None) -> None:
        self.server = server
        self.transport = transport or NativeTransport()

    def run(self, scenarios: Iterable[Scenario]) -> Report:
        """Inject on every wire and by every entry point, all of one scenario at once."""
        report = Report()
        with ThreadPoolExecutor(len(EVERY_WIRE) * len(ENTRIES)) as threads:
            for scenario in scenarios:
                self._inject(scenario, report, threads)
        self.transport.close()
        return report

    def _inject(self, scenario: Scenario, report: Report, threads: ThreadPoolExecutor) -> None:
        wires = [wire for wire in EVERY_WIRE.values() if self._teach(scenario, wire)]
        pairs = [(wire, entry) for wire in wires for entry in ENTRIES]
        blocking = [pair for pair in pairs if not pair[1].startswith("a")]
        async_pairs = [pair for pair in pairs if pair[1].startswith("a")]
        sync_outcomes = threads.map(
            lambda pair: ask(self._model(scenario, *pair), pair[1]), blocking
        )
        outcomes, tasks = asyncio.run(self._awaited(scenario, async_pairs))
        pair_outcomes = [
            *zip(blocking, sync_outcomes, strict=True),
            *zip(async_pairs, outcomes, strict=True),
        ]
        if tasks:
            report.wrong.append(f"{scenario.id}: tasks left behind: {tasks}")
        counts = self.server.used([path for pair in pairs for path in _paths(*pair)])
        self._compare(report, scenario, dict(pair_outcomes), counts)
        for (wire, entry), outcome in pair_outcomes:
            hits = sum(counts[path] for path in _paths(wire, entry))
            self._judge(report, f"{scenario.id}, {wire.name}, {entry}", scenario, wire, outcome, hits)  # fmt: skip

    def _compare(
        self,
        report: Report,
        scenario: Scenario,
        outcomes: dict[tuple[Wire, str], Outcome],
        counts: dict[str, int],
    ) -> None:
        """Record where an async call ended differently from the sync call, or sent another number of requests."""
        for (wire, entry), outcome in outcomes.items():
            if entry.startswith("a"):
                continue
            ends = []
            for way, end in ((entry, outcome), (f"a{entry}", outcomes[wire, f"a{entry}"])):
                ends.append((*describe(end), sum(counts[path] for path in _paths(wire, way))))
            if ends[0] != ends[1]:
                place = f"{scenario.id}, {wire.name}, {entry}"
                report.wrong.append(f"{place}: UNEQUAL, sync {ends[0]} and async {ends[1]}")

    async def _awaited(
        self, scenario: Scenario, pairs: list[tuple[Wire, str]]
    ) -> tuple[list[Outcome], list[str]]:
        calls = (aask(self._model(scenario, *pair), pair[1]) for pair in pairs)
        outcomes = await asyncio.gather(*calls)
        await asyncio.sleep(0)
        return outcomes, [repr(task) for task in asyncio.all_tasks() - {asyncio.current_task()}]

    def _teach(self, scenario: Scenario, wire: Wire) -> bool:
        answers = scenario.answers(wire)
        if answers is None:
            return False
        answer_list = answers if isinstance(answers, list | tuple) else [answers]
        paths = [path for entry in ENTRIES for path in _paths(wire, entry)]
        self.server.script_all(paths, *answer_list)
        return True

    def _model(self, scenario: Scenario, wire: Wire, entry: str) -> BaseChatModel:
        fields = {"transport": self.transport, "retry_on_error": ONCE, **scenario.fields}
        return wire.model(f"{self.server.url}/{wire.name}/{entry}", **fields)

    def _judge(
        self,
        report: Report,
        place: str,
        scenario: Scenario,
        wire: Wire,
        outcome: Outcome,
        hits: int,
    ) -> None:
        report.injected += 1
        error = outcome.error
        if error is None:
            if scenario.raises and not scenario.may_pass:
                report.silent.append(f"{place}: SILENT, {outcome.message!r:.120}")
                return
        elif not isinstance(error, FoldlineError):
            report.untyped.append(f"{place}: UNTYPED, {error!r:.200}")
            return
        else:
            report.signalled += 1
        fault = (
            judge_answer(scenario, wire, outcome)
            if error is None
            else judge_error(scenario, wire, outcome, error)
        )
        if fault is None and scenario.hits is not None and hits != scenario.hits:
            fault = f"{hits} requests instead of {scenario.hits}"
        if fault is not None:
            report.wrong.append(f"{place}: {fault}")


FACTS = ("provider", "model", "status", "code", "request_id", "attempts", "is_retryable", "phase")


def describe(outcome: Outcome) -> tuple[Any, ...]:
    """The parts of an outcome that a sync and an async call must share: the error with its fields, or the message."""
    error = outcome.error
    message = outcome.message if error is None else getattr(error, "partial", None)
    parts: list[Any] = [type(error).__name__, type(outcome.second_error).__name__, outcome.text]
    parts += [str(getattr(error, name, None)) for name in FACTS]
    if isinstance(message, AIMessage):
        parts += [
            message.content,
            message.tool_calls,
            message.invalid_tool_calls,
            message.usage_metadata,
        ]
        parts.append(message.response_metadata.get("finish_reason"))
    return tuple(map(repr, parts))


def _paths(wire: Wire, entry: str) -> list[str]:
    return [f"/{wire.name}/{entry}{path}" for path in wire.paths]


def judge_answer(scenario: Scenario, wire: Wire, outcome: Outcome) -> str | None:
    """Return what is wrong with a successful answer, if anything."""
    message = outcome.message
    if not isinstance(message, BaseMessage):
        return f"no message but {message!r}"
    if scenario.calls is not None:
        return judge_calls(scenario, message)
    if scenario.may_pass or scenario.row in ("F-T06", "F-T17"):
        return None
    if str(message.text) != wire.true_text():
        return f"it says {message.text!r} and not {wire.true_text()!r}"
    return None


def judge_calls(scenario: Scenario, message: Any) -> str | None:
    """Return what is wrong with the tool calls of an answer: only complete ones may run."""
    valid, invalid = len(message.tool_calls), len(message.invalid_tool_calls)
    expected = {"valid": (1, 0), "invalid": (0, 1)}.get(scenario.calls or "")
    if expected is not None and (valid, invalid) != expected:
        return f"{message.tool_calls} may run, {message.invalid_tool_calls} may not"
    return None


def judge_error(scenario: Scenario, wire: Wire, outcome: Outcome, error: Any) -> str | None:
    """Return what is wrong with an error: its class, its fields, its partial message."""
    if not scenario.raises:
        return f"an error where there is none: {error!r}"
    if not isinstance(error, scenario.raises):
        return f"{type(error).__name__} ({error}) instead of {scenario.raises}"
    if not isinstance(error, ModelError):
        return None
    if not error.provider or error.model != "m":
        return f"it does not say where: {error.provider}:{error.model}"
    if outcome.second_error is not None and type(outcome.second_error) is not type(error):
        return f"`.output` raised {outcome.second_error!r} afterwards"
    return judge_partial(scenario, wire, outcome.text, error.partial)


def judge_partial(scenario: Scenario, wire: Wire, text: str | None, partial: Any) -> str | None:
    """Return what is wrong with the partial message of an error (E2)."""
    if not isinstance(partial, AIMessage) or partial.status != "incomplete":
        return f"no partial: {partial!r}"
    if text is not None and str(partial.text) != text:
        return f"delivered {text!r} and kept {partial.text!r}"
    if scenario.calls is not None:
        return judge_calls(scenario, partial)
    if not wire.true_text().startswith(str(partial.text)) and not scenario.may_pass:
        return f"{partial.text!r} is no beginning of what was said"
    return "what was said is lost" if scenario.keeps and not partial.text else None
