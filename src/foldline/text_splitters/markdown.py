"""`MarkdownHeaderTextSplitter`: one document per section, with the headings above it as metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator

from typing_extensions import TypedDict

from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.utils._short_repr import short_repr

__all__ = ["HeaderType", "LineType", "MarkdownHeaderTextSplitter"]

FENCE = re.compile(r"(`{3,}|~{3,})")


class LineType(TypedDict):
    """Text of one section, and the headings above it."""

    metadata: dict[str, str]
    content: str


class HeaderType(TypedDict):
    """A heading: how deep, the name of its metadata, and its text."""

    level: int
    name: str
    data: str


class MarkdownHeaderTextSplitter:
    """Splits Markdown at its headings; lines in code blocks are not headings.

    ```python
    from foldline.text_splitters import MarkdownHeaderTextSplitter

    splitter = MarkdownHeaderTextSplitter([("#", "title"), ("##", "part")])
    for document in splitter.split_text("# Cats\\nThey purr.\\n## Big ones\\nThey roar."):
        print(document.metadata, document.page_content)
        #> {'title': 'Cats'} They purr.
        #> {'title': 'Cats', 'part': 'Big ones'} They roar.
    ```
    """

    __repr__ = short_repr

    def __init__(
        self,
        headers_to_split_on: list[tuple[str, str]],
        return_each_line: bool = False,  # noqa: FBT001, FBT002  LangChain's signature
        strip_headers: bool = True,  # noqa: FBT001, FBT002
        custom_header_patterns: dict[str, int] | None = None,
    ) -> None:
        """Set the marks of headings, with their metadata keys: `[("#", "title")]`.

        `custom_header_patterns` has the level of marks that are on both sides of a heading, as in `**Title**`.
        """
        if any(not sign for sign, _ in headers_to_split_on):
            raise UsageError(
                "headers_to_split_on has an empty mark: pass for example ('#', 'title')"
            )
        self.headers_to_split_on: list[tuple[str, str]] = sorted(
            headers_to_split_on, key=lambda header: len(header[0]), reverse=True
        )
        self.return_each_line = return_each_line
        self.strip_headers = strip_headers
        self.custom_header_patterns: dict[str, int] = custom_header_patterns or {}

    def split_text(self, text: str) -> list[Document]:
        """Split a text into one document per section, or per paragraph with `return_each_line`."""
        blocks = list(self._blocks(text))
        if self.return_each_line:
            return [Document(block["content"], metadata=block["metadata"]) for block in blocks]
        return self.aggregate_lines_to_chunks(blocks)

    def aggregate_lines_to_chunks(self, lines: list[LineType]) -> list[Document]:
        """Join neighbouring blocks under the same headings."""
        joined: list[LineType] = []
        heading_only = False
        for line in lines:
            last = joined[-1] if joined else None
            deeper = (
                last is not None
                and heading_only
                and len(line["metadata"]) > len(last["metadata"])
                and not self.strip_headers
            )
            if last is not None and (deeper or last["metadata"] == line["metadata"]):
                last["content"] += "  \n" + line["content"]
                last["metadata"] = line["metadata"]
            else:
                joined.append(LineType(metadata=line["metadata"], content=line["content"]))
            heading_only = self._heading(line["content"].rsplit("\n", 1)[-1]) is not None
        return [Document(block["content"], metadata=block["metadata"]) for block in joined]

    def _blocks(self, text: str) -> Iterator[LineType]:
        """Return the paragraphs, each with the headings above it."""
        stack: list[HeaderType] = []
        lines: list[str] = []
        fence = ""

        def block() -> Iterator[LineType]:
            if lines:
                under = {header["name"]: header["data"] for header in stack}
                yield LineType(metadata=under, content="\n".join(lines))
                lines.clear()

        for raw in text.splitlines():
            line = raw if fence else "".join(filter(str.isprintable, raw.strip()))
            was_fence, fence = fence, _fence_after(raw.strip(), fence)
            if fence or was_fence:
                lines.append(line if was_fence and fence else raw.strip())
                continue
            heading = self._heading(line)
            if heading is not None:
                yield from block()
                while stack and stack[-1]["level"] >= heading["level"]:
                    stack.pop()
                stack.append(heading)
                if not self.strip_headers:
                    lines.append(line)
            elif line:
                lines.append(line)
            else:
                yield from block()
        yield from block()

    def _heading(self, line: str) -> HeaderType | None:
        for sign, name in self.headers_to_split_on:
            if sign in self.custom_header_patterns:
                inner = line[len(sign) : -len(sign)]
                is_heading = line.startswith(sign) and line.endswith(sign) and inner.strip() != ""
                level = self.custom_header_patterns[sign]
                if is_heading and not inner.startswith(sign[0]) and not inner.endswith(sign[-1]):
                    return HeaderType(level=level, name=name, data=inner.strip())
            elif line == sign or line.startswith(sign + " "):
                return HeaderType(level=sign.count("#"), name=name, data=line[len(sign) :].strip())
        return None


def _fence_after(line: str, fence: str) -> str:
    """Return the fence of the code block that is open after a line; empty where none is."""
    if fence:
        return "" if line.startswith(fence) and not line.strip(fence[0]) else fence
    match = FENCE.match(line)
    # `` ```a``` `` on one line is not a block.
    return match[0] if match and match[0][0] not in line[match.end() :] else ""
