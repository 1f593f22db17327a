"""`TraceContext`: the W3C trace context of a request, as it comes in and goes out. Pure.

A header that is not valid is ignored, as the recommendation demands.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

__all__ = ["TRACE", "RunTrace", "TraceContext"]

PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
STATE: Final = re.compile(r"[\x20-\x7e]{1,512}")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of another program: the trace it is in, and its id."""

    trace_id: str
    span_id: str
    flags: str = "01"
    state: str = ""

    @classmethod
    def of(cls, parent: str | None, state: str | None = None) -> TraceContext | None:
        """Read `traceparent` and `tracestate`; return None if there is none, or none that is valid.

        ```python
        from foldline.utils._trace_context import TraceContext

        context = TraceContext.of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        print(context.span_id)
        #> b7ad6b7169203331
        ```
        """
        match = PARENT.fullmatch(parent.strip()) if parent else None
        if match is None:
            return None
        version, trace_id, span_id, flags, rest = match.groups()
        is_known = version == "00"
        if (
            version == "ff"
            or (is_known and rest)
            or not trace_id.strip("0")
            or not span_id.strip("0")
        ):
            return None
        is_valid = state is not None and STATE.fullmatch(state) is not None
        # Of later versions, only the lowest bit of the flags is known.
        own_flags = flags if is_known else f"{int(flags, 16) & 1:02x}"
        return cls(trace_id, span_id, own_flags, state if state is not None and is_valid else "")

    @property
    def is_sampled(self) -> bool:
        """Whether the caller records this trace."""
        return bool(int(self.flags, 16) & 1)

    def headers(self) -> dict[str, str]:
        """Return the headers that pass it on."""
        headers = {"traceparent": f"00-{self.trace_id}-{self.span_id}-{self.flags}"}
        return {**headers, "tracestate": self.state} if self.state else headers


@dataclass(frozen=True, slots=True)
class RunTrace:
    """The trace of a run that a server runs."""

    parent: TraceContext | None
    """The span of the client."""
    is_sent: bool = True
    """Whether requests of the run carry the trace on."""


TRACE: Final[ContextVar[RunTrace | None]] = ContextVar("foldline_trace", default=None)
