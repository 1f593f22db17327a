"""Code that reads events, deltas or blocks handles all kinds of them: a missing case breaks the build.

Each case copies a module, takes one kind out of a `match`, and asks mypy. Removing a kind means that nobody thought of
it there, as it would be with a kind that is new.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import foldline
from foldline._display.messages import BLOCKS
from foldline.messages._view import ChunkView
from foldline.protocol._shapes import BLOCK_SHAPES, DELTA_SHAPES, EVENT_SHAPES
from foldline.protocol.blocks import BLOCK_KINDS, BLOCK_TYPES
from foldline.protocol.events import DELTA_KINDS, EVENT_KINDS
from foldline.protocol.fold import HANDLERS

ROOT = Path(foldline.__file__).parent
READERS = {
    "protocol/events.py": ("DeltaKind",),
    "protocol/fold.py": ("EventKind", "DeltaKind"),
    "protocol/grammar.py": ("EventKind",),
    "protocol/_block_writer.py": ("BlockKind",),
    "protocol/replay.py": ("EventKind",),
    "protocol/_shapes.py": ("EventKind", "DeltaKind", "BlockKind"),
    "_streams/stream_state.py": ("EventKind", "DeltaKind", "BlockKind"),
    "_streams/event_log.py": ("DeltaKind",),
    "messages/_view.py": ("EventKind", "DeltaKind"),
    "providers/anthropic/_messages.py": ("BlockKind",),
    "providers/bedrock/_messages.py": ("BlockKind",),
    "providers/google/_messages.py": ("BlockKind",),
    "providers/_completions/messages.py": ("BlockKind",),
    "providers/openai/_input_items.py": ("BlockKind",),
    "providers/_foreign_messages.py": ("BlockKind",),
}


def check_source(source: str, folder: Path) -> str:
    """Return mypy's output for a copy of a module under another name."""
    copy = folder / "copied.py"
    copy.write_text(source)
    cache = Path(__file__).parents[1] / ".mypy_cache" / "exhaustive"
    result = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"),
            *("--enable-error-code", "exhaustive-match", "--cache-dir", str(cache), str(copy)),
        ],
        env={"MYPYPATH": str(ROOT.parent), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "case", "without"),
    [
        pytest.param("protocol/grammar.py", 'case "message-reset":', None, id="an event"),
        pytest.param(
            "protocol/replay.py",
            'case "message-reset" | "error":',
            'case "error":',
            id="an event of a replay",
        ),
        pytest.param(
            "_streams/event_log.py",
            '"text-delta" | "reasoning-delta" | "refusal-delta" | "data-delta" | "tool-call-delta"',
            '"text-delta" | "reasoning-delta" | "refusal-delta" | "tool-call-delta"',
            id="a delta",
        ),
        pytest.param(
            "providers/_foreign_messages.py",
            'case "reasoning" | "server_tool_call" | "server_tool_result" | "non_standard":',
            'case "reasoning" | "server_tool_call" | "non_standard":',
            id="a block",
        ),
    ],
)
def test_a_case_that_is_removed_breaks_the_build(
    module: str, case: str, without: str | None, tmp_path: Path
) -> None:
    source = (ROOT / module).read_text()
    assert source.count(case) == 1
    shortened = (
        re.sub(r" *" + re.escape(case) + r"\n +return [^\n]*\n", "", source)
        if without is None
        else source.replace(case, without)
    )
    assert shortened != source
    assert "assert_never" not in check_source(source, tmp_path)
    assert 'to "assert_never" has incompatible type' in check_source(shortened, tmp_path)


@pytest.mark.parametrize("module", READERS)
def test_every_reader_ends_with_assert_never(module: str) -> None:
    source = (ROOT / module).read_text()
    for kind in READERS[module]:
        assert re.search(rf"kind: {kind}\b", source), kind
    assert source.count("assert_never(kind)") >= len(READERS[module])


def test_the_tables_have_all_kinds() -> None:
    assert set(HANDLERS) == set(EVENT_KINDS)
    assert set(EVENT_SHAPES) == set(EVENT_KINDS)
    assert set(DELTA_SHAPES) == set(DELTA_KINDS)
    assert set(BLOCK_SHAPES) == set(BLOCK_KINDS) == BLOCK_TYPES


def test_a_notebook_shows_each_kind_of_block_or_its_json() -> None:
    as_json = {"server_tool_call_chunk", "server_tool_result", "text-plain", "non_standard"}
    assert set(BLOCKS) | as_json == set(BLOCK_KINDS)


def test_a_kind_that_nobody_knows_is_no_error_when_a_program_runs() -> None:
    view = ChunkView("v1")
    view.feed({"event": "message-start", "role": "ai", "id": "msg_1"})
    assert view.feed({"event": "message-lullaby"}) is None
    view.feed({"event": "content-block-start", "index": 0, "content": {"type": "text"}})
    event = {"event": "content-block-delta", "index": 0, "delta": {"type": "hum-delta", "hum": "m"}}
    assert view.feed(event) is None
    builder = foldline.protocol.MessageBuilder()
    builder.feed({"event": "content-block-start", "index": 0, "content": {"type": "text"}})
    builder.feed(event)
    builder.feed({"event": "message-lullaby"})
    assert builder.blocks() == [{"type": "text"}]
