"""The Typer commands of `foldline serve log`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foldline._cli.calling import AsJson, call_command

__all__ = ["log"]

log = typer.Typer(rich_markup_mode=None, help="Look after the run log: backups, checks, versions.")
Log = Annotated[
    str | None,
    typer.Option("--log", metavar="FILE|URL", help="The log; by default that of the settings."),
]


@log.command("status")
def status(*, log: Log = None, as_json: AsJson = False) -> int:
    """Print versions, sizes and numbers of runs; change nothing."""
    return call_command("serve_log:status", log=log, as_json=as_json)


@log.command("migrate")
def migrate(*, log: Log = None) -> int:
    """Bring the tables to this version; a server does it at its start, too."""
    return call_command("serve_log:migrate", log=log)


@log.command("backup")
def backup(file: Annotated[Path, typer.Argument(help="A new file.")], *, log: Log = None) -> int:
    """Copy a SQLite log while servers write to it."""
    return call_command("serve_log:backup", file, log=log)


@log.command("verify")
def verify(*, log: Log = None) -> int:
    """Check the log for damage and gaps; exit with 1 if there are any."""
    return call_command("serve_log:verify", log=log)


@log.command("vacuum")
def vacuum(*, log: Log = None) -> int:
    """Give the space of deleted runs back to the disk."""
    return call_command("serve_log:vacuum", log=log)
