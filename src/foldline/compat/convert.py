"""`from_langchain` and `to_langchain`: objects of one library used in the other, in one process.

Values (messages, documents, results) are copied field by field. Objects that run (models, tools, runnables,
retrievers, embeddings, vector stores, handlers) get an adapter: a class of the other library that calls the object and
converts its inputs and outputs. Converting an adapter back returns the object that it holds.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from foldline.compat._adapters import (
    Adapter,
    adapt_chat_model,
    adapt_embeddings,
    adapt_prompt,
    adapt_retriever,
    adapt_runnable,
    adapt_text_model,
    adapt_tool,
    adapt_vector_store,
)
from foldline.compat._handlers import adapt_handler, adapt_manager
from foldline.compat._values import copy_value, is_value
from foldline.exceptions import MissingExtraError, UsageError

__all__ = [
    "from_langchain",
    "to_langchain",
]

KINDS: tuple[tuple[str, str, Callable[[Any, Direction], object]], ...] = (
    ("language_models", "BaseChatModel", adapt_chat_model),
    ("language_models", "BaseLLM", adapt_text_model),
    ("tools", "BaseTool", adapt_tool),
    ("retrievers", "BaseRetriever", adapt_retriever),
    ("prompts", "BasePromptTemplate", adapt_prompt),
    ("runnables", "Runnable", adapt_runnable),
    ("embeddings", "Embeddings", adapt_embeddings),
    ("vectorstores", "VectorStore", adapt_vector_store),
    ("callbacks", "BaseCallbackHandler", adapt_handler),
    ("callbacks", "BaseCallbackManager", adapt_manager),
)
"""Module and class of objects that run -> the function that adapts them; the first that fits is used."""


class Direction:
    """A conversion from one library to the other, each named by its root package."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target

    @property
    def reverse(self) -> Direction:
        """The conversion in the other direction."""
        return _direction(self.target, self.source)

    def source_class(self, module: str, name: str) -> type[Any]:
        """Return a class of the library that objects come from."""
        cls: type[Any] = getattr(importlib.import_module(f"{self.source}.{module}"), name)
        return cls

    def target_class(self, module: str, name: str) -> type[Any]:
        """Return a class of the library that objects go to."""
        cls: type[Any] = getattr(importlib.import_module(f"{self.target}.{module}"), name)
        return cls

    def source_function(self, module: str, name: str) -> Callable[..., Any]:
        """Return a function of the library that objects come from."""
        return self.source_class(module, name)

    def target_function(self, module: str, name: str) -> Callable[..., Any]:
        """Return a function of the library that objects go to."""
        return self.target_class(module, name)

    def convert(self, value: object) -> Any:  # noqa: ANN401  an object of the target library, or the value itself
        """Convert a value that flows through a runnable; values of neither library stay as they are."""
        if isinstance(value, Adapter):
            return value.adapted_object if self.holds(value.adapted_object) else value
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(self.convert(item) for item in value)
        if type(value) is dict:
            return {key: self.convert(item) for key, item in value.items()}
        if is_value(value, self.source):
            return copy_value(value, self)
        adapted = self.adapt(value)
        return value if adapted is None else adapted

    def adapt(self, value: object) -> object | None:
        """Return an adapter for an object that runs; None for others."""
        if isinstance(value, type):
            return None
        for module, name, make in KINDS:
            if isinstance(value, self.source_class(module, name)):
                return make(value, self)
        return None

    def holds(self, value: object) -> bool:
        """Whether an object is of the library that objects go to."""
        return any(isinstance(value, self.target_class(module, name)) for module, name, _ in KINDS)


@cache
def _direction(source: str, target: str) -> Direction:
    return Direction(source, target)


def from_langchain(value: object) -> Any:  # noqa: ANN401  our counterpart of the object's class
    """Convert an object of LangChain: a message, a document, a tool, a model, a runnable and so on.

    Lists, tuples and dicts are converted item by item. Raise `UsageError` for other objects.
    """
    return _convert_checked(value, _direction("langchain_core", "foldline"), "from_langchain")


def to_langchain(value: object) -> Any:  # noqa: ANN401  LangChain's counterpart of the object's class
    """Convert an object of foldline to LangChain's; see `from_langchain`."""
    return _convert_checked(value, _direction("foldline", "langchain_core"), "to_langchain")


def _convert_checked(value: object, direction: Direction, function: str) -> object:
    hook = sys.modules.get("foldline.compat.langchain")
    if hook is not None and hook.is_installed():
        return value  # langchain_core is foldline in this process: nothing to convert
    if importlib.util.find_spec("langchain_core") is None:
        raise MissingExtraError(f"{function} needs langchain-core: pip install langchain-core")
    converted: object = direction.convert(value)
    is_container = type(value) in (list, tuple, dict)
    if converted is value and not is_container and not direction.holds(value):
        raise UsageError(
            f"{function} knows messages, documents, results, tools, models, runnables, retrievers, embeddings, "
            f"vector stores and callback handlers of {direction.source}, not {type(value).__name__}"
        )
    return converted
