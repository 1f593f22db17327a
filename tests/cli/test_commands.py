"""The other commands: models, doctor, traces, replay, bench."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from foldline._cli import COMMANDS
from foldline._cli.app import app
from tests.cli.conftest import OWN, ROOT

RECORDINGS = ROOT / "tests" / "recordings"


def test_the_help_names_every_command():
    commands = [command.name or command.callback.__name__ for command in app.registered_commands]
    groups = [command.name or command.typer_instance.info.name for command in app.registered_groups]

    assert sorted([*commands, *groups]) == sorted(COMMANDS)
    assert commands == [name for name in COMMANDS if name in commands]


def test_models_tells_which_keys_are_set_and_never_shows_them(foldline, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)

    outcome = foldline("models")

    rows = {line.split("\t")[0]: line.split("\t") for line in outcome.out.splitlines()}
    assert rows["openai"][2] == "OPENAI_API_KEY is set"
    assert rows["anthropic"][2] == "set ANTHROPIC_API_KEY"
    assert rows["ollama"][2] == "none needed"
    assert "tools" in rows["openai"][3]
    assert "sk-very-secret" not in outcome.out + outcome.err


def test_models_of_a_provider_have_their_capabilities(foldline):
    assert "gpt-4.1\t1,047,576\ttools, schema, images, pdf" in foldline("models", "openai").out
    assert json.loads(foldline("models", "google", "--json").out)
    # The rows of shorter names count for longer ones, and one stands for every other model of a host.
    assert "claude-3-5\t200,000\ttools, images, pdf" in foldline("models", "anthropic").out
    assert "(any other)\t?\ttools, schema\n" in foldline("models", "groq").out
    assert "openai/gpt-oss\t131,072\ttools, schema, reasoning" in foldline("models", "groq").out
    assert "smollm2-135m\t8,192\ttools, schema" in foldline("models", "local").out


def test_every_provider_but_the_one_for_any_server_has_profiles(foldline):
    rows = json.loads(foldline("models", "--json").out)

    assert [row["provider"] for row in rows if not row["can"]] == ["openai_compatible"]


def test_doctor_shows_what_the_environment_says_about_http(foldline, monkeypatch, tmp_path):
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    monkeypatch.setenv("ALL_PROXY", "http://ann:s3cret@other.example:8080")
    monkeypatch.setenv("NO_PROXY", "localhost,10.0.0.0/8")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))

    outcome = foldline("doctor")

    assert "proxy for https: http://proxy.example:3128 (HTTPS_PROXY)" in outcome.out
    assert "proxy for http: http://other.example:8080 (ALL_PROXY)" in outcome.out
    assert "s3cret" not in outcome.out
    assert "no proxy for: localhost,10.0.0.0/8 (NO_PROXY)" in outcome.out
    assert "missing.pem (SSL_CERT_FILE) is not there" in outcome.out
    assert f"certificates: {tmp_path} (SSL_CERT_DIR)" in outcome.out


def test_doctor_says_what_a_proxy_of_the_environment_needs(foldline, monkeypatch):
    monkeypatch.setattr("foldline._cli.doctor._has", lambda module: module != "httpx2")
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    monkeypatch.setenv("HTTP_PROXY", "ftp://proxy.example")

    outcome = foldline("doctor")

    assert 'pip install "foldline[httpx]"' in outcome.out.partition("proxy for https")[2]
    assert "proxy for http: the variable HTTP_PROXY names no proxy" in outcome.out


def test_doctor_names_a_configured_server_that_does_not_answer(foldline, monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        assert "openai: 127.0.0.1" in foldline("doctor").out
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")

    outcome = foldline("doctor", "--json")

    assert outcome.code == 1
    problems = [finding for finding in json.loads(outcome.out) if finding["level"] == "problem"]
    assert ["127.0.0.1:9" in finding["what"] for finding in problems] == [True]
    assert "OPENAI_BASE_URL" in problems[0]["todo"]


def test_a_traced_chat_is_a_line_and_a_tree_with_times_tokens_and_content(foldline):
    foldline("chat", "1+2", "-m", f"{OWN}adding", "-t", "tests.cli.scripted:add", "--trace")

    header, line = foldline("traces").out.splitlines()
    cells = dict(zip(header.split("\t"), line.split("\t"), strict=True))
    assert cells["tokens"] == "6 + 8"
    assert cells["question"] == "1+2"

    tree = json.loads(foldline("traces", cells["id"], "--json").out)
    assert [run["run_type"] for run in tree["runs"]] == ["llm", "tool", "llm"]
    assert tree["runs"][0]["usage"]["input_tokens"] == 3
    output = foldline("traces", cells["id"]).out
    assert output == foldline("traces", tree["trace_id"]).out
    assert "6 in + 8 out tokens" in output
    assert 'arguments: {"a": 1, "b": 2}' in output
    assert "result: 3" in output
    assert "user: 1+2" in output


def test_failed_runs_can_be_asked_for(foldline):
    foldline("chat", "hi", "-m", f"{OWN}hello", "--trace")
    foldline("chat", "hi", "-m", f"{OWN}broken", "--trace")

    outcome = foldline("traces", "--errors")

    assert "slow down" in outcome.out
    assert len(outcome.out.splitlines()) == 2


def test_traces_are_found_by_words_model_and_time(foldline):
    foldline("chat", "what of giraffes?", "-m", f"{OWN}hello", "--trace")
    foldline("chat", "and of zebras?", "-m", f"{OWN}hello", "--trace")

    def questions(*options):
        rows = json.loads(foldline("traces", "--json", *options).out)
        return [row["question"] for row in rows]

    assert questions() == ["and of zebras?", "what of giraffes?"]
    assert questions("--search", "giraf") == ["what of giraffes?"]
    assert questions("--search", '"of zebras"') == ["and of zebras?"]
    assert questions("--search", "elephants") == []
    assert questions("--model", "no-such-model") == []
    assert len(questions("--since", "1h")) == 2
    assert questions("-n", "1") == ["and of zebras?"]
    assert "not a length of time" in foldline("traces", "--prune-age", "soon").err


@pytest.mark.slow
@pytest.mark.parametrize("form", ["otel", "jsonl", "pytest"])
def test_a_trace_is_exported(foldline, tmp_path, form):
    foldline("chat", "1+2", "-m", f"{OWN}adding", "-t", "tests.cli.scripted:add", "--trace")
    [row] = json.loads(foldline("traces", "--json").out)

    text = foldline("traces", row["id"], "--export", form).out

    if form == "otel":
        [resource] = json.loads(text)["resourceSpans"]
        spans = resource["scopeSpans"][0]["spans"]
        assert [span["name"].split()[0] for span in spans][1:] == ["chat", "execute_tool", "chat"]
        assert {span.get("parentSpanId") for span in spans[1:]} == {spans[0]["spanId"]}
    elif form == "jsonl":
        runs = [json.loads(line) for line in text.splitlines()]
        assert [run["run_type"] for run in runs] == ["chain", "llm", "tool", "llm"]
    else:
        file = tmp_path / "test_recorded.py"
        file.write_text(text)
        result = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-c",
                os.devnull,
                "--rootdir",
                str(tmp_path),
                str(file),
            ],
            capture_output=True,
            text=True,
        )
        assert "1 passed" in result.stdout, result.stdout
    assert foldline("traces", row["id"], "--export", "pdf").code == 2


def test_a_trace_is_played_back_and_asked_anew(foldline):
    foldline("chat", "hi", "-m", f"{OWN}hello", "--trace")
    [row] = json.loads(foldline("traces", "--json").out)

    assert foldline("traces", row["id"], "--replay").out.strip() == row["answer"]
    assert foldline("traces", row["id"], "--replay", "-m", f"{OWN}hello").out.strip()
    assert foldline("traces", "--replay").code == 2


def test_traces_are_deleted_and_pruned(foldline):
    foldline("chat", "hi", "-m", f"{OWN}hello", "--trace")
    foldline("chat", "ho", "-m", f"{OWN}hello", "--trace")
    newest, _ = json.loads(foldline("traces", "--json").out)

    foldline("traces", newest["id"], "--delete")
    assert [row["question"] for row in json.loads(foldline("traces", "--json").out)] == ["hi"]
    foldline("traces", "--prune-size", "0k")
    assert json.loads(foldline("traces", "--json").out) == []
    assert foldline("traces", "--delete").code == 2


def test_without_traces_it_says_how_to_make_some(foldline):
    outcome = foldline("traces")

    assert outcome.code == 0
    assert "--trace" in outcome.err


@pytest.mark.parametrize(
    ("file", "begins"),
    [
        ("openai/chat-text.sse", "Hello"),
        ("openai/responses-text.sse", "In a peaceful grove"),
        ("anthropic/text.sse", "Hello"),
        ("google/text.sse", "Hello"),
    ],
)
def test_replay_plays_the_wires_of_the_providers(foldline, file, begins):
    assert foldline("replay", str(RECORDINGS / file), "--speed", "0").out.startswith(begins)


def test_replay_plays_a_recorded_call(foldline, tmp_path):
    text = (RECORDINGS / "openai" / "chat-text.sse").read_text(encoding="utf-8")
    call = {
        "request": {"method": "POST", "url": "https://api.example.com/v1/chat/completions"},
        "response": {"status": 200, "headers": {}, "first_byte": 0.0, "chunks": [[0.0, text]]},
    }
    (tmp_path / "call.jsonl").write_text(json.dumps(call) + "\n")

    assert foldline("replay", str(tmp_path / "call.jsonl")).out.startswith("Hello")


def test_bench_times_a_model(foldline):
    figures = json.loads(foldline("bench", "-m", f"{OWN}hello", "-n", "2", "--json").out)

    assert len(figures["runs"]) == 2
    assert figures["median"]["tokens"] == 4


def test_what_was_spoken_is_shown_by_its_words(foldline):
    outcome = foldline("replay", "tests/recordings/openai/chat-audio.sse", "--speed", "0")

    assert (outcome.code, outcome.out) == (0, "Hi there.\n")
    assert outcome.err == "[audio, 13 bytes; --json gives it]\n"
