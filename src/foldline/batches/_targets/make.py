"""`make_target`: what a job asks, made of a model, a chain or embeddings."""

from __future__ import annotations

from typing import Any

from foldline._config import RunnableConfig
from foldline.batches._targets.base import Target
from foldline.batches._targets.embeddings_target import EmbeddingsTarget
from foldline.batches._targets.runnable_target import RunnableTarget
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.runnables.base import Runnable

__all__ = ["make_target"]


def make_target(subject: Any, config: RunnableConfig | None, output_type: Any) -> Target:  # noqa: ANN401  checked here; a type of any form
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
