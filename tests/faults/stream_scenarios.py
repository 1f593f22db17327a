"""The table of faults, first half: streams that end early, tell of errors, stall, or hold what they must not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from foldline.exceptions import (
    LimitExceededError,
    MalformedStreamError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelError,
    ModelOverloadedError,
    ModelQuotaError,
    ModelRateLimitError,
    ModelTimeoutError,
    StreamInterruptedError,
    StreamTruncatedError,
)
from foldline.transports import Timeouts
from tests.faults.payloads import call_stream, error_event, insert_odd, opening, renumbered
from tests.faults.scenario import HASTY, SMALL, MakeAnswers, Scenario, stream_of
from tests.faults.wires import WIRES, Wire, payload_of
from tests.servers.script import Answer, json_answer


def sse() -> Iterator[Scenario]:
    def changed_stream(change: Callable[[bytes], bytes]) -> MakeAnswers:
        return lambda w: stream_of([change(b"".join(w.pieces()))])

    def sliced(w: Wire) -> Answer:
        data = b"".join(w.pieces())
        return stream_of([data[at : at + 13] for at in range(0, len(data), 13)])

    def plain(data: bytes) -> bytes:
        return data.replace(b"\r\n", b"\n")

    noise = b": comment\n\n:\n\nid: 7\n\nretry: 10\n\nevent: nothing\n\nodd: field\n\n"
    yield Scenario("F-S01", "sliced anywhere", sliced)
    yield Scenario("F-S02", "CRLF", changed_stream(lambda d: plain(d).replace(b"\n", b"\r\n")))
    yield Scenario("F-S02", "CR", changed_stream(lambda d: plain(d).replace(b"\n", b"\r")))
    yield Scenario("F-S03", "byte order mark", changed_stream(lambda d: b"\xef\xbb\xbf" + d))
    yield Scenario(
        "F-S04", "noise between events", lambda w: stream_of([noise + p for p in w.pieces()])
    )
    yield Scenario(
        "F-S05", "no space after the colon", changed_stream(lambda d: d.replace(b": {", b":{"))
    )
    yield Scenario(
        "F-S06", "last event without its blank line",
        lambda w: stream_of([*w.until_finish(), w.pieces()[len(w.until_finish())].rstrip() + b"\n"]),
        (StreamTruncatedError,), keeps=True,
    )  # fmt: skip
    for name, bad in (("ff", b"\xff"), ("cut sequence", b"\xe2\x82"), ("overlong", b"\xc0\xaf"),
                      ("surrogate", b"\xed\xa0\x80")):  # fmt: skip
        yield Scenario(
            "F-S07", f"invalid UTF-8: {name}",
            lambda w, bad=bad: stream_of(
                [*opening(w), b'data: {"a": "' + bad + b'"}\n\n', *w.pieces()[w.first_text():]]
            ),
            (MalformedStreamError,), keeps=True,
        )  # fmt: skip
    for name, flood in (
        ("line", b"data: " + b"x" * 20_000),
        ("event", b"data: xxxxxxxxxxx\n" * 3000),
    ):
        yield Scenario(
            "F-S09", f"endless {name}", lambda w, flood=flood: stream_of([*opening(w), flood, ("stall", None)]),
            (LimitExceededError,), keeps=True, fields={"limits": SMALL},
        )  # fmt: skip
    payloads = {
        "words": "not json", "array": "[1, 2]", "number": "7", "text": '"text"', "cut": '{"a": [1,',
        "trailing": "{} {}",
        "deep": '{"a":' + "[" * 5000 + "]" * 5000 + "}", "true": "true",
    }  # fmt: skip
    for name, data in payloads.items():
        yield Scenario(
            "F-S10", f"data is {name}",
            lambda w, data=data: stream_of([*opening(w), f"data: {data}\n\n".encode(), *w.pieces()[w.first_text():]]),
            (MalformedStreamError,), keeps=True,
        )  # fmt: skip
    yield Scenario(
        "F-Y19", "NaN beside the answer",
        lambda w: stream_of([p.replace(b"data: {", b'data: {"odd": [NaN, -Infinity], ') for p in w.pieces()]),
    )  # fmt: skip


def after_the_end() -> Iterator[Scenario]:
    # Gemini has no end marker: what follows finishReason may be usage.
    wires = set(WIRES) - {"google"}
    for name, more in (
        ("nonsense", lambda w: [b"data: nonsense\n\n"]),
        ("another answer", opening),
    ):
        yield Scenario(
            "F-S11", f"{name} after the end",
            lambda w, more=more: stream_of([*w.pieces(), *more(w)]) if w.name in wires else None,
        )  # fmt: skip
    yield Scenario("F-S12", "unknown event", lambda w: stream_of(insert_odd(w)))
    for name, numbers in (
        ("gap", [0, 1, 2, 3, 4, 9]),
        ("repeat", [0, 1, 2, 3, 4, 4]),
        ("back", [0, 1, 2, 3, 4, 1]),
    ):
        yield Scenario(
            "F-S13", f"sequence number: {name}", lambda w, numbers=numbers: renumbered(w, numbers),
            (MalformedStreamError,), keeps=True,
        )  # fmt: skip


PLACES: dict[str, Callable[[Wire], int]] = {
    "inside the first event": lambda w: len(w.pieces()[0]) // 2,
    "after the first text": lambda w: len(b"".join(opening(w))),
    "just after the first text": lambda w: len(b"".join(opening(w))) + 9,
    "before the end": lambda w: len(b"".join(w.until_finish())),
    "inside the end": lambda w: len(b"".join(w.until_finish())) + 20,
}


def endings() -> Iterator[Scenario]:
    for place, where in PLACES.items():
        keeps = not place.startswith("inside the first")
        for framing in ("chunked", "length", "close"):
            yield Scenario(
                "F-T01", f"clean end {place}, {framing}",
                lambda w, where=where, framing=framing: stream_of([b"".join(w.pieces())[:where(w)]], framing),
                (StreamTruncatedError,), hits=1 if keeps else 2, keeps=keeps,
            )  # fmt: skip
        for how in ("fin", "rst"):
            for framing in ("chunked", "length"):
                yield Scenario(
                    "F-T03", f"{how} {place}, {framing}",
                    lambda w, at=where, framing=framing, how=how: (
                        stream_of([b"".join(w.pieces())], framing).cut(at(w), how)
                    ),
                    (StreamInterruptedError,), hits=1 if keeps else 2, keeps=keeps,
                )  # fmt: skip
    yield Scenario(
        "F-T02", "finish, but no end marker",
        lambda w: stream_of(w.pieces()[:-1]) if w.name in ("chat", "host", "anthropic") else None,
    )  # fmt: skip


KINDS: dict[str, type[ModelError]] = {
    "api": ModelAPIError,
    "overloaded": ModelOverloadedError,
    "rate": ModelRateLimitError,
    "quota": ModelQuotaError,
    "key": ModelAuthenticationError,
    "text": ModelAPIError,
    "bare": ModelAPIError,
}


def error_events() -> Iterator[Scenario]:
    """Errors that a server tells inside a 200."""
    for kind, cls in KINDS.items():
        hits = 2 if cls.is_retryable else 1

        def first(w: Wire, kind: str = kind) -> Answer | None:
            error_piece = error_event(w, kind, 0)
            return stream_of([error_piece]) if error_piece else None

        def middle(w: Wire, kind: str = kind) -> Answer | None:
            error_piece = error_event(w, kind, w.first_text())
            return stream_of([*opening(w), error_piece]) if error_piece else None

        def whole_body(w: Wire, kind: str = kind) -> Answer | None:
            error_piece = error_event(w, kind, 0)
            return json_answer(payload_of(error_piece)) if error_piece and w.is_sse else None

        yield Scenario("F-T04", f"{kind} error in the middle", middle, (cls,), keeps=True)
        yield Scenario("F-T05", f"{kind} error as first event", first, (cls,), hits)
        yield Scenario("F-T05", f"{kind} error as the whole body", whole_body, (cls,), hits)
        if cls.is_retryable:
            yield Scenario(
                "F-T05", f"{kind} error as first event, then good",
                lambda w, f=first: [f(w), w.good()] if f(w) else None, hits=2,
            )  # fmt: skip
    for name in ("responses-failed", "responses-error"):
        yield Scenario(
            "F-T06", name,
            lambda w, name=name: stream_of(w.pieces(f"openai/{name}")) if w.name == "responses" else None,
            (ModelError,), hits=None,
        )  # fmt: skip
    for name in ("responses-incomplete-length", "responses-incomplete-filter"):
        yield Scenario(
            "F-T06", name,
            lambda w, name=name: stream_of(w.pieces(f"openai/{name}")) if w.name == "responses" else None,
        )  # fmt: skip
    for name in (
        "blocked-prompt",
        "safety-without-content",
        "malformed-function-call",
        "recitation",
    ):
        yield Scenario(
            "F-T17", name, lambda w, name=name: stream_of(w.pieces(f"google/{name}")) if w.name == "google" else None,
        )  # fmt: skip


def clocks() -> Iterator[Scenario]:
    timeout_errors, stall = (ModelTimeoutError,), ("stall", None)
    ping = ("repeat", [40, 0.01, b": ping\n\n"])
    total = {**HASTY, "timeout": 0.3}
    yield Scenario(
        "F-T07",
        "stall after text",
        lambda w: stream_of([*opening(w), stall]),
        timeout_errors,
        keeps=True,
        fields=HASTY,
    )
    yield Scenario(
        "F-T07", "stall before text", lambda w: stream_of([stall]), timeout_errors, fields=HASTY
    )
    yield Scenario(
        "F-T07",
        "stall, whole answer",
        lambda w: Answer(
            [b"{", stall], headers={"content-type": "application/json"}, framing="chunked"
        ),
        timeout_errors,
        fields=HASTY,
    )
    yield Scenario(
        "F-T08",
        "pings only",
        lambda w: stream_of([*opening(w), ping, stall]),
        timeout_errors,
        keeps=True,
        fields=HASTY,
    )
    yield Scenario(
        "F-T09",
        "a drip past the deadline",
        lambda w: stream_of([*opening(w), ("repeat", [40, 0.01, b": drip\n\n"]), stall]),
        timeout_errors,
        fields=total,
    )
    yield Scenario(
        "F-H05", "no headers", lambda w: Answer(before=[stall]), timeout_errors,
        hits=None, fields={"timeout": Timeouts(connect=5, first_byte=0.25), "max_retries": 0},
    )  # fmt: skip


def order() -> Iterator[Scenario]:
    """Events lost, doubled and swapped: recovered or a typed error, never a crash."""

    def change(name: str, edit: Callable[[list[bytes]], list[bytes]]) -> Scenario:
        return Scenario(
            "F-T15",
            name,
            lambda w: stream_of(edit(w.pieces())),
            (ModelError,),
            hits=None,
            may_pass=True,
        )

    yield change("the first event lost", lambda p: p[1:])
    yield change("the second event lost", lambda p: p[:1] + p[2:])
    yield change("the third event lost", lambda p: p[:2] + p[3:])
    yield change("everything twice", lambda p: [piece for piece in p for _ in range(2)])
    yield change("backwards", lambda p: p[::-1])
    yield change("the first two swapped", lambda p: [p[1], p[0], *p[2:]])
    yield change("the last two swapped", lambda p: [*p[:-2], p[-1], p[-2]])
    nothing = [
        {"choices": []}, {"choices": None}, {"choices": [{"index": 0, "delta": None}]}, {"choices": [{"delta": {}}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
    ]  # fmt: skip
    for place, chunk in enumerate(nothing):
        piece = f"data: {json.dumps(chunk)}\n\n".encode()
        yield Scenario(
            "F-T12" if place < 4 else "F-T13", f"chunk {json.dumps(chunk)[:40]}",
            lambda w, piece=piece: (
                stream_of([*opening(w), piece, *w.pieces()[w.first_text() :]]) if w.name in ("chat", "host") else None
            ),
        )  # fmt: skip


def calls() -> Iterator[Scenario]:
    """Tool calls whose arguments are not what they must be."""
    good = {
        "an object": '{"a": 1}',
        "nothing": "",
        "a large number": '{"a": 1180591620717411303424}',
    }
    bad = {
        "cut": '{"a": "b', "trailing garbage": '{"a": 1} x', "two objects": '{"a": 1}{"b": 2}', "null": "null",
        "a list": "[1]", "a number": "7", "words": "hello", "NaN": '{"a": NaN}', "beyond numbers": '{"a": 1e999}',
        "a key twice": '{"a": 1, "a": 2}', "single quotes": "{'a': 1}",
    }  # fmt: skip
    for name, text in good.items():
        yield Scenario(
            "F-U03",
            f"arguments are {name}",
            lambda w, text=text: call_stream(w, text),
            calls="valid",
        )
    for name, text in bad.items():
        row = "F-U04" if name in ("NaN", "beyond numbers", "a key twice") else "F-U02"
        yield Scenario(
            row, f"arguments are {name}", lambda w, text=text: call_stream(w, text), calls="invalid"
        )
    yield Scenario(
        "F-U01",
        "arguments cut by length",
        lambda w: call_stream(w, '{"a": "b', is_cut=True),
        calls="invalid",
    )
    yield Scenario(
        "F-U01", "the stream ends inside the arguments",
        lambda w: call_stream(w, '{"a": "b', ends=False), (StreamTruncatedError,), calls="invalid",
    )  # fmt: skip
    yield Scenario(
        "F-U01", "the stream ends after the arguments",
        lambda w: call_stream(w, '{"a": 1}', ends=False), (StreamTruncatedError,), calls="never",
    )  # fmt: skip


def stream_scenarios() -> list[Scenario]:
    """Every scenario of this file."""
    return [*sse(), *after_the_end(), *endings(), *error_events(), *clocks(), *order(), *calls()]
