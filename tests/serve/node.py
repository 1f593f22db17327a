"""The JavaScript clients of the tests: installed once by `npm ci` from the lock beside them, run as processes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "npm"


def install() -> None:
    """Install what the lock names, once; two workers of pytest do not both."""
    npm = shutil.which("npm")
    assert npm, "npm is not installed: run scripts/servers"
    digest = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    with open(FOLDER / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = FOLDER / "node_modules" / ".foldline"
        if mark.exists() and mark.read_text() == digest:
            return
        command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run(command, cwd=FOLDER, check=True, capture_output=True, timeout=300)
        mark.write_text(digest)


def run(script: str, **arguments: Any) -> Any:
    """Run a client; return its output."""
    install()
    node = shutil.which("node")
    assert node
    result = subprocess.run(
        [node, script, json.dumps(arguments)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.strip().splitlines()[-1])
