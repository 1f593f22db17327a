"""The Typer commands of `foldline serve`: options and help only. `serve` without `keys` runs the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from foldline.cli.calling import call_command

__all__ = ["group"]


class ServeGroup(TyperGroup):
    """A group whose default command is `run`, so that `foldline serve app:agent` works."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  Click's context, or that of the copy in newer Typers
        """Put `run` before arguments that do not start with a command."""
        if not args or args[0] not in self.commands:
            args = ["run", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


group = typer.Typer(
    cls=ServeGroup, rich_markup_mode=None, help="Serve models, chains and agents over HTTP."
)
keys = typer.Typer(rich_markup_mode=None, help="Add, list and remove API keys.")
group.add_typer(keys, name="keys")

Log = Annotated[
    str | None,
    typer.Option(
        "--log",
        envvar="FOLDLINE_SERVE_LOG",
        metavar="FILE|URL",
        help="Where runs and keys are kept: a SQLite file or postgresql://…",
    ),
]


def _call(function: str, *args: Any, **kwargs: Any) -> int:
    return call_command(f"serve:{function}", *args, **kwargs)


@group.command("run")
def run(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]MODULE:OBJECT",
            help="A runnable, agent or model of your code; several with names.",
        ),
    ] = None,
    *,
    model: Annotated[
        list[str] | None,
        typer.Option("-m", "--model", metavar="PROVIDER:MODEL", help="A model; repeatable."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", metavar="FILE", help="A TOML file.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="8000 by default.")] = None,
    log: Log = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.")] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Serve other machines without any key.")
    ] = False,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A web page that may call; repeatable."),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace/--no-trace", help="Write runs where `foldline traces` reads.")
    ] = True,
    drain: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds that runs may go on at the end; 30 by default."),
    ] = None,
) -> int:
    """Serve models, chains and agents over HTTP, on the wires that clients speak.

    OpenAI Chat Completions and Responses, Anthropic Messages, Vercel AI SDK, AG-UI, LangGraph, LangServe, MCP, native.
    `foldline serve keys add NAME` makes a key; without keys only this machine may call.
    """
    return _call(
        "serve",
        targets or [],
        models=model or [],
        config=config,
        host=host,
        port=port,
        log=log,
        workers=workers,
        no_auth=no_auth,
        origins=cors or [],
        trace=trace,
        drain=drain,
    )


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    *,
    log: Log = None,
    models: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help="What it may use; `openai:*` for all that begin so."),
    ] = None,
    budget: Annotated[str | None, typer.Option(metavar="5/day", help="Dollars a day.")] = None,
    rpm: Annotated[int | None, typer.Option(min=1, help="Requests per minute.")] = None,
    tpm: Annotated[int | None, typer.Option(min=1, help="Tokens per minute.")] = None,
    max_runs: Annotated[
        int | None, typer.Option(min=1, help="Runs at once, in one process.")
    ] = None,
    studio: Annotated[
        bool, typer.Option("--studio", help="Opens the studio, which shows the runs of all keys.")
    ] = False,
) -> int:
    """Make a key and print it. It is shown this one time."""
    return _call(
        "add_key",
        name,
        log=log,
        models=models or [],
        budget=budget,
        rpm=rpm,
        tpm=tpm,
        max_runs=max_runs,
        studio=studio,
    )


@keys.command("list")
def list_(
    *, log: Log = None, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> int:
    """List the keys, with their limits."""
    return _call("list_keys", log=log, as_json=as_json)


@keys.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="Whose key it is.")], *, log: Log = None
) -> int:
    """Remove a key."""
    return _call("remove_key", name, log=log)
