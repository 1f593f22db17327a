"""`foldline batch`: reads a file of prompts and writes a file of answers; it can be stopped and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from foldline._cli.choose import choose_model, prepare, read_options
from foldline._cli.short_schema import read_schema
from foldline._cli.start import Code
from foldline._cli.terminal import echo, note
from foldline.batches import BatchJob, BatchReport, read_rows
from foldline.batches._progress import progress_line
from foldline.batches._store.job_store import JobStore
from foldline.batches.records import RejectedRow
from foldline.exceptions import UsageError
from foldline.language_models._call.policies.usage_scope import Limits
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.runnables.base import Runnable

__all__ = ["cancel", "resume", "run", "status"]

PROMPTS = ("prompt", "text", "input", "question")
"""Columns that hold the prompt where there is no template."""
SETTINGS = "cli"
MOST_REJECTS = 20
NAME = "job"


def run(
    file: Path,
    *,
    model: str | None,
    template: str | None,
    system: str | None,
    schema: Path | None,
    store: Path | None,
    out: Path | None,
    key: str | None,
    mode: str,
    max_cost: float | None,
    concurrency: int,
    options: list[str],
    as_json: bool,
) -> int:
    """Run a model for every row of a file."""
    settings: dict[str, Any] = {
        "model": model, "template": template, "system": system, "options": options, "key": key, "mode": mode,
        "concurrency": concurrency, "schema": read_schema(str(schema)) if schema else None,
        "out": str(out) if out else None,
    }  # fmt: skip
    place = store or file.with_suffix(".jobs.db")
    _write_settings(place, settings)
    return _work(place, settings, _rows(file, template), max_cost, as_json=as_json)


def resume(
    store: Path, *, out: Path | None, max_cost: float | None, retry_failed: bool, as_json: bool
) -> int:
    """Resume the job of a store."""
    settings = _read_settings(store)
    if out is not None:
        settings["out"] = str(out)
    return _work(store, settings, None, max_cost, as_json=as_json, retry_failed=retry_failed)


def status(store: Path, *, as_json: bool) -> int:
    """Print the state of a job, which another process may be running."""
    job_store = _open_store(store)
    _print_report(job_store.job.report(), as_json=as_json)
    _print_rejects(job_store.inputs.rejects())
    job_store.close()
    return Code.FINE


def cancel(store: Path) -> int:
    """Stop a job, in any process, and its batches at the provider."""
    settings = _read_settings(store)
    job = _job(store, settings, None, None)
    job.cancel()
    echo(progress_line(job.report()))
    job.close()
    return Code.FINE


def _work(
    store: Path,
    settings: Mapping[str, Any],
    rows: Iterator[Any] | None,
    max_cost: float | None,
    *,
    as_json: bool,
    retry_failed: bool = False,
) -> int:
    job = _job(store, settings, rows, max_cost)
    if retry_failed:
        job.retry_failed()
    try:
        report = job.run()
    finally:
        if settings["out"]:
            job.write(settings["out"])
    _print_report(report, as_json=as_json)
    _print_rejects(job.rejected())
    job.close()
    return Code.FAILED if report.failed or report.rejected else Code.FINE


def _job(
    store: Path, settings: Mapping[str, Any], rows: Iterator[Any] | None, max_cost: float | None
) -> BatchJob:
    return _chain(settings).batch_job(
        rows,
        store=store,
        name=NAME,
        key=settings["key"],
        mode=settings["mode"],
        max_concurrency=settings["concurrency"],
        budget=None if max_cost is None else Limits(cost=max_cost),
        progress=True,
    )


def _chain(settings: Mapping[str, Any]) -> Runnable[Any, Any]:
    model = choose_model(settings["model"], read_options(settings["options"]))
    prepare(model)
    system = (
        [("system", settings["system"].replace("{", "{{").replace("}", "}}"))]
        if settings["system"]
        else []
    )
    prompt = ChatPromptTemplate([*system, ("human", settings["template"] or "{prompt}")])
    if settings["schema"] is not None:
        answer: Runnable[Any, Any] = model.with_structured_output(settings["schema"])
        return prompt | answer
    chain: Runnable[Any, Any] = prompt | model | StrOutputParser()
    return chain


def _rows(file: Path, template: str | None) -> Iterator[Any]:
    """Yield the rows as a template takes them; a row that is plain text is the prompt."""
    for number, row in enumerate(read_rows(file)):
        if isinstance(row, str):
            yield {"prompt": row}
        elif isinstance(row, RejectedRow) or (isinstance(row, Mapping) and template):
            yield row
        elif isinstance(row, Mapping) and (names := [name for name in PROMPTS if name in row]):
            yield {**row, "prompt": row[names[0]]}
        else:
            reason = f"it has none of the columns {', '.join(PROMPTS)}: use --template"
            yield RejectedRow(f"{file.name}, row {number}", reason, json.dumps(row)[:200])


def _settings_file(store: Path) -> Path:
    return store.with_name(f"{store.name}.json")


def _write_settings(store: Path, settings: Mapping[str, Any]) -> None:
    _settings_file(store).write_text(json.dumps({SETTINGS: settings}, indent=1), encoding="utf-8")


def _read_settings(store: Path) -> dict[str, Any]:
    file = _settings_file(store)
    try:
        settings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))[SETTINGS]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{store}: there is no job of `foldline batch run` here ({file.name}: {error}); name its --store"
        ) from error
    return settings


def _open_store(path: Path) -> JobStore:
    if not path.is_file():
        raise UsageError(
            f"there is no store {str(path)!r}: it is beside the prompts, as NAME.jobs.db"
        )
    store = JobStore(path, NAME)
    row = store.job.find()
    if row is None:
        raise UsageError(
            f"{path} has no job of `foldline batch`: name the store that `foldline batch run` wrote"
        )
    store.job.use(row)
    return store


def _print_rejects(rows: Iterator[RejectedRow]) -> None:
    for row in islice(rows, MOST_REJECTS):
        note(f"{row.place}: {row.reason}")


def _print_report(report: BatchReport, *, as_json: bool) -> None:
    if as_json:
        fields = {name: getattr(report, name) for name in report.__dataclass_fields__}
        echo(json.dumps({**fields, "cost": report.cost, "is_finished": report.is_finished}))
        return
    echo(progress_line(report))
    for text, count in report.errors.items():
        note(f"{count} × {text}")
