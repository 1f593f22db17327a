"""Imports the code of a command and runs it; and the options that several commands share."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from foldline._cli.start import Code, drop_output

__all__ = ["AsJson", "IndexName", "Model", "NoLog", "Options", "call_command"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Model = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--model",
        envvar="FOLDLINE_MODEL",
        metavar="PROVIDER:MODEL",
        help="Which model: openai:gpt-5-nano, local:/path/model.gguf, py:module:name. Default: local:smollm2.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="NAME=VALUE", help="A setting of the model: temperature=0."
    ),
]
NoLog = Annotated[bool, typer.Option("--no-log", help="Do not log this prompt.")]
IndexName = Annotated[str, typer.Option("--name", "-i", help="Which index.")]


def call_command(place: str, *args: object, **kwargs: object) -> int:
    """Run a function of a module of the command line: `module:function`."""
    module, _, function = place.partition(":")
    try:
        return int(
            getattr(import_module(f"foldline._cli.{module}"), function)(*args, **kwargs) or 0
        )
    except BrokenPipeError:  # here, because Typer would turn it into an error
        drop_output()
        return Code.BROKEN_PIPE
