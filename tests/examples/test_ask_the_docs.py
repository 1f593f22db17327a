"""The example runs offline with the embedded models, on pages of the project's own docs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def ask(tmp_path, *arguments):
    command = [sys.executable, str(ROOT / "examples" / "ask_the_docs.py"), *arguments]
    places = ["--pages", str(tmp_path / "pages"), "--index", str(tmp_path / "index")]
    result = subprocess.run(
        [*command, *places], capture_output=True, text=True, timeout=280, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_docs_are_asked_and_the_second_run_embeds_nothing(tmp_path):
    (tmp_path / "pages").mkdir()
    for name in ("retrieval.md", "house-style.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "pages" / name)

    output = ask(tmp_path, "Which store keeps vectors in a file?", "--sources")
    assert " 0 gone" in output
    assert "- retrieval.md: Retrieval > Stores" in output

    second_output = ask(tmp_path, "How are documents found by words?")
    assert " 0 new, 0 gone" in second_output
    assert "- retrieval.md" in second_output
    answer, _, _ = second_output.partition("\n- ")
    assert len(answer.strip().splitlines()[-1]) > 10
