"""The commands as Typer sees them: options and help only. What a command does is loaded when it runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from foldline.cli.start import Code, drop_output

__all__ = ["app"]

app = typer.Typer(
    name="foldline",
    help="Talk to language models.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback()
def _foldline() -> None:
    """Talk to language models."""


def _call(place: str, *args: object, **kwargs: object) -> int:
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
    return _call(
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
    return _call("sessions:sessions", name, delete=delete, as_json=as_json)


@app.command()
def models(
    provider: Annotated[
        str | None, typer.Argument(help="Show the models known of this provider.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """List the providers: what is installed, which keys are set, what their models can do."""
    return _call("models:models", provider, as_json=as_json)


@app.command()
def doctor(*, as_json: AsJson = False) -> int:
    """Check Python, extras, keys, servers and folders, and say what to do about each finding.

    Only servers on this machine and addresses that you configured are asked.
    """
    return _call("doctor:doctor", as_json=as_json)


@app.command()
def traces(
    trace: Annotated[
        str | None, typer.Argument(help="Show this trace: its id, or the end of it.")
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="Another trace file.")] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many.")] = 20,
    search: Annotated[
        str | None, typer.Option("--search", help="Only runs with these words.")
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only runs that failed.")] = False,
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="Only this model; with --replay, ask it.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None,
    thread: Annotated[str | None, typer.Option(help="Only this thread.")] = None,
    user: Annotated[str | None, typer.Option(help="Only this user.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only since: 30m, 2h, 7d, 2026-11-17.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on and print runs as they end.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Play the answers of this trace back.")
    ] = False,
    export: Annotated[
        str | None, typer.Option(metavar="FORM", help="Print this trace as otel, jsonl or pytest.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete this trace, or all of --thread or --user.")
    ] = False,
    prune_age: Annotated[
        str | None, typer.Option(metavar="AGE", help="Delete what is older: 30d.")
    ] = None,
    prune_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Delete the oldest until it fits: 500M.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List recent runs with their first words, or show one as a tree with all that was said.

    FOLDLINE_TRACES=1 traces any program into the file that is read here.
    """
    from foldline.cli.traces import TraceOptions

    options = TraceOptions(
        file=file,
        limit=limit,
        only_errors=errors,
        as_json=as_json,
        search=search,
        model=None if replay else model,
        tag=tag,
        thread=thread,
        user=user,
        since=since,
        follow=follow,
        replay=replay,
        replay_model=model if replay else None,
        export=export,
        prune_age=prune_age,
        prune_size=prune_size,
        delete=delete,
    )
    return _call("traces:traces", trace, options)


@app.command()
def studio(
    apps: Annotated[
        list[str] | None,
        typer.Argument(
            help="Agents or graphs whose threads to show: module:agent, name=module:agent."
        ),
    ] = None,
    *,
    host: Annotated[str, typer.Option(help="Where to listen; others need a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Which port; 0 for any.")] = 8765,
    file: Annotated[Path | None, typer.Option(help="Another trace file.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("-m", "--model", help="A model for the playground; repeatable. Only these."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option("-t", "--tool", metavar="MODULE:TOOL", help="A tool; repeatable."),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open it in the browser.")
    ] = True,
) -> int:
    """Open a web page over traces, a playground, threads and datasets. Nothing leaves this machine."""
    return _call(
        "studio:studio",
        apps or [],
        host=host,
        port=port,
        file=file,
        models=model or [],
        tools=tool or [],
        open_browser=open_browser,
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
    return _call("replay:replay", file, speed=speed, events=events, provider=provider)


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
    return _call("bench:bench", prompt, model=model, runs=runs, suite=suite, as_json=as_json)
