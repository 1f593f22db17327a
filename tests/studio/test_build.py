"""The committed page is what its sources say; the wheel has it; the lock names no registry."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_is_what_its_sources_say():
    if shutil.which("npm") is None:
        pytest.skip("node and npm are not installed here (scripts/servers installs them)")
    result = subprocess.run(
        [ROOT / "scripts" / "studio", "--check"], cwd=ROOT, capture_output=True, text=True
    )

    assert result.returncode == 0, result.stdout + result.stderr


def test_the_lock_names_no_registry():
    lock = json.loads((ROOT / "studio" / "package-lock.json").read_text(encoding="utf-8"))

    assert all("resolved" not in package for package in lock["packages"].values())
    assert all("integrity" in package for name, package in lock["packages"].items() if name)
