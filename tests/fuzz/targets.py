"""What is fuzzed, and what must hold: each target takes bytes and raises only what it may (`ALLOWED`).

Beyond not crashing, a target holds its code against a second opinion: a naive decoder, Python's own JSON, another way
of cutting the bytes, the grammar of events, or what it wrote itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from foldline._sse import SSEDecoder, SSEEvent
from foldline.exceptions import FoldlineError, ModelError
from foldline.language_models._call.request import ChatRequest
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage
from foldline.output_parsers import JsonOutputParser, XMLOutputParser
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.grammar import check
from foldline.providers._reading import StreamReading, guarded
from foldline.providers.google import GoogleGenerativeAIEmbeddings
from foldline.providers.openai import OpenAIEmbeddings
from foldline.transports._http1 import BadHttp, CutShort, HeadTooLarge, ResponseReader
from foldline.utils.formatting import compile_template
from foldline.utils.json import (
    JsonError,
    PartialJson,
    parse_json_markdown,
    parse_strict,
    parse_wire,
)
from foldline.utils.mustache import compile_mustache
from tests.faults.wires import WIRES, Wire
from tests.test_sse import naive

ALLOWED = (FoldlineError, JsonError, BadHttp, CutShort, HeadTooLarge)
"""`JsonError` and the three of HTTP are ValueErrors of the pure parsers; their callers make them `FoldlineError`s."""
LATE = {"V19"}
"""A result for a call that was not made: an error of the vendor, not of the event stream."""
LOAD_SEEDS = Path(__file__).parents[1] / "load" / "golden"


class Broken(AssertionError):
    """Something that must hold does not."""


@dataclass(frozen=True)
class Target:
    """One thing to fuzz."""

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()
    """Pieces with a meaning, to be put in anywhere."""


def hold(is_so: bool, message: str) -> None:
    if not is_so:
        raise Broken(message)


def halves(data: bytes) -> list[bytes]:
    """Cut by the data itself, so that a failure can be repeated from its bytes alone."""
    at = sum(data) % (len(data) + 1)
    return [data[:at], data[at:]]


# -- event streams


def sse(data: bytes) -> None:
    try:
        expected = naive(data)
    except UnicodeDecodeError:
        expected = None
    decoder, split_decoder = SSEDecoder(), SSEDecoder()
    events = fed(decoder, [data])
    pieces = fed(split_decoder, halves(data))
    hold(events == pieces, f"cut in two: {pieces!r:.200} for {events!r:.200}")
    if expected is not None:
        hold(
            events == (expected, False),
            f"the second decoder: {expected!r:.200} for {events!r:.200}",
        )


def fed(decoder: SSEDecoder, pieces: list[bytes]) -> tuple[list[SSEEvent], bool]:
    """The events, and whether the bytes were refused after them."""
    events: list[SSEEvent] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        decoder.end()
    except ModelError:
        return events, True
    return events, False


# -- JSON


def partial_json(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    whole_json, split_json = PartialJson(), PartialJson()
    whole_json.feed(text)
    at = sum(data) % (len(text) + 1)
    for piece in (text[:at], text[at:]):
        if split_json.error is None:
            split_json.feed(piece)
    hold(
        (whole_json.error is None) == (split_json.error is None),
        "cut in two: one of them is refused",
    )
    if whole_json.error is None:
        hold(repr(whole_json.value()) == repr(split_json.value()), "cut in two: another value")


def strict_json(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        expected = repr(json.loads(text))
    except (ValueError, RecursionError):
        expected = None
    for parse in (parse_strict, parse_wire):
        try:
            result = repr(parse(text))
        except JsonError:
            continue
        hold(
            expected == result,
            f"{parse.__name__}: {result:.100} where Python reads {expected!s:.100}",
        )


def answers(data: bytes) -> None:
    """Feed a model's text to the parsers that search in it."""
    text = data.decode("utf-8", "replace")
    for parse in (parse_json_markdown, JsonOutputParser().parse, XMLOutputParser().parse):
        try:
            parse(text)
        except ALLOWED:
            continue


# -- vendors


def request() -> ChatRequest:
    return ChatRequest([HumanMessage("Hi")], stream=True)


@cache
def model_of(wire: Wire) -> Any:
    return wire.model("http://127.0.0.1:9")


