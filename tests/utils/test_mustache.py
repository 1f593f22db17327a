"""Mustache; the expected texts were observed from langchain-core's renderer unless a test says otherwise."""

import pytest
from hypothesis import given, strategies as st

from foldline.utils.formatting import TemplateError
from foldline.utils.mustache import get_variables, render


class Thing:
    x = 1


@pytest.mark.parametrize(
    ("template", "data", "text", "names"),
    [
        ("{{a}}", {"a": "<&>"}, "&lt;&amp;&gt;", ["a"]),
        ("{{{a}}} {{&a}}", {"a": "<&>"}, "<&> <&>", ["a"]),
        ("{{a.b}}", {"a": {"b": 1}}, "1", ["a"]),
        ("{{a.x}}", {"a": Thing()}, "", ["a"]),
        ("{{a.0}}", {"a": [5]}, "5", ["a"]),
        ("{{a.length}}", {"a": "xx"}, "", ["a"]),
        ("{{#a}}[{{.}}]{{/a}}", {"a": [1, 2]}, "[1][2]", ["a"]),
        ("{{#a}}{{b}} {{/a}}", {"a": [{"b": 1}, {"b": 2}]}, "1 2 ", ["a"]),
        ("{{#a}}{{c}}{{/a}}", {"a": {"b": 1}, "c": 3}, "3", ["a"]),
        ("{{#a.b}}{{c}}{{/a.b}}", {"a": {"b": {"c": 4}}}, "4", ["a"]),
        ("{{#a}}{{x}}{{/a}}", {"a": 1, "x": 2}, "2", ["a"]),
        ("{{#a}}x{{/a}}", {"a": ""}, "", ["a"]),
        ("{{#a}}x{{/a}}", {"a": 0}, "", ["a"]),
        ("{{^a}}none{{/a}}", {"a": []}, "none", ["a"]),
        ("{{^a}}{{b}}{{/a}}", {"b": 1}, "1", ["a"]),
        ("{{! c }}x", {}, "x", []),
        ("{{missing}}|", {}, "|", ["missing"]),
        ("{{ a }}", {"a": 0}, "0", ["a"]),
        ("{{a}}", {"a": None}, "", ["a"]),
        ("{{a}}", {"a": False}, "False", ["a"]),
        ("{{a}}", {"a": "{{b}}", "b": 1}, "{{b}}", ["a"]),
        ("{{=<% %>=}}<% a %>", {"a": 1}, "1", ["a"]),
        ("{{#a}}\nx\n{{/a}}\ny", {"a": True}, "x\ny", ["a"]),
        ("  {{#a}}\n  x\n  {{/a}}\nz", {"a": [1, 2]}, "  x\n  x\nz", ["a"]),
        ("x {{! c }} y\n  {{! alone }}\nz", {}, "x  y\nz", []),
    ],
)
def test_renders_as_langchain_does(template, data, text, names):
    assert render(template, data) == text
    assert get_variables(template) == names


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{#a}}x", "never closed"),
        ("{{/a}}", "not opened"),
        ("{{a", "not closed with"),
        ("{{}}", "empty"),
        ("{{#a}}{{#b}}{{/a}}{{/b}}", "'b' is closed as 'a'"),
        ("{{> p}}", "partials"),
        ("{{=x=}}", "delimiters"),
        ("{{#a}}" * 200, "deeper than 100"),
    ],
)
def test_a_broken_template_says_what_is_wrong(template, reason):
    with pytest.raises(TemplateError, match=reason):
        render(template, {})


def test_lambdas_are_refused():
    with pytest.raises(TemplateError, match="lambdas"):
        render("{{#f}}x{{/f}}", {"f": print})


@pytest.mark.slow
def test_sections_nested_over_one_list_cannot_run_for_ever():
    with pytest.raises(TemplateError, match="steps"):
        render("{{#a}}" * 60 + "x" + "{{/a}}" * 60, {"a": [1, 2]})


def test_F_P02_escaping_can_be_left_out():
    assert render("{{a}}", {"a": "<&>"}, escape=False) == "<&>"


@given(st.text())
def test_F_P02_raw_values_are_inserted_literally(value):
    assert render("<{{{x}}}>", {"x": value}) == f"<{value}>"


@given(st.text(st.sampled_from("{}#^/!&ab. \n")))
def test_any_template_renders_or_is_refused(template):
    try:
        text = render(template, {"a": [1, {"b": 2}], "b": "x"})
    except TemplateError:
        text = ""

    assert isinstance(text, str)
