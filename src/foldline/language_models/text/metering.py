"""What the requests of a text model take from limits and budgets: their meter, and the counts of their answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from foldline._io import IO
from foldline.language_models._call.deadline import wait_within_deadline
from foldline.language_models._call.meter import RequestMeter
from foldline.language_models._call.policies.spending import Expectation
from foldline.language_models._call.policies.usage_scope import SCOPE
from foldline.language_models.base import BaseLanguageModel, Params
from foldline.prices.cost import service_of
from foldline.prices.table import find_prices
from foldline.rate_limiters import BaseRateLimiter

__all__ = ["call_metered", "meter_prompts", "read_counts"]

T = TypeVar("T")

USAGE_KEYS: Final = ("token_usage", "usage")
"""The keys under which authors put the counts of an answer."""
NAMES: Final = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "total_tokens": "total_tokens",
}


def meter_prompts(
    model: BaseLanguageModel[str],
    limiter: BaseRateLimiter | None,
    prompts: Sequence[str],
    options: Params,
    io: IO,
    *,
    answers: int = 1,
) -> RequestMeter | None:
    """Return the meter of a request with these prompts, each answered `answers` times; None if nothing is limited."""
    scope = SCOPE.get()
    if limiter is None and scope is None:
        return None
    max_tokens = options.get("max_tokens") or getattr(model, "max_tokens", None)
    if not isinstance(max_tokens, int) or max_tokens <= 0:  # -1 means no limit
        max_tokens = None
    name = options.get("model") or model._model_name
    service = options.get("service_tier") or getattr(model, "service_tier", None)
    expected = Expectation(
        sum(map(model.get_num_tokens, prompts)),
        None if max_tokens is None else max_tokens * len(prompts) * answers,
        None,
        find_prices(model._provider, name),
        service_of(service),
        f"{model._provider or model._llm_type}:{name}",
    )
    return RequestMeter(expected, io, limiter, scope)


def read_counts(output: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the counts in the metadata of an answer under the names of `UsageMetadata`; None if it has none."""
    for key in USAGE_KEYS:
        counts = (output or {}).get(key)
        if isinstance(counts, Mapping):
            renamed = {NAMES[name]: n for name, n in counts.items() if name in NAMES}
            return {name: n for name, n in renamed.items() if type(n) is int} or None
    return None


async def call_metered(
    meter: RequestMeter | None,
    send_request: Callable[[], Coroutine[Any, Any, T]],
    io: IO,
    read_usage: Callable[[T], Mapping[str, Any] | None] = lambda _: None,
) -> T:
    """Send a request within the share of a meter, no longer than the usage scopes around this code have time."""
    if meter is None:
        return await send_request()
    async with meter:
        with meter.in_use():
            answer: T = await wait_within_deadline(send_request(), io)
        meter.usage = read_usage(answer)
    return answer
