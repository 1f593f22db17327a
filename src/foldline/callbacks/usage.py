"""Count the tokens of every model run: a handler, and a context manager that puts it on everything inside."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from foldline._io import mutex
from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.hooks import register_configure_hook

if TYPE_CHECKING:
    from foldline.messages.usage import UsageMetadata
    from foldline.outputs import LLMResult

__all__ = ["UsageMetadataCallbackHandler", "get_usage_metadata_callback"]

Handler = TypeVar("Handler", bound="UsageMetadataCallbackHandler")

TEXT_COUNTS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
"""The counts of a text model -> ours."""
UNNAMED = "unknown"
"""The key for tokens of a model without a name."""


class UsageMetadataCallbackHandler(BaseCallbackHandler):
    """Sums the tokens of model runs, by model; may be shared by threads.

    ```python
    from foldline.callbacks import UsageMetadataCallbackHandler
    from foldline.language_models.fake_chat_models import GenericFakeChatModel
    from foldline.messages import AIMessage

    spent = {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}
    answer = AIMessage("hi", usage_metadata=spent, response_metadata={"model_name": "tiny"})
    usage = UsageMetadataCallbackHandler()
    GenericFakeChatModel(messages=iter([answer])).invoke("hello", {"callbacks": [usage]})
    print(usage.usage_metadata["tiny"]["total_tokens"])
    #> 10
    ```
    """

    run_inline = True

    def __init__(self) -> None:
        self._lock = mutex()
        self._outer: UsageMetadataCallbackHandler | None = None
        self.usage_metadata: dict[str, UsageMetadata] = {}
        """Model name -> tokens so far."""
        self.costs: dict[str, float | None] = {}
        """Model name -> what its runs have cost; None, and not 0, where that is not known of one of them."""

    @property
    def cost(self) -> float | None:
        """What all runs have cost; None, and not 0, where that is not known of one of them."""
        with self._lock:
            costs = list(self.costs.values())
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def __repr__(self) -> str:
        return repr(self.usage_metadata)

    def _repr_html_(self) -> str:
        from foldline._display.messages import usage_html  # noqa: PLC0415  for notebooks only

        return usage_html(self.usage_metadata)

    def on_llm_end(self, response: LLMResult, **kwargs: object) -> None:
        """Add what a run spent. Several answers to one prompt share one bill: the first carries it."""
        from foldline.messages.usage import add_request_usage  # noqa: PLC0415  listeners load messages only when one came
        from foldline.prices.cost import message_cost  # noqa: PLC0415  and prices only then

        for message in _answers(response):
            usage, metadata = message.usage_metadata, message.response_metadata
            name = metadata.get("model_name") or metadata.get("model") or UNNAMED
            cost = metadata.get("cost")
            if cost is None and usage:  # not in the answer: by the price table
                cost = message_cost(message)
            with self._lock:
                if usage:
                    total = add_request_usage(self.usage_metadata.get(name), usage)
                    self.usage_metadata[name] = total
                sums = self.costs.get(name, 0.0)
                self.costs[name] = None if sums is None or cost is None else sums + cost
        if self._outer is not None:
            self._outer.on_llm_end(response, **kwargs)


def _answers(response: LLMResult) -> list[Any]:
    """Return the first answer to each prompt; for a text model that says what it used, one with its `llm_output`."""
    from foldline.messages import AIMessage  # noqa: PLC0415  listeners load messages only when one came

    first = [generations[0] for generations in response.generations if generations]
    messages = [message for part in first if (message := getattr(part, "message", None))]
    if messages:
        return [message for message in messages if isinstance(message, AIMessage)]
    output = response.llm_output or {}
    counts = output.get("token_usage") or {}
    usage = {name: int(counts.get(key) or 0) for key, name in TEXT_COUNTS.items()}
    if not any(usage.values()):
        return []
    usage["total_tokens"] = usage["input_tokens"] + usage["output_tokens"]
    metadata = {key: value for key, value in output.items() if key != "token_usage"}
    return [AIMessage("", usage_metadata=cast("Any", usage), response_metadata=metadata)]


_counting: ContextVar[UsageMetadataCallbackHandler | None] = ContextVar(
    "usage_metadata_callback", default=None
)
register_configure_hook(_counting, inheritable=True)


@contextmanager
def get_usage_metadata_callback(
    name: str = "usage_metadata_callback",
) -> Generator[UsageMetadataCallbackHandler, None, None]:
    """Count the tokens of every model run inside the block; blocks may be nested.

    ```python
    from foldline.callbacks import get_usage_metadata_callback

    with get_usage_metadata_callback() as usage:
        ...  # model calls
    print(usage.usage_metadata)
    #> {}
    ```
    """
    with counting_inside(UsageMetadataCallbackHandler()) as handler:
        yield handler


@contextmanager
def counting_inside(handler: Handler) -> Generator[Handler, None, None]:
    """Put a handler on every model run inside the block; a block around it counts too."""
    handler._outer = _counting.get()
    token = _counting.set(handler)
    try:
        yield handler
    finally:
        _counting.reset(token)
