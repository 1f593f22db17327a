"""The Typer commands of `foldline serve`: options and help only. `serve` without `keys` runs the server."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from foldline._cli.calling import call_command
from foldline._cli.serve_log_app import log as log_group
from foldline.serve._setting_rows import SETTINGS, Setting

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
group.add_typer(log_group, name="log")

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


Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=]MODULE:OBJECT",
        help="A runnable, agent or model of your code, or a dict of them; several with names.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option("-m", "--model", metavar="PROVIDER:MODEL", help="A model; repeatable."),
]
Config = Annotated[Path | None, typer.Option("-c", "--config", metavar="FILE", help="A TOML file.")]
NoTrace = Annotated[
    bool, typer.Option("--trace/--no-trace", help="Short for --traces none.", show_default=False)
]


def _option(row: Setting) -> inspect.Parameter:
    """Return the option of a setting: texts are read by the setting itself, as those of other sources are."""
    kind: Any = bool if row.is_switch else list[str] if row.is_list else str
    help = f"{row.facts.help[0].upper()}{row.facts.help[1:]}"
    if row.is_list:
        help += "; repeatable"
    if not row.is_switch or row.default:
        help += f" [{row.shown_default.replace('`', '')}]"
    option = typer.Option(*row.flags, metavar=row.metavar, help=help, show_default=False)
    return _parameter(row.name, Annotated[kind | None, option])


def _file_option(row: Setting) -> inspect.Parameter:
    option = typer.Option(
        f"{row.flags[0]}-file",
        metavar="FILE",
        help=f"A file that holds the value of {row.flags[0]}.",
    )
    return _parameter(f"{row.name}_file", Annotated[str | None, option])


def _parameter(name: str, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _with_settings(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command an option for every setting, in place of its `**flags`."""
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    options = [_option(row) for row in SETTINGS.values()]
    options += [_file_option(row) for row in SETTINGS.values() if row.facts.is_secret]
    parameters = [*own, *options]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": int}
    return command


@group.command("run")
@_with_settings
def run(
    targets: Targets = None,
    *,
    model: Models = None,
    config: Config = None,
    trace: NoTrace = True,
    **flags: Any,
) -> int:
    """Serve models, chains and agents over HTTP, on the wires that clients speak.

    OpenAI Chat Completions and Responses, Anthropic Messages, Vercel AI SDK, AG-UI, LangGraph, LangServe, MCP, native.
    `foldline serve keys add NAME` makes a key; without keys only this machine may call. Every setting is also a
    variable (--max-runs is FOLDLINE_SERVE_MAX_RUNS) and a name in [serve] of the file (max_runs).
    """
    flags = _given(flags, trace=trace)
    return _call("serve", targets or [], models=model or [], config=config, flags=flags)


@group.command("config")
@_with_settings
def config_(
    *,
    config: Config = None,
    trace: NoTrace = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    **flags: Any,
) -> int:
    """Print the value of every setting, and where it is from; passwords are left out."""
    return _call("show_config", config=config, flags=_given(flags, trace=trace), as_json=as_json)


def _given(flags: dict[str, Any], *, trace: bool) -> dict[str, Any]:
    given = {name: value for name, value in flags.items() if value is not None}
    return given if trace else {"traces": "none", **given}


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
