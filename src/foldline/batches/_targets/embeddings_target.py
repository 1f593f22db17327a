"""`EmbeddingsTarget`: texts in, vectors out, as many in one call as the model takes.

Embeddings say nothing of what they used, so live calls are counted by an estimate, four characters to a token, before
they are made; a batch tells the tokens of every request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from foldline._io import IO
from foldline.batches._batch_api import BatchAnswer, BatchApi
from foldline.batches._targets.base import BatchRequest, Target, digest_of, error_text
from foldline.batches.records import ItemOutcome
from foldline.embeddings.base import Embeddings
from foldline.exceptions import BudgetExceeded, FoldlineError, UsageError
from foldline.language_models._call.policies.usage_scope import Limits, UsageScope, scope_lock
from foldline.messages.usage import UsageMetadata, add_usage
from foldline.prices.cost import cost_of
from foldline.prices.table import find_prices

__all__ = ["EmbeddingsTarget"]

CHARACTERS_PER_TOKEN: Final = 4
GROUP: Final = 64
"""Texts in one call, where the embeddings do not say how many they take."""


class EmbeddingsTarget(Target):
    """Embeddings, asked in groups."""

    output_type = list[float]

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings
        self.group_size = int(getattr(embeddings, "chunk_size", 0) or GROUP)

    @property
    def subject(self) -> Embeddings:
        """The embeddings."""
        return self.embeddings

    def fingerprint(self) -> str:
        """Return what two of the same class and model have in common."""
        return digest_of(self.describe())

    def describe(self) -> str:
        """Say what is asked."""
        names = ("model", "dimensions", "output_dimensionality")
        values = {name: getattr(self.embeddings, name, None) for name in names}
        options = ", ".join(
            f"{name}={value!r}" for name, value in values.items() if value is not None
        )
        return f"{type(self.embeddings).__name__}({options})"

    def definition(self) -> str | None:
        """Return None: embeddings are not stored; `BatchJob.resume` needs them as an argument."""
        return None

    # -- live calls

    async def run_items(
        self, items: Sequence[tuple[int, str]], io: IO, scope: UsageScope | None
    ) -> list[ItemOutcome]:
        """Embed texts in one call; where it fails for what is in them, find the text that is to blame."""
        outcomes: list[ItemOutcome] = []
        texts: dict[int, str] = {}
        for number, packed in items:
            text = self.unpack_input(packed)
            if isinstance(text, str):
                texts[number] = text
            else:
                error = f"UsageError: only text can be embedded, not {text!r:.60}"
                outcomes.append(ItemOutcome(number, None, error, None))
        if texts:
            outcomes += await self._embed(texts, io, scope)
        return outcomes

    async def _embed(
        self, texts: Mapping[int, str], io: IO, scope: UsageScope | None
    ) -> list[ItemOutcome]:
        tokens = {number: _count_tokens(text) for number, text in texts.items()}
        try:
            self._reserve(sum(tokens.values()), scope)
        except BudgetExceeded as error:
            reason = error_text(error)
            return [
                ItemOutcome(number, None, reason, "live", is_retryable=True, was_called=False)
                for number in texts
            ]
        embeddings = self.embeddings
        method = embeddings.embed_documents if io.blocking else embeddings.aembed_documents
        try:
            vectors = await io.call(method, list(texts.values()))
        except Exception as error:  # noqa: BLE001  what became of these items
            is_retryable = bool(getattr(error, "is_retryable", False))
            if len(texts) == 1 or is_retryable:
                reason = error_text(error)
                return [
                    ItemOutcome(number, None, reason, "live", is_retryable=is_retryable)
                    for number in texts
                ]
            return await self._embed_halves(texts, io, scope)
        return [
            ItemOutcome(
                number, json.dumps(vector), None, "live", tokens[number], 0, self._cost(tokens[number])
            )
            for number, vector in zip(texts, vectors, strict=True)
        ]  # fmt: skip

    async def _embed_halves(
        self, texts: Mapping[int, str], io: IO, scope: UsageScope | None
    ) -> list[ItemOutcome]:
        pairs, half = list(texts.items()), len(texts) // 2
        first = await self._embed(dict(pairs[:half]), io, scope)
        return first + await self._embed(dict(pairs[half:]), io, scope)

    def check_limits(self, limits: Limits | None) -> None:
        """Raise where a limit of cost needs a price that is not known."""
        if limits is not None and limits.cost is not None and self._cost(1) is None:
            raise UsageError(
                f"Limits(cost=…) needs the price of {self.describe()}: call foldline.prices.register_prices "
                '("openai", {"text-embedding-3-small": {"input": …}}), per million tokens'
            )

    def _reserve(self, tokens: int, scope: UsageScope | None) -> None:
        """Count a call in the job's scope before it is made; raise where that would pass a limit."""
        if scope is None:
            return
        cost = self._cost(tokens)
        with scope_lock:
            scope.check("model_calls", 1)
            scope.check("input_tokens", tokens)
            scope.check("total_tokens", tokens)
            scope.check("cost", cost or 0.0)
            scope.model_calls += 1
            scope.known_cost += cost or 0.0
            usage: UsageMetadata = {
                "input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens,
            }  # fmt: skip
            scope.usage = add_usage(scope.usage, usage)

    def _cost(self, tokens: int, service: str | None = None) -> float | None:
        provider = getattr(self.embeddings, "_provider", None)
        prices = find_prices(provider, getattr(self.embeddings, "model", None))
        return cost_of({"input_tokens": tokens}, prices, service=service)

    def unpack_output(self, text: str) -> Any:  # noqa: ANN401  a list of numbers
        """Read a vector."""
        return json.loads(text)

    # -- batches of the provider

    def batch_api(self) -> BatchApi | None:
        """Return the provider's batches of embeddings."""
        make = getattr(self.embeddings, "_batch_api", None)
        return cast("BatchApi | None", make() if make is not None else None)

    @property
    def prefers_batches(self) -> bool:
        """Whether the model is at its provider's own address."""
        return getattr(self.embeddings, "base_url", "") is None

    def max_output(self) -> int:
        """Return 0: a vector has no tokens."""
        return 0

    def batch_cost(self, usage: Mapping[str, Any]) -> float | None:
        """Return what a usage costs by the batch prices of the model."""
        return self._cost(int(usage.get("input_tokens") or 0), "batch")

    async def encode(self, text: str, prompt: str | None, io: IO) -> BatchRequest:
        """Return the request for one text."""
        value = self.unpack_input(text)
        if not isinstance(value, str):
            raise UsageError(f"only text can be embedded, not {value!r:.60}")
        path, body = cast("Any", self.embeddings)._encode([value], is_query=False)
        return BatchRequest(None, path, body, _count_tokens(value))

    async def decode(
        self, number: int, text: str, prompt: str | None, answer: BatchAnswer, io: IO
    ) -> ItemOutcome:
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
            return ItemOutcome(number, None, error_text(error), "batch", is_retryable=is_retryable)
        tokens: int = embeddings._answer_tokens(answer.body, {}) or 0
        cost = self._cost(tokens, "batch") if tokens else None
        return ItemOutcome(number, json.dumps(vectors[0]), None, "batch", tokens, 0, cost)


def _count_tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)
