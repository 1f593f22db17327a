"""The Typer command `foldline chat`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foldline._cli.calling import Model, NoLog, Options, call_command

__all__ = ["chat"]


def chat(
    prompt: Annotated[
        list[str] | None,
        typer.Argument(help="What to ask; piped input is appended. Without it: a session."),
    ] = None,
    *,
    model: Model = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEMA",
            help="Print JSON that fits: a file, JSON, or fields as in 'name, age int, bio: a sentence'.",
        ),
    ] = None,
    schema_list: Annotated[
        bool, typer.Option("--schema-list", help="The schema is of each item of a list.")
    ] = False,
    events: Annotated[
        bool, typer.Option("--events", help="Print the protocol events as JSON lines.")
    ] = False,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Print the answer when it is whole.")
    ] = False,
    extract: Annotated[
        bool, typer.Option("-x", "--extract", help="Print the first block of code only.")
    ] = False,
    extract_last: Annotated[
        bool, typer.Option("--extract-last", "--xl", help="Print the last block of code only.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Show Markdown as it was written.")
    ] = False,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            "-a",
            "--attach",
            metavar="FILE|URL|-",
            help="Send a file along; - is stdin; repeatable.",
        ),
    ] = None,
    fragment: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--fragment", metavar="FILE|URL|NAME", help="Put a text before the prompt."
        ),
    ] = None,
    system: Annotated[
        str | None, typer.Option("-s", "--system", help="What the model is told first.")
    ] = None,
    template: Annotated[
        str | None, typer.Option("-T", "--template", metavar="NAME", help="Use a kept template.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("-p", "--param", metavar="NAME=VALUE", help="A parameter of the template."),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Keep prompt and options as a template; ask nothing."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option("-t", "--tool", metavar="MODULE:TOOL", help="A tool; repeatable."),
    ] = None,
    mcp: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="The tools of the MCP servers that a JSON file names."),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask before each call of a tool.")] = False,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="Keep the conversation under a name.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("-c", "--continue", help="Go on with the newest conversation.")
    ] = False,
    option: Options = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Log this prompt, whatever is chosen.")
    ] = False,
    no_log: NoLog = False,
) -> int:
    """Run a model and stream its answer. Without a prompt: an interactive session.

    The local model is small (135M parameters): good for trying things out, not for hard questions.
    """
    return call_command(
        "chat:chat",
        " ".join(prompt or []),
        model=model,
        system=system,
        schema=schema,
        schema_list=schema_list,
        tools=tool or [],
        mcp=mcp or [],
        ask=ask,
        options=option or [],
        fragments=fragment or [],
        template=template,
        parameters=param or [],
        save=save,
        attach=attach or [],
        session=session,
        resume=resume,
        trace=trace,
        no_log=no_log,
        as_json=as_json,
        events=events,
        no_stream=no_stream,
        is_styled=not plain,
        extract=extract,
        extract_last=extract_last,
    )
