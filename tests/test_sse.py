"""The event-stream decoder against a second, naive one, and against every way of cutting the bytes."""

import time

import pytest
from hypothesis import given, strategies as st

from foldline._sse import SSEDecoder, SSEEvent
from foldline.exceptions import LimitExceededError, MalformedStreamError


def naive(stream: bytes) -> list[SSEEvent]:
    """Read the whole stream at once, line by line, straight from the grammar."""
    text = stream.decode("utf-8")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    events, data, event, last_id = [], [], "", ""
    for line in text.split("\n")[:-1]:
        if line == "":
            if data:
                events.append(SSEEvent(event or "message", "\n".join(data), last_id))
            data, event = [], ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            event = value
        elif field == "id" and "\0" not in value:
            last_id = value
    return events


def decode_all(stream: bytes, **limits: int) -> list[SSEEvent]:
    decoder = SSEDecoder(**limits)
    return decoder.feed(stream) + decoder.end()


def in_pieces(pieces: list[bytes]) -> list[SSEEvent]:
    decoder = SSEDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.end()


NEWLINE = st.sampled_from(["\n", "\r\n", "\r"])
TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
FIELD = st.sampled_from(
    ["data", "data", "data", "event", "id", "retry", "", "x", "dat", "datum", "\ufeffdata"]
)
COLON = st.sampled_from([":", ": ", ":  ", ""])
LINE = st.one_of(st.just(""), st.builds(lambda f, c, t: f + c + t, FIELD, COLON, TEXT))
STREAM = st.builds(
    lambda bom, lines: (bom + "".join(line + end for line, end in lines)).encode(),
    st.sampled_from(["", "\ufeff"]),
    st.lists(st.tuples(LINE, NEWLINE), max_size=12),
)


@given(STREAM)
def test_F_S05_a_second_decoder_agrees(stream):
    assert decode_all(stream) == naive(stream)


@given(STREAM, st.data())
def test_F_S01_any_partition_gives_the_same_events(stream, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert in_pieces(pieces) == decode_all(stream)


@given(STREAM)
def test_F_S01_byte_by_byte_gives_the_same_events(stream):
    assert in_pieces([stream[i : i + 1] for i in range(len(stream))]) == decode_all(stream)


@given(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), NEWLINE)
def test_F_S02_text_between_line_ends_is_exact(text, newline):
    stream = f"data: {text}{newline}{newline}".encode()

    assert decode_all(stream) == [SSEEvent("message", text, "")]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_F_S02_unicode_line_separators_do_not_end_lines(mark):
    assert decode_all(f"data: a{mark}b\n\n".encode()) == [SSEEvent("message", f"a{mark}b", "")]


def test_F_S01_a_crlf_split_over_two_slices_is_one_line_end():
    assert in_pieces([b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]) == [
        SSEEvent("message", "a\nb", "")
    ]


def test_a_cr_that_ends_the_slice_dispatches_at_once():
    decoder = SSEDecoder()

    assert decoder.feed(b"data: a\r\n\r") == [SSEEvent("message", "a", "")]
    assert decoder.feed(b"\n") == []


def test_F_S03_a_byte_order_mark_is_dropped_even_when_split():
    assert in_pieces([b"\xef", b"\xbb", b"\xbfdata: a\n\n"]) == [SSEEvent("message", "a", "")]


@pytest.mark.parametrize(
    "stream",
    [
        b": ping\n\n",
        b":\n\n",
        b"id: 1\n\n",
        b"retry: 10\n\n",
        b"event: ping\n\n",
        b"\n\n\n",
        b"",
        b"x\n\n",
    ],
)
def test_F_S04_what_carries_no_data_is_ignored(stream):
    assert decode_all(stream) == []


def test_F_S04_an_event_without_data_does_not_name_the_next_one():
    assert decode_all(b"event: ping\n\ndata: a\n\n") == [SSEEvent("message", "a", "")]


def test_F_S04_a_data_line_may_be_empty():
    assert decode_all(b"data\n\ndata:\n\n") == [
        SSEEvent("message", "", ""),
        SSEEvent("message", "", ""),
    ]


def test_F_S05_spec_examples():
    assert decode_all(b"data:no space\ndata:  two\nfoo: x\nevent: e\nid: 7\n\ndata: c\nid\n\n") == [
        SSEEvent("e", "no space\n two", "7"),
        SSEEvent("message", "c", ""),
    ]


def test_F_S06_a_last_event_without_its_blank_line_is_not_dispatched():
    decoder = SSEDecoder()

    assert decoder.feed(b"data: a\n\ndata: b\n") == [SSEEvent("message", "a", "")]
    assert not decoder.is_clean
    assert decoder.end() == []
    assert decoder.is_clean


