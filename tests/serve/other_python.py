"""A Python environment of its own for clients that must not be beside us: LangServe's, whose licence is not open
source, simonw's `llm`, and LangChain's of OpenAI. Made once by uv, beside `.venv`."""

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
    "langchain-openai==1.7.3",
]
TOKENIZERS = FOLDER / "tokenizers"
"""A folder of its own, which a server can have on its path without the other packages."""


def install() -> Path:
    """Return the environment's folder of programs; make it where it is not there."""
    uv = Path(sys.executable).parent / "uv"
    mark = FOLDER / ".foldline"
    requirements = "\n".join(PACKAGES)
    with open(ROOT / ".venv-clients.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (mark.exists() and mark.read_text() == requirements):
            python = str(FOLDER / "bin" / "python")
            make = [str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(FOLDER)]
            fill = [str(uv), "pip", "install", "--quiet", "--python", python, *PACKAGES]
            for command in (make, fill):
                subprocess.run(command, check=True, env=_environment(), timeout=600)
            mark.write_text(requirements)
    return FOLDER / "bin"


def tiktoken() -> dict[str, str]:
    """Return the environment in which Python has `tiktoken` with its tables, which are in litellm's wheel."""
    python = str(install() / "python")
    uv = str(Path(sys.executable).parent / "uv")
    mark = TOKENIZERS / ".foldline"
    with open(ROOT / ".venv-clients.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            fill = [
                uv,
                "pip",
                "install",
                "--quiet",
                "--python",
                python,
                "--target",
                str(TOKENIZERS),
            ]
            subprocess.run([*fill, "tiktoken==0.14.0"], check=True, env=_environment(), timeout=600)
            wheel = [*fill, "--no-deps", "litellm==1.109.1"]
            subprocess.run(wheel, check=True, env=_environment(), timeout=600)
            mark.touch()
    tables = next(TOKENIZERS.glob("litellm/**/tokenizers"))
    return {"PYTHONPATH": str(TOKENIZERS), "TIKTOKEN_CACHE_DIR": str(tables)}


def _environment() -> dict[str, str]:
    """Return an environment in which uv finds the packages where pip does."""
    index = os.environ.get("PIP_INDEX_URL")
    environment = {**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})}
    if certificates := os.environ.get("PIP_CERT"):
        environment["SSL_CERT_FILE"] = certificates
    return environment


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