def decoding(wire: Wire) -> Callable[[bytes], None]:
    """A stream of bytes through the whole of a provider's reading: events, JSON, decoder, message."""

    def run(data: bytes) -> None:
        model = model_of(wire)
        reading = StreamReading(
            model._decoder(request()), model._is_end, model._parse, model._malformed, model.limits
        )
        events: list[Any] = []
        try:
            for piece in halves(data):
                events += reading.feed(piece)
                if reading.fault is not None:
                    raise reading.fault
            events += reading.end()
        except ModelError:
            builder = MessageBuilder()
            for event in events:
                builder.feed(event)
            AIMessage.from_fold(builder.result(partial=True))
            raise
        judge(events, data)

    return run


def wholly(wire: Wire) -> Callable[[bytes], None]:
    """An answer in one piece, and the same bytes as the body of an error."""

    def run(data: bytes) -> None:
        model, body = model_of(wire), parse_wire(data)
        error = model._stream_error(body)
        hold(isinstance(error, ModelError), "an error body gives an error")
        judge(guarded(model._malformed, model._decoder(request()).decode_answer, body), data)

    return run


def embedded(data: bytes) -> None:
    """The answer of an embeddings endpoint, as each vendor's class reads it."""
    body, refusals = parse_wire(data), 0
    for model in embedders():
        try:
            (vector,) = model._check_lengths(model._check_count(model._read(body), 1))
        except ModelError:
            refusals += 1
            continue
        hold(all(type(number) is float for number in vector), "a vector is of numbers")
    if refusals == len(embedders()):
        raise ModelError("no vendor's answer")


@cache
def embedders() -> list[Any]:
    return [
        kind(model="m", api_key="k") for kind in (OpenAIEmbeddings, GoogleGenerativeAIEmbeddings)
    ]


def judge(events: list[Any], data: bytes) -> None:
    """A stream that was accepted folds to a message; one in eight is also held against the grammar and its dump."""
    builder = MessageBuilder()
    for event in events:
        builder.feed(event)
    message = AIMessage.from_fold(builder.result())
    if sum(data) % 8:
        return
    broken = [violation for violation in check(events) if violation.rule not in LATE]
    hold(not broken, f"the grammar: {broken[:2]}")
    hold(loads(dumps(message)) == message, "the message does not come back from its dump")


def recorded(wire: Wire, ending: str) -> list[bytes]:
    folder = Path(__file__).parents[1] / "recordings"
    files = [folder / f"{name}{ending}" for name in wire.recordings()]
    contents = [file.read_bytes() for file in files if file.exists()]
    return sorted(contents, key=len)[
        : len(contents) * 3 // 4
    ]  # the long ones say nothing new, slowly


# -- what is stored


def load(data: bytes) -> None:
    value = loads(data.decode("utf-8", "replace"))
    hold(loads(dumps(value)) == value, "what was loaded does not come back from its dump")


def dumped() -> list[bytes]:
    """Every value of the golden files on its own, and hostile ones."""
    values: list[Any] = []
    for file in sorted(LOAD_SEEDS.glob("*.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        values += list(document.values()) if isinstance(document, dict) else document
    hostile = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "id"}}
    values += [hostile, {"lc": 1, "type": "secret", "id": ["HOME"]}, {"lc": 2}]
    return [json.dumps(value).encode() for value in values]


# -- templates and HTTP


VALUES: Mapping[str, Any] = {
    "a": "{b}{{c}}{a.__class__}",
    "b": [{"c": "d"}, {"c": 1}],
    "c": {"d": None, "__class__": "no"},
    "d": True,
}
CONVERSIONS: Mapping[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}


