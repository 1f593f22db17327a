"""Two figures of parsing: `python -m tests.fuzz.speed` prints how long hostile and large tool arguments take.

100 kB of arguments in 2,000 deltas, through a provider's whole reading and with the partial arguments looked at after
every delta, as an interface that shows them does; and a megabyte of JSON made to be slow.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from foldline.protocol.fold import MessageBuilder
from foldline.providers._reading import StreamReading
from foldline.utils.json import PartialJson, parse_json_markdown, parse_partial_json, parse_strict
from tests.faults.wires import WIRES
from tests.fuzz.targets import ALLOWED, model_of, request
from tests.security.page import save

DELTAS = 2_000
SIZE = 100_000
MEGABYTE = 1_000_000
HOSTILE = {
    "open brackets": "[" * MEGABYTE,
    "open objects": '{"a":' * (MEGABYTE // 5),
    "open string": '{"a": "' + "x" * MEGABYTE,
    "escapes": '{"a": "' + "\\\\" * (MEGABYTE // 2),
    "quotes": '"' * MEGABYTE,
    "fences": "```json\n" * (MEGABYTE // 8),
    "numbers": "[" + "1," * (MEGABYTE // 2),
    "one number": "9" * MEGABYTE,
}


def tool_args() -> float:
    """Seconds of processor time for 100 kB of arguments in 2,000 deltas."""
    text = json.dumps({"rows": ["x" * 90] * (SIZE // 94)})
    step = -(-len(text) // DELTAS)
    model = model_of(WIRES["chat"])
    reading = StreamReading(
        model._decoder(request()), model._is_end, model._parse, model._malformed, model.limits
    )
    slices = [text[at : at + step] for at in range(0, len(text), step)]
    wire = [_chunk({"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}})]
    wire += [_chunk({"index": 0, "function": {"arguments": piece}}) for piece in slices]
    builder, partial_json = MessageBuilder(), PartialJson()
    before = time.process_time()
    for piece, arguments in zip(wire, ["", *slices], strict=True):
        for event in reading.feed(piece):
            builder.feed(event)
        partial_json.feed(arguments)
        partial_json.value()
    seconds = time.process_time() - before
    assert len(slices) >= DELTAS * 0.9
    return seconds


def _chunk(call: dict[str, Any]) -> bytes:
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
    return f"data: {json.dumps({'id': 'x', 'model': 'm', 'choices': [choice]})}\n\n".encode()


def hostile(readers: list[Callable[[str], object]]) -> tuple[float, str]:
    """The slowest of these readers on the slowest of the texts."""
    worst = (0.0, "")
    for name, text in HOSTILE.items():
        for read in readers:
            before = time.process_time()
            with suppress(ALLOWED):
                read(text)
            worst = max(worst, (time.process_time() - before, f"{read.__name__} on {name}"))
    return worst


def in_slices(text: str) -> object:
    parser = PartialJson()
    for at in range(0, len(text), 4096):
        if parser.error is None:
            parser.feed(text[at : at + 4096])
    return parser.value() if parser.error is None else None


def main() -> int:
    seconds = min(tool_args() for _ in range(3))
    hostile_seconds = hostile([parse_strict, parse_partial_json])
    searched = hostile([parse_json_markdown, in_slices])
    figures = {
        "tool_args_seconds": round(seconds, 3),
        "hostile_seconds": round(hostile_seconds[0], 3),
        "hostile_slowest": hostile_seconds[1],
        "searched_seconds": round(searched[0], 3),
        "searched_slowest": searched[1],
    }
    print(json.dumps(figures))
    if "--json" in sys.argv:
        Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(figures) + "\n")
    if "--save" in sys.argv:
        save("speed", "python -m tests.fuzz.speed", figures)
    return int(seconds > 0.2 or hostile_seconds[0] > 1.0)


if __name__ == "__main__":
    sys.exit(main())
