"""HTTP/1.1: write a request, read a response. Pure.

The reader is strict where leniency has caused vulnerabilities (two lengths, spaces before a colon, folded lines). It
returns partial chunks without waiting for the rest, so that no received data is lost if a connection breaks.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

HEAD_END = re.compile(rb"\n\r?\n")
"""The empty line after a head. Lines that end with LF alone are accepted in heads, not between chunks."""
LF_ALONE = re.compile(rb"(?<!\r)\n")
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\0\n\v\f\r]*)?")
HEADER_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\0\n\v\f\r]*)", re.ASCII)
PARSED_LINES: dict[str, tuple[str, str]] = {}
"""A cache of parsed header lines: most lines of a server are the same in every answer."""
MAX_CACHED_LINES = 512
MAX_CACHED_LENGTH = 128
UNCACHED_HEADERS = frozenset({"set-cookie", "www-authenticate", "proxy-authenticate"})
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?")
KEEP_ALIVE = re.compile(r"\btimeout\s*=\s*([0-9]{1,6})", re.ASCII | re.IGNORECASE)
MAX_LINE_LENGTH = 8 * 1024
STATUSES_WITHOUT_BODY = frozenset({204, 304})


class BadHttp(ValueError):
    """The bytes are not HTTP/1.1. The server's data is not in the message, because it may repeat the key."""

    def __init__(self, reason: str, excerpt: bytes = b"") -> None:
        super().__init__(reason)
        self.excerpt = excerpt


class HeadTooLarge(ValueError):
    """Status line and headers are larger than allowed."""


class CutShort(ValueError):
    """The connection ended before the message did."""


class ResponseReader:
    """Reads one response."""

    __slots__ = (
        "_body",
        "_buffer",
        "_limit",
        "_method",
        "_unread",
        "done",
        "has_head",
        "headers",
        "keep_alive",
        "reusable",
        "status",
    )

    def __init__(self, method: str, head_limit: int) -> None:
        self._method = method
        self._limit = head_limit
        self._buffer = b""
        """Received data that is not parsed yet."""
        self._body = "head"
        self._unread = 0
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.has_head = False
        """Whether status and headers have been received."""
        self.done = False
        self.reusable = False
        """Whether the connection may be reused for another request."""
        self.keep_alive: float | None = None
        """Seconds for which the server keeps an idle connection open."""

    def feed(self, data: bytes) -> bytes:
        """Return the part of the body in the received data."""
        if self._body == "length" and not self._buffer and len(data) <= self._unread:
            self._unread -= len(data)
            self.done = not self._unread
            return data
        self._buffer = self._buffer + data if self._buffer else data
        if self._body == "head" and not self._read_head():
            return b""
        return self._read_body()

    def end(self) -> None:
        """Handle the end of the connection."""
        self.reusable = False
        if self._body == "close":
            self.done = True
        elif not self.done:
            raise CutShort("the connection was closed before the end of the message")

    def _read_head(self) -> bool:
        while True:
            end = HEAD_END.search(self._buffer)
            head_end = -1 if end is None else end.start() - 1
            if head_end > self._limit or (head_end < 0 and len(self._buffer) > self._limit):
                raise HeadTooLarge
            if end is None:
                if not b"HTTP/1.".startswith(self._buffer[:7]):
                    raise BadHttp("the answer begins with", self._buffer)
                return False
            first, _, lines = _with_crlf(self._buffer[: end.start() + 1]).partition(b"\r\n")
            self._buffer = self._buffer[end.end() :]
            status = STATUS_LINE.fullmatch(first)
            if status is None:
                raise BadHttp("its status line is", first)
            self.status = int(status[2])
            self.headers = _headers(lines.decode("latin-1"))
            if self.status >= 200:
                break
            if self.status == 101:
                raise BadHttp("it switches protocols, which was not asked for")
        self._frame(version=int(status[1]))
        self.has_head = True
        return True

    def _frame(self, *, version: int) -> None:
        connection, codings, lengths = "", [], set()
        for name, value in self.headers:
            if name == "content-length":
                lengths.add(value)
            elif name == "transfer-encoding":
                codings.append(value.lower())  # already stripped of spaces and tabs
            elif name == "connection":
                connection += "," + value.lower()
            elif name == "keep-alive" and (match := KEEP_ALIVE.search(value)):
                self.keep_alive = float(match[1])
        self.reusable = "keep-alive" in connection if version == 0 else "close" not in connection
        length = _length(lengths) if lengths else None
        if codings and codings != ["chunked"]:
            raise BadHttp("it sent the transfer coding", ", ".join(codings).encode("latin-1"))
        if self._method == "HEAD" or self.status in STATUSES_WITHOUT_BODY:
            self._body, self.done = "none", True
        elif codings:
            self._body = "chunked"
            self.reusable = self.reusable and length is None
        elif length is not None:
            self._body, self._unread = "length", length
            self.done = not length
        else:
            self._body, self.reusable = "close", False

    def _read_body(self) -> bytes:
        if self._body == "chunked":
            return self._read_chunks()
        size = len(self._buffer)
        if self._body == "length":
            size = min(self._unread, size)
            self._unread -= size
            self.done = not self._unread
        elif self._body == "none":
            size = 0
        piece = self._buffer[:size]
        self._buffer = self._buffer[size:]
        if self._buffer:
            self.reusable = False  # unexpected data after the message
        return piece

    def _read_chunks(self) -> bytes:
        buffer, body, position = self._buffer, bytearray(), 0
        # `_unread` counts the data of this chunk and its line break; 0 means that a size line follows.
        while not self.done:
            if self._unread > 2:
                part = buffer[position : position + self._unread - 2]
                body += part
                position += len(part)
                self._unread -= len(part)
            if self._unread:
                if self._unread > 2 or len(buffer) - position < 2:
                    break
                if buffer[position : position + 2] != b"\r\n":
                    raise BadHttp("a chunk is longer than it said")
                position, self._unread = position + 2, 0
            next_position = self._read_size(position)
            if next_position == position:
                break
            position = next_position
        self._buffer = buffer[position:]
        if self.done and self._buffer:
            self.reusable = False
        return bytes(body)

    def _read_size(self, position: int) -> int:
        """Read the size line at a position, or the end of the message; return the position after it."""
        buffer = self._buffer
        line_end = buffer.find(b"\r\n", position, position + MAX_LINE_LENGTH)
        if line_end < 0:
            if b"\n" in buffer[position : position + MAX_LINE_LENGTH]:
                raise BadHttp(
                    "a chunk's size ends with LF alone:",
                    buffer[position : position + MAX_LINE_LENGTH],
                )
            if len(buffer) - position >= MAX_LINE_LENGTH:
                raise BadHttp("a chunk has no size")
            return position
        size = self._chunk_size(buffer[position:line_end])
        if size:
            self._unread = size + 2
            return line_end + 2
        # Trailers are checked and ignored; without any, the two line breaks after the 0 are the end.
        trailer_end = HEAD_END.search(buffer, line_end)
        if trailer_end is None:
            if len(buffer) - position > self._limit:
                raise HeadTooLarge
            return position
        _headers(_with_crlf(buffer[line_end + 2 : trailer_end.start() + 1]).decode("latin-1"))
        self.done = True
        return trailer_end.end()

    @staticmethod
    def _chunk_size(line: bytes) -> int:
        match = CHUNK_LINE.fullmatch(line)
        if match is None:
            raise BadHttp("a chunk's size is", line)
        return int(match[1], 16)


