"""The faults of embeddings: vectors and answers that are none, statuses, connections, clocks. Values only."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
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
    ModelTimeoutError,
    SecurityError,
    StreamInterruptedError,
)
from foldline.transports import SizeLimits, Timeouts
from tests.faults.embedding_wires import VECTORS, EmbeddingWire
from tests.servers.script import Answer, json_answer

MakeAnswers = Callable[[EmbeddingWire], Sequence[Answer] | None]
JSON = {"content-type": "application/json"}
MALFORMED = (MalformedStreamError,)


@dataclass(frozen=True)
class EmbeddingScenario:
    """One fault and its expected result; an empty `raises` means that the vectors are right all the same."""

    row: str
    name: str
    make_answers: MakeAnswers
    """Return what the server answers, in turn; None where the wire has no such answer."""
    raises: tuple[type[Exception], ...] = ()
    hits: int | None = 1
    """Requests that the call may cost, with one retry allowed, where all texts go in one request."""
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.row} {self.name}"


def _rows(change: Callable[[list[Any]], Any]) -> MakeAnswers:
    """An answer whose vectors were changed; where one text goes in a request, only the first row is sent."""
    return lambda w: [json_answer(w.body(change([list(v) for v in VECTORS])))]


def _raw(text: str) -> MakeAnswers:
    """An answer whose first number is written so."""

    def answers(w: EmbeddingWire) -> list[Answer] | None:
        if w.name == "openai-base64":
            return None
        body = json.dumps(w.body([[123.0, 0.5], *VECTORS[1:]]))
        return [Answer(body.replace("123.0", text).encode(), headers=JSON)]

    return answers


def vectors() -> Iterator[EmbeddingScenario]:
    """Vectors that are none. What the peers do with these: they return them."""
    nan, infinity = float("nan"), float("inf")
    changes: dict[str, Callable[[list[Any]], Any]] = {
        "one too few": lambda v: v[:-1], "one too many": lambda v: [*v, v[0]], "none": lambda v: [],
        "an empty vector": lambda v: [[], *v[1:]], "all vectors empty": lambda v: [[] for _ in v],
        "null for a vector": lambda v: [None, *v[1:]], "text for a vector": lambda v: ["12", *v[1:]],
        "an object for a vector": lambda v: [{"0": 1.0}, *v[1:]], "a number for a vector": lambda v: [7, *v[1:]],
        "numbers as text": lambda v: [["1.0", "0.5"], *v[1:]], "booleans": lambda v: [[True, False], *v[1:]],
        "null among numbers": lambda v: [[1.0, None], *v[1:]], "a nested vector": lambda v: [[v[0]], *v[1:]],
        "another length inside the batch": lambda v: [*v[:-1], [*v[-1], 1.0]],
    }  # fmt: skip
    one_text = {"one too few", "one too many", "another length inside the batch"}
    for name, change in changes.items():
        yield EmbeddingScenario(
            "F-E01", name,
            lambda w, c=change, n=name: _rows(c)(w) if w.batch > 1 or n not in one_text else None,
            MALFORMED,
        )  # fmt: skip
    for name, text in (
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("-Infinity", "-Infinity"),
        ("a digit lost", "1."),
    ):
        yield EmbeddingScenario("F-E01", f"{name} among numbers", _raw(text), MALFORMED)
    for name, number in (("NaN", nan), ("infinity", infinity)):
        yield EmbeddingScenario(
            "F-E01", f"{name} in base64",
            lambda w, n=number: [json_answer(w.body([[n, 1.0], *VECTORS[1:]]))] if w.name == "openai-base64" else None,
            MALFORMED,
        )  # fmt: skip
    for name, vector in (("no base64", "!!!!"), ("cut", "AACAPwAA"), ("cut in a group", "AACAP"), ("empty", ""),
                         ("not ASCII", "AACAPwé=")):  # fmt: skip
        yield EmbeddingScenario(
            "F-E02", f"base64: {name}",
            lambda w, p=vector: [json_answer(w.body([p, *VECTORS[1:]]))] if w.name == "openai-base64" else None,
            MALFORMED,
        )  # fmt: skip
    places: dict[str, list[Any]] = {
        "twice": [0, 0, 1], "with a gap": [0, 1, 3], "from one": [1, 2, 3], "negative": [-1, 0, 1],
        "as text": ["0", "1", "2"], "as floats": [0.0, 1.0, 2.0], "as booleans": [False, True, 2],
        "on some": [0, None, 2],
    }  # fmt: skip
    for name, numbers in places.items():
        yield EmbeddingScenario(
            "F-E03", f"index {name}", lambda w, n=numbers: _indexed(w, n), MALFORMED
        )
    yield EmbeddingScenario(
        "F-E03", "another order", lambda w: _indexed(w, [2, 0, 1], reorder=True)
    )
    yield EmbeddingScenario("F-E03", "no index at all", lambda w: _indexed(w, [None] * 3))
    yield EmbeddingScenario(
        "F-E04", "another length in the next batch",
        lambda w: [json_answer(w.body([[1.0, 2.0]])), json_answer(w.body([[1.0, 2.0, 3.0]]))],
        MALFORMED, hits=None, fields={"chunk_size": 1},
    )  # fmt: skip
    yield EmbeddingScenario("F-E04", "another length than was asked for", lambda w: w.good(), MALFORMED,
                            hits=None, fields={"dimensions": 3})  # fmt: skip


def _indexed(w: EmbeddingWire, numbers: list[Any], *, reorder: bool = False) -> list[Answer] | None:
    if w.name not in ("openai", "openai-base64", "azure"):
        return None
    body = w.body([VECTORS[n] for n in numbers] if reorder else VECTORS)
    for row, number in zip(body["data"], numbers, strict=True):
        row["index"] = number
        if number is None:
            del row["index"]
    return [json_answer(body)]


def bodies() -> Iterator[EmbeddingScenario]:
    """Answers that are none."""
    for name, answer, hits in (
        ("empty", Answer(b"", headers=JSON), 2),
        ("blank", Answer(b" \n", headers=JSON), 2),
        ("a web page", Answer(b"<!doctype html>", headers={"content-type": "text/html; charset=utf-8"}), 1),
        ("plain words", Answer(b"upstream connect error", headers={"content-type": "text/plain"}), 1),
        ("JSON cut, properly framed", Answer(b'{"data": [', headers=JSON), 1),
        ("an event stream", Answer(b"data: {}\n\n", headers={"content-type": "text/event-stream"}), 1),
        ("invalid UTF-8", Answer(b'{"data": "\xff"}', headers=JSON), 1),
        ("two documents", Answer(b"{}{}", headers=JSON), 1),
        ("too deep", Answer(b"[" * 5000 + b"]" * 5000, headers=JSON), 1),
    ):  # fmt: skip
        yield EmbeddingScenario(
            "F-T10", f"the answer is {name}", lambda w, a=answer: [a], MALFORMED, hits
        )
    for name, value in (("{}", {}), ("[]", []), ("null", None), ("text", "x"), ("a number", 1),
                        ("foreign", {"ok": True}),
                        ("null inside", {"data": None, "embeddings": None, "embedding": None}),
                        ("rows of text", {"data": ["a"], "embeddings": ["a"], "embedding": "a"})):  # fmt: skip
        yield EmbeddingScenario(
            "F-T10", f"JSON: {name}", lambda w, v=value: [json_answer(v)], MALFORMED
        )
    yield EmbeddingScenario(
        "F-T10", "good, but called plain text",
        lambda w: [Answer(a.body, headers={"content-type": "text/plain"}) for a in w.good()],
    )  # fmt: skip

    def error_answer(w: EmbeddingWire, body: Any, *more: Answer) -> list[Answer] | None:
        # AWS has no word for an error but its status.
        return None if w.name in ("titan", "cohere") else [json_answer(body), *more]

    for status, cls in (
        (500, ModelAPIError),
        (503, ModelOverloadedError),
        (429, ModelRateLimitError),
    ):
        yield EmbeddingScenario(
            "F-T05", f"200 with the error {status}", lambda w, s=status: error_answer(w, w.error(s)),
            (cls, ModelAPIError), hits=2,
        )  # fmt: skip
        yield EmbeddingScenario(
            "F-T05", f"200 with the error {status}, then good",
            lambda w, s=status: error_answer(w, w.error(s), *w.good()), hits=2,
        )  # fmt: skip
    yield EmbeddingScenario("F-T05", "200 with the error 401", lambda w: error_answer(w, w.error(401)),
                            (ModelAuthenticationError,))  # fmt: skip
    yield EmbeddingScenario("F-T05", "200 with an error in a list", lambda w: error_answer(w, [w.error(401)]),
                            (ModelAuthenticationError,))  # fmt: skip
    yield EmbeddingScenario("F-T05", "200 with an error as text", lambda w: error_answer(w, {"error": "it broke"}),
                            (ModelAPIError,), hits=2)  # fmt: skip

    def compressed(
        w: EmbeddingWire, change: Callable[[bytes], bytes] = lambda d: d
    ) -> list[Answer]:
        headers = {**JSON, "content-encoding": "gzip"}
        return [Answer(change(gzip.compress(bytes(a.body))), headers=headers) for a in w.good()]  # type: ignore[arg-type]

    bomb = Answer(gzip.compress(b" " * 50_000_000), headers={**JSON, "content-encoding": "gzip"})
    yield EmbeddingScenario("F-T11", "gzip", compressed)
    yield EmbeddingScenario(
        "F-T11", "gzip cut", lambda w: compressed(w, lambda d: d[:-9]), MALFORMED
    )
    yield EmbeddingScenario("F-T11", "gzip corrupt", lambda w: compressed(w, lambda d: d[:12] + b"\0\0\0\0" + d[16:]),
                            MALFORMED)  # fmt: skip
    yield EmbeddingScenario("F-T11", "a bomb", lambda w: [bomb], (LimitExceededError,))
    huge = Answer([b" " * 100_000] * 20, headers=JSON, framing="chunked")
    yield EmbeddingScenario("F-S09", "a body without end", lambda w: [huge], (LimitExceededError,),
                            fields={"limits": SizeLimits(message=1_000_000)})  # fmt: skip


def statuses() -> Iterator[EmbeddingScenario]:
    classes: dict[int, tuple[type[ModelError], int]] = {
        400: (ModelInvalidRequestError, 1), 401: (ModelAuthenticationError, 1), 402: (ModelQuotaError, 1),
        403: (ModelPermissionDeniedError, 1), 404: (ModelNotFoundError, 1), 413: (ModelInvalidRequestError, 1),
        422: (ModelInvalidRequestError, 1), 429: (ModelRateLimitError, 2), 500: (ModelAPIError, 2),
        502: (ModelAPIError, 2), 503: (ModelAPIError, 2), 504: (ModelAPIError, 2), 529: (ModelOverloadedError, 2),
    }  # fmt: skip
    for status, (cls, hits) in classes.items():
        row = "F-H04" if hits == 1 else "F-H01" if status == 429 else "F-H03"
        expected = (cls, ModelOverloadedError) if status in (503, 504) else (cls,)
        for kind, answer in (
            ("JSON", lambda w, s=status: json_answer(w.error(s), s)),
            (
                "a web page",
                lambda w, s=status: Answer(b"<html>no", s, {"content-type": "text/html"}),
            ),
            ("nothing", lambda w, s=status: Answer(b"", s)),
        ):
            yield EmbeddingScenario(
                row, f"{status}, {kind}", lambda w, a=answer: [a(w)], expected, hits
            )
    message = "This model's maximum context length is 8192 tokens"
    overflow = {"error": {"message": message}, "message": message}
    yield EmbeddingScenario(
        "F-H04", "overflow", lambda w: [json_answer(overflow, 400)], (ContextOverflowError,)
    )
    soon = formatdate(usegmt=True)
    for name, headers in (
        ("in 0 s", {"retry-after": "0"}), ("in 5 ms", {"retry-after-ms": "5"}), ("soon", {"retry-after": "soon"}),
        ("negative", {"retry-after": "-5"}), ("a date gone by", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        ("now, as a date", {"retry-after": soon}), ("a fraction", {"retry-after": "0.01"}),
        ("nan", {"retry-after": "nan"}), ("empty", {"retry-after": ""}),
    ):  # fmt: skip
        yield EmbeddingScenario(
            "F-H01", f"429, retry {name}, then good",
            lambda w, h=headers: [json_answer(w.error(429), 429, headers=h), *w.good()], hits=2,
        )  # fmt: skip
    for name, headers in (("in an hour", {"retry-after": "3600"}), ("in 61000 ms", {"retry-after-ms": "61000"}),
                          ("in 2099", {"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"})):  # fmt: skip
        yield EmbeddingScenario(
            "F-H01", f"429, retry {name}", lambda w, h=headers: [json_answer(w.error(429), 429, headers=h)],
            (ModelRateLimitError,),
        )  # fmt: skip
    for status in (301, 302, 303, 307, 308):
        for name, target in (
            ("same origin", "/elsewhere"),
            ("another origin", "http://127.0.0.2:1/"),
        ):
            yield EmbeddingScenario(
                "F-H08", f"{status} to {name}", lambda w, s=status, t=target: [Answer(b"", s, {"location": t})],
                (SecurityError,),
            )  # fmt: skip


def connections() -> Iterator[EmbeddingScenario]:
    for how in ("fin", "rst"):
        yield EmbeddingScenario("F-H05", f"{how} before headers", lambda w, h=how: [Answer(before=[(h, None)])],
                                (ModelConnectionError,), hits=2)  # fmt: skip
        yield EmbeddingScenario("F-H05", f"{how} before headers, then good",
                                lambda w, h=how: [Answer(before=[(h, None)]), *w.good()], hits=2)  # fmt: skip
        for part in (0, 1, 2, 3):
            yield EmbeddingScenario(
                "F-T03", f"{how} after {part} quarters of the body",
                lambda w, h=how, p=part: [a.cut(len(a.body) * p // 4, h) for a in w.good()],
                (StreamInterruptedError,), hits=2,
            )  # fmt: skip
    yield EmbeddingScenario(
        "F-T03", "a length too long",
        lambda w: [Answer([a.body, ("fin", None)], headers=JSON, promise=len(a.body) + 5) for a in w.good()],
        (StreamInterruptedError,), hits=2,
    )  # fmt: skip
    yield EmbeddingScenario("F-T10", "a length too short",
                            lambda w: [Answer(a.body, headers=JSON, promise=len(a.body) - 5) for a in w.good()],
                            MALFORMED, hits=1)  # fmt: skip
    hasty = {"timeout": Timeouts(connect=5, first_byte=0.3, idle=0.3), "max_retries": 0}
    drip = Answer([("repeat", [80, 0.01, b" "]), ("stall", None)], headers=JSON, framing="chunked")
    timeout_errors = (ModelTimeoutError,)
    yield EmbeddingScenario(
        "F-T07",
        "no headers",
        lambda w: [Answer(before=[("stall", None)])],
        timeout_errors,
        fields=hasty,
    )
    yield EmbeddingScenario("F-T07", "a stall inside", lambda w: [Answer([b"{", ("stall", None)], headers=JSON,
                            framing="chunked")], timeout_errors, fields=hasty)  # fmt: skip
    yield EmbeddingScenario("F-T09", "a drip past the deadline", lambda w: [drip], timeout_errors,
                            fields={"timeout": 0.3, "max_retries": 0})  # fmt: skip


EMBEDDING_SCENARIOS = [*vectors(), *bodies(), *statuses(), *connections()]
