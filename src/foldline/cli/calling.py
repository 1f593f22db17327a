"""How a command as Typer sees it reaches what it does, which is loaded then; and options that many commands have."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from foldline.cli.start import Code, drop_output

__all__ = ["AsJson", "call_command"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def call_command(place: str, *args: object, **kwargs: object) -> int:
    """Run a function of a module of the command line: `module:function`."""
    module, _, function = place.partition(":")
    try:
        return int(getattr(import_module(f"foldline.cli.{module}"), function)(*args, **kwargs) or 0)
    except BrokenPipeError:  # here, because Typer would make it an error of its own
        drop_output()
        return Code.BROKEN_PIPE
