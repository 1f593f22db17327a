"""Fuzzing, the part that runs each time: hypothesis and the blind mutator, some hundred inputs for each target.

No crash (only typed errors), no hang, no limit broken: F-S05, F-S07, F-S10, F-S12, F-T15, F-U02, F-U08, F-D02, F-P01.
The long run is `python -m tests.fuzz.long`.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foldline.exceptions import LimitExceededError
from foldline.protocol.fold import MessageBuilder
from foldline.providers._reading import StreamReading
from foldline.transports import SizeLimits
from tests.faults.wires import WIRES
from tests.fuzz.long import Fuzzer, alarm, main
from tests.fuzz.mutate import Mutator
from tests.fuzz.targets import ALLOWED, TARGETS, Broken, Target, model_of, request

EACH = 250
"""Inputs of the mutator for each target."""
SEED = 20261115

bounded = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def hanging_is_told() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, alarm)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_spoilt_seeds_give_a_value_or_a_typed_error(target: Target):
    fuzzer = Fuzzer(target, SEED)
    fuzzer.turn(seconds=30, maximum=EACH)
    assert fuzzer.outcome.failures == []
    assert fuzzer.outcome.inputs == EACH


def try_out(target: Target, data: bytes) -> None:
    try:
        target.run(data)
    except ALLOWED:
        return


@pytest.mark.parametrize(
    "name", [name for name in TARGETS if not name.endswith(("_stream", "_whole"))]
)
@bounded
@given(data=st.data())
def test_any_bytes_give_a_value_or_a_typed_error(name: str, data: Any):
    target = TARGETS[name]
    pieces = st.one_of(
        st.binary(max_size=12), st.sampled_from(target.words), st.sampled_from(target.seeds())
    )
    try_out(target, b"".join(data.draw(st.lists(pieces, max_size=8))))


KEYS = [
    "id",
    "type",
    "index",
    "choices",
    "delta",
    "content",
    "tool_calls",
    "function",
    "arguments",
    "name",
    "usage",
]
KEYS += [
    "error",
    "item",
    "response",
    "output",
    "item_id",
    "output_index",
    "summary",
    "annotations",
    "finish_reason",
]
KEYS += [
    "message",
    "text",
    "content_block",
    "partial_json",
    "thinking",
    "signature",
    "stop_reason",
    "input",
    "role",
]
KEYS += [
    "candidates",
    "parts",
    "functionCall",
    "args",
    "finishReason",
    "usageMetadata",
    "thoughtSignature",
    "status",
]
KEYS += [
    "promptFeedback",
    "blockReason",
    "inlineData",
    "groundingMetadata",
    "sequence_number",
    "part",
    "refusal",
]
WORDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
]
WORDS += [
    "message_stop",
    "text_delta",
    "input_json_delta",
    "tool_use",
    "text",
    "response.created",
    "function_call",
]
WORDS += [
    "response.output_item.added",
    "response.output_text.delta",
    "response.completed",
    "response.incomplete",
]
WORDS += [
    "response.function_call_arguments.delta",
    "response.output_item.done",
    "reasoning",
    "STOP",
    "stop",
    "{",
    "",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=14,
)


@pytest.mark.parametrize("name", WIRES)
@bounded
@given(
    values=st.lists(JSON, min_size=1, max_size=4),
    kind=st.sampled_from(["message", "error", *WORDS[:4]]),
)
def test_F_S12_F_T15_events_of_any_shape_give_a_message_or_a_typed_error(
    name: str, values: list[Any], kind: str
):
    stream = "".join(f"event: {kind}\ndata: {json.dumps(value)}\n\n" for value in values)
    try_out(TARGETS[f"{name}_stream"], stream.encode())
    if f"{name}_whole" in TARGETS:
        try_out(TARGETS[f"{name}_whole"], json.dumps(values[0]).encode())


def feed_all(builder: MessageBuilder, kind: str, count: int) -> None:
    for index in range(count):
        content = {"type": kind, "text": ""}
        builder.feed({"event": "content-block-start", "index": index, "content": content})


@pytest.mark.parametrize("name", WIRES)
def test_E8_no_stream_gets_past_its_limits(name: str):
    """The line, the event and the number of blocks have an end."""
    model = model_of(WIRES[name])
    tight = SizeLimits(sse_line=300, sse_event=600)
    for flood in (b"data: " + b"x" * 400, b"data: x\n" * 400):
        reading = StreamReading(
            model._decoder(request()), model._is_end, model._parse, model._malformed, tight
        )
        assert reading.feed(flood) == []
        assert isinstance(reading.fault, LimitExceededError)
    builder = MessageBuilder()
    with pytest.raises(LimitExceededError):
        feed_all(builder, "text", 10_000)


def test_the_fuzzer_sees_what_it_is_for(tmp_path: Any):
    def spoil(data: bytes) -> None:
        if b"x" in data:
            raise Broken("an x")
        if data.startswith(b"data"):
            raise KeyError("data")

    fuzzer = Fuzzer(Target("bad", spoil, lambda: [b"data: x", b"a"]), SEED, tmp_path)
    fuzzer.turn(seconds=10, maximum=50)
    assert any("Broken" in failure for failure in fuzzer.outcome.failures)
    assert any("KeyError" in failure for failure in fuzzer.outcome.failures)
    assert list(tmp_path.glob("bad-*.bin"))


def test_an_input_that_hangs_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.fuzz.long.SLOWEST", 0.05)

    def hang(data: bytes) -> None:
        while True:
            pass

    fuzzer = Fuzzer(Target("slow", hang, lambda: [b"a"]), SEED)
    fuzzer.turn(seconds=5, maximum=1)
    assert "HangingError" in fuzzer.outcome.failures[0]


def test_the_mutator_can_be_repeated():
    first, second = (
        Mutator([b'{"a": [1]}', b"data: {}\n\n"], (b"null",), 7).inputs() for _ in range(2)
    )
    assert [next(first) for _ in range(200)] == [next(second) for _ in range(200)]


def test_the_long_run_prints_its_figures(capsys: pytest.CaptureFixture[str], tmp_path: Any):
    figures = tmp_path / "fuzz.json"
    code = main(
        [
            "--minutes",
            "0.01",
            "--targets",
            "http1",
            "template",
            "--seed",
            "1",
            "--json",
            str(figures),
        ]
    )
    assert code == 0
    assert "inputs/s" in capsys.readouterr().out
    assert set(json.loads(figures.read_text())["targets"]) == {"http1", "template"}


FOUND = {
    "load": [b'{"lc": 1, "type": "value", "id": ["uuid"], "value": {"error": {}}}'],
    "embeddings": [b'{"data": [{"index": 0, "embedding": [' + b"1" * 400 + b"]}]}"],
    "google_whole": [
        b'{"candidates": [{"content": {"parts": [{"functionCall": {"name": true, "args": {}}}]},'
        b' "finishReason": "STOP"}]}',
        b'{"candidates": [{"finishReason": "STOP"}], "responseId": -1}',
        b'{"candidates": [{"finishReason": "STOP"}], "responseId": "\\ud83d"}',
        b'{"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"totalTokenCount": {}}}',
    ],
    "anthropic_stream": [
        b'data: {"type": "message_start", "message": {"id": "m"}}\n\n'
        b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": [null]}}\n\n'
        b'data: {"type": "message_stop"}\n\n'
    ],
}
"""What the long run found, once: each was an untyped error, or a message that did not come back from its dump."""


@pytest.mark.parametrize(
    ("name", "data"), [(name, data) for name, many in FOUND.items() for data in many]
)
def test_what_was_found_stays_mended(name: str, data: bytes):
    for padding in range(8):  # one of the eight is judged in full
        try_out(TARGETS[name], data + b"\t" * padding)
