"""HTTP/1.1 as bytes: write a request, read a response. Pure: fed what arrived, gives what it means.

The reader is strict where laxness has been a hole (two lengths, spaces before a colon, folded lines) and returns the
part of a chunk that is here without waiting for the rest, so that nothing received is lost when a connection breaks.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

HEAD_END = re.compile(rb"\n\r?\n")
"""The empty line behind a head. Some servers end lines with LF alone; that is read in heads, not between chunks."""
LF_ALONE = re.compile(rb"(?<!\r)\n")
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\0\n\v\f\r]*)?")
HEADER_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\0\n\v\f\r]*)", re.ASCII)
KNOWN_LINES: dict[str, tuple[str, str]] = {}
"""Header lines and what they say: of a server's, all but a few are the same in every answer."""
MOST_KNOWN = 512
LONGEST_KNOWN = 128
NOT_KEPT = frozenset({"set-cookie", "www-authenticate", "proxy-authenticate"})
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?")
KEEP_ALIVE = re.compile(r"\btimeout\s*=\s*([0-9]{1,6})", re.ASCII | re.IGNORECASE)
LONGEST_LINE = 8 * 1024
BODILESS = frozenset({204, 304})


class BadHttp(ValueError):
    """The bytes are not HTTP/1.1. What the server sent is apart from the message: it may hold the key, said back."""

    def __init__(self, reason: str, excerpt: bytes = b"") -> None:
        super().__init__(reason)
        self.excerpt = excerpt


class HeadTooLarge(ValueError):
    """Status line and headers are larger than allowed."""


class CutShort(ValueError):
    """The connection ended before the message did."""


