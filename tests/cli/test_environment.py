"""The environment of the command: locale, pipes, completion, start-up, package index, disk, other processes."""

from __future__ import annotations

import errno
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from foldline._cli import choose
from foldline.providers.local import fetch
from foldline.providers.local.chat import ChatLlamaCpp
from tests.cli.conftest import OWN, ROOT, command, run_process
from tests.providers.local.conftest import no_index
from tests.providers.local.test_fetch import CONTENT, small

pytestmark = [pytest.mark.timing, pytest.mark.slow]

__all__ = ["no_index", "small"]

ALLOWED = 0.150
"""Seconds that `foldline --help` may take beyond an empty Python."""


def quickest(*arguments: str) -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(sorted(times)[:3])


def test_the_help_is_quick():
    empty = quickest(sys.executable, "-c", "pass")

    assert quickest(*command("--help")) - empty < ALLOWED


def test_the_help_imports_neither_typer_nor_pydantic():
    program = (
        "import sys; sys.argv = ['foldline', '--help']; from foldline._cli import main; main(); "
    )
    program += (
        "print([name for name in ('typer', 'rich', 'pydantic', 'asyncio') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stdout.splitlines()[-1] == "[]"


def test_a_pipe_that_nobody_writes_to_or_closes_is_not_waited_for_for_ever():
    with silent_pipe() as (read, _):
        outcome = run_process(
            "chat", "hi", "-m", f"{OWN}hello", stdin=read, FOLDLINE_STDIN_TIMEOUT="0.2"
        )

    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "waiting for piped input" in outcome.stderr
    assert "< /dev/null" in outcome.stderr


def test_a_pipe_that_is_slow_to_speak_is_heard():
    with silent_pipe() as (read, write):
        process = subprocess.Popen(
            command("chat", "sum up:", "-m", f"{OWN}echo"),
            stdin=read,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        with process:
            assert process.stderr.readline().startswith("(waiting for piped input")
            os.write(write, b"late")
            os.close(write)
            assert process.stdout.read() == "1: sum up:\n\nlate\n"


def test_how_long_a_pipe_may_be_silent_is_a_number():
    with silent_pipe() as (read, _):
        outcome = run_process(
            "chat", "hi", "-m", f"{OWN}hello", stdin=read, FOLDLINE_STDIN_TIMEOUT="soon"
        )

    assert (outcome.returncode, outcome.stderr.strip()) == (
        2,
        "foldline: FOLDLINE_STDIN_TIMEOUT='soon' is not a number of seconds: write one, such as 60",
    )


@contextmanager
def silent_pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    try:
        yield read, write
    finally:
        for end in (read, write):
            with suppress(OSError):
                os.close(end)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_locale_that_is_not_utf8_gets_stand_ins(encoding):
    outcome = run_process(
        "chat", "hi", "-m", f"{OWN}unicode", LC_ALL="C", PYTHONIOENCODING=encoding
    )

    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("Gr")
    assert outcome.stdout.rstrip().endswith("? ?")


def test_the_c_locale_in_a_terminal(terminal):
    screen = terminal("chat", "hi", "-m", f"{OWN}unicode", LC_ALL="C")

    assert screen.end() == 0
    assert "Gr" in screen.text
    assert "Traceback" not in screen.text


def test_a_broken_pipe_is_quiet():
    writer = subprocess.Popen(
        command("chat", "hi", "-m", f"{OWN}endless"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=dict(os.environ),
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"line\n"
    writer.stdout.close()

    assert writer.stderr is not None
    assert writer.stderr.read() == b""
    writer.stderr.close()
    assert writer.wait() == 141


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell):
    script = run_process(_FOLDLINE_COMPLETE=f"source_{shell}")
    assert "foldline" in script.stdout

    variables = {"bash": {"COMP_WORDS": "foldline do", "COMP_CWORD": "1"}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": "foldline do", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    assert "doctor" in run_process(_FOLDLINE_COMPLETE=f"complete_{shell}", **variables).stdout


def test_a_missing_extra_is_said_with_the_command(foldline, monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)

    outcome = foldline("chat", "hi")

    assert outcome.code == 3
    assert outcome.err == 'foldline: the command line needs typer: pip install "foldline[cli]"\n'


def test_a_missing_runtime_is_said_before_anything_is_fetched(foldline, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    outcome = foldline("chat", "hi")

    assert outcome.code == 3
    assert 'pip install "foldline[local]"' in outcome.err
    assert "Fetching" not in outcome.err


def test_the_first_run_says_that_the_model_is_small(small, capsys):
    choose.prepare(ChatLlamaCpp(model="small"))

    output = capsys.readouterr().err
    assert "Fetching small" in output
    assert "small model" in output
    assert "local:/path/model.gguf" in output
    assert fetch.is_fetched("small")
    choose.prepare(ChatLlamaCpp(model="small"))
    assert capsys.readouterr().err == ""


def test_a_damaged_model_is_fetched_again(small, capsys):
    choose.prepare(ChatLlamaCpp(model="small"))
    small.path.write_bytes(CONTENT[:-1] + b"?")

    choose.prepare(ChatLlamaCpp(model="small"))

    assert small.path.read_bytes() == CONTENT


def test_no_index_in_reach_is_a_sentence(foldline, no_index, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path / "cache"))

    outcome = foldline("chat", "hi")

    assert outcome.code == 3
    assert outcome.out == ""
    assert "pip config list" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_full_disk_is_a_sentence(foldline, small, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetch.shutil, "copyfileobj", full)

    outcome = foldline("chat", "hi", "-m", "local:small")

    assert outcome.code == 4
    assert "no space left on the disk" in outcome.err
    assert "FOLDLINE_CACHE_DIR" in outcome.err


TWO_AT_ONCE = """
import sys
from pathlib import Path
from tests.providers.local.test_fetch import small_model
from foldline._cli import choose
from foldline.providers.local import fetch
from foldline.providers.local.chat import ChatLlamaCpp
fetch.MODELS["small"] = small_model(Path(sys.argv[1]))
choose.prepare(ChatLlamaCpp(model="small"))
print(fetch.is_fetched("small"))
"""


def test_two_processes_may_fetch_at_once(small, tmp_path):
    program = [sys.executable, "-c", TWO_AT_ONCE, str(tmp_path / "index")]
    processes = [
        subprocess.Popen(program, stdout=subprocess.PIPE, cwd=ROOT, text=True) for _ in range(2)
    ]

    assert [process.communicate(timeout=50)[0] for process in processes] == ["True\n", "True\n"]


def test_the_model_of_the_box_answers():
    outcome = run_process("chat", "What is the capital of France?", "-o", "temperature=0")

    assert outcome.returncode == 0
    assert "Paris" in outcome.stdout
