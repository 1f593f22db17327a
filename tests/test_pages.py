"""Commands, options and environment variables on the pages are those of the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from foldline._cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
VARIABLE = re.compile(r"\bFOLDLINE_[A-Z_]+\b")
BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"`(foldline [^`]*)`")
COMMAND = re.compile(r"(?:^|\| |&& |; )foldline ([a-z][^\n|]*)", re.M)
EVERYWHERE = {"--help", "-h", "--debug"}
"""Options of every command."""


def commands_on(page: Path) -> list[str]:
    """The command lines of foldline on a page, without their comments."""
    text = page.read_text(encoding="utf-8")
    code = "\n".join([*BLOCK.findall(text), *INLINE.findall(BLOCK.sub("", text))])
    return [re.split(r"\s#| < ", line)[0] for line in COMMAND.findall(code)]


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that a line names, and the remaining words."""
    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        words = words[1:]
    default = getattr(command, "commands", {}).get(
        "run"
    )  # `foldline serve` is `foldline serve run`
    return (default or command), words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_page_has_the_options_that_the_page_passes(page: Path):
    for line in commands_on(page):
        words = shlex.split(line)
        command, arguments = find_command(words)
        options = {name for part in command.params for name in (*part.opts, *part.secondary_opts)}
        passed = {word.partition("=")[0] for word in arguments if re.match(r"--?[a-zA-Z]", word)}

        assert arguments != words, f"foldline {line}: there is no such command"
        assert passed <= options | EVERYWHERE, f"foldline {line}"


def test_every_environment_variable_of_the_program_is_on_a_page():
    pages = {name for page in PAGES for name in VARIABLE.findall(page.read_text(encoding="utf-8"))}
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    program = {name for text in sources for name in re.findall(r'"(FOLDLINE_[A-Z_]+)"', text)}

    assert program - pages == {"FOLDLINE_SERVE"}  # from the server to its workers
    elsewhere = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    tests = {name for text in elsewhere for name in VARIABLE.findall(text)}
    assert pages - program - tests == set()


def test_the_numbers_of_the_page_on_migrating_add_up():
    text = (ROOT / "docs" / "migrating-from-langchain.md").read_text(encoding="utf-8")
    table = text.partition("<!-- peer tests -->")[2]
    counts = re.search(r"(\d+) of (\d+) pass.*?(?:and (\d+) that|:)", table)
    assert counts is not None
    passed, total, uncounted = (int(number or 0) for number in counts.groups())
    assert sum(map(int, re.findall(r"^\| (\d+) \|", table, re.M))) == total - passed + uncounted

    rate = " ".join(text.partition("<!-- program rate -->")[2].partition("<!--")[0].split())
    numbers = re.search(
        r"(\d+) run on LangChain.* (\d+) of them run \((\d+) %\) and (\d+) print the same \((\d+) %",
        rate,
    )
    assert numbers is not None
    control, run, run_share, same, same_share = map(int, numbers.groups())
    assert (run_share, same_share) == (100 * run // control, 100 * same // control)
    assert f"of the {control - run} others" in rate
