"""Every mistake of `tests/mistakes.py` raises an error, and `docs/errors.md` has its text."""

from __future__ import annotations

import pytest

from tests.mistakes import INTRODUCTION, MARK, MISTAKES, PAGE, escape, run

EACH = [snippet for snippets in MISTAKES.values() for snippet in snippets]


@pytest.mark.parametrize("snippet", EACH, ids=lambda snippet: snippet[:60])
def test_a_mistake_is_told_and_the_page_has_the_words(snippet):
    kind, error_text = run(snippet)

    assert kind, f"{snippet} is accepted without a word"
    assert len(error_text) >= 25, f"{kind} says too little: {error_text!r}"
    entry = f"```text\n{snippet}\n```\n\n`{kind}`: {escape(error_text)}\n"
    assert entry in PAGE.read_text(encoding="utf-8"), (
        f"it says {error_text!r}; python -m tests.mistakes --update renews the page"
    )


def test_there_are_as_many_as_promised_and_none_on_the_page_is_stale():
    page = PAGE.read_text(encoding="utf-8")

    assert len(EACH) == len(set(EACH)) >= 103
    below = page.partition(f"{MARK}{INTRODUCTION}")[2]
    assert below.count("```text\n") == len(EACH)
