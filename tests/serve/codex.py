"""OpenAI's Codex CLI: installed once from npm into a folder of its own, run as a process."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".codex-cli"
VERSION = "0.169.0"


def install() -> Path:
    """Return the program; install it where it is not there."""
    npm = shutil.which("npm")
    assert npm, "npm is not installed: run scripts/servers"
    program = FOLDER / "node_modules" / ".bin" / "codex"
    mark = FOLDER / ".foldline"
    with open(ROOT / ".codex-cli.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (mark.exists() and mark.read_text() == VERSION):
            FOLDER.mkdir(exist_ok=True)
            command = [
                npm, "install", "--prefix", str(FOLDER), "--no-save", "--no-package-lock", "--no-audit", "--no-fund",
                "--ignore-scripts", f"@openai/codex@{VERSION}",
            ]  # fmt: skip
            subprocess.run(command, check=True, capture_output=True, timeout=600)
            mark.write_text(VERSION)
    return program


def run(home: Path, prompt: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Give it a prompt; its home holds its settings, and its folder is empty."""
    folder = home / "work"
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [str(install()), "exec", "--skip-git-repo-check", prompt],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "CODEX_HOME": str(home), "HOME": str(home), **environment},
    )
