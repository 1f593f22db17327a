"""`RunnableTarget`: a model, or a chain with one in it.

A chain is split at its chat model. What comes before runs when the request is written, what comes after runs on the
answer. The answer itself goes through the model's own call, over a transport that plays it back, so it is decoded,
checked and counted as if it had come over the wire.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from foldline._io import IO
from foldline._run import Run
from foldline.batches._batch_api import BatchAnswer, BatchApi
from foldline.batches._targets.base import BatchRequest, Target, error_text
from foldline.batches.records import AnswerSource, ItemOutcome
from foldline.exceptions import BudgetExceeded, UsageError
from foldline.language_models._call.policies.usage_scope import NO_LIMITS, SCOPE, Limits, UsageScope
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.prices.cost import cost_of
from foldline.prices.table import find_prices
from foldline.prices.types import Prices
from foldline.rate_limiters import BaseRateLimiter
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
from foldline.runnables.sequence import RunnableSequence
from foldline.workflows.values import pack, to_text

__all__ = ["RunnableTarget"]


class RunnableTarget(Target):
    """A model, or a chain with one in it."""

    def __init__(self, runnable: Runnable[Any, Any]) -> None:
        self.runnable = runnable
        self.output_type = _output_type(runnable)
        self._steps = _flatten(runnable)
        self._place = _model_place(self._steps)

    @property
    def subject(self) -> Runnable[Any, Any]:
        """The runnable."""
        return self.runnable

    def describe(self) -> str:
        """Say what is asked."""
        names = [step.get_name() for step in self._steps]
        model = self._model
        model_label = f" ({model._provider}:{model._model_name})" if model is not None else ""
        return " | ".join(names)[:300] + model_label

    async def run_items(
        self, items: Sequence[tuple[int, str]], io: IO, scope: UsageScope | None
    ) -> list[ItemOutcome]:
        """Ask for items one after another."""
        return [await self._run_item(number, text, io, scope) for number, text in items]

    async def _run_item(
        self, number: int, text: str, io: IO, scope: UsageScope | None
    ) -> ItemOutcome:
        return await self._call(
            self.runnable, number, self.unpack_input(text), io, scope, "live", {}
        )

    async def _call(
        self,
        runnable: Runnable[Any, Any],
        number: int,
        value: object,
        io: IO,
        scope: UsageScope | None,
        source: AnswerSource,
        kwargs: dict[str, Any],
    ) -> ItemOutcome:
        item_scope = UsageScope(NO_LIMITS, scope)
        token = SCOPE.set(item_scope)
        output = failure = None
        is_retryable = was_called = True
        try:
            answer = await runnable._step(value, Run.root(io, self.config, kwargs))
            output = self.pack_output(answer)
        except BudgetExceeded as error:
            failure, was_called = error_text(error), False
        except Exception as error:  # noqa: BLE001  whatever a user's step raises is what became of this item
            failure, is_retryable = error_text(error), bool(getattr(error, "is_retryable", False))
        finally:
            SCOPE.reset(token)
        return ItemOutcome(
            number, output, failure, source, item_scope.input_tokens, item_scope.output_tokens,
            _cost(item_scope), is_retryable, was_called,
        )  # fmt: skip

    def with_limiter(self, limiter: BaseRateLimiter) -> Target | None:
        """Return a target whose model has another rate limiter."""
        if self._place is None:
            return None
        model, kwargs = _unwrap(self._steps[self._place])
        paced = model.model_copy(update={"rate_limiter": limiter})
        steps = [
            *self._steps[: self._place],
            paced.bind(**kwargs) if kwargs else paced,
            *self._steps[self._place + 1 :],
        ]
        target = RunnableTarget(cast("Runnable[Any, Any]", _sequence(steps)))
        target.config, target.output_type = self.config, self.output_type
        return target

    # -- batches of the provider

    def max_output(self) -> int | None:
        """Return what the model can say at most."""
        model = self._model
        most = getattr(model, "max_tokens", None) or (model.profile or {}).get("max_output_tokens")
        return int(most) if most else None

    def batch_cost(self, usage: Mapping[str, Any]) -> float | None:
        """Return what a usage costs by the batch prices of the model."""
        return cost_of(usage, self._prices, service="batch")

    @property
    def _prices(self) -> Prices | None:
        model = self._model
        profile_prices: Prices | None = (model.profile or {}).get("prices")
        return profile_prices or find_prices(model._provider, model._model_name)

    def check_limits(self, limits: Limits | None) -> None:
        """Raise where a limit of cost needs a price that is not known; a chain of several models is left to them."""
        is_priced = limits is not None and limits.cost is not None
        if is_priced and self._place is not None and self._prices is None:
            raise UsageError(
                f"Limits(cost=…) needs the prices of {self.describe()}: pass "
                'profile={"prices": {"input": …, "output": …}} or call foldline.prices.register_prices '
                "(per million tokens)"
            )

    @property
    def _model(self) -> Any:  # noqa: ANN401  a provider's model, which this layer does not know
        if self._place is None:
            return None
        return _unwrap(self._steps[self._place])[0]

    def batch_api(self) -> BatchApi | None:
        """Return the batches of the chain's model."""
        make = getattr(self._model, "_batch_api", None)
        return cast("BatchApi | None", make() if make is not None else None)

    @property
    def prefers_batches(self) -> bool:
        """Whether the model is at its provider's own address."""
        return getattr(self._model, "base_url", "") is None

    async def encode(self, text: str, prompt: str | None, io: IO) -> BatchRequest:
        """Run what comes before the model, and write the model's request."""
        value = self.unpack_input(prompt if prompt is not None else text)
        first_steps = _sequence(self._steps[: self._place])
        if first_steps is not None and prompt is None:
            value = await first_steps._step(value, Run.root(io, self.config, {}))
            prompt = to_text(pack(value, "a prompt", type(value)))
        model, kwargs = _unwrap(self._steps[cast("int", self._place)])
        path, body, tokens = await model._batch_request(value, io, self.config, kwargs)
        return BatchRequest(prompt, path, body, tokens)

    async def decode(
        self, number: int, text: str, prompt: str | None, answer: BatchAnswer, io: IO
    ) -> ItemOutcome:
        """Play the answer back through the model, and run what comes after it."""
        place = cast("int", self._place)
        model, kwargs = _unwrap(self._steps[place])
        replay = model._replay(answer.status, json.dumps(answer.body).encode())
        chain = cast(
            "Runnable[Any, Any]",
            _sequence(
                [replay.bind(**{**kwargs, "service_tier": "batch"}), *self._steps[place + 1 :]]
            ),
        )
        value = self.unpack_input(prompt if prompt is not None else text)
        return await self._call(chain, number, value, io, None, "batch", {})


