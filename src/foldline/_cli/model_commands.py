"""The Typer commands for models, recordings and programs: options and help only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foldline._cli.calling import AsJson, Model, call_command

__all__ = ["bench", "doctor", "migrate", "models", "replay"]


def models(
    provider: Annotated[
        str | None, typer.Argument(help="Show the models known of this provider.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """List the providers: what is installed, which keys are set, what their models can do."""
    return call_command("models:models", provider, as_json=as_json)


def doctor(*, as_json: AsJson = False) -> int:
    """Check Python, extras, keys, servers and folders, and say what to do about each finding.

    It connects only to servers on this machine and to addresses that you configured.
    """
    return call_command("doctor:doctor", as_json=as_json)


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


def migrate(
    path: Annotated[Path, typer.Argument(help="A program, a notebook, or a folder of them.")],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; fail if a name has no home.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; show what would.")] = False,
) -> int:
    """Rename the imports of LangChain's packages, and list names without a counterpart here."""
    return call_command("migrate:migrate", path, check=check, diff=diff)
