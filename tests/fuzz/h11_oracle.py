"""The reader of HTTP/1.1 beside `h11`, the reader of httpx: what each makes of the same bytes; where they differ."""

from __future__ import annotations

import re
from dataclasses import dataclass

import h11

from foldline.transports._http1 import BadHttp, CutShort, HeadTooLarge, ResponseReader

LIMIT = 64 * 1024


@dataclass(frozen=True)
class Outcome:
    """The result of reading a response and the end of its connection."""

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    refusal: str = ""
    """Why it was refused; empty if it was accepted."""


def read_by_foldline(data: bytes) -> Outcome:
    reader, body = ResponseReader("POST", LIMIT), b""
    try:
        body = reader.feed(data)
        reader.end()
    except BadHttp as error:
        return Outcome(refusal=str(error))
    except (CutShort, HeadTooLarge) as error:
        return Outcome(refusal=type(error).__name__)
    return Outcome(reader.status, tuple(reader.headers), body)


def read_by_h11(data: bytes) -> Outcome:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=LIMIT)
    request = h11.Request(
        method="POST", target="/", headers=[("host", "a"), ("content-length", "0")]
    )
    connection.send(request)
    connection.send(h11.EndOfMessage())
    response: h11.Response | None = None
    body = b""
    try:
        connection.receive_data(data)
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(b"")
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return Outcome(refusal=f"ended with {event!r}")
    except h11.RemoteProtocolError as error:
        return Outcome(refusal=str(error))
    assert response is not None
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers
    )
    return Outcome(response.status_code, headers, body)


@dataclass(frozen=True)
class Difference:
    """One way in which the two readers differ."""

    ours: str
    """What our refusal begins with; empty if we accept."""
    theirs: str
    """A pattern that h11's refusal begins with; empty if it accepts."""
    example: bytes
    reason: str

    def explains(self, foldline_outcome: Outcome, h11_outcome: Outcome) -> bool:
        return matches(self.ours, foldline_outcome.refusal) and matches(
            self.theirs, h11_outcome.refusal
        )


def matches(pattern: str, refusal: str) -> bool:
    return bool(re.match(pattern, refusal)) if pattern else not refusal


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        ours="one of its header lines is",
        theirs="",
        example=b"HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\n\r\n",
        reason="a folded line: h11 joins it, other readers see two headers; no model server sends one",
    ),
    Difference(
        ours="its status line is",
        theirs="",
        example=b"HTTP/9.1 200 OK\r\n\r\n",
        reason="h11 takes any version and any status of three digits; we take HTTP/1.0 and 1.1, and 100 to 599",
    ),
    Difference(
        ours="its Content-Length makes no sense",
        theirs="",
        example=b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
        reason="a list of equal lengths in one header, which RFC 9110 8.6 lets a reader refuse",
    ),
    Difference(
        ours="a chunk's size is",
        theirs="",
        example=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a\rb\r\nok\r\n0\r\n\r\n",
        reason="a CR inside a chunk's extension, which the grammar does not allow",
    ),
    Difference(
        ours="",
        theirs="illegal chunk header: ",
        example=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 ;a=b\r\nok\r\n0\r\n\r\n",
        reason="a blank before a chunk's extension, which RFC 9112 7.1.1 asks readers to take",
    ),
    Difference(
        ours="",
        theirs="Only Transfer-Encoding: chunked is supported|bad Content-Length|conflicting Content-Length",
        example=b"HTTP/1.1 100 Continue\r\nContent-Length: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        reason="headers that frame a body, in a 1xx response or a trailer, where nothing is framed by them",
    ),
)
"""Every way in which one accepts what the other refuses. In the last two we accept, and no boundary depends on it."""


HEADER_DIFFERENCES = {
    "content-length": "h11 keeps one of several equal headers, we keep them all",
    "transfer-encoding": "h11 returns the value in lower case, we return it as it came",
}
"""Headers that both accept and return differently; the body is the same."""


def is_alike(foldline_outcome: Outcome, h11_outcome: Outcome) -> bool:
    """Whether both read the same, but for `HEADER_DIFFERENCES`."""
    return (foldline_outcome.status, foldline_outcome.body, comparable(foldline_outcome)) == (
        h11_outcome.status,
        h11_outcome.body,
        comparable(h11_outcome),
    )


def comparable(outcome: Outcome) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    for name, value in outcome.headers:
        header = (name, value.lower()) if name in HEADER_DIFFERENCES else (name, value)
        if name != "content-length" or header not in headers:
            headers.append(header)
    return headers
