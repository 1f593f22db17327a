"""What a provider's answer says of its limits: the rate-limit headers, as caps. Pure.

The names differ: `x-ratelimit-remaining-tokens` (OpenAI and those who speak like it), `-tokens-minute` (Cerebras),
`anthropic-ratelimit-tokens-remaining`. A time is `6m0s`, `120ms`, seconds, or a date.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from foldline.rate_limiters.state import Cap

__all__ = ["read_caps"]

FAMILIES: Final = (
    "x-ratelimit-{what}-{kind}",
    "anthropic-ratelimit-{kind}-{what}",
    "x-ratelimit-{what}-{kind}-minute",
    "x-ratelimit-{what}-{kind}-day",
    "x-ratelimit-{what}-{kind}-hour",
)
BARE: Final = ("x-ratelimit-{what}", "ratelimit-{what}")
"""Without a kind, they count requests."""
UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
MOST: Final = 31 * 86_400.0
"""No limit is told for longer than a month."""
EPOCH: Final = 1e9
"""A number above it is a moment, not a length."""


def read_caps(headers: Mapping[str, str]) -> dict[str, Cap]:
    """Return what is left of requests and tokens, as far as an answer says it; of several, the one with the least."""
    if not any("ratelimit" in name for name in headers):
        return {}
    caps: dict[str, Cap] = {}
    for kind in ("requests", "tokens"):
        patterns = [*FAMILIES, *BARE] if kind == "requests" else FAMILIES
        found = [cap for pattern in patterns if (cap := _cap(headers, pattern, kind)) is not None]
        if found:
            caps[kind] = min(found, key=lambda cap: cap.remaining)
    return caps


def _cap(headers: Mapping[str, str], pattern: str, kind: str) -> Cap | None:
    limit, left, reset = (
        headers.get(pattern.format(what=what, kind=kind))
        for what in ("limit", "remaining", "reset")
    )
    remaining, seconds = _number(left), _seconds(reset)
    if remaining is None or seconds is None:
        return None
    most = _number(limit)
    return Cap(max(most or remaining, remaining), remaining, seconds)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    text = text.strip()
    value = _number(text)
    if value is not None:
        if value > EPOCH * 1000:
            value /= 1000
        value = value - time.time() if value > EPOCH else value
    elif LENGTH.sub("", text) == "":
        value = sum(float(number) * UNITS[unit] for number, unit in LENGTH.findall(text))
    else:
        value = _until(text)
    return None if value is None else min(max(0.0, value), MOST)


def _until(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() - time.time()
