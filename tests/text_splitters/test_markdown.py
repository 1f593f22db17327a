from __future__ import annotations

import pytest

from foldline.exceptions import UsageError
from foldline.text_splitters import MarkdownHeaderTextSplitter

HEADERS = [("#", "H1"), ("##", "H2"), ("###", "H3")]
TEXT = """intro

# A
text a

## B
line1
line2

- x
```py
# not a heading
    indented
```
### C
c
## D

d
# E
e
####x
#nospace
"""


def split(text, **settings):
    return [
        (document.metadata, document.page_content)
        for document in MarkdownHeaderTextSplitter(HEADERS, **settings).split_text(text)
    ]


def test_sections_have_the_headings_above_them():
    assert split(TEXT) == [
        ({}, "intro"),
        ({"H1": "A"}, "text a"),
        ({"H1": "A", "H2": "B"}, "line1\nline2  \n- x\n```py\n# not a heading\n    indented\n```"),
        ({"H1": "A", "H2": "B", "H3": "C"}, "c"),
        ({"H1": "A", "H2": "D"}, "d"),
        ({"H1": "E"}, "e\n####x\n#nospace"),
    ]


def test_headings_can_stay_in_the_text():
    assert split("# A\n\n## B\n\n### C\n\nx", strip_headers=False) == [
        ({"H1": "A", "H2": "B", "H3": "C"}, "# A  \n## B  \n### C  \nx")
    ]
    assert split("# A\n# B\nx", strip_headers=False) == [
        ({"H1": "A"}, "# A"),
        ({"H1": "B"}, "# B\nx"),
    ]


def test_paragraphs_can_stay_apart():
    assert split("# A\none\n\ntwo", return_each_line=True) == [
        ({"H1": "A"}, "one"),
        ({"H1": "A"}, "two"),
    ]


@pytest.mark.parametrize("text", ["", "   \n", "# only a heading"])
def test_nothing_gives_nothing(text):
    assert split(text) == []


def test_code_blocks_end_only_with_their_own_fence():
    assert split("~~~\n# a\n```\n~~~\n# b\nx") == [({}, "~~~\n# a\n```\n~~~"), ({"H1": "b"}, "x")]
    assert split("```never closed\n# a") == [({}, "```never closed\n# a")]
    assert split("```code``` in a line\n# b\nx") == [
        ({}, "```code``` in a line"),
        ({"H1": "b"}, "x"),
    ]


def test_headings_of_ones_own():
    splitter = MarkdownHeaderTextSplitter([("**", "bold")], custom_header_patterns={"**": 1})
    (document,) = splitter.split_text("**Head**\ntext\n")
    assert (document.metadata, document.page_content) == ({"bold": "Head"}, "text")
    with pytest.raises(UsageError, match="empty mark"):
        MarkdownHeaderTextSplitter([("", "x")])
