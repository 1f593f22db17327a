"""The Typer commands that store the user's choices: options and help only."""

from __future__ import annotations

from typing import Annotated

import typer

from foldline._cli.calling import AsJson, call_command

__all__ = ["aliases", "default", "fragments", "keys", "templates"]


def keys(
    action: Annotated[str, typer.Argument(help="list, set, delete or path.")] = "list",
    name: Annotated[str | None, typer.Argument(help="A provider, or a variable.")] = None,
    *,
    in_keyring: Annotated[
        bool, typer.Option("--keyring", help="Keep it in the system's keyring.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Store API keys for the command line, in a file that only you can read or in the keyring."""
    return call_command("keys:keys", action, name, in_keyring=in_keyring, as_json=as_json)


def default(
    model: Annotated[str | None, typer.Argument(help="The model that is used without -m.")] = None,
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Back to the local model.")] = False,
) -> int:
    """Show or set the model that is used without -m."""
    return call_command("choices:default", model, clear=clear)


def aliases(
    name: Annotated[str | None, typer.Argument(help="The alias.")] = None,
    model: Annotated[str | None, typer.Argument(help="The model that it stands for.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it.")] = False,
    as_json: AsJson = False,
) -> int:
    """List, set or delete short names of models."""
    return call_command("choices:aliases", name, model, delete=delete, as_json=as_json)


def templates(
    name: Annotated[str | None, typer.Argument(help="Show this one.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it.")] = False,
    as_json: AsJson = False,
) -> int:
    """List, show or delete stored prompts; `foldline chat ... --save NAME` makes one."""
    return call_command("choices:templates", name, delete=delete, as_json=as_json)


def fragments(
    name: Annotated[str | None, typer.Argument(help="The name.")] = None,
    place: Annotated[str | None, typer.Argument(help="The file or address.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it.")] = False,
    as_json: AsJson = False,
) -> int:
    """List, set or delete names of texts that `foldline chat -f NAME` puts before a prompt."""
    return call_command("choices:fragments", name, place, delete=delete, as_json=as_json)