def _with_crlf(lines: bytes) -> bytes:
    """Return lines with LF replaced by CR LF."""
    if lines.count(b"\n") == lines.count(b"\r\n"):
        return lines
    return LF_ALONE.sub(b"\r\n", lines)


def _length(lengths: set[str]) -> int:
    length = next(iter(lengths))
    if len(lengths) > 1 or not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise BadHttp("its Content-Length makes no sense")
    return int(length)


def _headers(lines: str) -> list[tuple[str, str]]:
    """Return the parsed header lines; most are in the cache."""
    cached = PARSED_LINES.get
    return [cached(line) or _header(line) for line in lines[:-2].split("\r\n")] if lines else []


def _header(line: str) -> tuple[str, str]:
    match = HEADER_LINE.fullmatch(line)
    if match is None:
        raise BadHttp("one of its header lines is", line.encode("latin-1"))
    header = match[1].lower(), match[2].strip(" \t")
    if len(line) <= MAX_CACHED_LENGTH and header[0] not in UNCACHED_HEADERS:
        if len(PARSED_LINES) >= MAX_CACHED_LINES:
            PARSED_LINES.clear()
        PARSED_LINES[line] = header
    return header


def with_body(method: str, head: bytes, body: bytes) -> bytes:
    """Return a complete request from head and body."""
    if body or method not in ("GET", "HEAD", "DELETE"):
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
    return head + b"\r\n"


def write_head(method: str, url: str, headers: Mapping[str, str], *, absolute_url: bool) -> bytes:
    """Return the head of a request up to its Content-Length."""
    parts = urlsplit(url)
    target = (
        url.split("#", 1)[0]
        if absolute_url
        else (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    )
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, ""]).encode("ascii")


def write_connect(host: str, port: int, proxy: str) -> bytes:
    """Return the request for a tunnel through a proxy."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in proxy_authorization(proxy).items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def proxy_authorization(proxy: str) -> dict[str, str]:
    """Return the header for the user name in a proxy's URL."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}
