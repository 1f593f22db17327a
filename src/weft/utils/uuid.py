"""Time-ordered ids (RFC 9562, version 7), monotonic within a process."""

from __future__ import annotations

import os
import time
from uuid import UUID

_last = 0


def uuid7(nanoseconds: int | None = None) -> UUID:
    """Make an id whose order is the order of making."""
    global _last
    now = time.time_ns() if nanoseconds is None else nanoseconds
    if nanoseconds is None:
        now = _last = max(now, _last + 256)
    millis, rest = divmod(now, 1_000_000)
    sub = rest * 4096 // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") & 0x3FFF_FFFF_FFFF_FFFF
    return UUID(int=(millis & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | sub << 64 | 0x2 << 62 | random)
