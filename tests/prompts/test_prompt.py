"""Prompts of one text: variables, partials, formats, adding, copying."""

from __future__ import annotations

import pickle

import pytest
from pydantic import ValidationError

from foldline.documents import Document
from foldline.exceptions import FoldlineError, UsageError
from foldline.load import dumps, loads
from foldline.prompt_values import StringPromptValue
from foldline.prompts import (
    FewShotPromptTemplate,
    PromptTemplate,
    StringPromptTemplate,
    check_valid_template,
    format_document,
    get_template_variables,
)
from foldline.prompts.base import PromptInputError
from foldline.prompts.string import is_subsequence, mustache_schema
from foldline.utils.formatting import MissingVariableError, TemplateError


def test_a_prompt_reads_its_variables_from_the_template_in_order_of_the_alphabet():
    prompt = PromptTemplate.from_template("Say {word} in {language}, {{not}} {word}.")

    assert prompt.input_variables == ["language", "word"]
    assert prompt.format(word="yes", language="French") == "Say yes in French, {not} yes."


def test_a_prompt_is_a_runnable_that_gives_a_prompt_value(call):
    prompt = PromptTemplate.from_template("Say {word}.")

    assert call.invoke(prompt, {"word": "yes"}) == StringPromptValue(text="Say yes.")
    assert call.invoke(prompt, "no") == StringPromptValue(text="Say no.")
    assert call.batch(prompt, [{"word": "a"}, {"word": "b"}]) == [
        StringPromptValue(text="Say a."),
        StringPromptValue(text="Say b."),
    ]
    assert call.stream(prompt, {"word": "a"}) == [StringPromptValue(text="Say a.")]
    assert call.transform(prompt, [{"word": "a"}]) == [StringPromptValue(text="Say a.")]


def test_a_missing_variable_is_named_with_what_was_given_and_how_to_write_braces(call):
    prompt = PromptTemplate.from_template("{a} {b}")

    with pytest.raises(KeyError) as excinfo:
        call.invoke(prompt, {"b": 1, "c": 2})

    assert isinstance(excinfo.value, FoldlineError)
    for part in ("PromptTemplate", "{'a'}", "['b', 'c']", "{{a}}"):
        assert part in str(excinfo.value)


def test_format_names_a_missing_variable_too():
    with pytest.raises(MissingVariableError, match="'b'"):
        PromptTemplate.from_template("{a} {b}").format(a=1)


def test_extra_variables_are_ignored(call):
    assert call.invoke(PromptTemplate.from_template("{a}"), {"a": 1, "b": 2}).text == "1"


@pytest.mark.parametrize("template", ["{a}{b}", "nothing"])
def test_text_for_a_prompt_of_several_variables_is_a_typed_type_error(call, template):
    with pytest.raises(PromptInputError, match="mapping") as excinfo:
        call.invoke(PromptTemplate.from_template(template), "text")

    assert isinstance(excinfo.value, TypeError)
    assert isinstance(excinfo.value, UsageError)


def test_values_are_written_as_format_writes_them():
    class Loud:
        def __format__(self, spec: str) -> str:
            return "LOUD"

    prompt = PromptTemplate.from_template("{a}|{b}|{c}")

    assert prompt.format(a=1, b=None, c=Loud()) == "1|None|LOUD"
    assert prompt.format(a="x", b="y", c="%s {a}") == "x|y|%s {a}"


def test_partial_takes_values_and_functions_and_leaves_the_first_prompt_alone():
    prompt = PromptTemplate.from_template("{when} {what}")
    partial = prompt.partial(when=lambda: "now")

    assert partial.input_variables == ["what"]
    assert partial.format(what="go") == "now go"
    assert partial.format(what="go", when="later") == "later go"
    assert prompt.input_variables == ["what", "when"]


def test_a_partial_function_that_is_async_is_refused_with_a_way_out():
    async def when() -> str:
        return "now"

    with pytest.raises(UsageError, match="'when' is async"):
        PromptTemplate.from_template("{when}").partial(when=when).format()


@pytest.mark.parametrize(
    "fields", [{"template": "{stop}"}, {"template": "{a}", "partial_variables": {"stop": 1}}]
)
def test_a_variable_may_not_be_named_stop(fields):
    with pytest.raises(ValidationError, match="stop"):
        PromptTemplate(**fields)


def test_templates_add_up_with_text_and_with_each_other():
    prompt = (
        PromptTemplate.from_template("{a}")
        + " and {b}"
        + PromptTemplate.from_template("{c}").partial(c="!")
    )

    assert prompt.format(a=1, b=2) == "1 and 2!"
    with pytest.raises(UsageError, match="different formats"):
        prompt + PromptTemplate.from_template("{{x}}", template_format="mustache")
    with pytest.raises(UsageError, match=r"\['c'\]"):
        prompt + PromptTemplate.from_template("{c}").partial(c="?")
    with pytest.raises(TypeError):
        prompt + 1


def test_from_examples_puts_them_between_prefix_and_suffix():
    prompt = PromptTemplate.from_examples(["e1", "e2"], "then {x}", ["x"], prefix="first")

    assert prompt.format(x="y") == "first\n\ne1\n\ne2\n\nthen y"


def test_validate_template_compares_the_variables_given():
    with pytest.raises(ValidationError, match="missing"):
        PromptTemplate(template="{a}", input_variables=["b"], validate_template=True)
    with pytest.raises(ValidationError, match="mustache"):
        PromptTemplate(
            template="{{a}}",
            template_format="mustache",
            input_variables=["a"],
            validate_template=True,
        )
    with pytest.raises(UsageError):
        check_valid_template("{a}", "f-string", ["b"])
    with pytest.raises(UsageError, match="cannot be checked"):
        check_valid_template("{a}", "foo", ["a"])
    check_valid_template("{a}", "f-string", ["a"])


