"""The built packages: the wheel has foldline and nothing else, and the metadata is complete."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from scripts.packaging.artifacts import IN_THE_SDIST, complaints
from scripts.packaging.extras import DEVELOPMENT, IMPORTS, read_extras

ROOT = Path(__file__).parents[2]
METADATA = """Metadata-Version: 2.4
Name: foldline
License-Expression: MIT
Requires-Python: >=3.11
Description-Content-Type: text/markdown
Keywords: llm
Classifier: Typing :: Typed
Project-URL: Homepage, x
Project-URL: Documentation, x
Project-URL: Source, x
Project-URL: Issues, x
Project-URL: Changelog, x
"""
GOOD = {"foldline/__init__.py": "", "foldline/py.typed": "", "foldline/__main__.py": ""}


def write_packages(folder: Path, more: dict[str, str], metadata: str = METADATA) -> Path:
    with zipfile.ZipFile(folder / "foldline-1-py3-none-any.whl", "w") as wheel:
        for name, text in {**GOOD, "foldline-1.dist-info/METADATA": metadata, **more}.items():
            wheel.writestr(name, text)
    with tarfile.open(folder / "foldline-1.tar.gz", "w:gz") as sdist:
        for name in IN_THE_SDIST:
            sdist.addfile(tarfile.TarInfo(f"foldline-1/{name}"), io.BytesIO())
    return folder


def test_good_packages_pass(tmp_path):
    assert complaints(write_packages(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"tests/test_x.py": ""}, "tests/test_x.py must not be in it"),
        ({"foldline/__pycache__/x.pyc": ""}, "foldline/__pycache__/x.pyc must not be in it"),
        ({"other/x.py": ""}, "other/x.py is neither foldline nor its metadata"),
    ],
)
def test_what_does_not_belong_into_a_wheel_is_named(tmp_path, more, complaint):
    assert any(complaint in text for text in complaints(write_packages(tmp_path, more)))


def test_missing_urls_are_named(tmp_path):
    messages = complaints(
        write_packages(tmp_path, {}, METADATA.replace("Project-URL: Issues, x\n", ""))
    )

    assert messages == ["foldline-1-py3-none-any.whl: the metadata has no URL Issues"]


def test_an_empty_folder_says_what_to_do(tmp_path):
    assert "build one of each" in complaints(tmp_path)[0]


@pytest.mark.slow
def test_the_packages_of_this_repository_pass(tmp_path):
    build = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert build.returncode == 0, build.stderr
    assert complaints(tmp_path) == []
    files = [str(file) for file in tmp_path.iterdir()]
    check = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert check.returncode == 0, check.stdout


def test_every_extra_says_what_needs_it():
    assert set(read_extras()) == {*IMPORTS, *DEVELOPMENT}


def test_the_extra_all_has_every_extra_of_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [requirement] = project["optional-dependencies"]["all"]

    assert set(requirement.partition("[")[2].rstrip("]").split(",")) == set(IMPORTS)


def test_hooks_before_a_commit_fetch_nothing():
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")

    assert "repo: local" in config
    assert "http" not in config


@pytest.mark.parametrize(
    "file",
    [
        ".github/ISSUE_TEMPLATE/bug.yml",
        ".github/ISSUE_TEMPLATE/idea.yml",
        ".github/pull_request_template.md",
        "CODE_OF_CONDUCT.md",
        "SECURITY.md",
        "docs/api-policy.md",
    ],
)
def test_what_a_contributor_looks_for_is_there(file):
    assert len((ROOT / file).read_text(encoding="utf-8")) > 300