class Reader:
    """Reads one response."""

    __slots__ = (
        "_body",
        "_buffer",
        "_left",
        "_limit",
        "_method",
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
        """What came and is not read yet: little, but for the first piece, which is taken as it is."""
        self._body = "head"
        self._left = 0
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.has_head = False
        """Whether status and headers are here."""
        self.done = False
        self.reusable = False
        """Whether the connection may carry another request once this one is done."""
        self.keep_alive: float | None = None
        """Seconds that the server promises to keep an idle connection."""

    def feed(self, data: bytes) -> bytes:
        """Take what arrived; give the part of the body that is in it."""
        if self._body == "length" and not self._buffer and len(data) <= self._left:
            self._left -= len(data)
            self.done = not self._left
            return data
        self._buffer = self._buffer + data if self._buffer else data
        if self._body == "head" and not self._read_head():
            return b""
        return self._read_body()

    def end(self) -> None:
        """Say that the connection ended."""
        self.reusable = False
        if self._body == "close":
            self.done = True
        elif not self.done:
            raise CutShort("the connection was closed before the end of the message")

    def _read_head(self) -> bool:
        while True:
            end = HEAD_END.search(self._buffer)
            at = -1 if end is None else end.start() - 1
            if at > self._limit or (at < 0 and len(self._buffer) > self._limit):
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
                codings.append(value.lower())  # without its blanks, and a vertical tab is none
            elif name == "connection":
                connection += "," + value.lower()
            elif name == "keep-alive" and (promise := KEEP_ALIVE.search(value)):
                self.keep_alive = float(promise[1])
        self.reusable = "keep-alive" in connection if version == 0 else "close" not in connection
        length = _length(lengths) if lengths else None
        if codings and codings != ["chunked"]:
            raise BadHttp("it sent the transfer coding", ", ".join(codings).encode("latin-1"))
        if self._method == "HEAD" or self.status in BODILESS:
            self._body, self.done = "none", True
        elif codings:
            self._body = "chunked"
            self.reusable = self.reusable and length is None
        elif length is not None:
            self._body, self._left = "length", length
            self.done = not length
        else:
            self._body, self.reusable = "close", False

    def _read_body(self) -> bytes:
        if self._body == "chunked":
            return self._read_chunks()
        taken = len(self._buffer)
        if self._body == "length":
            taken = min(self._left, taken)
            self._left -= taken
            self.done = not self._left
        elif self._body == "none":
            taken = 0
        piece = self._buffer[:taken]
        self._buffer = self._buffer[taken:]
        if self._buffer:
            self.reusable = False  # it talks out of turn
        return piece

    def _read_chunks(self) -> bytes:
        buffer, given, at = self._buffer, bytearray(), 0
        # `_left` counts the data of this chunk and the line break behind it; 0 means a size line is next.
        while not self.done:
            if self._left > 2:
                part = buffer[at : at + self._left - 2]
                given += part
                at += len(part)
                self._left -= len(part)
            if self._left:
                if self._left > 2 or len(buffer) - at < 2:
                    break
                if buffer[at : at + 2] != b"\r\n":
                    raise BadHttp("a chunk is longer than it said")
                at, self._left = at + 2, 0
            after = self._read_size(at)
            if after == at:
                break
            at = after
        self._buffer = buffer[at:]
        if self.done and self._buffer:
            self.reusable = False
        return bytes(given)

    def _read_size(self, at: int) -> int:
        """Read the size line at this place, or the end of the message; give the place behind it."""
        buffer = self._buffer
        line_end = buffer.find(b"\r\n", at, at + LONGEST_LINE)
        if line_end < 0:
            if b"\n" in buffer[at : at + LONGEST_LINE]:
                raise BadHttp("a chunk's size ends with LF alone:", buffer[at : at + LONGEST_LINE])
            if len(buffer) - at >= LONGEST_LINE:
                raise BadHttp("a chunk has no size")
            return at
        size = self._chunk_size(buffer[at:line_end])
        if size:
            self._left = size + 2
            return line_end + 2
        # Nobody reads trailers, they are only checked; with none, the two line breaks behind the 0 are the end.
        finish = HEAD_END.search(buffer, line_end)
        if finish is None:
            if len(buffer) - at > self._limit:
                raise HeadTooLarge
            return at
        _headers(_with_crlf(buffer[line_end + 2 : finish.start() + 1]).decode("latin-1"))
        self.done = True
        return finish.end()

    @staticmethod
    def _chunk_size(line: bytes) -> int:
        found = CHUNK_LINE.fullmatch(line)
        if found is None:
            raise BadHttp("a chunk's size is", line)
        return int(found[1], 16)


def _with_crlf(lines: bytes) -> bytes:
    """Return lines that end with LF alone as lines that end with CR LF."""
    if lines.count(b"\n") == lines.count(b"\r\n"):
        return lines
    return LF_ALONE.sub(b"\r\n", lines)


def _length(lengths: set[str]) -> int:
    length = next(iter(lengths))
    if len(lengths) > 1 or not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise BadHttp("its Content-Length makes no sense")
    return int(length)


def _headers(lines: str) -> list[tuple[str, str]]:
    """Read the header lines, each with its line break; most have been read before."""
    known = KNOWN_LINES.get
    return [known(line) or _header(line) for line in lines[:-2].split("\r\n")] if lines else []


def _header(line: str) -> tuple[str, str]:
    good = HEADER_LINE.fullmatch(line)
    if good is None:
        raise BadHttp("one of its header lines is", line.encode("latin-1"))
    header = good[1].lower(), good[2].strip(" \t")
    if len(line) <= LONGEST_KNOWN and header[0] not in NOT_KEPT:
        if len(KNOWN_LINES) >= MOST_KNOWN:
            KNOWN_LINES.clear()
        KNOWN_LINES[line] = header
    return header


def with_body(method: str, head: bytes, body: bytes) -> bytes:
    """Put head and body together."""
    if body or method not in ("GET", "HEAD", "DELETE"):
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
    return head + b"\r\n"


def write_head(method: str, url: str, headers: Mapping[str, str], *, whole_url: bool) -> bytes:
    """Write all of a request that comes before its length."""
    parts = urlsplit(url)
    target = (
        url.split("#", 1)[0]
        if whole_url
        else (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    )
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, ""]).encode("ascii")


def write_connect(host: str, port: int, proxy: str) -> bytes:
    """Ask a proxy for a tunnel."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
    lines += [f"{name}: {value}" for name, value in proxy_authorization(proxy).items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def proxy_authorization(proxy: str) -> dict[str, str]:
    """Return the header for the user name in a proxy's URL."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}
