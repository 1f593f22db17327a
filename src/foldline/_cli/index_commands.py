"""The Typer commands of an index: options and help only."""

from __future__ import annotations

from typing import Annotated

import typer

from foldline._cli.calling import AsJson, IndexName, Model, NoLog, Options, call_command

__all__ = ["ask", "embed", "index", "similar"]


def index(
    path: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders or addresses. Without one: the indexes there are."),
    ] = None,
    *,
    name: IndexName = "docs",
    model: Annotated[
        str | None,
        typer.Option(
            "-m", "--model", help="The embeddings: openai:text-embedding-3-small. Default: local."
        ),
    ] = None,
    glob: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only these files: '**/*.md'.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Not these files.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Add files, folders and web pages to an index for search by meaning; later runs add only what has changed."""
    return call_command(
        "rag:index",
        path or [],
        name=name,
        model=model,
        glob=glob or [],
        exclude=exclude or [],
        as_json=as_json,
    )


def ask(
    question: Annotated[list[str], typer.Argument(help="What to ask of the index.")],
    *,
    model: Model = None,
    name: IndexName = "docs",
    count: Annotated[int, typer.Option("-k", min=1, max=50, help="How many pieces are read.")] = 4,
    option: Options = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="Show what was found; ask no model.")
    ] = False,
    no_log: NoLog = False,
    as_json: AsJson = False,
) -> int:
    """Answer a question from an index, with its sources."""
    return call_command(
        "rag:ask_logged",
        " ".join(question),
        model=model,
        name=name,
        count=count,
        options=option or [],
        only_sources=sources,
        as_json=as_json,
        no_log=no_log,
    )


def similar(
    text: Annotated[list[str], typer.Argument(help="What to look for.")],
    *,
    name: IndexName = "docs",
    count: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many pieces.")] = 5,
    as_json: AsJson = False,
) -> int:
    """Show the pieces of an index that are nearest to a text, by meaning."""
    return call_command("rag:similar", " ".join(text), name=name, count=count, as_json=as_json)


def embed(
    text: Annotated[list[str] | None, typer.Argument(help="What to embed; or piped in.")] = None,
    *,
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="openai:text-embedding-3-small. Default: local."),
    ] = None,
) -> int:
    """Print the vector of a text as JSON."""
    return call_command("rag:embed_piped", " ".join(text or []), model=model)
