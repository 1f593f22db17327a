"""The changelog is gathered from fragments, as short sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.packaging.changelog import (
    MARK,
    add_section,
    read_fragments,
    render_section,
    split_sentences,
)

ROOT = Path(__file__).parents[2]
LONGEST = 240


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One thing.\n", ["One thing."]),
        ("One thing; and another.", ["One thing.", "Another."]),
        ("`a` is new. `b` is gone.", ["`a` is new.", "`b` is gone."]),
        (
            "A file (version 2; older ones too) is read.",
            ["A file (version 2; older ones too) is read."],
        ),
        ("docs/x.md says it.", ["docs/x.md says it."]),
        ("Use `a; b` here.", ["Use `a; b` here."]),
    ],
)
def test_fragments_become_short_sentences(text, sentences):
    assert split_sentences(text) == sentences


def test_sentences_are_gathered_by_kind_in_the_order_of_issues(tmp_path):
    for name in ("10.added.md", "2.added.x.md", "3.fixed.md", "README.md"):
        (tmp_path / name).write_text(f"From {name.partition('.')[0]}.")

    sentences = read_fragments(tmp_path)

    assert sentences["added"] == ["From 2.", "From 10."]
    assert sentences["fixed"] == ["From 3."]


def test_a_kind_that_is_none_is_refused(tmp_path):
    (tmp_path / "1.new.md").write_text("x")

    with pytest.raises(SystemExit, match=r"1\.new\.md: the kind is 'new': write NUMBER\.KIND\.md"):
        read_fragments(tmp_path)


def sentences(**kinds: list[str]) -> dict[str, list[str]]:
    return {
        kind: kinds.get(kind, []) for kind in ("added", "changed", "fixed", "removed", "security")
    }


def test_a_version_that_is_not_released_yet_gets_the_new_sentences_and_keeps_its_introduction():
    first = add_section(f"# Changelog\n\n{MARK}", "0.1.0", "2026-01-01", sentences(added=["A."]))
    introduced = first.replace("### Added", "The first release.\n\n### Added", 1)

    second = add_section(introduced, "0.1.0", "2026-01-02", sentences(added=["B."], fixed=["C."]))
    third = add_section(second, "0.2.0", "2026-02-01", sentences(removed=["D."]))

    assert (
        "## 0.1.0 (2026-01-02)\n\nThe first release.\n\n### Added\n\n- A.\n- B.\n\n### Fixed\n\n- C.\n"
        in second
    )
    assert third.index("## 0.2.0 (2026-02-01)") < third.index("## 0.1.0 (2026-01-02)")
    assert third.count("- A.") == 1


def test_an_empty_kind_has_no_heading():
    assert "Fixed" not in render_section("1", "2026-01-01", sentences(added=["A."]))


def test_every_sentence_of_ours_is_short():
    waiting = [
        sentence for kind in read_fragments(ROOT / "changelog.d").values() for sentence in kind
    ]
    released = [
        line.removeprefix("- ")
        for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("- ")
    ]

    assert [sentence for sentence in waiting + released if len(sentence) > LONGEST] == []
