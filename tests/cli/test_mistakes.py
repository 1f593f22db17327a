"""Mistakes at the command line: each message says where, what, and what to do next, and none is a traceback."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import OWN

HELLO = ("-m", f"{OWN}hello")

MISTAKES = [
    (("chat", "hi", "-m", "opnai:gpt-5"), "'opnai' (did you mean 'openai'?)", "foldline models"),
    (("chat", "hi", "-m", "gpt 5:x"), "-m gpt 5:x", "write -m provider:model"),
    (
        ("chat", "hi", "-m", "py:tests.cli.scripted:helo"),
        "has no helo (did you mean 'hello'?)",
        "check the name",
    ),
    (("chat", "hi", "-m", "py:no_such_module:x"), "no_such_module", "in this folder or installed"),
    (("chat", "hi", "-m", "py:tests.cli.scripted"), "py:tests.cli.scripted", "module:name"),
    (("chat", "hi", "-m", "py:json:__name__"), "not a chat model but a str", "name a chat model"),
    (
        ("chat", "hi", *HELLO, "-t", "json:__name__"),
        "not a tool but a str",
        "a function with a docstring",
    ),
    (("chat", "hi", *HELLO, "-o", "temperature"), "-o temperature", "write -o name=value"),
    (("chat", "hi", *HELLO, "-a", "none.png"), "none.png", "check the path"),
    (("chat", "hi", *HELLO, "-f", "none.txt"), "-f none.txt", "foldline fragments lists them"),
    (("chat", "hi", *HELLO, "--mcp", "none.json"), "--mcp none.json", "check the path"),
    (("chat", "hi", *HELLO, "--schema", "none.json"), "none.json", "check the path"),
    (("chat", "hi", *HELLO, "--schema", "[1]"), "not a list", 'write {"type": "object"'),
    (
        ("chat", "hi", *HELLO, "--schema", "age itn"),
        "no type 'itn' (did you mean 'int'?)",
        "int, float or bool",
    ),
    (("chat", "hi", *HELLO, "-T", "none"), "no template 'none'", "foldline templates lists them"),
    (("chat", "hi", *HELLO, "--ask"), "--ask", "leave --ask"),
    (("chat", "-c", "hi", *HELLO), "no session to continue", "start one with --session NAME"),
    (("chat", "", *HELLO), "nothing to ask", 'foldline chat "a question"'),
    (("chat", "--save", "a b", "hi"), "'a b'", "choose a name of letters"),
    (("keys", "sett", "openai"), "it is list, set, delete or path (did you mean 'set'?)", "set"),
    (("keys", "set"), "which one?", "foldline keys set PROVIDER"),
    (("keys", "delete", "openai"), "OPENAI_API_KEY", "foldline keys lists"),
    (("keys", "set", "local"), "local needs no key", "foldline chat -m local:MODEL"),
    (("aliases", "none", "--delete"), "no alias 'none'", "foldline aliases lists them"),
    (("fragments", "a", "none.txt"), "none.txt", "check the path"),
    (("index", "no/such/folder"), "no/such/folder", "check the path"),
    (("ask", "x"), "no index 'docs'", "foldline index FOLDER makes one"),
    (
        ("embed", "x", "-m", "opnai:x"),
        "'opnai' (did you mean 'openai'?)",
        "write local, openai:MODEL",
    ),
    (("logs", "abc"), "no log entry 'abc'", "foldline logs shows their ids"),
    (("sessions", "none"), "no session 'none'", "foldline sessions lists them"),
    (("sessions", "--delete"), "which one?", "foldline sessions NAME --delete"),
    (("models", "opnai"), "'opnai' (did you mean 'openai'?)", "foldline models lists them"),
    (("replay", "none.jsonl"), "none.jsonl", "check the path"),
    (("migrate", "none.py"), "none.py does not exist", "name a file or a folder"),
    (("batch", "status", "none.db"), "no store 'none.db'", "NAME.jobs.db"),
    (("caht", "hi"), "Did you mean 'chat'?", "--help"),
    (("chat", "hi", "--modle", "x"), "--modle", "--model"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem", "next_step"),
    MISTAKES,
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_a_mistake_is_told_with_what_to_do_next(
    foldline, monkeypatch, arguments, problem, next_step
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    outcome = foldline(*arguments)

    assert outcome.code in (2, 3, 4), (outcome.code, outcome.out, outcome.err)
    assert problem in outcome.err
    assert next_step in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


def test_mistakes_over_traces_are_told_with_what_to_do_next(foldline):
    foldline("chat", "hi", *HELLO)

    assert "foldline traces` shows the ids" in foldline("traces", "abc").err
    assert "foldline traces` shows the ids" in foldline("traces", "abc", "--delete").err
    assert "write 30m, 2h, 7d, or a date" in foldline("traces", "--since", "soon").err
    assert "foldline traces ID --export" in foldline("traces", "--export", "otel").err


def test_a_damaged_settings_file_is_named_with_what_to_do(foldline, own_folders):
    (own_folders / "data").mkdir()
    (own_folders / "data" / "settings.json").write_text("{")

    outcome = foldline("default")

    assert outcome.code == 4
    assert "settings.json: is not JSON" in outcome.err
    assert "correct it or delete it" in outcome.err


def test_a_damaged_mcp_file_is_named_with_what_to_write(foldline, tmp_path):
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text(json.dumps({"mcpServers": {"x": 1}}))

    assert "is not JSON" in foldline("chat", "hi", *HELLO, "--mcp", str(tmp_path / "a.json")).err
    assert '"command": ...' in foldline("chat", "hi", *HELLO, "--mcp", str(tmp_path / "b.json")).err
