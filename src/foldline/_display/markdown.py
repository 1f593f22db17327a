"""Renders Markdown as safe HTML: blocks here, inline elements in `inline`. Pure.

Headings, paragraphs, lists, quotes, fenced code, tables and rules; HTML in the text is shown as text. Every line is
read a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape

from foldline._display.inline import render_inline

__all__ = ["render_markdown"]

LONGEST = 200_000
"""Characters shown of one text."""
DEEPEST = 8
"""Levels of nested lists and quotes; deeper ones are shown as text."""

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\s]{0,40})")
HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(?=\S)(.*)")
RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
QUOTE = re.compile(r" {0,3}> ?")
ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])( {1,4}|\t|$)")
UNDER_HEAD = re.compile(r":?-+:?")
TABLE = '<table style="border-collapse:collapse;margin:.5em 0">'
CELL = "border:1px solid rgba(128,128,128,.4);padding:.2em .6em;text-align:left"
CODE = "overflow-x:auto;padding:.6em .8em;border-radius:4px;background:rgba(128,128,128,.12);white-space:pre"
QUOTED = "border-left:3px solid rgba(128,128,128,.5);margin:.5em 0;padding-left:.8em;opacity:.85"


def render_markdown(text: str) -> str:
    """Return a Markdown text as safe HTML; of a very long one only the beginning."""
    omitted = len(text) - LONGEST
    html = "".join(_blocks(text[:LONGEST].replace("\r\n", "\n").split("\n"), 0))
    return f"{html}<p><em>… {omitted:,} more characters</em></p>" if omitted > 0 else html


def _blocks(lines: list[str], depth: int) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif fence := FENCE.match(line):
            end = _fence_end(lines, at + 1, fence[1])
            yield _code(lines[at + 1 : end], fence[2])
            at = end + 1
        elif heading := HEADING.match(line):
            level = min(len(heading[1]) + 2, 6)  # the page around it has its own headings
            yield f"<h{level}>{render_inline(heading[2].rstrip().rstrip('#').rstrip())}</h{level}>"
            at += 1
        elif RULE.match(line):
            yield "<hr>"
            at += 1
        else:
            html, at = _container(lines, at, depth)
            yield html


def _container(lines: list[str], at: int, depth: int) -> tuple[str, int]:
    """Render a block of several lines: a quote, a list, a table or a paragraph; return it and where it ends."""
    line = lines[at]
    if depth < DEEPEST and QUOTE.match(line):
        end = _while(lines, at, lambda line: QUOTE.match(line) is not None)
        inner = [QUOTE.sub("", line, count=1) for line in lines[at:end]]
        return (
            f'<blockquote style="{QUOTED}">{"".join(_blocks(inner, depth + 1))}</blockquote>',
            end,
        )
    if depth < DEEPEST and (item := ITEM.match(line)):
        return _list(lines, at, item, depth)
    if "|" in line and at + 1 < len(lines) and _is_under_head(lines[at + 1]):
        end = _while(lines, at + 2, lambda line: "|" in line)
        return _table([line, *lines[at + 2 : end]]), end
    end = max(
        _while(lines, at, lambda line: bool(line.strip()) and not _begins_block(line, depth)),
        at + 1,
    )
    text = "\n".join(line.strip() for line in lines[at:end])
    return f'<p style="margin:.4em 0">{render_inline(text)}</p>', end


def _is_under_head(line: str) -> bool:
    return "-" in line and all(UNDER_HEAD.fullmatch(cell.strip()) for cell in _cells(line))


def _begins_block(line: str, depth: int) -> bool:
    patterns = (FENCE, HEADING, RULE) if depth >= DEEPEST else (FENCE, HEADING, RULE, QUOTE, ITEM)
    return any(pattern.match(line) for pattern in patterns)


def _while(lines: list[str], at: int, holds: Callable[[str], bool]) -> int:
    while at < len(lines) and holds(lines[at]):
        at += 1
    return at


def _fence_end(lines: list[str], at: int, fence: str) -> int:
    """Return the line that closes a fence; the end of the text where none does (an answer still streaming)."""
    while at < len(lines):
        line = lines[at].strip()
        if len(line) >= len(fence) and not line.strip(fence[0]):
            return at
        at += 1
    return at


def _code(lines: list[str], language: str) -> str:
    name = f' class="language-{escape(language)}"' if language else ""
    return f'<pre style="{CODE}"><code{name}>{escape(chr(10).join(lines))}</code></pre>'


def _list(lines: list[str], at: int, first: re.Match[str], depth: int) -> tuple[str, int]:
    """Render the items with the indentation of the first one; deeper lines belong to their item."""
    margin, is_numbered = len(first[1]), first[2][0].isdigit()
    items: list[list[str]] = []
    while at < len(lines):
        line = lines[at]
        item = ITEM.match(line)
        if item and len(item[1]) < margin + 2 and not RULE.match(line):
            if item[2][0].isdigit() is not is_numbered or len(item[1]) < margin:
                break
            items.append([line[item.end() :]])
        elif not line.strip():
            if not _goes_on(lines, at + 1, margin):
                break
            items[-1].append("")
        elif line.startswith(" " * (margin + 2)):
            items[-1].append(_dedent(line, margin))
        elif _begins_block(line, depth) or not items[-1][-1].strip():
            break
        else:
            items[-1].append(line)  # a continued paragraph
        at += 1
    tag = "ol" if is_numbered else "ul"
    start = f' start="{int(first[2][:-1])}"' if is_numbered and first[2][:-1] != "1" else ""
    html = "".join(f"<li>{_item(item, depth)}</li>" for item in items)
    return f"<{tag}{start}>{html}</{tag}>", at


def _goes_on(lines: list[str], at: int, margin: int) -> bool:
    """Whether a list continues after an empty line."""
    if at >= len(lines):
        return False
    item = ITEM.match(lines[at])
    return lines[at].startswith(" " * (margin + 2)) or (item is not None and len(item[1]) == margin)


def _dedent(line: str, margin: int) -> str:
    inner = line[margin:]
    return inner[min(4, len(inner) - len(inner.lstrip(" "))) :]


def _item(lines: list[str], depth: int) -> str:
    if len(lines) == 1:
        return render_inline(lines[0])
    return "".join(_blocks(lines, depth + 1))


def _table(lines: list[str]) -> str:
    head, *body = ([cell.strip() for cell in _cells(line)] for line in lines)
    rows = [
        "".join(f'<td style="{CELL}">{render_inline(cell)}</td>' for cell in row[: len(head)])
        for row in body
    ]
    heads = "".join(f'<th style="{CELL}">{render_inline(cell)}</th>' for cell in head)
    return f"{TABLE}<tr>{heads}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    return [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
