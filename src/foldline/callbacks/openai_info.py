"""`get_openai_callback`: tokens, requests and cost of every model run inside a block, under LangChain's names."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from foldline.callbacks.usage import UsageMetadataCallbackHandler, counting_inside

if TYPE_CHECKING:
    from foldline.outputs import LLMResult

__all__ = ["OpenAICallbackHandler", "get_openai_callback"]


class OpenAICallbackHandler(UsageMetadataCallbackHandler):
    """Sums tokens, requests and cost of all runs, of any provider.

    ```python
    from foldline.callbacks import get_openai_callback
    from foldline.language_models.fake_chat_models import GenericFakeChatModel
    from foldline.messages import AIMessage

    spent = {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}
    model = GenericFakeChatModel(messages=iter([AIMessage("hi", usage_metadata=spent)]))
    with get_openai_callback() as callback:
        model.invoke("hello")
    print(callback.total_tokens, callback.successful_requests)
    #> 10 1
    ```
    """

    def __init__(self) -> None:
        super().__init__()
        self.successful_requests = 0
        """How many runs ended well."""

    def on_llm_end(self, response: LLMResult, **kwargs: object) -> None:
        """Add what a run spent."""
        super().on_llm_end(response, **kwargs)
        with self._lock:
            self.successful_requests += 1

    def _tokens(self, name: str) -> int:
        with self._lock:
            return sum(usage.get(name) or 0 for usage in self._usages())

    def _details(self, kind: str, name: str) -> int:
        with self._lock:
            return sum((usage.get(kind) or {}).get(name) or 0 for usage in self._usages())

    def _usages(self) -> list[dict[str, Any]]:
        return [cast("dict[str, Any]", usage) for usage in self.usage_metadata.values()]

    @property
    def total_tokens(self) -> int:
        """All tokens."""
        return self._tokens("total_tokens")

    @property
    def prompt_tokens(self) -> int:
        """Tokens that were sent."""
        return self._tokens("input_tokens")

    @property
    def prompt_tokens_cached(self) -> int:
        """Tokens that were sent and were in the provider's cache."""
        return self._details("input_token_details", "cache_read")

    @property
    def completion_tokens(self) -> int:
        """Tokens that came back."""
        return self._tokens("output_tokens")

    @property
    def reasoning_tokens(self) -> int:
        """Tokens that came back as reasoning."""
        return self._details("output_token_details", "reasoning")

    @property
    def total_cost(self) -> float | None:
        """What the runs have cost in dollars; None, and not 0, where the price of one of them is not known."""
        return self.cost

    def _cost_text(self) -> str:
        with self._lock:
            unpriced = sorted(name for name, cost in self.costs.items() if cost is None)
            unmetered = [name for name in unpriced if name not in self.usage_metadata]
        if not unpriced:
            return f"${self.total_cost}"
        if unmetered:
            return (
                f"unknown: no token counts from {', '.join(unmetered)} (docs/costs-and-limits.md)"
            )
        return f"unknown: no price for {', '.join(unpriced)} (docs/costs-and-limits.md)"

    def __repr__(self) -> str:
        return (
            f"Tokens Used: {self.total_tokens}\n"
            f"\tPrompt Tokens: {self.prompt_tokens}\n"
            f"\t\tPrompt Cached Tokens: {self.prompt_tokens_cached}\n"
            f"\tCompletion Tokens: {self.completion_tokens}\n"
            f"\t\tReasoning Tokens: {self.reasoning_tokens}\n"
            f"Successful Requests: {self.successful_requests}\n"
            f"Total Cost (USD): {self._cost_text()}"
        )


@contextmanager
def get_openai_callback() -> Generator[OpenAICallbackHandler, None, None]:
    """Count tokens, requests and cost of every model run inside the block; blocks may be nested."""
    with counting_inside(OpenAICallbackHandler()) as handler:
        yield handler
