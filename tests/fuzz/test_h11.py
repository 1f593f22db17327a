"""`h11` as a second opinion on our reader of HTTP/1.1: what both accept is read alike; differences have a reason."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.fuzz.h11_oracle import (
    DIFFERENCES,
    Difference,
    is_alike,
    read_by_foldline,
    read_by_h11,
)
from tests.fuzz.mutate import Mutator
from tests.fuzz.targets import RESPONSE, TARGETS

COUNT = 15_000
SEEDS = [
    *TARGETS["http1"].seeds(),
    RESPONSE + b"x: y\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    RESPONSE + b"transfer-encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\na: b\r\n\r\n",
    RESPONSE.replace(b"\r\n", b"\n") + b"content-length: 2\n\nok",
    b"HTTP/1.1 204 No\r\nx:\t y \t\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
]
WORDS = (
    *TARGETS["http1"].words,
    *(b" ", b"\t", b"\x0b", b"\x0c", b"\0", b"\x80", b":", b",", b";", b"+", b"0x", b"\r"),
    *(b" chunked", b"HTTP/1.0", b"101", b"304", b"600", b"\r\n folded"),
    *(b"content-length: 5, 5\r\n", b"transfer-encoding: identity\r\n", b"HTTP/1.1 100 C\r\n\r\n"),
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_what_both_accept_is_read_alike_and_differences_have_a_reason(seed: int) -> None:
    accepted = 0
    for data in islice(Mutator(SEEDS, WORDS, seed).inputs(), COUNT):
        foldline_outcome, h11_outcome = read_by_foldline(data), read_by_h11(data)
        if foldline_outcome.refusal and h11_outcome.refusal:
            continue
        if not foldline_outcome.refusal and not h11_outcome.refusal:
            accepted += 1
            assert is_alike(foldline_outcome, h11_outcome), data
        else:
            reasons = [
                difference
                for difference in DIFFERENCES
                if difference.explains(foldline_outcome, h11_outcome)
            ]
            assert len(reasons) == 1, (data, foldline_outcome, h11_outcome)
    assert accepted > COUNT / 4


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.reason[:40])
def test_each_difference_is_there(difference: Difference) -> None:
    foldline_outcome, h11_outcome = (
        read_by_foldline(difference.example),
        read_by_h11(difference.example),
    )
    assert difference.explains(foldline_outcome, h11_outcome)
    assert bool(foldline_outcome.refusal) != bool(h11_outcome.refusal)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x0cb\r\n\r\n",
        b"HTTP/1.1 103 Early\r\nno colon\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_h11_refuses_where_we_once_did_not(data: bytes) -> None:
    assert read_by_h11(data).refusal
    assert read_by_foldline(data).refusal