def test_mustache_knows_sections_dots_and_lists_and_escapes_nothing():
    prompt = PromptTemplate.from_template(
        "{{name}} {{#items}}[{{label}}]{{/items}}{{user.age}}", template_format="mustache"
    )

    assert prompt.input_variables == ["items", "name", "user"]
    text = prompt.format(
        name="<A & B>", items=[{"label": "x"}, {"label": "{{name}}"}], user={"age": 3}
    )
    assert text == "<A & B> [x][{{name}}]3"


def test_a_mustache_prompt_has_a_schema_of_what_it_takes():
    schema = mustache_schema(
        "{{name}} {{#items}}{{label}}{{/items}} {{^none}}x{{/none}} {{.}}"
    ).model_json_schema()

    assert set(schema["properties"]) == {"name", "items", "none"}
    assert set(schema["$defs"]["items"]["properties"]) == {"label"}
    prompt = PromptTemplate.from_template("{{name}}", template_format="mustache")
    assert "name" in prompt.get_input_schema().model_json_schema()["properties"]


def test_the_schema_of_a_prompt_names_its_variables():
    schema = PromptTemplate.from_template("{a}").get_input_jsonschema()

    assert schema["required"] == ["a"]
    assert schema["properties"]["a"]["type"] == "string"


def test_a_changed_template_is_checked_again_when_formatting():
    prompt = PromptTemplate.from_template("{a}")
    assert prompt.format(a="1") == "1"

    prompt.template = "{b}"
    assert prompt.format(b="2") == "2"
    copied_prompt = prompt.model_copy(update={"template": "{c}"})
    assert copied_prompt.format(c="3") == "3"
    copied_prompt.template_format = "mustache"
    assert copied_prompt.format(c="3") == "{c}"


def test_prompts_survive_pickling_dumping_and_comparing():
    prompt = PromptTemplate.from_template("{a} {b}", tags=["t"], metadata={"k": 1}).partial(b="x")
    prompt.format(a=1)

    assert pickle.loads(pickle.dumps(prompt)) == prompt
    assert loads(dumps(prompt)) == prompt
    assert prompt == PromptTemplate.from_template("{a} {b}", tags=["t"], metadata={"k": 1}).partial(
        b="x"
    )


def test_asdict_and_save_write_the_kind_of_prompt(tmp_path):
    prompt = PromptTemplate.from_template("{a}")

    assert prompt.asdict()["_type"] == "prompt"
    assert prompt.dict() == prompt.asdict()
    prompt.save(tmp_path / "p.json")
    assert '"template": "{a}"' in (tmp_path / "p.json").read_text()
    with pytest.raises(UsageError, match="partial"):
        prompt.partial(a=1).save(tmp_path / "q.json")
    with pytest.raises(UsageError, match=r"\.json"):
        prompt.save(tmp_path / "q.yaml")


def test_a_document_is_written_by_its_metadata():
    document = Document(page_content="text", metadata={"page": 1})

    assert (
        format_document(document, PromptTemplate.from_template("{page}: {page_content}"))
        == "1: text"
    )
    with pytest.raises(ValueError, match="source"):
        format_document(document, PromptTemplate.from_template("{source}: {page_content}"))


def test_an_authors_string_prompt_writes_format_only(call):
    class Shouted(StringPromptTemplate):
        def format(self, **kwargs):
            return kwargs["text"].upper()

    prompt = Shouted(input_variables=["text"])

    assert call.invoke(prompt, {"text": "hi"}).text == "HI"
    assert prompt.pretty_repr() == "{TEXT}"
    with pytest.raises(NotImplementedError):
        prompt.save("x.json")


def test_an_authors_subclass_of_a_prompt_template_is_asked_through_format(call):
    class Marked(PromptTemplate):
        def format(self, **kwargs):
            return "> " + super().format(**kwargs)

    assert call.invoke(Marked.from_template("{a}"), {"a": "x"}).text == "> x"


def test_pretty_repr_shows_variables_in_braces(capsys):
    prompt = PromptTemplate.from_template("Hi {name} {{x}}")
    prompt.pretty_print()

    assert capsys.readouterr().out == "Hi {name} {x}\n"
    assert "\x1b[" in prompt.pretty_repr(html=True)


def test_variables_of_a_template_are_listed_sorted_and_a_wrong_format_is_named():
    assert get_template_variables("{b}{a}", "f-string") == ["a", "b"]
    with pytest.raises(UsageError, match="erb"):
        get_template_variables("x", "erb")
    with pytest.raises(TemplateError):
        PromptTemplate.from_template(3)


def test_is_subsequence_means_begins_with():
    assert is_subsequence([1], [1, 2])
    assert not is_subsequence([], [1])
    assert not is_subsequence([2], [1, 2])


def test_few_shot_text_shows_examples_between_prefix_and_suffix(call):
    prompt = FewShotPromptTemplate(
        examples=[{"i": "{q}", "o": "2"}],
        example_prompt=PromptTemplate.from_template("{i}={o}"),
        prefix="{p}",
        suffix="{q}=",
        example_separator="|",
    )

    assert prompt.input_variables == ["p", "q"]
    assert call.invoke(prompt, {"p": "P", "q": "{i}"}).text == "P|{q}=2|{i}="
