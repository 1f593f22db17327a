"""The every-byte cutter: a recorded stream behind a real HTTP reader, ended at any byte in one of three ways.

No socket: a wire that holds the bytes stands in the pool of a `NativeTransport`, and everything above it is real, the
reader of HTTP, the clocks, the decoder, the turn, the message. `clean` ends the HTTP message properly in the middle
of the events, `fin` closes the connection there, `rst` breaks it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from foldline.agents import create_agent
from foldline.exceptions import (
    MalformedStreamError,
    ModelError,
    StreamInterruptedError,
    StreamTruncatedError,
)
from foldline.messages import AIMessage
from foldline.tools import tool
from foldline.transports import NativeTransport
from tests.faults.matrix import EVERY_WIRE
from tests.faults.wires import Wire

How = Literal["clean", "fin", "rst"]
HOWS: tuple[How, ...] = ("clean", "fin", "rst")
HEAD = "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n"
HOST = "http://127.0.0.1:9"


class HeldWire:
    """A connection whose bytes from the server are already there."""

    expires = float("inf")

    def __init__(self, pieces: Iterable[bytes], how: How) -> None:
        self._pieces = iter(pieces)
        self._how = how

    def send(self, data: bytes, budget: float | None) -> None:
        """Throw the request away."""

    def receive(self, budget: float | None) -> bytes:
        for piece in self._pieces:
            return piece
        if self._how == "rst":
            raise ConnectionResetError(104, "Connection reset by peer")
        return b""

    def is_stale(self) -> bool:
        return False

    def close(self) -> None:
        self._pieces = iter(())


class CutTransport(NativeTransport):
    """A native transport whose next connection is the wire it was given."""

    content_type = "text/event-stream"

    def hold(self, body: bytes, how: How) -> None:
        """Let the next answer be these bytes of an event stream, ended so."""
        chunk = b"%x\r\n%s" % (len(body) + (how != "clean"), body)
        end = b"\r\n0\r\n\r\n" if how == "clean" else b""
        frame = (chunk if body else b"") + (end if body else end[2:])
        head = HEAD.format(self.content_type).encode()
        self._blocking_connections.pool.put(
            ("127.0.0.1", 9, False, None), HeldWire([head, frame], how)
        )  # type: ignore[arg-type]


@dataclass
class Tally:
    """Counts of the outcomes of the cuts."""

    cuts: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Every cut that was silent, untyped, or lost or invented something."""

    def add(self, other: Tally) -> None:
        self.cuts += other.cuts
        self.kinds += other.kinds
        self.wrong += other.wrong


