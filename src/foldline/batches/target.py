"""What a job asks for each item: a runnable or embeddings, called live, or encoded for the provider's batch.

A chain is split at its chat model. What comes before runs when the request is written, what comes after runs on the
answer. The answer itself goes through the model's own call, over a transport that plays it back, so it is decoded,
checked and counted as if it had come over the wire.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, cast

from foldline._config import RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.batches.provider import BatchAnswer, BatchApi
from foldline.batches.records import Finished, How
from foldline.embeddings.base import Embeddings
from foldline.exceptions import BudgetExceeded, FoldlineError, SchemaError, UsageError
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.language_models.policies.usage_scope import SCOPE, Limits, UsageScope
from foldline.load import dumps, loads
from foldline.prices.cost import cost_of
from foldline.prices.table import find_prices
from foldline.rate_limiters import BaseRateLimiter
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
from foldline.runnables.sequence import RunnableSequence
from foldline.workflows.values import pack, to_text, unpack

__all__ = [
    "EmbeddingsTarget",
    "RunnableTarget",
    "Target",
    "digest_of",
    "error_text",
    "make_target",
    "read_target",
]

NO_LIMITS: Final = Limits()
LONGEST_ERROR: Final = 2000
KEYS: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Variables that a target read from a store may take its key from."""


def digest_of(text: str) -> str:
    """Return the hash of a content."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def error_text(error: BaseException) -> str:
    """Say an error in words, as it is kept."""
    return f"{type(error).__name__}: {error}"[:LONGEST_ERROR]


def read_target(text: str) -> Any:  # noqa: ANN401  a runnable
    """Make what a store has written down; keys come from the environment, and no address from the store."""
    return loads(text, allowed_objects="all", secrets_from_env=KEYS)


class BatchRequest(NamedTuple):
    """An item as it is written into a batch."""

    prompt: str | None
    """What the steps before the model made of the input, where there are any."""
    path: str
    body: Any
    input_tokens: int


class Target(ABC):
    """What a job asks for each item."""

    group_size: int | None = None
    """How many items one call takes; None: one."""
    output_type: Any = Any
    config: RunnableConfig | None = None

    @property
    @abstractmethod
    def subject(self) -> Any:  # noqa: ANN401  a runnable or embeddings
        """What is asked: what an executor sends to its workers."""

    @abstractmethod
    async def run_some(
        self, items: Sequence[tuple[int, str]], io: IO, scope: UsageScope | None
    ) -> list[Finished]:
        """Ask for some items, one after another; an error is part of what became of them."""

    @abstractmethod
    def describe(self) -> str:
        """Say what is asked, in a few words."""

    def fingerprint(self) -> str:
        """Return what two targets that ask the same have in common."""
        try:
            return digest_of(dumps(self.subject))
        except (FoldlineError, TypeError, ValueError):
            return digest_of(self.describe())

    def written(self) -> str | None:
        """Return this target as text from which another process can make it; None where it cannot be written."""
        try:
            text = dumps(self.subject)
            read_target(text)
        except (FoldlineError, TypeError, ValueError, NotImplementedError):
            return None
        return text

    # -- values

    def pack_input(self, value: Any) -> str:  # noqa: ANN401  JSON, or whatever was given
        """Write an input down."""
        return _text(pack(value, "an input", type(value)))

    def unpack_input(self, text: str) -> Any:  # noqa: ANN401  JSON, or whatever was given
        """Read an input."""
        return unpack(json.loads(text), "an input")

    def pack_output(self, value: Any) -> str:  # noqa: ANN401  JSON, or whatever was given
        """Write an answer down."""
        try:
            return _text(pack(value, "an answer", self.output_type))
        except SchemaError as error:
            raise SchemaError(f"{error}; or say what it is: batch_job(output_type=…)") from error

    def unpack_output(self, text: str) -> Any:  # noqa: ANN401  JSON, or whatever was given
        """Read an answer."""
        return unpack(json.loads(text), "an answer", self.output_type)

    # -- batches of the provider

    def batch_api(self) -> BatchApi | None:
        """Return the provider's batches; None where there are none for what is asked."""
        return None

    @property
    def prefers_batches(self) -> bool:
        """Whether the provider's own address is asked, which is known to have batches."""
        return False

    def with_limiter(self, limiter: BaseRateLimiter) -> Target | None:
        """Return this target with another rate limiter; None where it has no place for one."""
        return None

    def max_output(self) -> int | None:
        """Return how many tokens an answer may have at most, where that is known."""
        return None

    def batch_cost(self, usage: Mapping[str, Any]) -> float | None:
        """Return what a usage costs in a batch; None where the price is not known."""
        return None

    @abstractmethod
    async def encode(self, text: str, prompt: str | None, io: IO) -> BatchRequest:
        """Return the request of an item; `prompt` is what the steps before the model made of it, if they ran before."""

    @abstractmethod
    async def decode(
        self, number: int, text: str, prompt: str | None, answer: BatchAnswer, io: IO
    ) -> Finished:
        """Read an answer of a batch."""


