"""`foldline chat` where stdout is not a terminal: it prints the answer and nothing else."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from foldline._cli import choose, install
from foldline.chat_history import SQLiteChatMessageHistory
from foldline.exceptions import MissingExtraError
from foldline.providers.local import runtime
from tests.cli.conftest import OWN
from tests.cli.scripted import echo

HELLO = ("-m", f"{OWN}hello")


def test_the_answer_is_plain_text(foldline):
    outcome = foldline("chat", "hi", *HELLO)

    assert (outcome.code, outcome.out, outcome.err) == (0, "Hello there!\n", "")


@pytest.mark.parametrize("form", [(), ("--no-stream",)])
def test_a_refusal_shows_its_words(foldline, form):
    outcome = foldline("chat", "hi", "-m", f"{OWN}refusing", *form)

    assert outcome.out == "I will not.\n"
    assert form or "refused; category: bio" in outcome.err


def test_the_model_may_be_named_by_the_environment(foldline, monkeypatch):
    monkeypatch.setenv("FOLDLINE_MODEL", f"{OWN}hello")

    assert foldline("chat", "hi").out == "Hello there!\n"


def test_piped_input_is_appended_to_the_prompt(foldline):
    assert (
        foldline("chat", "sum up:", "-m", f"{OWN}echo", stdin="a text").out
        == "1: sum up:\n\na text\n"
    )
    assert foldline("chat", "-m", f"{OWN}echo", stdin="alone").out == "1: alone\n"


def test_nothing_to_ask_is_a_usage_error(foldline):
    outcome = foldline("chat", *HELLO)

    assert outcome.code == 2
    assert "nothing to ask" in outcome.err


def test_json_has_text_usage_and_why_it_ended(foldline):
    answer = json.loads(foldline("chat", "hi", *HELLO, "--json").out)

    assert answer["text"] == "Hello there!"
    assert answer["usage"]["total_tokens"] == 7
    assert (answer["finish_reason"], answer["status"]) == ("stop", "complete")


def test_events_are_lines_of_json_that_replay_plays(foldline, tmp_path):
    lines = foldline("chat", "hi", *HELLO, "--events").out

    names = [json.loads(line)["event"] for line in lines.splitlines()]
    assert (names[0], names[-1]) == ("message-start", "message-finish")
    (tmp_path / "said.jsonl").write_text(lines)
    assert foldline("replay", str(tmp_path / "said.jsonl"), "--speed", "0").out == "Hello there!\n"
    replay = foldline("replay", str(tmp_path / "said.jsonl"), "--speed", "0", "--events")
    assert replay.out == lines


def test_no_stream_prints_the_whole_answer(foldline):
    assert foldline("chat", "hi", *HELLO, "--no-stream").out == "Hello there!\n"


def test_a_schema_gives_json_that_fits(foldline, tmp_path):
    schema = tmp_path / "city.json"
    schema.write_text(
        json.dumps(
            {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            }
        )
    )

    outcome = foldline("chat", "where?", "-m", f"{OWN}structured", "--schema", str(schema))

    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == {"city": "Paris"}


@pytest.mark.parametrize(("text", "complaint"), [("{", "is not JSON"), ("[]", "is an object")])
def test_a_bad_schema_is_named(foldline, tmp_path, text, complaint):
    (tmp_path / "bad.json").write_text(text)

    outcome = foldline("chat", "hi", *HELLO, "--schema", str(tmp_path / "bad.json"))

    assert outcome.code == 2
    assert complaint in outcome.err


def test_tools_run_and_are_told_of_on_stderr(foldline):
    outcome = foldline("chat", "1+2", "-m", f"{OWN}adding", "-t", "tests.cli.scripted:add")

    assert outcome.out == "I add. \nIt is 3.\n"
    assert '-> add({"a": 1, "b": 2})\n<- 3\n' in outcome.err


def test_a_tool_that_fails_is_told_to_the_model(foldline):
    outcome = foldline("chat", "1+2", "-m", f"{OWN}adding", "-t", "tests.cli.scripted:failing")

    assert outcome.code == 0
    assert "no numbers today" in outcome.err


def test_a_session_remembers_and_continue_finds_it(foldline):
    foldline("chat", "one", "-m", f"{OWN}echo", "--session", "talk", "--system", "Be brief.")

    assert foldline("chat", "two", "-m", f"{OWN}echo", "--session", "talk").out == "4: two\n"
    assert foldline("chat", "three", "-m", f"{OWN}echo", "-c").out == "6: three\n"
    assert foldline("sessions").out.splitlines()[1].split("\t")[:2] == ["talk", "7"]
    assert "2: one" in foldline("sessions", "talk").out
    assert foldline("sessions", "talk", "--delete").code == 0
    assert foldline("sessions", "talk").code == 2


def test_a_broken_answer_is_kept_and_said(foldline, own_folders):
    outcome = foldline("chat", "hi", "-m", f"{OWN}broken", "--session", "s")

    assert (outcome.code, outcome.out) == (1, "Half \n")
    assert outcome.err == "foldline: acme:anvil: slow down\n"
    messages = SQLiteChatMessageHistory("s", own_folders / "data" / "traces.db").messages
    assert (messages[1].text, messages[1].status) == ("Half ", "incomplete")


def test_files_go_along(foldline, tmp_path, monkeypatch):
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    (tmp_path / "note.txt").write_text("remember")
    model = echo()
    monkeypatch.setattr("tests.cli.scripted.echo", model)

    foldline(
        "chat",
        "look",
        "-m",
        f"{OWN}echo",
        "-a",
        f"{tmp_path}/dot.png",
        "-a",
        f"{tmp_path}/note.txt",
    )

    text, picture, note = model.requests[0].messages[0].content_blocks
    assert text["text"] == "look\n\n"
    assert (picture["type"], picture["mime_type"]) == ("image", "image/png")
    assert "remember" in note["text"]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("chat", "hi", "-m", "nobody"), 2, "whose model is"),
        (("chat", "hi", "-m", "py:nothing"), 2, "module:name"),
        (("chat", "hi", "-m", "py:no_such_module:x"), 2, "cannot be imported"),
        (("chat", "hi", "-m", f"{OWN}not_a_model"), 2, "not a chat model"),
        (("chat", "hi", "-m", "local:/no/such.gguf"), 3, "/no/such.gguf"),
        (("chat", "hi", *HELLO, "-t", "tests.cli.scripted:nothing"), 2, "has no nothing"),
        (("chat", "hi", *HELLO, "-a", "/no/such.png"), 2, "cannot be attached"),
        (("chat", "hi", *HELLO, "-o", "temperature"), 2, "name=value"),
        (("chat", "hi", *HELLO, "-c"), 2, "no session to continue"),
        (("chat", "--bogus"), 2, "--bogus"),
        (("nonsense",), 2, "nonsense"),
        (("replay", "/no/such"), 2, "cannot be read"),
        (("models", "nobody"), 2, "foldline models lists them"),
    ],
)
def test_errors_are_a_sentence_on_stderr_and_a_code(foldline, arguments, code, complaint):
    outcome = foldline(*arguments)

    assert (outcome.code, outcome.out) == (code, "")
    assert complaint in outcome.err
    assert "Traceback" not in outcome.err
    assert len(outcome.err.strip().splitlines()) <= 2


def test_a_missing_key_says_which_variable_to_set(foldline, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    outcome = foldline("chat", "hi", "-m", "openai:gpt-5-nano")

    assert outcome.code in (1, 2)
    assert "OPENAI_API_KEY" in outcome.err


def test_debug_shows_the_traceback(foldline):
    assert "Traceback" in foldline("chat", "hi", "-m", f"{OWN}broken", "--debug").err


def test_names_of_models_may_be_short():
    assert choose.choose_model(None).model == "smollm2-135m"
    assert choose.choose_model("local").model == "smollm2-135m"
    assert choose.choose_model("/some/model.gguf").model == "/some/model.gguf"


def test_a_setting_that_does_not_fit_is_wrong_usage_in_one_sentence(foldline):
    outcome = foldline("chat", "hi", "-m", "openai:gpt-5", "-o", "temperature=warm")

    assert outcome.code == 2
    assert outcome.err == (
        "foldline: -o temperature=...: Input should be a valid number, unable to parse string as a number\n"
    )


def test_a_provider_that_nobody_knows_is_named(foldline):
    outcome = foldline("chat", "hi", "-m", "acme:anvil")

    assert (outcome.code, outcome.err) == (
        2,
        "foldline: there is no provider 'acme': `foldline models` lists them\n",
    )


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_told_with_the_next_step(foldline):
    outcome = foldline("chat", "hi", "-m", "vllm:m", "-o", "base_url=http://127.0.0.1:9/v1")

    assert outcome.code == 1
    assert "http://127.0.0.1:9 gave no answer" in outcome.err
    assert "`foldline doctor`" in outcome.err


def test_a_picture_for_a_model_that_cannot_see_is_refused_before_anything_is_fetched(
    foldline, tmp_path, monkeypatch
):
    monkeypatch.setenv("FOLDLINE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "p.png").write_bytes(b"png")

    outcome = foldline("chat", "what is it?", "--attach", str(tmp_path / "p.png"))

    assert outcome.code == 2
    assert "local:smollm2-135m does not take such files" in outcome.err
    assert not (tmp_path / "cache").exists()


def test_an_attached_text_stands_apart_from_the_question(foldline, tmp_path):
    (tmp_path / "a.txt").write_text("words")

    outcome = foldline("chat", "sum up", "-m", f"{OWN}echo", "--attach", str(tmp_path / "a.txt"))

    assert outcome.out.strip() == "1: sum up\n\na.txt:\n\nwords"


@pytest.fixture
def without_llama(monkeypatch):
    """As if xllamacpp were not installed, until it is."""
    commands: list[list[str]] = []

    def load() -> None:
        if not commands:
            raise MissingExtraError('local models need llama.cpp: pip install "foldline[local]"')

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(runtime, "load_library", load)
    monkeypatch.setattr(install.subprocess, "run", run)
    return commands


def test_what_the_model_in_the_box_needs_is_installed_once_agreed_to(without_llama, monkeypatch):
    monkeypatch.setattr(install, "is_terminal", lambda _: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    choose.prepare(choose.choose_model("local:smollm2"))

    assert without_llama[0][:4] == [sys.executable, "-m", "pip", "install"]
    assert [package.startswith("xllamacpp") for package in without_llama[0][5:]] == [True]


@pytest.mark.parametrize(("is_terminal", "answer"), [(False, "y\n"), (True, "n\n")])
def test_nothing_is_installed_unasked(without_llama, monkeypatch, is_terminal, answer):
    monkeypatch.setattr(install, "is_terminal", lambda _: is_terminal)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))

    with pytest.raises(MissingExtraError, match="pip install"):
        choose.prepare(choose.choose_model("local:smollm2"))

    assert without_llama == []
