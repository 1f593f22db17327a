"""How a long run is cut into shares: `3/8` is the third of eight."""

from __future__ import annotations

from argparse import ArgumentTypeError


def share_of(text: str) -> tuple[int, int]:
    """Read `K/N` as (K - 1, N): take every N-th item, beginning with the K-th."""
    first, _, of = text.partition("/")
    if not first.isdecimal() or not of.isdecimal() or not 1 <= int(first) <= int(of):
        raise ArgumentTypeError(f"a share is K/N, the K-th of N, not {text!r}")
    return int(first) - 1, int(of)
