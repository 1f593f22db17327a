"""Parse the rate-limit headers of a provider's answer. Pure.

The names differ: `x-ratelimit-remaining-tokens` (OpenAI and compatible hosts), `-tokens-minute` (Cerebras),
`anthropic-ratelimit-tokens-remaining`. A time is `6m0s`, `120ms`, seconds, or a date.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from foldline.rate_limiters._state import Cap

__all__ = ["read_caps"]

PATTERNS: Final = (
    "x-ratelimit-{what}-{kind}",
    "anthropic-ratelimit-{kind}-{what}",
    "x-ratelimit-{what}-{kind}-minute",
    "x-ratelimit-{what}-{kind}-day",
    "x-ratelimit-{what}-{kind}-hour",
)
PATTERNS_WITHOUT_KIND: Final = ("x-ratelimit-{what}", "ratelimit-{what}")
"""Headers without a kind count requests."""
UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
MAX_SECONDS: Final = 31 * 86_400.0
"""Longer reset times are cut to a month."""
EPOCH: Final = 1e9
"""A larger number is a timestamp, not a duration."""


def read_caps(headers: Mapping[str, str]) -> dict[str, Cap]:
    """Return the remaining requests and tokens that headers report; of several, the smallest."""
    if not any("ratelimit" in name for name in headers):
        return {}
    caps: dict[str, Cap] = {}
    for kind in ("requests", "tokens"):
        patterns = [*PATTERNS, *PATTERNS_WITHOUT_KIND] if kind == "requests" else PATTERNS
        kind_caps = [
            cap for pattern in patterns if (cap := _cap(headers, pattern, kind)) is not None
        ]
        if kind_caps:
            caps[kind] = min(kind_caps, key=lambda cap: cap.remaining)
    return caps


def _cap(headers: Mapping[str, str], pattern: str, kind: str) -> Cap | None:
    limit, remaining_text, reset = (
        headers.get(pattern.format(what=field, kind=kind))
        for field in ("limit", "remaining", "reset")
    )
    remaining, seconds = _number(remaining_text), _seconds(reset)
    if remaining is None or seconds is None:
        return None
    max_amount = _number(limit)
    return Cap(max(max_amount or remaining, remaining), remaining, seconds)


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
    elif DURATION.sub("", text) == "":
        value = sum(float(number) * UNITS[unit] for number, unit in DURATION.findall(text))
    else:
        value = _until(text)
    return None if value is None else min(max(0.0, value), MAX_SECONDS)


def _until(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() - time.time()
    except (OverflowError, ValueError):  # no date, or one of the first or last year
        return None
