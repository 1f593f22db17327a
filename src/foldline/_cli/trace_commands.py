"""The Typer commands for traces: options and help only."""

from __future__ import annotations

from typing import Annotated

import typer

from foldline._cli.calling import AsJson, call_command

__all__ = ["studio", "traces"]


def traces(
    trace: Annotated[
        str | None, typer.Argument(help="Show this trace: its id, or the end of it.")
    ] = None,
    *,
    file: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="Another trace file, or postgresql://…")
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many.")] = 20,
    search: Annotated[
        str | None, typer.Option("--search", help="Only runs with these words.")
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only runs that failed.")] = False,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only runs that wait for a person's answer.")
    ] = False,
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
    """List recent runs with their first words, or show one as a tree with its inputs and outputs.

    FOLDLINE_TRACES=1 traces any program into the file that this command reads.
    """
    from foldline._cli.traces import TraceOptions

    options = TraceOptions(
        file=file,
        limit=limit,
        only_errors=errors,
        only_waiting=waiting,
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
    return call_command("traces:traces", trace, options)


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
    file: Annotated[
        str | None, typer.Option(metavar="PATH|URL", help="Another trace file, or postgresql://…")
    ] = None,
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
    return call_command(
        "studio:studio",
        apps or [],
        host=host,
        port=port,
        file=file,
        models=model or [],
        tools=tool or [],
        open_browser=open_browser,
    )
