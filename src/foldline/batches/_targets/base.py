"""`Target`: what a job asks for each item, called live or encoded for the provider's batch.

`runnable_target` asks a model or a chain, `embeddings_target` embeddings; `make_target` chooses.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from foldline._config import RunnableConfig
from foldline._io import IO
from foldline.batches._batch_api import BatchAnswer, BatchApi
from foldline.batches.records import ItemOutcome
from foldline.exceptions import FoldlineError, SchemaError
from foldline.language_models._call.policies.usage_scope import Limits, UsageScope
from foldline.load import dumps, loads
from foldline.rate_limiters import BaseRateLimiter
from foldline.workflows.values import pack, to_text, unpack

__all__ = ["BatchRequest", "Target", "digest_of", "error_text", "read_definition"]

LONGEST_ERROR: Final = 2000
KEYS: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Variables that a target read from a store may take its key from."""


def digest_of(text: str) -> str:
    """Return the hash of a content."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def error_text(error: BaseException) -> str:
    """Say an error in words, as it is kept."""
    return f"{type(error).__name__}: {error}"[:LONGEST_ERROR]


def read_definition(text: str) -> Any:  # noqa: ANN401  a runnable
    """Make what a store has the definition of; keys come from the environment, and no address from the store."""
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
    async def run_items(
        self, items: Sequence[tuple[int, str]], io: IO, scope: UsageScope | None
    ) -> list[ItemOutcome]:
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

    def definition(self) -> str | None:
        """Return the subject as text from which another process can make it; None where it cannot be written."""
        try:
            text = dumps(self.subject)
            read_definition(text)
        except (FoldlineError, TypeError, ValueError, NotImplementedError):
            return None
        return text

    # -- values

    def pack_input(self, value: object) -> str:
        """Write an input down."""
        return to_text(pack(value, "an input", type(value)))

    def unpack_input(self, text: str) -> object:
        """Read an input."""
        return unpack(json.loads(text), "an input")

    def pack_output(self, value: object) -> str:
        """Write an answer down."""
        try:
            return to_text(pack(value, "an answer", self.output_type))
        except SchemaError as error:
            raise SchemaError(f"{error}; or say what it is: batch_job(output_type=…)") from error

    def unpack_output(self, text: str) -> Any:  # noqa: ANN401  an output of any type
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

    @abstractmethod
    def check_limits(self, limits: Limits | None) -> None:
        """Raise where a limit of cost needs a price that is not known."""

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
    ) -> ItemOutcome:
        """Read an answer of a batch."""
