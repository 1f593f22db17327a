"""Rate limits in the headers of each provider."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from foldline.rate_limiters._headers import read_caps
from foldline.rate_limiters._state import Cap

pytestmark = pytest.mark.timing


def cap_values(cap: Cap) -> tuple[float, float, float]:
    return cap.limit, cap.remaining, round(cap.reset, 1)


def test_openai_and_those_who_speak_like_it() -> None:
    caps = read_caps(
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-tokens": "6m0s",
        }
    )

    assert cap_values(caps["requests"]) == (60, 59, 1)
    assert cap_values(caps["tokens"]) == (150_000, 149_984, 360)


def test_anthropic_tells_moments() -> None:
    moment = (datetime.now(UTC) + timedelta(seconds=30)).isoformat().replace("+00:00", "Z")
    caps = read_caps(
        {
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": moment,
        }
    )

    assert cap_values(caps["requests"])[:2] == (50, 0)
    assert 28 < caps["requests"].reset <= 30


def test_of_several_times_the_one_with_the_least_left_counts() -> None:
    caps = read_caps(
        {
            "x-ratelimit-limit-requests-day": "14400",
            "x-ratelimit-remaining-requests-day": "3",
            "x-ratelimit-reset-requests-day": "33011.38",
            "x-ratelimit-limit-requests-minute": "30",
            "x-ratelimit-remaining-requests-minute": "29",
            "x-ratelimit-reset-requests-minute": "12",
        }
    )

    assert cap_values(caps["requests"]) == (14_400, 3, 33_011.4)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120ms", 0.12),
        ("2h3m", 7380),
        ("7.66s", 7.66),
        ("0", 0),
        ("1d", 86_400),
        ("99999999", 31 * 86_400),
    ],
)
def test_lengths_of_time_are_read(text: str, seconds: float) -> None:
    headers = {"ratelimit-remaining": "5", "ratelimit-limit": "10", "ratelimit-reset": text}

    assert read_caps(headers)["requests"].reset == pytest.approx(seconds)


def test_a_moment_may_be_told_in_milliseconds() -> None:
    headers = {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(int((time.time() + 20) * 1000)),
    }

    assert 18 < read_caps(headers)["requests"].reset <= 20


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"x-ratelimit-remaining-requests": "5"},
        {"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s"},
        {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "soon"},
        {
            "x-ratelimit-remaining-requests": "5",
            "x-ratelimit-reset-requests": "0001-01-01T00:00:00",
        },
        {"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "1s"},
        {"x-ratelimit-remaining-requests": "nan", "x-ratelimit-reset-requests": "1s"},
        {"x-ratelimit-remaining-requests": "inf", "x-ratelimit-reset-requests": "1s"},
    ],
)
def test_what_says_nothing_is_no_limit(headers: dict[str, str]) -> None:
    assert read_caps(headers) == {}
