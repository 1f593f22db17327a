"""Markdown on a terminal: words are never broken, marks become styles, nothing of the text is lost."""

from __future__ import annotations

import re

import pytest

from foldline._cli.markdown import MarkdownWriter, extract_code

TEXT = """# Owls

They **hunt at night**, with *very* good ears, and `snake_case_names` stay as they are. 2 * 3 * 4 is 24.

- one item that is long enough to be wrapped at the edge of a narrow terminal
- [the page](https://owls.test/a) says so

```python
x = 1  # **not bold**
```
> quoted text
last_word"""


def render(text: str, width: int = 40, size: int = 1) -> tuple[str, list[tuple[str, str | None]]]:
    pieces: list[tuple[str, str | None]] = []
    writer = MarkdownWriter(lambda text, style: pieces.append((text, style)), lambda: width)
    for at in range(0, len(text), size):
        writer.feed(text[at : at + size])
    writer.close()
    return "".join(piece for piece, _ in pieces), pieces


@pytest.mark.parametrize("width", [24, 30, 40, 79])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_no_word_is_broken_and_no_line_is_too_long(width, size):
    output, _ = render(TEXT, width, size)

    words = set(re.findall(r"[A-Za-z]{3,}", TEXT))
    assert words <= set(re.findall(r"[A-Za-z]{3,}", output))
    inside = re.sub(r"```.*?```", "", output, flags=re.DOTALL)
    assert all(len(line) <= width for line in inside.splitlines() if "://" not in line)


def test_marks_become_styles():
    output, pieces = render(TEXT, 79)

    styles = {text.strip(): style for text, style in pieces}
    assert styles["hunt"] == "bold" or ("hunt", "bold") in [(t.strip(), s) for t, s in pieces]
    assert "**hunt" not in output
    assert "snake_case_names" in output
    assert "2 * 3 * 4 is 24." in output
    assert "the page (https://owls.test/a)" in output
    assert "x = 1  # **not bold**" in output
    assert output.startswith("Owls\n\n")


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_how_the_text_is_cut_makes_no_difference(size):
    assert render(TEXT, 50, size)[0] == render(TEXT, 50, 1000)[0]


def test_a_word_that_fits_is_shown_while_it_comes():
    pieces: list[str] = []
    writer = MarkdownWriter(lambda text, style: pieces.append(text), lambda: 79)

    writer.feed("First ")
    writer.feed("wor")

    assert "".join(pieces) == "First wor"
    writer.feed("ds")
    writer.close()
    assert "".join(pieces) == "First words"


@pytest.mark.parametrize(
    "text", ["", "***", "`", "**open", "[x", "```", "_", "1.", "> ", "a*b*c", "| a | b |"]
)
def test_odd_text_is_shown(text):
    output, _ = render(text)

    assert re.sub(r"[*`─\s]", "", output) == re.sub(r"[*`\s]", "", text) or text in ("***", "_")


def test_code_is_taken_out_of_an_answer():
    text = "Here:\n\n```python\nx = 1\n```\nor\n~~~\ny\n~~~\n"

    assert extract_code(text) == "x = 1\n"
    assert extract_code(text, is_last=True) == "y\n"
    assert extract_code("none") is None
