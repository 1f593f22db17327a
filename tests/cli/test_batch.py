"""`foldline batch`: run, status, resume, cancel, in processes as a user starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

MODEL = """
from foldline.language_models.chat_models import BaseChatModel
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, ChatResult

class Echo(BaseChatModel):
    @property
    def _llm_type(self):
        return "echo"
    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        text = messages[-1].text
        if "fail" in text:
            raise ValueError("cannot")
        return ChatResult(generations=[ChatGeneration(message=AIMessage("re: " + text))])

model = Echo()
"""


@pytest.fixture
def foldline(tmp_path):
    (tmp_path / "mine.py").write_text(MODEL)
    environment = {**os.environ, "HOME": str(tmp_path), "NO_COLOR": "1"}

    def call(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "foldline", "batch", *map(str, arguments)],
            capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path, env=environment,
        )  # fmt: skip

    return call


def rows_of(file):
    return {
        row["key"]: row["output"] or row["error"]
        for row in map(json.loads, file.read_text().splitlines())
    }


@pytest.mark.slow
def test_a_file_of_prompts_becomes_a_file_of_answers(foldline, tmp_path):
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"
    prompts.write_text('{"id": "a", "topic": "rain"}\nbroken\n{"id": "b", "topic": "fail"}\n')
    run = foldline(
        "run",
        prompts,
        "-m",
        "py:mine:model",
        "--template",
        "about {topic}",
        "--key",
        "id",
        "--out",
        out,
    )
    assert run.returncode == 1, run.stderr
    assert "2 of 2 (100 %)" in run.stdout
    assert "prompts.jsonl, line 2: no JSON" in run.stderr
    assert rows_of(out) == {"a": "re: about rain", "b": "ValueError: cannot"}

    store = tmp_path / "prompts.jobs.db"
    status = json.loads(foldline("status", store, "--json").stdout)
    assert (status["done"], status["failed"], status["rejected"]) == (1, 1, 1)

    (tmp_path / "mine.py").write_text(MODEL.replace('if "fail" in text', 'if "never" in text'))
    second_run = foldline("resume", store, "--retry-failed", "--out", out)
    assert second_run.returncode == 1, second_run.stderr  # the broken line has no answer
    assert "1 rows rejected" in second_run.stdout
    assert rows_of(out) == {"a": "re: about rain", "b": "re: about fail"}


@pytest.mark.slow
def test_a_job_whose_rows_are_all_rejected_fails(foldline, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"title": "rain"}\n{"title": "sea"}\n')
    run = foldline("run", prompts, "-m", "py:mine:model")

    assert run.returncode == 1
    assert "has none of the columns prompt, text, input, question: use --template" in run.stderr


@pytest.mark.slow
def test_a_cancelled_job_says_so_and_wrong_stores_are_told(foldline, tmp_path):
    prompts = tmp_path / "p.csv"
    prompts.write_text("prompt\nhello\n")
    assert foldline("run", prompts, "-m", "py:mine:model").returncode == 0
    assert foldline("cancel", tmp_path / "p.jobs.db").returncode == 0
    missing = foldline("status", tmp_path / "none.db")
    assert missing.returncode == 2
    assert "there is no store" in missing.stderr
    assert foldline("resume", tmp_path / "none.db").returncode == 2
    assert foldline("run", tmp_path / "none.jsonl", "-m", "py:mine:model").returncode == 2
