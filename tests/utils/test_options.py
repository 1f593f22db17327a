"""The check of options: unknown names, values of another type, ranges; what cannot be decided is accepted."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, TypedDict

import pytest

from foldline.exceptions import UsageError
from foldline.utils._options import check_fields, check_options, fits


class Config(TypedDict):
    a: int


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (3, int), (3, float), ("a", str), (None, int | None), (3, Any), (3, object), ("a", Literal["a", "b"]),
        (["a"], list[str]), (("a",), Sequence[str]), ({"a": 1}, Mapping[str, int]), ({"a": 1}, Config),
        (("messages", 3), tuple[Literal["messages"], int]), ((1, 2, 3), tuple[int, ...]), (len, Callable[[str], int]),
        (int, type), (int, type[Any]), (iter([1]), Iterable[int]), (3, Annotated[int, "n"]), ([], list[str]),
    ],
)  # fmt: skip
def test_a_value_of_the_type_fits(value, annotation):
    assert fits(value, annotation)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("3", int), (True, int), (True, float), (3, str), (None, int), ("c", Literal["a", "b"]), ([3], list[str]),
        ("a", list[str]), ("a", Sequence[str]), ({"a": "x"}, Mapping[str, int]), (3, Config), (3, type[Any]),
        (("words", 3), tuple[Literal["messages"], int]), ((1, "x"), tuple[int, ...]), (3, Callable[[str], int]),
        (3, Annotated[str, "n"]), ([3], list[str] | None),
    ],
)  # fmt: skip
def test_a_value_of_another_type_does_not_fit(value, annotation):
    assert not fits(value, annotation)


class Whole:
    """A number like those of NumPy, which are registered and do not inherit."""


numbers.Integral.register(Whole)


@pytest.mark.parametrize(
    ("value", "annotation", "result"),
    [(Whole(), int, True), (Whole(), float, True), (Fraction(1, 2), float, True), (Fraction(1, 2), int, False)],
)  # fmt: skip
def test_numbers_of_other_libraries_fit(value, annotation, result):
    assert fits(value, annotation) is result


@check_options(at_least={"size": 1}, advice={"width": "it is named size"})
def split(text: str, *others: str, size: int = 3) -> list[str]:
    return [piece[:size] for piece in (text, *others)]


def test_a_call_with_right_options_is_unchanged():
    assert split("hello", "there", size=2) == ["he", "th"]


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("a",), {"sise": 2}, "split has no option 'sise' (did you mean 'size'?): its options are text, others, size"),
        (("a",), {"width": 2}, "split has no option 'width': it is named size"),
        (("a",), {"size": "2"}, "split(size='2'): size must be int, not str"),
        (("a",), {"size": 0}, "split(size=0): size must be 1 or more"),
        ((3,), {}, "split(text=3): text must be str, not int"),
        (("a", 3), {}, "split(others=3): others must be str, not int"),
    ],
)  # fmt: skip
def test_an_error_names_the_option_the_value_and_what_to_pass(arguments, options, text):
    with pytest.raises(UsageError) as caught:
        split(*arguments, **options)
    assert str(caught.value) == text


def test_a_missing_argument_is_the_error_of_python():
    with pytest.raises(TypeError, match="text"):
        split()


def test_the_fields_of_a_dataclass_are_checked():
    @dataclass
    class Box:
        size: int = 1

        def __post_init__(self) -> None:
            check_fields(self, at_least={"size": 1})

    assert Box(2).size == 2
    with pytest.raises(UsageError, match=r"Box\(size=0\): size must be 1 or more"):
        Box(0)
