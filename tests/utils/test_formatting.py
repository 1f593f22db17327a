"""`{name}` templates: plain names only, values once."""

import pytest
from hypothesis import given, strategies as st

from foldline.utils.formatting import (
    MissingVariableError,
    StrictFormatter,
    TemplateError,
    compile_template,
    formatter,
    get_variables,
)


def test_names_are_replaced_and_doubled_braces_are_text():
    assert formatter.format("{{a}} {a} {b}", a=1, b=None) == "{a} 1 None"


def test_variables_come_once_in_order():
    assert get_variables("{b} {a} {b} {{c}}") == ["b", "a"]


@pytest.mark.parametrize(
    "template",
    [
        "{a.b}",
        "{a[0]}",
        "{a.__class__}",
        "{a!x}",
        "{a:>999999999}",
        "{a:{b}}",
        "{a!r:>{b}}",
        "{}",
        "{0}",
        "{ }",
        "{a.b!s}",
    ],
)
def test_F_P01_all_but_plain_names_are_refused_at_format_time(template):
    with pytest.raises(TemplateError, match="template"):
        formatter.format(template, a=1, b=2)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{a:.2f}", "1234.50"),
        ("{a:,}", "1,234.5"),
        ("{a:>8}|", "  1234.5|"),
        ("{b!r}", "'x'"),
        ("{b!s:_<3}", "x__"),
        ("{b}{a:.0f}{b!r}", "x1234'x'"),
    ],
)
def test_format_specs_and_conversions_are_applied(template, expected):
    assert formatter.format(template, a=1234.5, b="x") == expected
    assert compile_template(template).format({"a": 1234.5, "b": "x"}) == expected


def test_a_spec_that_does_not_fit_its_value_is_a_template_error():
    with pytest.raises(TemplateError, match="Unknown format code 'f'"):
        formatter.format("{a:.2f}", a="many")


@pytest.mark.parametrize("template", ["{", "}", "{a", "a}", "{a{b}}", "{a!}"])
def test_F_P01_unbalanced_braces_say_how_to_write_them(template):
    with pytest.raises(TemplateError, match=r"write \{\{ and \}\}"):
        compile_template(template)


@pytest.mark.parametrize("name", [" a ", "a b", "a-b", "ä", "class"])
def test_odd_but_plain_names_work_as_in_langchain(name):
    assert compile_template("{" + name + "}").format({name: 3}) == "3"


def test_a_missing_value_is_named_and_is_a_key_error():
    with pytest.raises(KeyError) as excinfo:
        formatter.format("{a} {b}", a=1)

    assert isinstance(excinfo.value, MissingVariableError)
    assert str(excinfo.value) == "template '{a} {b}': no value for 'b'; given were ['a']"


def test_positional_values_are_refused():
    with pytest.raises(TemplateError, match="by name"):
        StrictFormatter().format("{a}", 1)


def test_templates_must_be_text():
    with pytest.raises(TemplateError, match="not int"):
        compile_template(3)


def test_input_variables_are_validated():
    formatter.validate_input_variables("{a}", ["a", "b"])
    with pytest.raises(MissingVariableError):
        formatter.validate_input_variables("{a}", ["b"])


@given(st.text())
def test_F_P02_values_are_inserted_literally_once(value):
    assert formatter.format("<{x}|{x}>", x=value) == f"<{value}|{value}>"


@given(st.text(st.sampled_from("{}ab.![]:0 ")))
def test_F_P01_any_template_formats_plainly_or_is_refused(template):
    class Trap:
        def __getattr__(self, name):
            raise AssertionError("reached into a value")

        def __getitem__(self, key):
            raise AssertionError("reached into a value")

        def __str__(self):
            return "ok"

        def __format__(self, spec):  # a spec is the value's own affair
            return "ok"

    try:
        compiled = compile_template(template)
    except TemplateError:
        return
    text = compiled.format(dict.fromkeys(compiled.variables, Trap()))

    assert "{" not in text.replace("{{", "") or "{{" in template


@given(st.text())
def test_escaped_text_comes_back_as_itself(text):
    assert compile_template(text.replace("{", "{{").replace("}", "}}")).format({}) == text
