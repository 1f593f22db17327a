"""Copy the pages of docs/ into the build folder, with links that hold on the site.

A link to a file outside of docs/ (a test, a script) leads to a copy of it: the site needs no other host.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

__all__ = ["ROOT", "copy_pages"]

ROOT = Path(__file__).parent.parent.parent
FILES_OF_THE_ROOT = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "README.md": "index.md",
}
"""File of the root -> the page that it is on the site."""
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(\))")
TEST_MARK = re.compile(r'^(```python) \{test="[^"]*"\}$', flags=re.MULTILINE)


def copy_pages(pages: Path) -> None:
    """Copy all pages, and whatever they link to."""
    docs = ROOT / "docs"
    for file in sorted(docs.rglob("*")):
        if file.is_dir() or file.suffix == ".toml":
            continue
        _copy(file, pages / file.relative_to(docs), pages)
    for name, page in FILES_OF_THE_ROOT.items():
        if page != "index.md":
            _copy(ROOT / name, pages / page, pages)


def _copy(file: Path, target: Path, pages: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix != ".md":
        shutil.copy(file, target)
        return
    text = TEST_MARK.sub(r"\1", file.read_text(encoding="utf-8"))
    text = LINK.sub(lambda link: _resolve(link, file, target, pages), text)
    target.write_text(text, encoding="utf-8")


def _resolve(link: re.Match[str], file: Path, target: Path, pages: Path) -> str:
    """Return a link of a page as it is written on the site."""
    start, path, anchor, end = link[1], link[2], link[3] or "", link[4]
    place = (file.parent / path).resolve()
    if place.is_relative_to(ROOT / "docs"):
        goal = pages / place.relative_to(ROOT / "docs")
    elif str(place.relative_to(ROOT)) in FILES_OF_THE_ROOT:
        goal = pages / FILES_OF_THE_ROOT[str(place.relative_to(ROOT))]
    else:
        goal, anchor = _copy_source(place, pages), ""
    relative = os.path.relpath(goal, target.parent).replace(os.sep, "/")
    return f"{start}{relative}{anchor}{end}"


def _copy_source(place: Path, pages: Path) -> Path:
    """Copy a file of the repository as text; of a folder, a list of what is in it."""
    goal = pages / "files" / f"{place.relative_to(ROOT)}.txt"
    goal.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        names = sorted(one.name for one in place.iterdir() if one.name[0] not in "._")
        goal.write_text("\n".join(names) + "\n", encoding="utf-8")
    else:
        shutil.copy(place, goal)
    return goal
