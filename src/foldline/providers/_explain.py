"""The request of a call before it is sent: made through every phase as for sending, and told to no callback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foldline._config import RunnableConfig
from foldline._io import IO
from foldline._run import Run
from foldline.language_models.call.call import ChatCall
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.chat_models import BaseChatModel
from foldline.language_models.policies.stack import find_policy
from foldline.language_models.policies.tool_names import ToolNamesPolicy

__all__ = ["Explained", "prepare"]


@dataclass(frozen=True, slots=True)
class Explained:
    """The exact request a call would send; secrets are masked."""

    method: str
    url: str
    headers: dict[str, str]
    body: dict[str, Any]
    tokens: int
    """About how many input tokens the messages and tools are."""
    notes: list[str] = field(default_factory=list)
    """What was changed or left out on the way: lossy conversions, applied effort, renamed tools."""


async def prepare(
    model: BaseChatModel,
    input: object,
    io: IO,
    config: RunnableConfig | None,
    kwargs: Mapping[str, Any],
    *,
    stream: bool = False,
) -> ChatRequest:
    """Return the request of a call, bound options, hooks and renamed tools included."""
    quiet = model.model_copy(update={"callbacks": None, "verbose": False})
    run = Run.root(io, config, dict(kwargs))
    call = ChatCall(quiet, input, Run(io, run.call_config, None, run.kwargs), stream=stream)
    request = await call.prepare()
    names = find_policy(call.policies, ToolNamesPolicy)
    if names is not None:
        # A rename loses nothing, for answers are renamed back: it is told here and not with an answer's losses.
        request.notes.extend(
            f"the tool {name!r} is sent as {wire!r}" for name, wire in names.changes.items()
        )
    return request
