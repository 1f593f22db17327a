"""Time-ordered ids (RFC 9562, version 7), monotonic within a process."""

from __future__ import annotations

import os
import random
import time
from uuid import UUID, SafeUUID

_last = 0
# A separate generator, seeded by the system: a program that seeds `random` does not repeat our ids.
_random = random.Random()
_getrandbits = _random.getrandbits
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def _number(nanoseconds: int | None) -> int:
    global _last
    if nanoseconds is None:
        nanoseconds = time.time_ns()
        if nanoseconds < _last + 256:
            nanoseconds = _last + 256
        _last = nanoseconds
    millis, fraction = divmod(nanoseconds, 1_000_000)
    ordered = (millis & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | fraction * 4096 // 1_000_000
    return ordered << 64 | 0x8000_0000_0000_0000 | _getrandbits(62)


_set_int, _set_safety = vars(UUID)["int"].__set__, vars(UUID)["is_safe"].__set__
_new, _UNKNOWN = object.__new__, SafeUUID.unknown


def uuid7(nanoseconds: int | None = None) -> UUID:
    """Make an id; ids sort by their creation."""
    id = _new(UUID)  # without the constructor and its checks
    _set_int(id, _number(nanoseconds))
    _set_safety(id, _UNKNOWN)
    return id


def new_id() -> str:
    """Make such an id as text, cheaper than `str(uuid7())`."""
    return id_text(_number(None))


def id_text(number: int) -> str:
    """Write an id as text, cheaper than `str` of a `UUID`."""
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
