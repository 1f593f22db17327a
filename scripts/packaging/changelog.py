"""Gather the fragments of changelog.d/ into CHANGELOG.md, as short sentences under the version.

    python -m scripts.packaging.changelog            print the section of this version
    python -m scripts.packaging.changelog --write    put it into CHANGELOG.md and delete the fragments

A version that is in CHANGELOG.md already, because it is not released yet, gets the new sentences added.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["add_section", "read_fragments", "render_section"]

ROOT = Path(__file__).parent.parent.parent
KINDS = ("added", "changed", "fixed", "removed", "security")
MARK = "<!-- releases -->\n"
SENTENCE_END = re.compile(r"(?<=[.;])\s+(?=[`\"A-Za-z])")
ABBREVIATIONS = ("e.g.", "i.e.", "vs.", "etc.")


def read_fragments(folder: Path) -> dict[str, list[str]]:
    """Return the sentences by their kind, in the order of the issues."""
    sentences: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for file in sorted(folder.glob("*.*.md"), key=_order):
        kind = file.name.split(".")[1]
        if kind not in KINDS:
            raise SystemExit(
                f"{file}: the kind is {kind!r}: write NUMBER.KIND.md, one of {', '.join(KINDS)}"
            )
        sentences[kind] += split_sentences(file.read_text(encoding="utf-8"))
    return sentences


def _order(file: Path) -> tuple[int, str]:
    number = file.name.split(".")[0]
    return (int(number) if number.isdigit() else 10_000, file.name)


def split_sentences(text: str) -> list[str]:
    """Return a text as short sentences: one for each sentence, and for each part between semicolons."""
    parts: list[str] = []
    for part in SENTENCE_END.split(" ".join(text.split())):
        is_inside = parts and (
            parts[-1].count("(") > parts[-1].count(")")
            or parts[-1].count("`") % 2
            or parts[-1].endswith(ABBREVIATIONS)
        )
        if is_inside:
            parts[-1] = f"{parts[-1]} {part}"
        else:
            parts.append(part)
    return [_as_sentence(part) for part in parts]


def _as_sentence(part: str) -> str:
    part = part.rstrip(" ;.").removeprefix("and ")
    is_path = "/" in part.split(" ")[0]
    return f"{part if is_path else part[:1].upper() + part[1:]}."


def render_section(version: str, date: str, sentences: dict[str, list[str]]) -> str:
    """Return the section of one version."""
    lines = [f"## {version} ({date})", ""]
    for kind in KINDS:
        if sentences[kind]:
            lines += [f"### {kind.capitalize()}", "", *(f"- {one}" for one in sentences[kind]), ""]
    return "\n".join(lines)


def add_section(changelog: str, version: str, date: str, sentences: dict[str, list[str]]) -> str:
    """Return the changelog with the sentences under their version."""
    head, mark, releases = changelog.partition(MARK)
    if not mark:
        raise SystemExit(
            f"CHANGELOG.md: the line {MARK.strip()} is missing: put it before the first version"
        )
    first = re.match(r"\s*## (\S+) \([^)]*\)\n(.*?)(?=^## |\Z)", releases, re.DOTALL | re.MULTILINE)
    if first is None or first[1] != version:
        return f"{head}{mark}\n{render_section(version, date, sentences)}{releases}"
    introduction, known = _read_section(first[2])
    merged = {kind: known[kind] + sentences[kind] for kind in KINDS}
    section = render_section(version, date, merged)
    if introduction:
        title, _, body = section.partition("\n\n")
        section = f"{title}\n\n{introduction}\n\n{body}"
    return f"{head}{mark}\n{section}{releases[first.end() :]}"


def _read_section(section: str) -> tuple[str, dict[str, list[str]]]:
    """Return the introduction of a section, and its sentences by kind."""
    introduction, *parts = re.split(r"^### ", section, flags=re.MULTILINE)
    known: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for part in parts:
        title, _, body = part.partition("\n")
        known[title.strip().lower()] += [
            line.removeprefix("- ") for line in body.splitlines() if line.startswith("- ")
        ]
    return introduction.strip(), known


def read_version() -> str:
    """Return the version that the source has."""
    text = (ROOT / "src" / "foldline" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def main(arguments: list[str]) -> int:
    """Print the section, or write it."""
    sentences = read_fragments(ROOT / "changelog.d")
    date = datetime.now(UTC).date().isoformat()
    if "--write" not in arguments:
        sys.stdout.write(render_section(read_version(), date, sentences))
        return 0
    file = ROOT / "CHANGELOG.md"
    file.write_text(
        add_section(file.read_text(encoding="utf-8"), read_version(), date, sentences),
        encoding="utf-8",
    )
    for fragment in (ROOT / "changelog.d").glob("*.*.md"):
        fragment.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
