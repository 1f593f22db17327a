"""Streams Markdown to a terminal: words are shown when they are complete and are not broken at the edge.

Nothing is drawn twice, so a stopped answer stays on the screen and the window may be resized. Headings, emphasis, code,
lists, quotes and links are styled; everything else, including tables, is shown as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["MarkdownWriter", "extract_code"]

FENCE = re.compile(r"\s{0,3}(?P<fence>```+|~~~+)(?P<about>.*)")
HEADING = re.compile(r"#{1,6}\s+")
ITEM = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d{1,4}[.)])\s+")
QUOTE = re.compile(r"\s{0,3}(?:>\s?)+")
RULE = re.compile(r"\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})")
LINK = re.compile(r"\[([^\]\n]+)\]\(([^)\s]+)\)")
MARKS = re.compile(r"(\*\*|__|\*|_|`)")
BLOCK = re.compile(
    r"^[ \t]{0,3}(?P<fence>```+|~~~+)[^\n]*\n(?P<code>.*?)^[ \t]{0,3}(?P=fence)",
    re.MULTILINE | re.DOTALL,
)
UNDECIDED = re.compile(r"\s*[#>*+_`~\-\d.)\s]{0,12}")
"""The beginning of a line that may still become a heading, a list, a fence or a rule."""
LONGEST_WORD = 24
STYLES = {"**": "bold", "__": "bold", "*": "italic", "_": "italic", "`": "cyan"}

Write = Callable[[str, str | None], None]


def extract_code(text: str, *, is_last: bool = False) -> str | None:
    """Return the first (or last) fenced block of code of a text; None where there is none."""
    blocks = [match["code"] for match in BLOCK.finditer(text)]
    return (blocks[-1] if is_last else blocks[0]) if blocks else None


class MarkdownWriter:
    """Writes Markdown as it comes: `write(text, style)` gets pieces that fit the line."""

    def __init__(self, write: Write, width: Callable[[], int]) -> None:
        self._write = write
        self._width = width
        self._line = ""
        """The part of the current line that is not shown yet."""
        self._column = 0
        self._indent = ""
        self._is_new_line = True
        self._fence: str | None = None
        self._base: str | None = None
        self._marks: list[str] = []
        self._shown_length = 0
        """The number of characters of the current word that are shown already."""

    def feed(self, text: str) -> None:
        """Show the words that a piece of text completes."""
        for part in re.split(r"(\n)", text):
            if part == "\n":
                self._end_line()
            elif part:
                self._line += part
                self._show_words()

    def close(self) -> None:
        """Show the rest."""
        if self._line:
            self._show_words(is_whole=True)
        self._line, self._marks = "", []

    # -- lines

    def _end_line(self) -> None:
        self._show_words(is_whole=True)
        if not self._line and self._is_new_line:
            self._marks = []  # an empty line ends a paragraph, and emphasis with it
        self._write("\n", None)
        self._line, self._column, self._indent, self._is_new_line = "", 0, "", True
        self._shown_length = 0
        self._base = None

    def _show_words(self, *, is_whole: bool = False) -> None:
        if self._is_new_line and not self._begin_line(is_whole=is_whole):
            return
        if self._fence is not None:
            self._write(self._line, "cyan")
            self._line = ""
            return
        text = self._line
        end = len(text) if is_whole else max(text.rfind(" "), text.rfind("\t")) + 1
        # A link is shown when it is complete.
        bracket = text.rfind("[", 0, end)
        if (
            not is_whole
            and bracket >= 0
            and re.fullmatch(
                r"\[[^\]]{0,200}(?:\](?:\([^)\s]{0,500})?)?", text[bracket:end].rstrip()
            )
        ):
            end = bracket
        self._line = text[end:]
        for word in re.findall(r"\S+\s*|\s+", LINK.sub(r"\1 (\2)", text[:end])):
            self._show_word(word)
        self._show_part()

    def _show_part(self) -> None:
        """Show the characters of an incomplete word, where it will certainly fit in the line."""
        part = self._line
        fits = self._column - self._shown_length + len(part) + LONGEST_WORD <= self._width()
        if part and fits and not re.search(r"[\s*_`\[\]]", part):
            self._write(part[self._shown_length :], self._style())
            self._column += len(part) - self._shown_length
            self._shown_length = len(part)

    def _begin_line(self, *, is_whole: bool) -> bool:
        """Read the beginning of a line; return False while it is too short to decide."""
        line = self._line
        if not is_whole and (UNDECIDED.fullmatch(line) or line.lstrip()[:3] in ("```", "~~~")):
            return False
        fence = FENCE.fullmatch(line)
        if fence and (self._fence is None or fence["fence"].startswith(self._fence)):
            self._fence = None if self._fence is not None else fence["fence"]
            self._write(line, "dim")
            self._line, self._is_new_line = "", True
            return False
        self._is_new_line = False
        if self._fence is not None:
            return True
        if is_whole and RULE.fullmatch(line):
            self._write("─" * min(self._width(), 40), "dim")
            self._line = ""
        elif heading := HEADING.match(line):
            self._base = "bold"
            self._line = line[heading.end() :]
        else:
            self._begin_block(line)
        return True

    def _begin_block(self, line: str) -> None:
        for kind in (ITEM, QUOTE):
            match = kind.match(line)
            if match:
                self._base = "dim" if kind is QUOTE else None
                self._write(match[0], self._base)
                self._column = len(match[0])
                self._indent = " " * len(match[0]) if kind is ITEM else match[0]
                self._line = line[match.end() :]
                return

    # -- words

    def _show_word(self, word: str) -> None:
        pieces = self._styled(word.rstrip())
        length = sum(len(text) for text, _ in pieces) - self._shown_length
        is_begun = self._column > len(self._indent) and not self._shown_length
        if length and is_begun and self._column + length > self._width():
            self._write(f"\n{self._indent}", self._base)
            self._column = len(self._indent)
        for text, style in pieces:
            remainder, self._shown_length = (
                text[self._shown_length :],
                max(0, self._shown_length - len(text)),
            )
            if remainder:
                self._write(remainder, style)
        self._column += length
        space = word[len(word.rstrip()) :]
        if space and self._column + len(space) <= self._width():
            self._write(space, self._style())
            self._column += len(space)

    def _styled(self, word: str) -> list[tuple[str, str | None]]:
        spans: list[tuple[str, str | None]] = []
        parts = MARKS.split(word)
        for at, part in enumerate(parts):
            before, after = "".join(parts[:at]), "".join(parts[at + 1 :])
            if part in STYLES and self._turn(part, before, after):
                continue
            if part:
                spans.append((part, self._style()))
        return spans

    def _turn(self, mark: str, before: str, after: str) -> bool:
        """Begin or end a style at a mark; return False where the mark is plain text."""
        if "`" in self._marks and mark != "`":
            return False
        is_open = mark in self._marks
        is_inner = bool(before[-1:].isalnum() and after[:1].isalnum())
        if is_open and (before or mark == "`") and not (is_inner and "_" in mark):
            self._marks.remove(mark)
            return True
        if not is_open and after and not is_inner and (mark == "`" or not before[-1:].isalnum()):
            self._marks.append(mark)
            return True
        return False

    def _style(self) -> str | None:
        styles = [style for style in (self._base, *(STYLES[mark] for mark in self._marks)) if style]
        return " ".join(dict.fromkeys(styles)) or None
