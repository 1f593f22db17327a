"""The source of the version before this one, from the history of the clone."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMIT = "faa2f37d81e3"
"""The last commit before tables had the prefix `foldline_` and a version in PostgreSQL."""


@pytest.fixture(scope="session")
def previous_version(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `import foldline` imports the previous version."""
    try:
        archive = subprocess.run(
            ["git", "archive", "--format=tar", COMMIT, "src"],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if archive.returncode:
        pytest.skip(f"the history of this clone does not have commit {COMMIT}: fetch all of it")
    folder = tmp_path_factory.mktemp("previous")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    where = subprocess.run(
        [sys.executable, "-c", "import foldline; print(foldline.__file__)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(folder))
    return environment
