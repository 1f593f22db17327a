"""The table of faults, second half: statuses, connections, bodies that are not streams, and malformed HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from typing import Any

from foldline.exceptions import (
    ContextOverflowError,
    LimitExceededError,
    MalformedStreamError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelPermissionDeniedError,
    ModelQuotaError,
    ModelRateLimitError,
    ModelStatusError,
    SecurityError,
    StreamInterruptedError,
)
from tests.faults.payloads import event, opening, status_body
from tests.faults.scenario import Scenario, stream_of
from tests.faults.wires import SSE, Wire
from tests.servers.script import Answer, json_answer


def bodies() -> Iterator[Scenario]:
    """Answers that are not streams, or compressed."""
    html = b"<!doctype html><title>Bad gateway</title>"
    page = {"content-type": "text/html"}
    malformed = (MalformedStreamError,)
    for name, answer, hits in (
        ("empty event stream", Answer(b"", headers=SSE), 2),
        ("empty, JSON", Answer(b"", headers={"content-type": "application/json"}), 2),
        ("empty, no type", Answer(b""), 2),
        ("a web page", Answer(html, headers=page), 1),
        ("a web page as event stream", Answer(html, headers=SSE), None),
        ("plain words", Answer(b"upstream connect error", headers={"content-type": "text/plain"}), None),
        ("JSON cut", Answer(b'{"id": "1", "choices": [', headers={"content-type": "application/json"}), 1),
    ):  # fmt: skip
        yield Scenario("F-T10", name, lambda w, answer=answer: answer, malformed, hits=hits)
    for name, value in (
        ("{}", {}),
        ("[]", []),
        ("null", None),
        ("text", "hello"),
        ("number", 1),
        ("foreign", {"ok": True}),
    ):
        yield Scenario(
            "F-T10",
            f"JSON {name}",
            lambda w, value=value: json_answer(value),
            (ModelError,),
            hits=None,
        )
    yield Scenario("F-T10", "a whole answer where a stream was asked for", lambda w: w.good())
    yield Scenario(
        "F-T10", "a stream where a whole answer was asked for", lambda w: stream_of(w.pieces())
    )
    yield Scenario(
        "F-T03", "fin inside a whole answer", lambda w: w.good().cut(len(w.good().body) // 2, "fin"),
        (StreamInterruptedError,), hits=2,
    )  # fmt: skip
    yield Scenario(
        "F-T03", "rst inside a whole answer", lambda w: w.good().cut(len(w.good().body) // 2, "rst"),
        (StreamInterruptedError,), hits=2,
    )  # fmt: skip

    def compressed(
        w: Wire,
        change: Callable[[bytes], bytes] = lambda d: d,
        coding: str = "gzip",
        data: bytes = b"",
    ) -> Answer:
        body = change(gzip.compress(data or b"".join(w.pieces())))
        return stream_of([body], headers={"content-encoding": coding})

    yield Scenario("F-T11", "gzip", compressed)
    yield Scenario(
        "F-T11", "gzip cut", lambda w: compressed(w, lambda d: d[:-40]), malformed, hits=None
    )
    yield Scenario(
        "F-T11",
        "gzip corrupt",
        lambda w: compressed(w, lambda d: d[:40] + b"\0\0\0\0" + d[44:]),
        malformed,
        hits=None,
    )
    yield Scenario(
        "F-T11",
        "gzip of nothing true",
        lambda w: compressed(w, lambda d: b"no gzip at all"),
        malformed,
        hits=None,
    )
    yield Scenario(
        "F-T11",
        "a coding nobody asked for",
        lambda w: compressed(w, coding="br"),
        malformed,
        hits=None,
    )
    bomb = b"data: " + b" " * 10_000_000
    yield Scenario(
        "F-T11", "a bomb", lambda w: compressed(w, data=bomb), (LimitExceededError,), hits=None
    )


def statuses() -> Iterator[Scenario]:
    classes: dict[int, tuple[type[ModelError], int]] = {
        400: (ModelInvalidRequestError, 1), 401: (ModelAuthenticationError, 1), 402: (ModelQuotaError, 1),
        403: (ModelPermissionDeniedError, 1), 404: (ModelNotFoundError, 1), 405: (ModelInvalidRequestError, 1),
        413: (ModelInvalidRequestError, 1), 415: (ModelInvalidRequestError, 1), 422: (ModelInvalidRequestError, 1),
        418: (ModelInvalidRequestError, 1), 408: (ModelAPIError, 2), 409: (ModelAPIError, 2),
        429: (ModelRateLimitError, 2), 500: (ModelAPIError, 2), 502: (ModelAPIError, 2), 503: (ModelAPIError, 2),
        504: (ModelAPIError, 2), 520: (ModelAPIError, 2), 529: (ModelOverloadedError, 2),
    }  # fmt: skip
    for status, (cls, hits) in classes.items():
        row = "F-H04" if hits == 1 else "F-H01" if status == 429 else "F-H03"
        expected = (cls, ModelOverloadedError) if status in (503, 504) else (cls,)
        yield Scenario(
            row,
            f"{status}, JSON",
            lambda w, s=status: json_answer(status_body(w, s), s),
            expected,
            hits,
        )
        page = Answer(b"<html>no", status, {"content-type": "text/html"})
        yield Scenario(row, f"{status}, a web page", lambda w, page=page: page, expected, hits)
    for status in (400, 500):
        large = Answer(b"x" * 200_000, status, {"content-type": "text/plain"})
        yield Scenario(
            "F-H03", f"{status}, a large body", lambda w, a=large: a, (ModelStatusError,), hits=None
        )
        cut_answer = json_answer({"error": {"message": "m" * 400}}, status).cut(30, "rst")
        yield Scenario(
            "F-H03",
            f"{status}, its body cut",
            lambda w, a=cut_answer: a,
            (ModelStatusError,),
            hits=None,
        )
    overflow = {
        "error": {
            "message": "This model's maximum context length is 8192 tokens",
            "type": "invalid_request_error",
        },
        "message": "Input is too long for requested model.",
    }
    yield Scenario(
        "F-H04", "context overflow", lambda w: json_answer(overflow, 400), (ContextOverflowError,)
    )
    quota = {
        "error": {
            "message": "You exceeded your current quota",
            "code": "insufficient_quota",
            "type": "billing_error",
        }
    }
    yield Scenario(
        "F-H02", "quota", lambda w: json_answer(quota, 429) if w.name not in ("google", "bedrock") else None,
        (ModelQuotaError,),
    )  # fmt: skip
    for name, headers, hits in (
        ("in 0 s", {"retry-after": "0"}, 2),
        ("in 5 ms", {"retry-after-ms": "5"}, 2),
        ("garbage", {"retry-after": "soon"}, 2),
        ("negative", {"retry-after": "-5"}, 2),
        ("a date gone by", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 2),
    ):
        yield Scenario(
            "F-H01", f"429, retry {name}, then good",
            lambda w, h=headers: [json_answer(status_body(w, 429), 429, headers=h), w.good()], hits=hits,
        )  # fmt: skip
    hour = {"retry-after": "3600"}
    yield Scenario(
        "F-H01", "429, retry in an hour", lambda w: json_answer(status_body(w, 429), 429, headers=hour),
        (ModelRateLimitError,), hits=1,
    )  # fmt: skip
    for status in (500, 503, 529):
        yield Scenario(
            "F-H03", f"{status}, then good", lambda w, s=status: [json_answer(status_body(w, s), s), w.good()], hits=2
        )  # fmt: skip


def connections() -> Iterator[Scenario]:
    connection_error = (ModelConnectionError,)
    for how in ("fin", "rst"):
        yield Scenario(
            "F-H05",
            f"{how} before headers",
            lambda w, how=how: Answer(before=[(how, None)]),
            connection_error,
            hits=2,
        )
        yield Scenario(
            "F-H05", f"{how} inside headers",
            lambda w, how=how: Answer([b"HTTP/1.1 200 OK\r\ncontent-", (how, None)], framing="raw"),
            connection_error, hits=2,
        )  # fmt: skip
        yield Scenario(
            "F-H05", f"{how} before headers, then good",
            lambda w, how=how: [Answer(before=[(how, None)]), w.good()], hits=2,
        )  # fmt: skip
    ok = b"HTTP/1.1 200 OK\r\n"
    raw = {
        "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n", "a status that is none": b"HTTP/1.1 abc\r\n\r\n",
        "HTTP/3.7": b"HTTP/3.7 200 OK\r\n\r\n",
        "two lengths": ok + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "a length that is none": ok + b"content-length: x\r\n\r\n",
        "a negative length": ok + b"content-length: -5\r\n\r\n",
        "a header without colon": ok + b"oops\r\n\r\n", "a space before the colon": ok + b"a : b\r\n\r\n",
        "a folded header": ok + b"a: b\r\n c\r\n\r\n", "another protocol": b"HTTP/1.1 101 Go\r\nupgrade: x\r\n\r\n",
        "a chunk without size": ok + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        "a chunk longer than it said": ok + b"transfer-encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n",
        "a coding nobody knows": ok + b"transfer-encoding: gzip\r\n\r\n",
    }  # fmt: skip
    for name, data in raw.items():
        yield Scenario(
            "F-H05",
            name,
            lambda w, d=data: Answer([d], framing="raw"),
            (MalformedStreamError,),
            hits=None,
        )
    flood = ok + b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1000) for n in range(100)) + b"\r\n"
    yield Scenario(
        "F-H05",
        "headers without end",
        lambda w: Answer([flood], framing="raw"),
        (LimitExceededError,),
        hits=None,
    )
    for status in (204, 304):
        yield Scenario(
            "F-T10",
            f"{status}, which has no body",
            lambda w, s=status: Answer(status=s),
            (ModelError,),
            hits=None,
        )
    for status in (301, 302, 303, 307, 308):
        for name, target in (
            ("same origin", "/elsewhere"),
            ("another origin", "http://127.0.0.2:1/"),
            ("a file", "file:///etc/x"),
        ):
            yield Scenario(
                "F-H08", f"{status} to {name}",
                lambda w, s=status, t=target: Answer(b"moved", s, {"location": t}), (SecurityError,),
            )  # fmt: skip


def llama() -> Iterator[Scenario]:
    """Errors of a llama.cpp server that is not ready, full, or cannot do what is requested."""

    def body(code: int, message: str, kind: str) -> dict[str, Any]:
        return {"error": {"code": code, "message": message, "type": kind}}

    def local(answer: Callable[[Wire], Answer | list[Answer]]) -> Callable[[Wire], Any]:
        return lambda w: answer(w) if w.name in ("chat", "host") else None

    loading = json_answer(body(503, "Loading model", "unavailable_error"), 503)
    busy = json_answer(body(503, "no slot available", "unavailable_error"), 503)
    overloaded = (ModelAPIError, ModelOverloadedError)
    for name, answer in (("loading its model", loading), ("all slots busy", busy)):
        yield Scenario(
            "F-H03", f"llama.cpp, {name}", local(lambda w, a=answer: a), overloaded, hits=2
        )
        yield Scenario(
            "F-H03", f"llama.cpp, {name}, then good", local(lambda w, a=answer: [a, w.good()]), hits=2
        )  # fmt: skip
    long = body(400, "request (5021 tokens) exceeds the available context size (512 tokens), try increasing it",
                "exceed_context_size_error")  # fmt: skip
    yield Scenario(
        "F-H04", "llama.cpp, prompt too long", local(lambda w: json_answer(long, 400)), (ContextOverflowError,)
    )  # fmt: skip
    for message in (
        "Failed to parse grammar",
        "JSON schema conversion failed",
        "Unsupported param: tools",
    ):
        refusal = json_answer(body(400, message, "invalid_request_error"), 400)
        yield Scenario(
            "F-H04", f"llama.cpp, {message}", local(lambda w, a=refusal: a), (ModelInvalidRequestError,)
        )  # fmt: skip
    yield Scenario(
        "F-H03", "llama.cpp, not supported",
        local(lambda w: json_answer(body(501, "This server does not support it", "not_supported_error"), 501)),
        (ModelStatusError,), hits=None,
    )  # fmt: skip
    overflow = event(body(500, "Context size has been exceeded.", "server_error"))
    yield Scenario(
        "F-T04", "llama.cpp, context used up in the middle", local(lambda w: stream_of([*opening(w), overflow])),
        (ModelError,), keeps=True,
    )  # fmt: skip


def http_scenarios() -> list[Scenario]:
    """Every scenario of this file."""
    return [*bodies(), *statuses(), *connections(), *llama()]