class Cutter:
    """One recording, cut at will and judged."""

    def __init__(self, wire: Wire, recording: str) -> None:
        self.wire = wire
        self.recording = recording
        self.data = wire.data(recording)
        self.transport = CutTransport()
        self.transport.content_type = wire.content_type
        self.model = wire.model(HOST, transport=self.transport)
        if wire.name == "host":  # each recording shows a habit of one host
            provider = recording.split("/")[1].split("-")[0]
            self.model = self.model.model_copy(update={"provider": provider})
        self.text, self.error = self.ask(self.data, "clean")
        self.truth = self._truth()
        self.complete_at = self._complete_at()

    def _truth(self) -> AIMessage:
        if isinstance(self.error, ModelError):
            return self.error.partial  # type: ignore[no-any-return]
        self.transport.hold(self.data, "clean")
        return self.model.stream_v2("Hi").output

    def _complete_at(self) -> int:
        """The first offset at which the vendor has marked the answer as complete; past the end if it never does."""
        at = 0
        for piece in self.wire.pieces(self.recording):
            at += len(piece)
            try:
                if self.wire.is_last(self.wire.payload(piece)):
                    return at - piece.endswith(
                        b"\r\n"
                    )  # a CR alone ends a line: the LF may be missing
            except ValueError:
                continue
        return len(self.data) + 1

    def ask(self, body: bytes, how: How) -> tuple[str, BaseException | None]:
        """Stream one answer: the text delivered, and what ended it."""
        self.transport.hold(body, how)
        text = ""
        try:
            for chunk in self.model.stream("Hi"):
                text += str(chunk.text)
        except BaseException as error:  # noqa: BLE001  the judge looks at it
            return text, error
        return text, None

    def judge(self, at: int, how: How, tally: Tally) -> None:
        """Cut once and say what was wrong with what came of it."""
        text, error = self.ask(self.data[:at], how)
        tally.cuts += 1
        tally.kinds["complete" if error is None else type(error).__name__] += 1
        partial = getattr(error, "partial", None)
        tally.kinds["invalid_tool_call"] += bool(partial and partial.invalid_tool_calls)
        fault = self._fault(at, text, error)
        if fault:
            tally.wrong.append(f"{self.recording} {how} at {at}: {fault}")

    def _fault(self, at: int, text: str, error: BaseException | None) -> str | None:
        if error is None:
            if at < self.complete_at:
                return "SILENT: success without an end"
            return None if text == self.text else f"the text of a complete answer is {text!r}"
        if not isinstance(error, ModelError):
            return f"UNTYPED: {error!r}"
        return self._wrong_kind(at, error) or self._wrong_partial(text, error.partial)

    def _wrong_kind(self, at: int, error: ModelError) -> str | None:
        if isinstance(error, StreamTruncatedError | StreamInterruptedError):
            return None
        if not at and isinstance(error, MalformedStreamError) and error.is_retryable:
            return None  # F-T10: nothing at all came
        if self.error is not None and type(error) is type(self.error):
            return None  # the recording itself ends in this error
        return f"{type(error).__name__}: {error}"

    def _wrong_partial(self, text: str, partial: Any) -> str | None:
        if partial is None or partial.status != "incomplete":
            return f"no partial: {partial!r}"
        if str(partial.text) != text:
            return f"delivered {text!r}, kept {partial.text!r}"
        if not self.text.startswith(text):
            return f"{text!r} is no beginning of {self.text!r}"
        if any(block["type"] == "tool_call_chunk" for block in partial.content_blocks):
            return f"a call that is neither whole nor invalid: {partial.content_blocks}"
        complete_calls = {
            (call["id"], call["name"], str(call["args"])) for call in self.truth.tool_calls
        }
        for call in partial.tool_calls:
            if (call["id"], call["name"], str(call["args"])) not in complete_calls:
                return f"a call that was never made: {call}"
        return None


def cut_all(
    step: int = 1,
    wires: Iterable[str] = tuple(EVERY_WIRE),
    *,
    in_turn: bool = False,
    share: tuple[int, int] = (0, 1),
) -> Tally:
    """Cut every recording of the wires at every `step`-th byte: in each way, or in one way after another.

    A share of N is every N-th of those bytes.
    """
    tally = Tally()
    for name in wires:
        for recording in EVERY_WIRE[name].recordings():
            cutter = Cutter(EVERY_WIRE[name], recording)
            for at in range(step * share[0], len(cutter.data), step * share[1]):
                for how in (HOWS[at % len(HOWS)],) if in_turn else HOWS:
                    cutter.judge(at, how, tally)
            if step == 1:
                print(
                    f"{recording}: {tally.cuts} cuts so far, {len(tally.wrong)} wrong",
                    file=sys.stderr,
                )
    return tally


def run_agents(step: int = 1) -> tuple[int, int, int]:
    """Run an agent on answers with truncated tool calls; return the numbers of answers, tool runs and errors."""
    cities: list[Any] = []

    @tool
    def get_weather(city: str, days: Any = None, unit: Any = None) -> str:
        """Tell the weather."""
        cities.append(city)
        return "fair"

    answers = errors = 0
    for wire in EVERY_WIRE.values():
        cutter = Cutter(wire, wire.call)
        agent = create_agent(cutter.model, [get_weather])
        for at in range(1, cutter.complete_at, step):
            for how in HOWS:
                cutter.transport.hold(cutter.data[:at], how)
                answers += 1
                try:
                    agent.invoke({"messages": [("human", "Hi")]})
                except ModelError:
                    errors += 1
    return answers, len(cities), errors
