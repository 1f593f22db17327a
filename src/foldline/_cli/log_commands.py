"""The Typer commands `foldline logs` and `foldline sessions`: options and help only."""

from __future__ import annotations

from typing import Annotated

import typer

from foldline._cli.calling import AsJson, call_command

__all__ = ["logs", "sessions"]


def logs(
    what: Annotated[str | None, typer.Argument(help="An id; or on, off, status, path.")] = None,
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many.")] = 3,
    search: Annotated[str | None, typer.Option("-q", "--search", help="With these words.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Of this model.")] = None,
    session: Annotated[str | None, typer.Option(help="Of this session.")] = None,
    only_answer: Annotated[
        bool, typer.Option("-r", "--response", help="Print the newest answer only.")
    ] = False,
    extract: Annotated[
        bool, typer.Option("-x", "--extract", help="Print the newest answer's code only.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the prompts of the command line and their answers, newest last; or switch logging on or off."""
    return call_command(
        "logs:logs",
        what,
        limit=limit,
        search=search,
        model=model,
        session=session,
        only_answer=only_answer,
        extract=extract,
        as_json=as_json,
    )


def sessions(
    name: Annotated[str | None, typer.Argument(help="Show this conversation.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it instead.")] = False,
    as_json: AsJson = False,
) -> int:
    """List the stored conversations, show one, or delete one."""
    return call_command("sessions:sessions", name, delete=delete, as_json=as_json)
