"""F-Y13: a jinja2 template that loops or grows is stopped with a reason, soon and with little memory."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from foldline.exceptions import FoldlineError
from foldline.prompts import PromptTemplate

pytestmark = pytest.mark.timing

pytest.importorskip("jinja2")

HOSTILE = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops without a body": "{% for a in range(99999) if (range(99999)|list)|length < 0 %}x{% endfor %}",
    "texts in nested loops": "{% for a in range(9999) %}{% for b in range(9999) %}"
    + "x" * 1000
    + "{% endfor %}{% endfor %}",
    "text in a macro": "{% macro m() %}{% for a in range(99999) %}"
    + "x" * 10_000
    + "{% endfor %}{% endmacro %}{% set y = m() %}",
    "doubling by ~": "{% set a0 = 'x' ~ q %}"
    + "".join(f"{{% set a{n + 1} = a{n} ~ a{n} %}}" for n in range(40))
    + "{{ a40 }}",
    "doubling by +": "{% set a0 = 'xxxx' + q %}"
    + "".join(f"{{% set a{n + 1} = a{n} + a{n} %}}" for n in range(40)),
    "doubling by join": "{% set a0 = 'xxxx' %}"
    + "".join(f"{{% set a{n + 1} = [a{n}, a{n}]|join(q) %}}" for n in range(40)),
    "lists of lists": "{% set a0 = [q] %}"
    + "".join(f"{{% set a{n + 1} = [a{n}, a{n}] %}}" for n in range(40))
    + "{{ a40 }}",
    "macros of macros": "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{{ "
    + "m(" * 40
    + "'xxxx'"
    + ")" * 40
    + " }}",
    "recursive macros": "{% macro m(x) %}{{ m(x) }}{{ m(x) }}{% endmacro %}{{ m(1) }}",
    "center": "{{ q|center(1000000000) }}",
    "center of a constant": "{{ 'x'|center(1000000000) }}",
    "center through map": "{{ ['x', q]|map('center', 1000000000)|list }}",
    "indent": "{{ q|indent(1000000000, true) }}",
    "indent by text": "{{ ('x\n' * 9999)|indent('y' * 99999) }}",
    "%": "{{ '%1000000000d' % n }}",
    "% of a constant": "{{ '%1000000000d' % 1 }}",
    "% with *": "{{ '%*d' % (1000000000, n) }}",
    "precision": "{{ '%.1000000000f' % n }}",
    "one value in many fields": "{% set t = 'x' * 900000 %}{{ ('%(a)s' * 9999) % {'a': t} }}",
    "format": "{{ '%1000000000d'|format(n) }}",
    "replace": "{% set t = 'x' * 900000 %}{{ t|replace('', t) }}",
    "tojson": "{{ [[[[q]]]]|tojson(indent=1000000000) }}",
    "slice": "{{ [1]|slice(1000000000, q)|list }}",
    "batch": "{{ [1]|batch(1000000000, q)|list }}",
    "wordwrap": "{% set t = 'x ' * 400000 %}{{ t|wordwrap(1, wrapstring=t) }}",
    "power": "{{ 10 ** 1000000 }}",
    "parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "comparisons in a loop": "{% set a = ['x'] * 900000 %}{% set b = ['x'] * 900000 %}"
    "{% for n in range(99999) %}{% if a == b %}{% endif %}{% endfor %}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_F_Y13_a_template_that_loops_or_grows_is_stopped(name, monkeypatch):
    monkeypatch.setattr("foldline.prompts._jinja_limits.MAX_SECONDS", 2.0)
    tracemalloc.start()
    start = time.thread_time()
    try:
        with pytest.raises(FoldlineError, match="jinja2"):
            PromptTemplate.from_template(HOSTILE[name], template_format="jinja2").format(q="q", n=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 400_000_000
    assert time.thread_time() - start < 30


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% for x in q %}{{ loop.index }}/{{ loop.length }} {{ x }};{% endfor %}", "1/2 a;2/2 b;"),
        ("{{ q|join(', ') }} {{ q|map('upper')|list }}", "a, b ['A', 'B']"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(q[0]) }}{{ m('c') ~ 1 }}", "<a><c>1"),
        ("{{ '%-5s|%05.1f' % (q[0], 2.5) }}", "a    |002.5"),
        ("{{ '%s and %s'|format('x', 'y') }} {{ 'a'|center(5) }}.", "x and y   a  ."),
        ("{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}", "3 7 "),
        ("{% set x %}{% for y in q %}{{ y }}{% endfor %}{% endset %}{{ x * 2 }}", "abab"),
        ("{{ {'a': q}|tojson(indent=1) }}", '{\n "a": [\n  "a",\n  "b"\n ]\n}'),
        ("{% filter upper %}x{{ q[1] }}{% endfilter %}", "XB"),
        ("{{ 'a' if q|length > 1 else 'b' }} {{ q[7]|default('d') }}", "a d"),
    ],
)
def test_templates_of_usual_size_are_filled_in(template, text):
    prompt = PromptTemplate.from_template(template, template_format="jinja2")

    assert prompt.format(q=["a", "b"]) == text


def test_a_document_of_several_megabytes_is_filled_in():
    prompt = PromptTemplate.from_template("{{ document }}", template_format="jinja2")

    assert len(prompt.format(document="x" * 8_000_000)) == 8_000_000
