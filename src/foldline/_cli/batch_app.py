"""The Typer commands of `foldline batch`: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foldline._cli.calling import AsJson, Model, Options, call_command

__all__ = ["group"]

group: typer.Typer = typer.Typer(
    help="Ask for every row of a file, over hours and processes.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write answers there: .jsonl, .csv or .parquet.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, help="Stop before so many dollars are spent.")
]
Store = Annotated[Path, typer.Argument(help="The job's store: PROMPTS.jobs.db.")]


@group.command("run")
def batch_run(
    file: Annotated[Path, typer.Argument(help="Prompts: .jsonl, .csv or .parquet.")],
    *,
    model: Model = None,
    template: Annotated[
        str | None, typer.Option(help="The prompt, with the columns of a row: 'About {topic}'.")
    ] = None,
    system: Annotated[
        str | None, typer.Option("-s", "--system", help="What the model is told first.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON schema that answers must fit.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Where the job is kept. Default: beside the prompts.")
    ] = None,
    out: Out = None,
    key: Annotated[
        str | None, typer.Option(help="The column that names a row. Default: its number.")
    ] = None,
    mode: Annotated[str, typer.Option(help="auto, live or provider (its batches).")] = "auto",
    max_cost: MaxCost = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Live calls at once.")] = 16,
    option: Options = None,
    as_json: AsJson = False,
) -> int:
    """Run a model for every row of a file. Rows that have an answer are not run again."""
    return call_command(
        "batch:run",
        file,
        model=model,
        template=template,
        system=system,
        schema=schema,
        store=store,
        out=out,
        key=key,
        mode=mode,
        max_cost=max_cost,
        concurrency=concurrency,
        options=option or [],
        as_json=as_json,
    )


@group.command("resume")
def batch_resume(
    store: Store,
    *,
    out: Out = None,
    max_cost: MaxCost = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask for failed rows again; undo a cancel.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Resume a job that was stopped, was killed or ran out of its budget."""
    return call_command(
        "batch:resume",
        store,
        out=out,
        max_cost=max_cost,
        retry_failed=retry_failed,
        as_json=as_json,
    )


@group.command("status")
def batch_status(store: Store, *, as_json: AsJson = False) -> int:
    """Show the state of a job."""
    return call_command("batch:status", store, as_json=as_json)


@group.command("cancel")
def batch_cancel(store: Store) -> int:
    """Stop a job, in any process, and its batches at the provider."""
    return call_command("batch:cancel", store)
