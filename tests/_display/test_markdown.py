"""Markdown becomes HTML in which nothing of the text is markup, and in time that grows with the text."""

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from foldline._display.inline import render_inline
from foldline._display.markdown import render_markdown
from foldline.documents import Document
from foldline.messages import AIMessage, HumanMessage
from tests._display.conftest import Browse

pytestmark = pytest.mark.timing

TAGS = {
    "a", "blockquote", "br", "code", "del", "details", "div", "em", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol",
    "p", "pre", "span", "strong", "summary", "table", "td", "th", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"alt", "class", "href", "open", "rel", "src", "start", "style", "target"}


class HtmlContent(HTMLParser):
    """Parses HTML and records its tags and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "hr", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def check(self) -> None:
        assert self.open == []
        for tag, attributes in self.tags:
            assert tag in TAGS
            assert ATTRIBUTES.issuperset(attributes)
            address = (attributes.get("href") or "https://").lower()
            assert address.startswith(("http://", "https://", "mailto:"))
            assert (attributes.get("src") or "data:image/png;base64,").startswith("data:image/")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **b** c", "a <strong>b</strong> c"),
        ("__b__ and _c_ and *d*", "<strong>b</strong> and <em>c</em> and <em>d</em>"),
        ("snake_case_name", "snake_case_name"),
        ("~~no~~", "<del>no</del>"),
        (r"\*no\*", "*no*"),
        ("a\nb", "a<br>b"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("**a *b* c**", "<strong>a <em>b</em> c</strong>"),
        ("[x](javascript:alert(1))", "x"),
        ("[x](data:text/html,hi)", "x"),
        ("<b>&</b>", "&lt;b&gt;&amp;&lt;/b&gt;"),
    ],
)
def test_inside_a_line(text: str, html: str):
    assert render_inline(text) == html


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("# A", "<h3>A</h3>"),
        ("###### A ##", "<h6>A</h6>"),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("- a\n  - b", "<ul><li>b</li></ul>"),
        ("---", "<hr>"),
        ("```py\nx < 1\n```\nafter", '<code class="language-py">x &lt; 1</code>'),
        ("```\nstill streaming", "still streaming</code>"),
        ("|a|b|\n|-|-|\n|1|2|", ">1</td>"),
        ("a | b\n--- | ---\nx \\| y | z", ">x | y</td>"),
    ],
)
def test_blocks(text: str, part: str):
    html = render_markdown(text)

    HtmlContent(html).check()
    assert part in html


def test_a_picture_in_the_text_is_never_fetched():
    html = render_markdown("![secret](http://evil.example/?q=1) ![d](data:image/png;base64,AA==)")

    assert "<img" not in html
    assert "[image: secret]" in html


PIECES = st.sampled_from(
    [
        "*", "**", "_", "__", "`", "```", "~~~", "~~", "[", "]", "(", ")", "![", "](http://x)", "#", ">", "-", "1.",
        "|", "|-", "\n", "\n\n", "\t", "&", "<", '"', "'", "a", "b", " ", "  ", "\\", "<script>", "<img/onerror=x>",
        "\n  - ", "\n> ", "\n|a|b|\n|-|-|\n",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=200))
def test_whatever_is_written_the_html_is_safe_and_closed(text: str):
    for html in (
        render_markdown(text),
        AIMessage(text, name=text)._repr_html_(),
        AIMessage("", tool_calls=[{"name": text, "args": {text: text}, "id": text}])._repr_html_(),
        HumanMessage(
            [{"type": "image", "mime_type": text, "base64": text, "url": text}]
        )._repr_html_(),
        Document(text, metadata={text: text})._repr_html_(),
    ):
        HtmlContent(html).check()


@given(
    st.text(
        alphabet=st.characters(
            blacklist_characters="\\`*_~[]()!#<>|-+0123456789&\n\r:",
            blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp"),
        ),
        max_size=80,
    )
)
def test_plain_words_are_kept(text: str):
    assert HtmlContent(render_markdown(text)).text == text


@pytest.mark.parametrize(
    "piece",
    [
        "*a",
        "**",
        "`",
        "[",
        "](",
        "_a ",
        "> ",
        "- ",
        "  - ",
        "|a\n|-\n",
        "~~~\n",
        "![a](",
        "* * a\n",
        "**a*b",
        "`a``b",
        " ",
        "# ",
        "#",
        "1. ",
    ],
)
def test_the_time_grows_with_the_text(piece: str):
    def seconds(length: int) -> float:
        start = time.process_time()
        render_markdown("# " + piece * (length // len(piece)) + "a")
        render_markdown("| a |\n" + piece * (length // len(piece)) + "a")
        return time.process_time() - start

    seconds(1000)
    assert seconds(160_000) < 5


def test_a_very_long_text_is_cut():
    assert "50 more characters" in render_markdown("a" * 200_050)


def test_an_svg_or_a_broken_picture_is_not_drawn():
    blocks = [
        {"type": "image", "mime_type": "image/svg+xml", "base64": "PHN2Zz4="},
        {"type": "image", "mime_type": "image/png", "base64": '"><script>'},
    ]

    assert "<img" not in HumanMessage(blocks)._repr_html_()


@pytest.mark.slow
def test_a_browser_runs_nothing_of_it(browse: Browse):
    attack = '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">'
    page = browse(AIMessage(f"{attack} [x](javascript:document.title='owned') kept")._repr_html_())

    assert "owned</title>" not in page
    assert "kept" in page
