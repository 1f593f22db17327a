"""The commands as Typer sees them: options and help only. What a command does is loaded when it runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from foldline.cli.serve_app import group as serve_group
from foldline.cli.start import Code, drop_output

__all__ = ["app", "call_command"]

app = typer.Typer(
    name="foldline",
    help="Talk to language models.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


app.add_typer(serve_group, name="serve")


@app.callback()
def _foldline() -> None:
    """Talk to language models."""


def call_command(place: str, *args: Any, **kwargs: Any) -> int:
    """Load what a command does, and do it."""
    module, _, function = place.partition(":")
    try:
        return int(getattr(import_module(f"foldline.cli.{module}"), function)(*args, **kwargs) or 0)
    except BrokenPipeError:  # here, because Typer would make it an error of its own
        drop_output()
        return Code.BROKEN_PIPE


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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def chat(
    prompt: Annotated[
        list[str] | None,
        typer.Argument(help="What to ask; piped input is appended. Without it: a session."),
    ] = None,
    *,
    model: Model = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON schema; print JSON that fits it.")
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Print the protocol events as JSON lines.")
    ] = False,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Print the answer when it is whole.")
    ] = False,
    attach: Annotated[
        list[Path] | None,
        typer.Option("-a", "--attach", metavar="FILE", help="Send a file along; repeatable."),
    ] = None,
    system: Annotated[
        str | None, typer.Option("-s", "--system", help="What the model is told first.")
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option("-t", "--tool", metavar="MODULE:TOOL", help="A tool; repeatable."),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="Keep the conversation under a name.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("-c", "--continue", help="Go on with the newest session.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "-o", "--option", metavar="NAME=VALUE", help="A setting of the model: temperature=0."
        ),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Write the run where `foldline traces` reads.")
    ] = False,
) -> int:
    """Ask a model and stream its answer. Without a prompt: an interactive session.

    The model in the box is small (135M parameters): good for trying things, not a clever one.
    """
    return call_command(
        "chat:chat",
        " ".join(prompt or []),
        model=model,
        as_json=as_json,
        schema=schema,
        events=events,
        no_stream=no_stream,
        attach=attach or [],
        system=system,
        tools=tool or [],
        session=session,
        resume=resume,
        options=option or [],
        trace=trace,
    )


@app.command()
def sessions(
    name: Annotated[str | None, typer.Argument(help="Show this conversation.")] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete it instead.")] = False,
    as_json: AsJson = False,
) -> int:
    """List the kept conversations, show one, or delete one."""
    return call_command("sessions:sessions", name, delete=delete, as_json=as_json)


@app.command()
def models(
    provider: Annotated[
        str | None, typer.Argument(help="Show the models known of this provider.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """List the providers: what is installed, which keys are set, what their models can do."""
    return call_command("models:models", provider, as_json=as_json)


@app.command()
def doctor(*, as_json: AsJson = False) -> int:
    """Check Python, extras, keys, servers and folders, and say what to do about each finding.

    Only servers on this machine and addresses that you configured are asked.
    """
    return call_command("doctor:doctor", as_json=as_json)


@app.command()
def traces(
    trace: Annotated[str | None, typer.Argument(help="Show only this trace (its id).")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(envvar="FOLDLINE_TRACES", help="The tracer's SQLite file.")
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many.")] = 10,
    errors: Annotated[bool, typer.Option("--errors", help="Only runs that failed.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show recent runs as trees, newest first, with timing and tokens."""
    return call_command(
        "traces:traces", trace, file=file, limit=limit, only_errors=errors, as_json=as_json
    )


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="Events (chat --events), a recording, or SSE.")],
    *,
    speed: Annotated[
        float, typer.Option(min=0, help="2 is twice as fast; 0 does not wait at all.")
    ] = 1.0,
    events: Annotated[bool, typer.Option("--events", help="Print events instead of text.")] = False,
    provider: Annotated[
        str | None, typer.Option(help="Whose wire it is, where it cannot be told.")
    ] = None,
) -> int:
    """Play a recorded stream back at its speed."""
    return call_command("replay:replay", file, speed=speed, events=events, provider=provider)


@app.command()
def bench(
    prompt: Annotated[str, typer.Argument(help="What to ask.")] = "Write a short poem about rain.",
    *,
    model: Model = None,
    runs: Annotated[int, typer.Option("-n", "--runs", min=1, help="How often.")] = 3,
    suite: Annotated[
        bool, typer.Option("--suite", help="Run the benchmarks of a clone of foldline instead.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Time a model: the first token, tokens per second."""
    return call_command("bench:bench", prompt, model=model, runs=runs, suite=suite, as_json=as_json)
