"""A Python environment of its own for clients that must not be beside us: LangServe's, whose licence is not open
source, and simonw's `llm`. Made once by uv, beside `.venv`."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / ".venv-clients"
PACKAGES = [
    "langserve==0.3.3",
    "langchain-core==1.7.2",
    "fastapi==0.162.4",
    "httpx-sse",
    "llm==0.36",
]


def install() -> Path:
    """Return the environment's folder of programs; make it where it is not there."""
    uv = Path(sys.executable).parent / "uv"
    mark = FOLDER / ".foldline"
    requirements = "\n".join(PACKAGES)
    with open(ROOT / ".venv-clients.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (mark.exists() and mark.read_text() == requirements):
            index = os.environ.get("PIP_INDEX_URL")
            environment = {**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})}
            if certificates := os.environ.get("PIP_CERT"):
                environment["SSL_CERT_FILE"] = certificates
            python = str(FOLDER / "bin" / "python")
            make = [str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(FOLDER)]
            fill = [str(uv), "pip", "install", "--quiet", "--python", python, *PACKAGES]
            for command in (make, fill):
                subprocess.run(command, check=True, env=environment, timeout=600)
            mark.write_text(requirements)
    return FOLDER / "bin"


def run(program: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run a program of the environment; return its output."""
    result = subprocess.run(
        [str(install() / program), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