@pytest.mark.parametrize(
    ("is_begun", "stream"),
    [(True, b"d"), (True, b"data: {"), (True, b"event: a\n"), (True, b"data: 1\n"), (False, b"<html>"),
     (False, b"data: 1\n\n"), (False, b""), (False, b"{}")],
)  # fmt: skip
def test_F_S06_an_event_that_has_begun_is_told_from_what_is_none(is_begun, stream):
    decoder = SSEDecoder()
    decoder.feed(stream)
    assert decoder.is_begun is is_begun


@pytest.mark.parametrize(
    "line", [b"data: \xff", b"event: \xc3", b": \xed\xa0\x80", b"\xff: 1", b"id: \x80"]
)
def test_F_S07_invalid_utf8_is_an_error(line):
    with pytest.raises(MalformedStreamError, match="not UTF-8"):
        decode_all(line + b"\n\n")


def test_F_S07_the_events_before_the_error_are_kept():
    decoder = SSEDecoder()

    assert decoder.feed(b"data: a\n\ndata: \xff\n\n") == [SSEEvent("message", "a", "")]
    with pytest.raises(MalformedStreamError):
        decoder.feed(b"data: b\n\n")
    with pytest.raises(MalformedStreamError):
        decoder.end()


def test_F_S09_an_endless_line_is_refused_in_slices_and_whole():
    decoder = SSEDecoder(max_line=1000)
    for _ in range(10):
        decoder.feed(b"x" * 100)

    with pytest.raises(LimitExceededError, match="longer than 1000 bytes"):
        decoder.feed(b"x")
    with pytest.raises(LimitExceededError):
        decode_all(b"data: " + b"x" * 1000 + b"\n\n", max_line=1000)
    with pytest.raises(LimitExceededError):
        decode_all(b": " + b"x" * 1000 + b"\n\n", max_line=1000)
    with pytest.raises(LimitExceededError):
        decode_all(b": x\n" + b"x" * 1001, max_line=1000)


def test_F_S09_an_event_of_many_lines_is_refused_at_its_limit():
    assert len(decode_all(b"data: 123\n" * 25 + b"\n", max_event=99)[0].data) == 99
    with pytest.raises(LimitExceededError, match="larger than 98 bytes"):
        decode_all(b"data: 123\n" * 25 + b"\n", max_event=98)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"data: a\n", b"data: b\n\n"], SSEEvent("message", "a\nb", "")),
        ([b"event: e\n", b"data: b\n\n"], SSEEvent("e", "b", "")),
        ([b"data: a\nd", b"ata: b\n\n"], SSEEvent("message", "a\nb", "")),
        ([b"data: a data: ", b"data: b\n\n"], SSEEvent("message", "a data: data: b", "")),
        ([b"data: a\r", b"\n", b"data: b\n\n"], SSEEvent("message", "a\nb", "")),
        ([b"data: a\r", b"\ndata: b\n\n"], SSEEvent("message", "a\nb", "")),
        ([b"id: 7\n\n", b"data: b\n\n"], SSEEvent("message", "b", "7")),
        ([b"data: a\rb\n\n"], SSEEvent("message", "a", "")),
    ],
)
def test_what_came_before_belongs_to_an_event_that_comes_alone(pieces, expected):
    assert in_pieces(pieces) == [expected]


def test_a_line_may_be_as_long_as_its_limit():
    assert decode_all(b"data: 789\n\n", max_line=9)[0].data == "789"
    assert decode_all(b"event: 89\ndata: 1\n\n", max_line=9)[0].event == "89"
    decoder = SSEDecoder(max_line=9)
    assert decoder.feed(b"\n" + b"data: 789") == []
    assert decoder.feed(b"\n\n") == [SSEEvent("message", "789", "")]
    decoder = SSEDecoder(max_line=9)
    assert decoder.feed(b"data: 7") + decoder.feed(b"89") == []


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: 7890\n"],
        [b"event: 890\n"],
        [b"\n", b"data: 7890"],
        [b"data: 78", b"90"],
        [b"\ndata: 7890"],
    ],
)
def test_a_line_may_not_be_longer_than_its_limit(pieces):
    decoder = SSEDecoder(max_line=9)
    *earlier, last = pieces
    for piece in earlier:
        decoder.feed(piece)

    with pytest.raises(LimitExceededError, match="longer than 9 bytes"):
        decoder.feed(last)


def test_a_decoder_is_clean_where_nothing_is_pending():
    decoder = SSEDecoder()
    states = [decoder.is_clean]
    for piece in (b"da", b"ta: 1\n", b"\n", b"event: e\n", b"\n"):
        decoder.feed(piece)
        states.append(decoder.is_clean)

    assert states == [True, False, False, True, False, True]


@pytest.mark.timing
def test_one_byte_slices_of_a_long_line_are_linear():
    def seconds(size: int) -> float:
        decoder, start = SSEDecoder(), time.perf_counter()
        for _ in range(size):
            decoder.feed(b"x")
        return time.perf_counter() - start

    assert min(seconds(40_000) for _ in range(3)) < 8 * min(seconds(10_000) for _ in range(3))