def template(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    compiled = compile_template(text)
    formatted = compiled.format({**VALUES, **{name: f"<{name}>" for name in compiled.variables}})
    plain = text
    for name in compiled.variables:
        hold(not set(name) & set(".[]!:{}"), f"{name!r} is no plain name")
        plain = plain.replace(f"{{{name}}}", f"<{name}>")
        for conversion, convert in CONVERSIONS.items():
            plain = plain.replace(f"{{{name}!{conversion}}}", convert(f"<{name}>"))
    if not any(mark in text for mark in ("{{", "}}", ":")):
        hold(formatted == plain, "a template of plain names is filled in by plain replacement")


def mustache(data: bytes) -> None:
    text = compile_mustache(data.decode("utf-8", "replace")).format(VALUES, escape=False)
    hold("<class" not in text, "an attribute was reached")


def http1(data: bytes) -> None:
    whole_reader, split_reader = (
        ResponseReader("POST", 64 * 1024),
        ResponseReader("POST", 64 * 1024),
    )
    hold(
        read_all(whole_reader, [data]) == read_all(split_reader, halves(data)),
        "cut in two: another response",
    )


def read_all(reader: ResponseReader, pieces: list[bytes]) -> tuple[Any, ...]:
    body, refusal = b"", ""
    try:
        for piece in pieces:
            body += reader.feed(piece)
        reader.end()
    except (BadHttp, CutShort, HeadTooLarge) as error:
        refusal = type(error).__name__
    return reader.status, reader.headers, body if not refusal else None, refusal, reader.done


RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
JSON_WORDS = (
    b"null",
    b"[]",
    b"{}",
    b"-1",
    b"1e999",
    b"NaN",
    b'"\\ud83d"',
    b'""',
    b"[" * 300,
    b"9" * 50,
)
JSON_WORDS += (b'"lc":1', b'"type":', b'"id":', b'"index":0', b'"error":{}', b"true", b'"kwargs":')
SSE_WORDS = (
    b"\n\n",
    b"\r\n",
    b"\r",
    b"data:",
    b"data: ",
    b"event:",
    b":",
    b"\xef\xbb\xbf",
    b"\xff",
    b"id:\0",
)
FIRST = [b'{"a": [1, 2.5e3, {"b": null}], "c": "d\\u00e9\\n"}', b'[[], {}, "", true, false, -0.0]']

TARGETS = {
    target.name: target
    for target in (
        Target(
            "sse", sse, lambda: [b"data: a\n\n", *recorded(WIRES["chat"], ".sse")[:8]], SSE_WORDS
        ),
        Target(
            "partial_json",
            partial_json,
            lambda: [*FIRST, *recorded(WIRES["chat"], ".json")[:4]],
            JSON_WORDS,
        ),
        Target(
            "strict_json",
            strict_json,
            lambda: [*FIRST, *recorded(WIRES["google"], ".json")[:4]],
            JSON_WORDS,
        ),
        Target(
            "answers",
            answers,
            lambda: [b'Sure:\n```json\n{"a": 1}\n```', b"<a><b>x</b><c/></a>", *FIRST],
            (b"```", b"```json", b"<a>", b"</a>", b"<!", b"&lt;", b"<![CDATA[", *JSON_WORDS),
        ),
        *(
            Target(
                f"{name}_stream",
                decoding(wire),
                lambda wire=wire: recorded(wire, ".sse"),
                JSON_WORDS + SSE_WORDS,
            )
            for name, wire in WIRES.items()
        ),
        *(
            Target(
                f"{name}_whole", wholly(wire), lambda wire=wire: recorded(wire, ".json"), JSON_WORDS
            )
            for name, wire in WIRES.items()
            if name != "host"
        ),
        Target(
            "embeddings",
            embedded,
            lambda: [
                b'{"data": [{"index": 0, "embedding": [0.5, -1, 2e-3]}]}',
                b'{"data": [{"index": 0, "embedding": "AACAPwAAAEA="}]}',
                b'{"embeddings": [{"values": [0.5, -1]}]}',
            ],
            (b"1" * 400, *JSON_WORDS),
        ),
        Target("load", load, dumped, JSON_WORDS),
        Target(
            "template",
            template,
            lambda: [b"Say {a} to {b}", b"{{literal}} {a}", b"{a}{a}"],
            (
                b"{",
                b"}",
                b"{{",
                b"}}",
                b"{a.b}",
                b"{a[0]}",
                b"{a!r}",
                b"{a:>9}",
                b"{a:{b}}",
                b"{0}",
                b"{}",
            ),
        ),
        Target(
            "mustache",
            mustache,
            lambda: [
                b"{{a}} {{{a}}} {{&a}}",
                b"{{#b}}{{c}},{{/b}}{{^d}}no{{/d}}",
                b"{{c.d}}{{! note }}",
            ],
            (
                b"{{",
                b"}}",
                b"{{#b}}",
                b"{{/b}}",
                b"{{^",
                b"{{>x}}",
                b"{{=<% %>=}}",
                b"{{a.__class__}}",
                b"{{.}}",
            ),
        ),
        Target(
            "http1",
            http1,
            lambda: [
                RESPONSE + b"content-length: 5\r\n\r\nhello",
                RESPONSE + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 No\r\n\r\nbody",
            ],
            (
                b"\r\n",
                b"\n",
                b"0\r\n\r\n",
                b"content-length: 1\r\n",
                b"transfer-encoding: chunked\r\n",
                b"ffffffff",
            ),
        ),
    )
}
