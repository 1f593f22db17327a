"""Report the rate-limit headers of an answer to the limiter of its request."""

from __future__ import annotations

from foldline.language_models._call.meter import RequestMeter
from foldline.providers._wire import retry_after
from foldline.transports import Response

__all__ = ["observe_limits"]


def observe_limits(meter: RequestMeter | None, response: Response) -> None:
    """Report the rate-limit headers of an answer to the meter of its request."""
    if meter is not None:
        wait = retry_after(response.headers)
        meter.observe(response.headers, status=response.status, retry_after=wait)
