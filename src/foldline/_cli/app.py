"""All commands of the Typer app: options and help only. The code of a command is imported when it runs.

That is why a command stands in two files: its options in a `…_commands` or `…_app`, its code in a module of its own.
`foldline --help` and the completion of the shell need the options of all commands: 0.09 s of CPU as it is, 0.9 s if the
code came with them (agents, models, traces), each time the tab key is pressed.
"""

from __future__ import annotations

import typer

from foldline._cli.batch_app import group as batch_group
from foldline._cli.chat_commands import chat
from foldline._cli.choice_commands import aliases, default, fragments, keys, templates
from foldline._cli.index_commands import ask, embed, index, similar
from foldline._cli.log_commands import logs, sessions
from foldline._cli.model_commands import bench, doctor, migrate, models, replay
from foldline._cli.serve_app import group as serve_group
from foldline._cli.trace_commands import studio, traces

__all__ = ["app"]

COMMANDS = (
    chat,
    index,
    ask,
    similar,
    embed,
    keys,
    default,
    aliases,
    templates,
    fragments,
    logs,
    sessions,
    models,
    doctor,
    traces,
    studio,
    replay,
    bench,
    migrate,
)
"""In the order in which `foldline --help` shows them."""

app: typer.Typer = typer.Typer(
    name="foldline",
    help="Talk to language models.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.add_typer(serve_group, name="serve")
app.add_typer(batch_group, name="batch")
for command in COMMANDS:
    app.command()(command)


@app.callback()
def _foldline() -> None:
    """Talk to language models."""
