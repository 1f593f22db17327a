"""foldline: everything a model says is one stream of content-block events, and every API is a view of it.

The ten names of a first program; each is loaded when it is first used, so that `import foldline` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazily

if TYPE_CHECKING:
    from foldline.agents import create_agent
    from foldline.chat_models import init_chat_model
    from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from foldline.output_parsers import StrOutputParser
    from foldline.prompts import ChatPromptTemplate
    from foldline.runnables import Runnable
    from foldline.tools import tool

__version__ = "0.1.0"

__all__ = [
    "AIMessage",
    "ChatPromptTemplate",
    "HumanMessage",
    "Runnable",
    "StrOutputParser",
    "SystemMessage",
    "ToolMessage",
    "create_agent",
    "init_chat_model",
    "tool",
]


__getattr__ = lazily(
    __name__,
    {
        ".agents": "create_agent",
        ".chat_models": "init_chat_model",
        ".messages": "AIMessage HumanMessage SystemMessage ToolMessage",
        ".output_parsers": "StrOutputParser",
        ".prompts": "ChatPromptTemplate",
        ".runnables": "Runnable",
        ".tools": "tool",
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
