"""Google-style docstrings."""

from hypothesis import given, strategies as st

from foldline.utils._docstrings import Docstring, parse_docstring


def test_description_and_arguments_are_taken_apart():
    text = """Sum
    second line.

    Next paragraph.

    Args:
        a (int): with: colon
            and more
        *rest: one

        **options: two
    Returns: x
        a: not an argument
    """

    assert parse_docstring(text) == Docstring(
        "Sum\nsecond line. Next paragraph.",
        {"a": "with: colon and more", "rest": "one", "options": "two"},
    )


def test_examples_and_raises_are_not_description():
    assert parse_docstring("Do.\n\nExample:\n    foo\n\nRaises:\n    X: y") == Docstring("Do.", {})


def test_only_arguments_and_nothing_at_all():
    assert parse_docstring("Args:\n    a: x") == Docstring("", {"a": "x"})
    assert parse_docstring(None) == parse_docstring("") == Docstring("", {})


@given(st.text())
def test_any_text_is_read(text):
    assert isinstance(parse_docstring(text).description, str)