def _cost(scope: UsageScope) -> float | None:
    """Return what the calls of an item cost; nothing was asked of a model: nothing."""
    return scope.cost if scope.model_calls else 0.0


def _output_type(runnable: Runnable[Any, Any]) -> Any:  # noqa: ANN401  a type
    output_type = runnable.OutputType
    return output_type if output_type is not None else Any


def _flatten(runnable: Runnable[Any, Any]) -> list[Runnable[Any, Any]]:
    if not isinstance(runnable, RunnableSequence):
        return [runnable]
    return [inner for step in runnable.steps for inner in _flatten(step)]


def _unwrap(step: Any) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401  a model under bindings
    """Return what is bound, and the arguments it is called with."""
    kwargs: dict[str, Any] = {}
    while isinstance(step, RunnableBindingBase):
        kwargs = {**step.kwargs, **kwargs}
        step = step.bound
    return step, kwargs


def _model_place(steps: list[Runnable[Any, Any]]) -> int | None:
    """Return where the one chat model of a chain is; None where there is none, or several."""
    places = [
        place for place, step in enumerate(steps) if isinstance(_unwrap(step)[0], BaseChatModel)
    ]
    return places[0] if len(places) == 1 else None


def _sequence(steps: Sequence[Runnable[Any, Any]]) -> Runnable[Any, Any] | None:
    if not steps:
        return None
    return steps[0] if len(steps) == 1 else RunnableSequence(*steps)
