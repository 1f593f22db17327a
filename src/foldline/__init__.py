"""foldline: everything a model says is one stream of content-block events, and every API is a view of it.

The names of a first program; each is loaded when it is first used, so that `import foldline` is fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from foldline._extensions import extend
from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline._config import RunnableConfig
    from foldline.agents import create_agent
    from foldline.chat_models import init_chat_model
    from foldline.messages import (
        AIMessage,
        AIMessageChunk,
        ContentBlock,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
    from foldline.output_parsers import StrOutputParser
    from foldline.prompts import ChatPromptTemplate
    from foldline.runnables import Runnable
    from foldline.tools import tool

__version__ = "0.1.0"

__all__ = [
    "AIMessage",
    "AIMessageChunk",
    "ChatPromptTemplate",
    "ContentBlock",
    "HumanMessage",
    "Runnable",
    "StrOutputParser",
    "SystemMessage",
    "ToolMessage",
    "create_agent",
    "init_chat_model",
    "tool",
]


__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".agents": "create_agent",
        ".chat_models": "init_chat_model",
        ".messages": "AIMessage AIMessageChunk ContentBlock HumanMessage SystemMessage ToolMessage",
        ".output_parsers": "StrOutputParser",
        ".prompts": "ChatPromptTemplate",
        ".runnables": "Runnable",
        ".tools": "tool",
    },
)


# Functions that higher layers provide to lower ones (`_extensions`); loaded when they are first used.


def _add_messages(left: object, right: object) -> object:
    from foldline.prompts.chat import ChatPromptTemplate  # noqa: PLC0415

    prompt: object = ChatPromptTemplate([cast("Any", left)]) + right
    return prompt


def _make_step(function: Callable[..., Any], name: str) -> Runnable[Any, Any]:
    from foldline.runnables.lambda_ import RunnableLambda  # noqa: PLC0415

    return RunnableLambda(function, name=name)


def _ensure_config(config: RunnableConfig | None) -> RunnableConfig:
    from foldline._config import ensure_config  # noqa: PLC0415

    return ensure_config(config)


def _load_provider(name: str) -> None:
    from contextlib import suppress  # noqa: PLC0415

    from foldline.exceptions import FoldlineError  # noqa: PLC0415
    from foldline.providers import REGISTRY, find_provider  # noqa: PLC0415

    if name in REGISTRY:
        with suppress(FoldlineError):  # its extra is missing, so it has no rows
            find_provider(name)


def _batch_job(subject: object, inputs: object, **options: Any) -> object:
    from foldline.batches.job import BatchJob  # noqa: PLC0415

    return BatchJob(subject, inputs, **options)


extend("add_messages", _add_messages)
extend("batch_job", _batch_job)
extend("ensure_config", _ensure_config)
extend("load_provider", _load_provider)
extend("make_step", _make_step)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
