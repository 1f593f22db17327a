"""foldline: everything a model says is one stream of content-block events, and every API is a view of it.

The names of daily use; each is loaded when it is first used, so that `import foldline` is fast.

- Models: `init_chat_model`, `usage_scope` with `Limits`.
- Messages: `HumanMessage`, `SystemMessage`, `AIMessage`, `AIMessageChunk`, `ToolMessage`, `ContentBlock`.
- Chains: `ChatPromptTemplate`, `StrOutputParser`, `Runnable`, `RunnableLambda`.
- Tools and agents: `tool`, `create_agent`.
- Documents: `Document`.

All others are in the packages that the documentation names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from foldline._extensions import extend
from foldline._lazy import lazy_exports

if TYPE_CHECKING:
    from foldline._config import RunnableConfig

with lazy_exports(__name__):
    from foldline.agents import create_agent as create_agent
    from foldline.chat_models import init_chat_model as init_chat_model
    from foldline.documents import Document as Document
    from foldline.language_models import Limits as Limits, usage_scope as usage_scope
    from foldline.messages import (
        AIMessage as AIMessage,
        AIMessageChunk as AIMessageChunk,
        ContentBlock as ContentBlock,
        HumanMessage as HumanMessage,
        SystemMessage as SystemMessage,
        ToolMessage as ToolMessage,
    )
    from foldline.output_parsers import StrOutputParser as StrOutputParser
    from foldline.prompts import ChatPromptTemplate as ChatPromptTemplate
    from foldline.runnables import Runnable as Runnable, RunnableLambda as RunnableLambda
    from foldline.tools import tool as tool

__version__ = "0.1.0"


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
