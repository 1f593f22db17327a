"""Commands that are a function of another module and the log around it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from foldline.cli.chat import open_log, with_piped
from foldline.cli.logs import is_logging
from foldline.cli.rag import ask, embed
from foldline.cli.terminal import readable

__all__ = ["ask_logged", "embed_piped"]


def ask_logged(question: str, *, no_log: bool, **options: Any) -> int:
    """Answer a question from an index, logged."""
    with ExitStack() as stack:
        callbacks = open_log(stack, is_wanted=not no_log and is_logging())
        return ask(readable(question), callbacks=callbacks, **options)


def embed_piped(text: str, *, model: str | None) -> int:
    """Print the vector of a text, or of what is piped in."""
    return embed(readable(text) if text else with_piped(""), model=model)
