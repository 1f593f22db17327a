"""The numbers and names on docs/tracing.md are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from foldline._cli.app import app
from foldline.tracers import TraceStore
from foldline.tracers._config_record import RECORDED_KEYS
from foldline.tracers._redact import SHORTEST
from foldline.tracers._schema import SCHEMA
from foldline.tracers._statistics import SAMPLE
from foldline.tracers._writer import WriterOptions

PAGE = Path(__file__).parents[2] / "docs" / "tracing.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())


def test_the_defaults_on_the_page_are_those_of_the_writer():
    options = WriterOptions()

    assert f"`limit={options.limit:_}`" in TEXT
    assert f"Up to `limit` entries ({options.limit:,})" in TEXT
    assert f'`overflow="{options.overflow}"` | the default' in TEXT
    assert f"`trace_wait={options.trace_wait}`" in TEXT
    assert f"`trace_wait` seconds ({options.trace_wait:g})" in TEXT


def test_the_bounds_and_the_version_on_the_page_are_those_of_the_store():
    assert f"The file has a version, now {SCHEMA.version}." in TEXT
    assert f"Values shorter than {SHORTEST} characters are not looked for." in TEXT
    assert f"If a step has {2 * SAMPLE:,} calls or more" in TEXT
    first, second, third = RECORDED_KEYS
    assert f"`{first}`, `{second}` and `{third}` of `configurable`" in TEXT


def test_the_methods_on_the_page_are_those_of_the_store():
    sentence = TEXT.partition("- `TraceStore` has ")[2].partition("If a step has")[0]
    names = set(re.findall(r"`([a-z_]+)`", sentence))

    assert {"trace", "find", "losses", "prune"} < names
    assert {name for name in names if not callable(getattr(TraceStore, name, None))} == set()


def test_every_option_of_foldline_traces_is_on_the_page_or_common():
    command = typer.main.get_command(app).commands["traces"]  # type: ignore[attr-defined]
    options = {name for part in command.params for name in part.opts if name.startswith("--")}
    section = TEXT.partition("### `foldline traces`")[2].partition("### Excluding")[0]
    shown = set(re.findall(r"--[a-z-]+", section)) - {"--"}

    assert {name for name in shown if name.strip("-")} <= options
    assert options - shown == {"--file", "--limit"}