def make_target(subject: Any, config: RunnableConfig | None, output_type: Any) -> Target:  # noqa: ANN401  JSON, or whatever was given
    """Return what asks a runnable or embeddings."""
    target: Target
    if isinstance(subject, Runnable):
        target = RunnableTarget(subject)
    elif isinstance(subject, Embeddings):
        target = EmbeddingsTarget(subject)
    else:
        raise UsageError(f"a job asks a model, a chain or embeddings, not {type(subject).__name__}")
    target.config = config
    if output_type is not None:
        target.output_type = output_type
    return target


class RunnableTarget(Target):
    """A model, or a chain with one in it."""

    def __init__(self, runnable: Runnable[Any, Any]) -> None:
        self.runnable = runnable
        self.output_type = _declared(runnable)
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
        where = f" ({model._provider}:{model._model_name})" if model is not None else ""
        return " | ".join(names)[:300] + where

    async def run_some(
        self, items: Sequence[tuple[int, str]], io: IO, scope: UsageScope | None
    ) -> list[Finished]:
        """Ask for items one after another."""
        return [await self._run_one(number, text, io, scope) for number, text in items]

    async def _run_one(self, number: int, text: str, io: IO, scope: UsageScope | None) -> Finished:
        return await self._call(
            self.runnable, number, self.unpack_input(text), io, scope, "live", {}
        )

    async def _call(
        self,
        runnable: Runnable[Any, Any],
        number: int,
        value: Any,  # noqa: ANN401  JSON, or whatever was given
        io: IO,
        scope: UsageScope | None,
        how: How,
        kwargs: dict[str, Any],
    ) -> Finished:
        own = UsageScope(NO_LIMITS, scope)
        token = SCOPE.set(own)
        output = failure = None
        is_retryable = was_asked = True
        try:
            answer = await runnable._step(value, Run.root(io, self.config, kwargs))
            output = self.pack_output(answer)
        except BudgetExceeded as error:
            failure, was_asked = error_text(error), False
        except Exception as error:  # noqa: BLE001  whatever a user's step raises is what became of this item
            failure, is_retryable = error_text(error), bool(getattr(error, "is_retryable", False))
        finally:
            SCOPE.reset(token)
        return Finished(
            number, output, failure, how, own.input_tokens, own.output_tokens,
            _cost(own), is_retryable, was_asked,
        )  # fmt: skip

    def with_limiter(self, limiter: BaseRateLimiter) -> Target | None:
        """Return a target whose model has another rate limiter."""
        if self._place is None:
            return None
        model, kwargs = _unwrapped(self._steps[self._place])
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
        model = self._model
        prices = (model.profile or {}).get("prices") or find_prices(
            model._provider, model._model_name
        )
        return cost_of(usage, prices, service="batch")

    @property
    def _model(self) -> Any:  # noqa: ANN401  a provider's model, which this layer does not know
        if self._place is None:
            return None
        return _unwrapped(self._steps[self._place])[0]

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
        before = _sequence(self._steps[: self._place])
        if before is not None and prompt is None:
            value = await before._step(value, Run.root(io, self.config, {}))
            prompt = _text(pack(value, "a prompt", type(value)))
        model, kwargs = _unwrapped(self._steps[cast("int", self._place)])
        path, body, tokens = await model._batch_request(value, io, self.config, kwargs)
        return BatchRequest(prompt, path, body, tokens)

    async def decode(
        self, number: int, text: str, prompt: str | None, answer: BatchAnswer, io: IO
    ) -> Finished:
        """Play the answer back through the model, and run what comes after it."""
        place = cast("int", self._place)
        model, kwargs = _unwrapped(self._steps[place])
        played = model._answered(answer.status, json.dumps(answer.body).encode())
        chain = cast(
            "Runnable[Any, Any]",
            _sequence(
                [played.bind(**{**kwargs, "service_tier": "batch"}), *self._steps[place + 1 :]]
            ),
        )
        value = self.unpack_input(prompt if prompt is not None else text)
        return await self._call(chain, number, value, io, None, "batch", {})


