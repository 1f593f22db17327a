"""Prepare the request of a call exactly as for sending, without sending it and without calling callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foldline._config import RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.language_models._call.call import ChatCall
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.chat_models import BaseChatModel

__all__ = ["Explained", "prepare"]


@dataclass(frozen=True, slots=True)
class Explained:
    """The exact request that a call would send, with secrets masked."""

    method: str
    url: str
    headers: dict[str, str]
    body: dict[str, Any]
    tokens: int
    """The estimated number of input tokens of messages and tools."""
    notes: list[str] = field(default_factory=list)
    """What was changed or omitted: lossy conversions, applied effort, renamed tools."""


async def prepare(
    model: BaseChatModel,
    input: object,
    io: IO,
    config: RunnableConfig | None,
    kwargs: Mapping[str, Any],
    *,
    stream: bool = False,
) -> ChatRequest:
    """Return the request of a call, including bound options, hooks and renamed tools."""
    silent_model = model.model_copy(update={"callbacks": None, "verbose": False})
    run = Run.root(io, config, dict(kwargs))
    call = ChatCall(silent_model, input, Run(io, run.call_config, None, run.kwargs), stream=stream)
    request = await call.prepare()
    for policy in call.policies:
        # Nothing of this is lost: noted here, but not in `response_metadata["lost"]`.
        request.notes.extend(policy.notes())
    return request
