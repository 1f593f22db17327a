"""Scripted answers of the fault server: values only, no I/O.

An `Answer` is a status line, headers and a list of steps. A step sends bytes, waits, stalls for ever, waits for the
gate to be opened, or ends the connection with a FIN or an RST. `answer.cut(n, "rst")` ends it after `n` bytes of the
body, inside a chunk if need be.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Cut = Literal["fin", "rst"]
Framing = Literal["length", "chunked", "close", "raw"]
Step = tuple[str, Any]

SEND, WAIT, STALL, FIN, RST = "send", "wait", "stall", "fin", "rst"


@dataclass(frozen=True)
class Answer:
    """One scripted answer."""

    body: bytes | Sequence[bytes | Step] = b""
    """Bytes, or pieces and steps in order; each piece is one chunk on the wire."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    framing: Framing = "length"
    """`length` sends Content-Length, `chunked` one chunk per piece, `close` neither, `raw` the body is the wire."""
    pause: float = 0.0
    """Seconds between two pieces."""
    before: Sequence[Step] = ()
    """Steps before the status line: `("wait", 0.5)`, `("stall", None)`, `("rst", None)`."""
    close_after: float | None = None
    """Promise keep-alive, then close the idle connection this many seconds after the answer."""
    promise: int | None = None
    """A Content-Length to claim that is not the true one."""

    def cut(self, at: int, how: Cut = "fin") -> Answer:
        """Return this answer ended after `at` bytes of its body."""
        steps: list[Step] = []
        remaining = at
        for step in self.steps():
            if step[0] != SEND:
                steps.append(step)
                continue
            if len(step[1]) > remaining:
                steps.append(("part", (len(step[1]), step[1][:remaining])))
                break
            steps.append(step)
            remaining -= len(step[1])
        total = sum(len(step[1]) for step in self.steps() if step[0] == SEND)
        return replace(self, body=[*steps, (how, None)], promise=self.promise or max(total, at + 1))

    def steps(self) -> list[Step]:
        """Return the body as steps, pauses included."""
        if isinstance(self.body, bytes):
            return [(SEND, self.body)] if self.body else []
        steps: list[Step] = []
        for piece in self.body:
            if steps and self.pause and steps[-1][0] == SEND:
                steps.append((WAIT, self.pause))
            steps.append((SEND, piece) if isinstance(piece, bytes) else piece)
        return steps

    def to_json(self) -> dict[str, Any]:
        """Return what travels to the server's process."""
        return {
            "status": self.status,
            "headers": dict(self.headers),
            "framing": self.framing,
            "before": [_step_to_json(step) for step in self.before],
            "steps": [_step_to_json(step) for step in self.steps()],
            "close_after": self.close_after,
            "promise": self.promise,
        }


def _step_to_json(step: Step) -> list[Any]:
    kind, value = step
    if kind == SEND:
        return [kind, base64.b64encode(value).decode()]
    if kind == "part":
        return [kind, [value[0], base64.b64encode(value[1]).decode()]]
    if kind == "repeat":
        times, pause, piece = value
        return [kind, [times, pause, base64.b64encode(piece).decode()]]
    return [kind, value]


def json_answer(value: Any, status: int = 200, **options: Any) -> Answer:
    """Answer with a JSON body."""
    headers = {"content-type": "application/json", **options.pop("headers", {})}
    return Answer(json.dumps(value).encode(), status=status, headers=headers, **options)


def sse_answer(events: Iterable[Any], *, done: str | None = None, **options: Any) -> Answer:
    """Answer with server-sent events, one chunk each.

    An event is bytes (sent as they are), a JSON value (`data:` line) or a pair (event name, JSON value).
    """
    pieces = [_sse_piece(event) for event in events]
    if done is not None:
        pieces.append(f"data: {done}\n\n".encode())
    headers = {"content-type": "text/event-stream", **options.pop("headers", {})}
    return Answer(pieces, headers=headers, framing=options.pop("framing", "chunked"), **options)


def _sse_piece(event: Any) -> Any:
    if isinstance(event, bytes):
        return event
    if isinstance(event, tuple) and event[0] in (WAIT, STALL, FIN, RST, "repeat"):
        return event
    if isinstance(event, tuple):
        return f"event: {event[0]}\ndata: {json.dumps(event[1])}\n\n".encode()
    return f"data: {json.dumps(event)}\n\n".encode()


def redirect(target: str, status: int = 307) -> Answer:
    """Answer with a redirect."""
    return Answer(b"moved", status=status, headers={"location": target})


def gzip_answer(
    data: bytes, *, keep: int | None = None, corrupt: int | None = None, **options: Any
) -> Answer:
    """Answer with gzip; `keep` cuts the compressed bytes short, `corrupt` flips one of them."""
    compressed = bytearray(gzip.compress(data, 9))
    if corrupt is not None:
        compressed[corrupt] ^= 0xFF
    body = bytes(compressed[:keep])
    return Answer(
        body, headers={"content-encoding": "gzip", **options.pop("headers", {})}, **options
    )
