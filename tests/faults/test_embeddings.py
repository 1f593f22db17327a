"""The fault matrix of embeddings: scenarios × endpoints, sync and async alike; nothing silent, nothing untyped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from foldline.exceptions import (
    BudgetExceeded,
    ModelRateLimitError,
    StreamInterruptedError,
    UsageError,
)
from foldline.language_models import Limits, usage_scope
from foldline.transports import NativeTransport
from tests.faults.cancellation import Stepped
from tests.faults.embedding_matrix import ENTRIES, EmbeddingInjector
from tests.faults.embedding_scenarios import EMBEDDING_SCENARIOS
from tests.faults.embedding_wires import EMBEDDING_WIRES, TEXTS, VECTORS, EmbeddingWire
from tests.faults.probe import Probe, sockets
from tests.servers import Answer, FaultServer, json_answer

pytestmark = pytest.mark.timing

WIRES = pytest.mark.parametrize("wire", EMBEDDING_WIRES.values(), ids=EMBEDDING_WIRES)


@pytest.fixture
def transport() -> Iterator[NativeTransport]:
    """A transport of the test's own, which leaves no idle connection behind."""
    transport = NativeTransport()
    yield transport
    transport.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, recorded in place of waiting."""
    seconds: list[float] = []

    async def note(delay: float, io: Any) -> None:
        seconds.append(delay)

    monkeypatch.setattr("foldline.providers._embedding.pause", note)
    return seconds


@pytest.mark.slow
@pytest.mark.parametrize("row", sorted({scenario.row for scenario in EMBEDDING_SCENARIOS}))
def test_a_fault_is_told_typed_and_alike_sync_and_async(
    row: str, fault_server: FaultServer, probe: Probe, waits: list[float]
) -> None:
    scenarios = [scenario for scenario in EMBEDDING_SCENARIOS if scenario.row == row]
    report = EmbeddingInjector(fault_server).run(scenarios)
    assert report.injected >= len(scenarios) * len(ENTRIES)
    assert report.faults == []


def test_the_matrix_is_as_large_as_it_says() -> None:
    assert len({scenario.id for scenario in EMBEDDING_SCENARIOS}) == len(EMBEDDING_SCENARIOS) >= 140


def test_a_wait_that_the_server_names_is_kept(
    call: Any, fault_server: FaultServer, waits: list[float], transport: NativeTransport
) -> None:
    wire = EMBEDDING_WIRES["openai"]
    later = json_answer(wire.error(429), 429, headers={"retry-after": "7"})
    fault_server.script(wire.path, later, *wire.good())

    assert (
        call.run(wire.model(fault_server.url, transport=transport), "embed_documents", TEXTS)
        == VECTORS
    )
    assert waits == [7.0]


@pytest.mark.slow
@WIRES
def test_a_body_cut_at_any_byte_is_told(
    wire: EmbeddingWire,
    fault_server: FaultServer,
    call: Any,
    probe: Probe,
    transport: NativeTransport,
) -> None:
    (first, *_) = wire.good()
    assert isinstance(first.body, bytes)
    model = wire.model(fault_server.url, max_retries=0, transport=transport)
    for at in range(len(first.body)):
        fault_server.script(wire.path, first.cut(at, "rst" if at % 2 else "fin"))
        with pytest.raises(StreamInterruptedError):
            call.run(model, "embed_documents", TEXTS)


@WIRES
def test_a_call_cancelled_at_any_await_leaves_nothing(
    wire: EmbeddingWire, fault_server: FaultServer
) -> None:
    """F-C03 for embeddings: the cancel is never lost, sockets and tasks are back, the next call is right."""

    async def sweep() -> int:
        transport = NativeTransport()
        model = wire.model(fault_server.url, transport=transport)
        assert await model.aembed_documents(TEXTS) == VECTORS
        before, at = sockets(), 0
        while True:
            at += 1
            fault_server.script(wire.path, *wire.good())
            step_body = Stepped(model.aembed_documents(TEXTS), at, twice=at % 2 == 0)
            task = asyncio.ensure_future(_host(step_body))
            await asyncio.wait([task], timeout=5)
            if not step_body.is_cut:
                assert task.result() == VECTORS
                break
            assert task.cancelled()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert sockets() <= before + 1
        await transport.aclose()
        return at

    fault_server.script(wire.path, *wire.good())
    assert asyncio.run(sweep()) > 2
    assert fault_server.wait_for_open(0) == 0


async def _host(step_body: Stepped) -> Any:
    return await step_body.run()


@pytest.mark.slow
@WIRES
def test_the_deadline_of_a_usage_scope_is_kept(
    wire: EmbeddingWire, fault_server: FaultServer, call: Any, transport: NativeTransport
) -> None:
    fault_server.script(wire.path, Answer(before=[("stall", None)]))
    model = wire.model(fault_server.url, transport=transport)
    start = time.monotonic()
    with pytest.raises(BudgetExceeded), usage_scope(Limits(timeout=0.3)):
        call.run(model, "embed_documents", TEXTS)
    assert time.monotonic() - start < 2
    assert fault_server.wait_for_open(0) == 0


def test_a_wait_beyond_the_deadline_is_not_begun(
    fault_server: FaultServer, call: Any, transport: NativeTransport
) -> None:
    wire = EMBEDDING_WIRES["openai"]
    fault_server.script(wire.path, json_answer(wire.error(429), 429, headers={"retry-after": "30"}))
    start = time.monotonic()
    with pytest.raises(ModelRateLimitError), usage_scope(Limits(timeout=5)):
        call.run(wire.model(fault_server.url, transport=transport), "embed_documents", TEXTS)
    assert time.monotonic() - start < 3


@WIRES
@pytest.mark.parametrize("texts", ["abc", b"abc", [1, 2], [None], ["a", b"b"], [["a"]]])
def test_what_is_no_list_of_texts_is_refused_before_anything_is_sent(
    wire: EmbeddingWire,
    texts: Any,
    fault_server: FaultServer,
    call: Any,
    transport: NativeTransport,
) -> None:
    with pytest.raises(UsageError):
        call.run(wire.model(fault_server.url, transport=transport), "embed_documents", texts)
    assert fault_server.hits() == 0
