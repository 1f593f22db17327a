"""Look into the built wheel and sdist: what must be in them, what must not, and what the metadata says.

python -m scripts.packaging.artifacts dist
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

__all__ = ["complaints"]

ROOT = Path(__file__).parent.parent.parent
IN_THE_WHEEL = ("foldline/__init__.py", "foldline/py.typed", "foldline/__main__.py")
NOT_IN_THE_WHEEL = (
    "tests/",
    "benchmarks/",
    "docs/",
    "examples/",
    "scripts/",
    "studio/",
    "typing_tests/",
)
IN_THE_SDIST = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "src/foldline/__init__.py",
    "tests/conftest.py",
)
NEVER = ("__pycache__", ".pyc", "node_modules", ".venv", ".git/", ".env")
URLS = ("Homepage", "Documentation", "Source", "Issues", "Changelog")
LARGEST_WHEEL = 8_000_000


def complaints(folder: Path) -> list[str]:
    """Return what is wrong with the packages of a folder."""
    wheels, sdists = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        return [
            f"{folder}: {len(wheels)} wheels and {len(sdists)} sdists: build one of each into an empty folder"
        ]
    return [*_wheel(wheels[0]), *_sdist(sdists[0])]


def _wheel(file: Path) -> list[str]:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        place = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(place).decode("utf-8"))
    found = [f"{file.name}: {name} is missing" for name in IN_THE_WHEEL if name not in names]
    found += [
        f"{file.name}: {name} must not be in it"
        for name in names
        if name.startswith(NOT_IN_THE_WHEEL) or any(part in name for part in NEVER)
    ]
    found += [
        f"{file.name}: {name} is neither foldline nor its metadata"
        for name in names
        if not name.startswith(("foldline/", "foldline-"))
    ]
    if file.stat().st_size > LARGEST_WHEEL:
        found.append(f"{file.name}: {file.stat().st_size:,} bytes, more than {LARGEST_WHEEL:,}")
    return found + [f"{file.name}: {complaint}" for complaint in _metadata(metadata)]


def _metadata(metadata: Message) -> list[str]:
    urls = {value.split(",")[0].strip() for value in metadata.get_all("Project-URL") or []}
    wanted = {
        "License-Expression": "MIT",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    found = [f"the metadata has no URL {name}" for name in URLS if name not in urls]
    found += [
        f"{name} is {metadata[name]!r}, not {value!r}"
        for name, value in wanted.items()
        if metadata[name] != value
    ]
    if not metadata.get_all("Classifier") or not metadata["Keywords"]:
        found.append("no classifiers or no keywords")
    return found


def _sdist(file: Path) -> list[str]:
    with tarfile.open(file) as archive:
        names = [member.name.partition("/")[2] for member in archive.getmembers()]
    found = [f"{file.name}: {name} is missing" for name in IN_THE_SDIST if name not in names]
    return found + [
        f"{file.name}: {name} must not be in it"
        for name in names
        if any(part in name for part in NEVER)
    ]


if __name__ == "__main__":
    problems = complaints(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist"))
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    sys.exit(1 if problems else 0)
