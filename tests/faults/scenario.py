"""A scenario: the server's answers, and the expected result. Values only; `matrix.py` injects them.

It is written once and holds for every wire with such an answer. `raises` names what must be told; an empty one means
that the answer is good in spite of its looks. `hits` is how many requests a call may cost with one retry allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foldline.transports import SizeLimits, Timeouts
from tests.faults.wires import SSE, Wire
from tests.servers.script import Answer

MakeAnswers = Callable[[Wire], Answer | Sequence[Answer] | None]
SMALL = SizeLimits(sse_line=8192, sse_event=16384)
HASTY = {"timeout": Timeouts(connect=5, first_byte=5, idle=0.25), "max_retries": 0}


SSE_ROWS = frozenset(
    {"F-S02", "F-S03", "F-S04", "F-S05", "F-S06", "F-S07", "F-S09", "F-S10", "F-S11", "F-S12", "F-S13", "F-T08"}
)  # fmt: skip
"""Rows about the lines of server-sent events."""
SSE_NAMES = frozenset({"a drip past the deadline", "a bomb", "a web page as event stream"})


@dataclass(frozen=True)
class Scenario:
    """One fault and its expected result."""

    row: str
    name: str
    make_answers: MakeAnswers
    """Return what a wire's server answers, in turn; `None` where the wire has no such answer."""
    raises: tuple[type[Exception], ...] = ()
    hits: int | None = 1
    keeps: bool = False
    """Whether text came before the fault, which must be kept."""
    fields: dict[str, Any] = field(default_factory=dict)
    calls: str | None = None
    """`valid` or `invalid`: what a tool call in the answer must be."""
    may_pass: bool = False
    """Whether a good answer is as right as the error."""

    def answers(self, wire: Wire) -> Answer | Sequence[Answer] | None:
        """Return what the wire's server answers, in turn, with the content type of the wire's streams."""
        if not wire.is_sse and (self.row in SSE_ROWS or self.name in SSE_NAMES):
            return None
        answers = self.make_answers(wire)
        if answers is None or wire.is_sse:
            return answers
        answer_list = answers if isinstance(answers, list | tuple) else [answers]
        return [_renamed(answer, wire) for answer in answer_list]

    @property
    def id(self) -> str:
        return f"{self.row} {self.name}"


def stream_of(pieces: Sequence[Any], framing: Any = "chunked", **options: Any) -> Answer:
    body = pieces if framing == "chunked" else [b"".join(pieces)]
    return Answer(body, headers={**SSE, **options.pop("headers", {})}, framing=framing, **options)


def _renamed(answer: Answer, wire: Wire) -> Answer:
    if answer.headers.get("content-type") != SSE["content-type"]:
        return answer
    return replace(answer, headers={**answer.headers, "content-type": wire.content_type})
