"""F-T01, F-T03: recorded streams of every wire, ended at any byte: a typed error with everything that came.

The sample of every run; `scripts/faults --long` cuts at every byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from foldline.exceptions import ModelError, StreamInterruptedError, StreamTruncatedError
from foldline.transports import NativeTransport
from tests.faults.cut_streams import HOWS, Cutter, Tally, cut_all, run_agents
from tests.faults.probe import Probe
from tests.faults.wires import SSE, WIRES
from tests.servers import Answer, FaultServer

pytestmark = pytest.mark.timing

STEP = 131
"""Bytes between two cuts; a prime, so that they fall on every part of an event."""


@pytest.mark.slow
@pytest.mark.parametrize("name", WIRES)
def test_F_T01_F_T03_a_stream_cut_anywhere_is_told_typed_and_a_prefix(name: str) -> None:
    tally = cut_all(STEP, [name])
    assert tally.wrong == []
    assert tally.cuts >= 3 * len(WIRES[name].recordings())
    assert tally.kinds["StreamTruncatedError"] > 0
    assert tally.kinds["StreamInterruptedError"] > 0


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])
def test_F_U01_a_call_that_was_cut_is_invalid(name: str) -> None:
    cutter, tally = Cutter(WIRES[name], WIRES[name].call), Tally()
    for at in range(0, len(cutter.data), 17):
        cutter.judge(at, "clean", tally)
    assert tally.wrong == []
    assert tally.kinds["invalid_tool_call"] > 10


def test_F_U01_an_agent_never_runs_a_call_that_was_cut() -> None:
    answers, executions, errors = run_agents(STEP * 3)
    assert answers > 50
    assert (executions, errors) == (0, answers)


READS: dict[str, Callable[[Any], Any]] = {
    "text": lambda stream: str(stream.text),
    "pieces": lambda stream: list(stream.text),
    "events": list,
    "calls": lambda stream: stream.tool_calls.get(),
    "reasoning": lambda stream: str(stream.reasoning),
    "output": lambda stream: stream.output,
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["chat", "responses", "anthropic"]),
    st.floats(0, 1),
    st.sampled_from(HOWS),
    st.lists(st.sampled_from(sorted(READS)), min_size=1, max_size=6),
)
def test_F_T18_after_an_error_every_reader_gets_what_came_and_then_the_same_error(
    name: str, part: float, how: Any, reads: list[str]
) -> None:
    """Whatever was read before, and in whatever order."""
    wire = WIRES[name]
    cutter = Cutter(wire, wire.call)
    cutter.transport.hold(cutter.data[: int(part * (cutter.complete_at - 1))], how)
    stream = cutter.model.stream_v2("Hi")
    kinds = set()
    for read in reads:
        with pytest.raises(ModelError) as excinfo:
            READS[read](stream)
        kinds.add(type(excinfo.value))
        text = "".join(_until_error(stream.text))
        assert text == str(stream.partial.text) == str(excinfo.value.partial.text)
    assert len(kinds) == 1
    assert stream.done


def _until_error(pieces: Any) -> Iterator[str]:
    try:
        yield from pieces
    except ModelError:
        return


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", WIRES)
def test_F_T03_over_real_sockets_too(
    name: str, how: str, fault_server: FaultServer, probe: Probe, call: Any
) -> None:
    """Sync and async; the same cuts, made by the server."""
    wire = WIRES[name]
    end = len(b"".join(wire.until_finish()))
    for path in wire.paths:
        fault_server.script(path, Answer(wire.pieces(), headers=SSE, framing="chunked"))
    transport = NativeTransport()
    for at in range(1, end, max(end // 12, 1)):
        query = {"cut": str(at), "how": how}
        model = wire.model(fault_server.url, transport=transport, default_query=query)
        with pytest.raises(ModelError) as excinfo:
            call.stream(model, "Hi")
        assert isinstance(excinfo.value, StreamTruncatedError | StreamInterruptedError), at
        partial = excinfo.value.partial
        assert partial.status == "incomplete"
        assert wire.true_text().startswith(str(partial.text))
    transport.close()
