"""Write the table of settings on docs/serve-settings.md: `python -m tests.serve.setting_table`."""

from __future__ import annotations

from pathlib import Path

from foldline.serve._setting_rows import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "serve-settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->"


def table() -> str:
    """Return the table: one row per setting."""
    lines = ["| setting | default | what it is |", "|---|---|---|"]
    for row in SETTINGS.values():
        name = f"`{row.name}`" + (f", `{row.name}_file`" if row.facts.is_secret else "")
        lines.append(f"| {name} | {row.shown_default} | {row.facts.help} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(head + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