class EmbeddingsTarget(Target):
    """Embeddings: texts in, vectors out, as many in one call as the model takes."""

    output_type = list[float]

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings
        self.group_size = int(getattr(embeddings, "chunk_size", 0) or 64)

    @property
    def subject(self) -> Embeddings:
        """The embeddings."""
        return self.embeddings

    def fingerprint(self) -> str:
        """Return what two of the same class and model have in common."""
        return digest_of(self.describe())

    def describe(self) -> str:
        """Say what is asked."""
        shown = {
            name: getattr(self.embeddings, name, None)
            for name in ("model", "dimensions", "output_dimensionality")
        }
        given = ", ".join(f"{name}={value!r}" for name, value in shown.items() if value is not None)
        return f"{type(self.embeddings).__name__}({given})"

    def written(self) -> str | None:
        """Embeddings are not written: whoever resumes gives them."""
        return None

    async def run_some(
        self, items: Sequence[tuple[int, str]], io: IO, scope: UsageScope | None
    ) -> list[Finished]:
        """Embed texts in one call; where it fails for what is in them, find the text that is to blame."""
        texts = [self.unpack_input(text) for _, text in items]
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                odd = Finished(
                    items[place][0],
                    None,
                    f"UsageError: only text can be embedded, not {text!r:.60}",
                    "live",
                )
                others = [item for at, item in enumerate(items) if at != place]
                return [odd, *(await self.run_some(others, io, scope) if others else [])]
        method = (
            self.embeddings.embed_documents if io.blocking else self.embeddings.aembed_documents
        )
        try:
            vectors = await io.call(method, texts)
        except Exception as error:  # noqa: BLE001  what became of these items
            is_retryable = bool(getattr(error, "is_retryable", False))
            if len(items) == 1 or is_retryable:
                return [
                    Finished(number, None, error_text(error), "live", is_retryable=is_retryable)
                    for number, _ in items
                ]
            half = len(items) // 2
            first = await self.run_some(items[:half], io, scope)
            return first + await self.run_some(items[half:], io, scope)
        return [
            Finished(number, json.dumps(vector), None, "live")
            for (number, _), vector in zip(items, vectors, strict=True)
        ]

    def unpack_output(self, text: str) -> Any:  # noqa: ANN401  JSON, or whatever was given
        """Read a vector."""
        return json.loads(text)

    def batch_api(self) -> BatchApi | None:
        """Return the provider's batches of embeddings."""
        make = getattr(self.embeddings, "_batch_api", None)
        return cast("BatchApi | None", make() if make is not None else None)

    @property
    def prefers_batches(self) -> bool:
        """Whether the model is at its provider's own address."""
        return getattr(self.embeddings, "base_url", "") is None

    async def encode(self, text: str, prompt: str | None, io: IO) -> BatchRequest:
        """Return the request for one text."""
        path, body = cast("Any", self.embeddings)._encode([self.unpack_input(text)], is_query=False)
        return BatchRequest(None, path, body, len(text) // 4)

    async def decode(
        self, number: int, text: str, prompt: str | None, answer: BatchAnswer, io: IO
    ) -> Finished:
        """Read the vector of an answer."""
        embeddings: Any = self.embeddings
        try:
            if answer.status >= 400:
                raise embeddings._batch_error(answer.status, answer.body)
            vectors = embeddings._check_lengths(
                embeddings._check_count(embeddings._read(answer.body), 1)
            )
        except FoldlineError as error:
            is_retryable = bool(getattr(error, "is_retryable", False))
            return Finished(number, None, error_text(error), "batch", is_retryable=is_retryable)
        usage = answer.body.get("usage") or {} if isinstance(answer.body, dict) else {}
        return Finished(
            number, json.dumps(vectors[0]), None, "batch", int(usage.get("prompt_tokens") or 0)
        )


def _text(packed: Any) -> str:  # noqa: ANN401  JSON, or whatever was given
    return to_text(packed)


def _cost(scope: UsageScope) -> float | None:
    """Return what the calls of an item cost; nothing was asked of a model: nothing."""
    return scope.cost if scope.model_calls else 0.0


def _declared(runnable: Runnable[Any, Any]) -> Any:  # noqa: ANN401  a type
    declared = runnable.OutputType
    return declared if declared is not None else Any


def _flatten(runnable: Runnable[Any, Any]) -> list[Runnable[Any, Any]]:
    if not isinstance(runnable, RunnableSequence):
        return [runnable]
    return [inner for step in runnable.steps for inner in _flatten(step)]


def _unwrapped(step: Any) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401  a model under bindings
    """Return what is bound, and the arguments it is called with."""
    kwargs: dict[str, Any] = {}
    while isinstance(step, RunnableBindingBase):
        kwargs = {**step.kwargs, **kwargs}
        step = step.bound
    return step, kwargs


def _model_place(steps: list[Runnable[Any, Any]]) -> int | None:
    """Return where the one chat model of a chain is; None where there is none, or several."""
    places = [
        place for place, step in enumerate(steps) if isinstance(_unwrapped(step)[0], BaseChatModel)
    ]
    return places[0] if len(places) == 1 else None


def _sequence(steps: Sequence[Runnable[Any, Any]]) -> Runnable[Any, Any] | None:
    if not steps:
        return None
    return steps[0] if len(steps) == 1 else RunnableSequence(*steps)
