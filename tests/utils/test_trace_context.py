"""W3C trace context: what is read, and what is ignored."""

from __future__ import annotations

import pytest

from foldline.utils._trace_context import TraceContext

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE_ID}-{SPAN_ID}-01"


def test_S36_a_valid_context_is_read_and_passed_on():
    context = TraceContext.of(VALID, "vendor=1,other=2")

    assert context is not None
    assert (context.trace_id, context.span_id, context.is_sampled) == (TRACE_ID, SPAN_ID, True)
    assert context.headers() == {"traceparent": VALID, "tracestate": "vendor=1,other=2"}


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        VALID.upper(),
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID[:-1]}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-1",
        f"{VALID}-more",
        f"{VALID}\n{VALID}",
        f"00-{TRACE_ID}-{SPAN_ID}-zz",
    ],
)
def test_S36_an_invalid_context_is_ignored(header):
    assert TraceContext.of(header, "vendor=1") is None


def test_S36_a_later_version_is_read_by_what_is_known_of_it():
    context = TraceContext.of(f"cc-{TRACE_ID}-{SPAN_ID}-ff-what-comes-later")

    assert context is not None
    assert context.headers() == {"traceparent": VALID}


@pytest.mark.parametrize("state", ["a" * 513, "a=1\nb=2", "é=1", ""])
def test_S36_a_state_that_is_not_valid_is_left_out(state):
    context = TraceContext.of(VALID, state)

    assert context is not None
    assert context.headers() == {"traceparent": VALID}


def test_S36_a_caller_that_does_not_record_is_passed_on_as_such():
    context = TraceContext.of(f"00-{TRACE_ID}-{SPAN_ID}-00")

    assert context is not None
    assert not context.is_sampled
    assert context.headers()["traceparent"].endswith("-00")
