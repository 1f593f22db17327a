"""Messages of parts: text, images, files and other blocks, with variables in them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from foldline.exceptions import UsageError
from foldline.load import dumps, loads
from foldline.prompt_values import ImagePromptValue
from foldline.prompts import (
    ChatPromptTemplate,
    DictPromptTemplate,
    HumanMessagePromptTemplate,
    ImagePromptTemplate,
)
from foldline.utils.formatting import MissingVariableError, TemplateError


def test_every_part_has_variables(call):
    prompt = ChatPromptTemplate(
        [
            (
                "human",
                [
                    {"type": "text", "text": "see {t}"},
                    "plain {t}",
                    {
                        "type": "image_url",
                        "image_url": {"url": "data:image/png;base64,{img}", "detail": "low"},
                    },
                    {"type": "image_url", "image_url": "{u}"},
                    {"type": "image", "base64": "{d}", "mime_type": "image/png"},
                    {"type": "file", "file": {"id": "{f}", "n": 1}},
                    {"type": "audio", "url": "https://example.com/{f}.wav"},
                    {"type": "text", "text": "{t}", "cache_control": {"type": "ephemeral"}},
                ],
            )
        ]
    )

    message = call.invoke(
        prompt, {"t": "T", "img": "I", "u": "https://u", "d": "D", "f": "F"}
    ).messages[0]

    assert message.content == [
        {"type": "text", "text": "see T"},
        {"type": "text", "text": "plain T"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,I", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://u"}},
        {"type": "image", "base64": "D", "mime_type": "image/png"},
        {"type": "file", "file": {"id": "F", "n": 1}},
        {"type": "audio", "url": "https://example.com/F.wav"},
        {"type": "text", "text": "T", "cache_control": {"type": "ephemeral"}},
    ]
    assert prompt.input_variables == ["d", "f", "img", "t", "u"]
    assert "see {t}" in prompt.pretty_repr()


def test_parts_work_in_system_and_ai_messages_and_in_mustache(call):
    prompt = ChatPromptTemplate(
        [
            ("system", [{"type": "text", "text": "{{a}}"}]),
            ("ai", [{"type": "image_url", "image_url": {"url": "{{u}}"}}]),
        ],
        template_format="mustache",
    )

    first, second = call.invoke(prompt, {"a": "x", "u": "https://q"}).messages
    assert first.content == [{"type": "text", "text": "x"}]
    assert second.content == [{"type": "image_url", "image_url": {"url": "https://q"}}]


def test_a_variable_named_url_for_text_does_not_change_an_image(call):
    prompt = ChatPromptTemplate(
        [("human", [{"type": "text", "text": "{url}"}, {"type": "image_url", "image_url": "{u}"}])]
    )

    message = call.invoke(prompt, {"url": "text", "u": "https://image"}).messages[0]
    assert message.content[1] == {"type": "image_url", "image_url": {"url": "https://image"}}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "{a.b}"},
        {"type": "image_url", "image_url": {"url": "{a[0]}"}},
        {"type": "x", "y": [{"z": "{a!r.b}"}]},
    ],
)
def test_F_P01_parts_have_plain_names_only(part):
    with pytest.raises(TemplateError):
        ChatPromptTemplate([("human", [part])])


def test_wrong_parts_say_what_they_should_be():
    with pytest.raises(UsageError, match="text or a dict"):
        HumanMessagePromptTemplate.from_template([3])
    with pytest.raises(UsageError, match="image_url"):
        HumanMessagePromptTemplate.from_template([{"type": "image_url", "image_url": 3}])
    with pytest.raises(UsageError, match="Partial variables"):
        HumanMessagePromptTemplate.from_template(["{a}"], partial_variables={"a": 1})
    with pytest.raises(UsageError, match="jinja2"):
        HumanMessagePromptTemplate.from_template(
            [{"type": "x", "y": "z"}], template_format="jinja2"
        )


def test_an_image_is_an_address_never_a_path(call):
    image = ImagePromptTemplate(template={"url": "{u}"})

    assert call.invoke(image, {"u": "https://x"}) == ImagePromptValue(
        image_url={"url": "https://x"}
    )
    assert image.format(u="https://x", detail="low") == {"url": "https://x", "detail": "low"}
    for template in (
        ImagePromptTemplate(template={"path": "/etc/passwd"}),
        ImagePromptTemplate(template={"url": "x"}),
    ):
        with pytest.raises(UsageError, match="path"):
            template.format(path="/etc/passwd")
    with pytest.raises(UsageError, match="url"):
        ImagePromptTemplate(template={}).format()
    with pytest.raises(UsageError, match="text"):
        ImagePromptTemplate(template={}).format(url=3)
    with pytest.raises(ValidationError, match="rename"):
        ImagePromptTemplate(template={"url": "{detail}"})
    assert image.partial(u="https://x").format() == {"url": "https://x"}
    assert "{u}" in image.pretty_repr()


def test_a_dict_prompt_fills_in_texts_at_any_depth_and_leaves_the_rest(call):
    prompt = DictPromptTemplate(
        template={"a": "{x}", "{x}": [{"c": "{y}"}, 1, ("{x}",)]}, template_format="f-string"
    )

    assert prompt.input_variables == ["x", "y"]
    assert call.invoke(prompt, {"x": "{y}", "y": 2}) == {
        "a": "{y}",
        "{x}": [{"c": "2"}, 1, ("{y}",)],
    }
    assert call.run(prompt, "format", x=1, y=2)["a"] == "1"
    assert prompt.pretty_repr() == "{'a': '{x}', '{x}': [{'c': '{y}'}, 1, ('{x}',)]}"
    with pytest.raises(MissingVariableError, match="'y'"):
        prompt.format(x=1)


def test_a_dict_prompt_dumps_loads_and_bounds_its_depth():
    prompt = DictPromptTemplate(template={"a": ["{x}"]}, template_format="mustache")
    assert loads(dumps(prompt)) == prompt
    deep: dict[str, object] = {"a": "x"}
    for _ in range(200):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="deeper"):
        DictPromptTemplate(template=deep, template_format="f-string")
