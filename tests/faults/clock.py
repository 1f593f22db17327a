"""A clock for tests: sleeping advances it without waiting, and each sleep is recorded."""

from __future__ import annotations

import pytest

from foldline._io import ASYNC, BLOCKING
from foldline.transports import _body


class FakeClock:
    """Replaces the clock of retries (`io.sleep`) and of timeouts (`time.monotonic` of the transports)."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        """Let time pass, and remember it."""
        self.slept.append(seconds)
        self.advance(seconds)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this clock in the place of the real one."""

        async def sleep(_: object, seconds: float) -> None:
            await self.sleep(seconds)

        for io in (BLOCKING, ASYNC):
            monkeypatch.setattr(type(io), "sleep", sleep)
        monkeypatch.setattr(_body, "time", self)
