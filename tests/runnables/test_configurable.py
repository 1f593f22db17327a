"""Settings and choices that the config of a call makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from foldline._io.drive import drive_each
from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.language_models.fake_chat_models import FakeListChatModel
from foldline.load import dumpd
from foldline.runnables import (
    ConfigurableField,
    ConfigurableFieldMultiOption,
    ConfigurableFieldSingleOption,
    ConfigurableFieldSpec,
    Runnable,
    RunnableLambda,
    RunnableParallel,
    RunnableSerializable,
)
from foldline.runnables._stream_call import StreamCall
from foldline.runnables.configurable import (
    DynamicRunnable,
    RunnableConfigurableAlternatives,
    RunnableConfigurableFields,
    make_options_spec,
    prefix_config_spec,
)
from tests.runnables.recording import Recorder


class Greet(RunnableSerializable[str, str]):
    """Greets, in a way that can be set."""

    word: str = "hello"
    mark: str = ""
    """The end."""

    async def _invoke_body(self, input: str, run: Run) -> str:
        return f"{self.word} {input}{self.mark}"

    def shouting(self) -> Runnable[str, str]:
        return self | RunnableLambda(str.upper)

    def length(self) -> int:
        return len(self.word)


WORD = ConfigurableField(id="word", name="Word", description="How to greet")
GREET: Any = Greet().configurable_fields(word=WORD)


def config_of(**values: Any) -> Any:
    return {"configurable": values}


def test_a_setting_comes_from_the_config_of_the_call(call):
    assert call.invoke(GREET, "ann") == "hello ann"
    assert call.invoke(GREET, "ann", config_of(word="salut")) == "salut ann"
    assert call.stream(GREET, "ann", config_of(word="salut")) == ["salut ann"]
    assert call.transform(GREET, ["ann"], config_of(word="salut")) == ["salut ann"]
    assert call.batch(GREET, ["a", "b"], [config_of(word="x"), config_of(word="y")]) == [
        "x a",
        "y b",
    ]


def test_with_config_gives_the_setting_and_the_call_wins(call):
    french = GREET.with_config(configurable={"word": "salut"})

    assert isinstance(french, DynamicRunnable)
    assert call.invoke(french, "ann") == "salut ann"
    assert call.invoke(french, "ann", config_of(word="ciao")) == "ciao ann"
    assert call.invoke(GREET, "ann") == "hello ann"


def test_a_config_around_a_chain_reaches_what_is_inside(call):
    chain = RunnableLambda(lambda x: x) | RunnableParallel(
        a=GREET, b=GREET | RunnableLambda(str.upper)
    )

    assert call.invoke(chain.with_config(configurable={"word": "oh"}), "x") == {
        "a": "oh x",
        "b": "OH X",
    }


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="no setting 'wrd' to configure; it has name, word, mark"):
        Greet().configurable_fields(wrd=WORD)
    with pytest.raises(UsageError, match="RunnableLambda has none"):
        RunnableLambda(lambda x: x).configurable_fields(func=WORD)


def test_a_value_of_the_wrong_type_is_refused(call):
    with pytest.raises(ValueError, match="valid string"):
        call.invoke(GREET, "ann", config_of(word=["no", "word"]))


def test_more_settings_may_be_made_configurable_later(call):
    greeting = GREET.configurable_fields(mark=ConfigurableField(id="mark"))

    assert call.invoke(greeting, "ann", config_of(word="oh", mark="!")) == "oh ann!"
    assert [spec.id for spec in greeting.config_specs] == ["mark", "word"]


def test_a_setting_may_be_one_or_several_of_some_options(call):
    single_option = Greet().configurable_fields(
        word=ConfigurableFieldSingleOption(
            id="w", options={"en": "hello", "fr": "salut"}, default="fr"
        )
    )
    multi_option = FakeListChatModel(responses=["?"]).configurable_fields(
        responses=ConfigurableFieldMultiOption(id="r", options={"a": "A", "b": "B"}, default=["a"])
    )

    assert call.invoke(single_option, "ann") == "salut ann"
    assert call.invoke(single_option, "ann", config_of(w="en")) == "hello ann"
    assert call.invoke(multi_option, "?").text == "A"
    assert call.invoke(multi_option, "?", config_of(r=["b", "a"])).text == "B"
    with pytest.raises(UsageError, match="knows no option 'de'; there are 'en', 'fr'"):
        call.invoke(single_option, "ann", config_of(w="de"))
    with pytest.raises(UsageError, match="takes a list of options"):
        call.invoke(multi_option, "?", config_of(r="b"))


def test_models_are_configurable(call):
    model: Any = FakeListChatModel(
        responses=["a"], callbacks=[], tags=["kept"]
    ).configurable_fields(responses=ConfigurableField(id="r"))

    assert call.invoke(model, "?", config_of(r=["b"])).text == "b"
    assert "".join(piece.text for piece in call.stream(model, "?", config_of(r=["cd"]))) == "cd"
    assert model.prepare(config_of(r=["b"]))[0].tags == ["kept"]


ALTERNATIVES: Any = Greet().configurable_alternatives(
    ConfigurableField(id="who"),
    default_key="polite",
    rude=RunnableLambda(lambda name: f"what, {name}?"),
    made=lambda: Greet(word="made for"),
)


def test_an_alternative_comes_from_the_config_of_the_call(call):
    assert call.invoke(ALTERNATIVES, "ann") == "hello ann"
    assert call.invoke(ALTERNATIVES, "ann", config_of(who="polite")) == "hello ann"
    assert call.invoke(ALTERNATIVES, "ann", config_of(who="rude")) == "what, ann?"
    assert call.invoke(ALTERNATIVES, "ann", config_of(who="made")) == "made for ann"
    assert call.stream(ALTERNATIVES, "ann", config_of(who="rude")) == ["what, ann?"]


def test_an_unknown_alternative_is_refused_by_name(call):
    with pytest.raises(
        UsageError, match="knows no alternative 'shy'; there are 'polite', 'rude', 'made'"
    ):
        call.invoke(ALTERNATIVES, "ann", config_of(who="shy"))


def test_alternatives_have_settings_of_their_own(call):
    nested = (
        Greet()
        .configurable_fields(word=WORD)
        .configurable_alternatives(
            ConfigurableField(id="who"), loud=Greet(mark="!").configurable_fields(word=WORD)
        )
    )

    assert call.invoke(nested, "ann", config_of(word="oh")) == "oh ann"
    assert call.invoke(nested, "ann", config_of(word="oh", who="loud")) == "oh ann!"


def test_prefixed_keys_tell_the_settings_of_alternatives_apart(call):
    field = ConfigurableField(id="word")
    nested = (
        Greet(word="a")
        .configurable_fields(word=field)
        .configurable_alternatives(
            ConfigurableField(id="who"),
            prefix_keys=True,
            b=Greet(word="b").configurable_fields(word=field),
        )
    )
    values = {"who==default/word": "x", "who==b/word": "y"}

    assert call.invoke(nested, "ann", config_of(**values)) == "x ann"
    assert call.invoke(nested, "ann", config_of(who="b", **values)) == "y ann"
    assert [spec.id for spec in nested.config_specs] == ["who", "who==b/word", "who==default/word"]


def test_settings_of_the_default_can_be_made_configurable_after_the_alternatives(call):
    more = ALTERNATIVES.configurable_fields(word=WORD)

    assert call.invoke(more, "ann", config_of(word="oh")) == "oh ann"
    assert call.invoke(more, "ann", config_of(word="oh", who="rude")) == "what, ann?"


def test_it_is_no_run_of_its_own(call):
    recorder = Recorder()

    call.invoke(GREET, "ann", {"callbacks": [recorder], "run_name": "mine", **config_of(word="oh")})

    assert recorder.names() == ["mine"]
    recorder.check()


def test_specs_and_schemas_say_what_can_be_chosen():
    assert GREET.config_specs == [
        ConfigurableFieldSpec(
            id="word", annotation=str, name="Word", description="How to greet", default="hello"
        )
    ]
    schema = GREET.get_config_jsonschema()["$defs"]["Configurable"]["properties"]["word"]
    assert schema == {
        "default": "hello",
        "description": "How to greet",
        "title": "Word",
        "type": "string",
    }
    which = ALTERNATIVES.get_config_jsonschema()["$defs"]["who"]
    assert which["enum"] == ["rude", "made", "polite"]
    (spec,) = ALTERNATIVES.config_specs
    assert (spec.id, spec.default) == ("who", "polite")
    assert ALTERNATIVES.get_input_schema(config_of(who="made")) is Greet().get_input_schema()
    assert GREET.InputType is str


def test_shared_fields_get_no_prefix():
    shared = ConfigurableFieldSpec(id="a", annotation=str, is_shared=True)

    assert prefix_config_spec(shared, "p").id == "a"
    assert prefix_config_spec(shared._replace(is_shared=False), "p").id == "p/a"
    option = ConfigurableFieldSingleOption(id="o", options={"x": 1}, default="x")
    assert make_options_spec(option, "D") == make_options_spec(option, "D")
    assert make_options_spec(option, "D").description == "D"


def test_attributes_and_methods_are_those_of_what_runs():
    french = GREET.with_config(configurable={"word": "bonjour"})

    assert french.word == "bonjour"
    assert french.length() == 7
    with pytest.raises(AttributeError):
        french.no_such_thing  # noqa: B018


def test_a_runnable_that_a_method_gives_stays_configurable(call):
    shouting = GREET.shouting()

    assert call.invoke(shouting, "ann") == "HELLO ANN"
    assert call.invoke(shouting, "ann", config_of(word="oh")) == "OH ANN"
    assert call.invoke(shouting.with_config(configurable={"word": "hm"}), "ann") == "HM ANN"
    assert [spec.id for spec in shouting.config_specs] == ["word"]
    greeting = GREET.with_config(configurable={"word": "kept"}).shouting()
    assert call.invoke(greeting, "ann") == "KEPT ANN"


def test_stream_v2_is_the_chosen_models_own():
    class Speaker(Greet):
        def _open_stream_v2(self, call: StreamCall) -> Any:
            async def events() -> Any:
                value, run = await call.begin()
                yield self.word
                yield value
                yield run.configurable

            return drive_each(events())

    speaker = Speaker().configurable_fields(word=WORD)
    chain = RunnableLambda(str.upper) | speaker.with_config(configurable={"word": "oh"})

    assert list(chain.stream_v2("ann")) == ["oh", "ANN", {"word": "oh"}]
    assert next(iter(speaker.stream_v2("ann", config_of(word="ah")))) == "ah"


def test_prepare_gives_the_runnable_and_its_config():
    runnable, config = GREET.with_config(tags=["t"]).prepare(config_of(word="oh"))

    assert runnable == Greet(word="oh")
    assert config["tags"] == ["t"]
    assert config["configurable"] == {"word": "oh"}


def test_it_can_be_dumped_and_shown():
    assert dumpd(GREET)["id"] == ["foldline", "runnables", "RunnableConfigurableFields"]
    assert isinstance(GREET, RunnableConfigurableFields)
    assert isinstance(ALTERNATIVES, RunnableConfigurableAlternatives)
    assert repr(GREET).startswith("RunnableConfigurableFields(default=Greet(")


def test_a_broken_generator_inside_leaves_nothing_behind(call, no_leaks):
    def speak(inputs: Iterator[str]) -> Iterator[str]:
        yield "a"
        raise ValueError("broken")

    from foldline.runnables import RunnableGenerator

    chain = RunnableGenerator(speak).configurable_alternatives(
        ConfigurableField(id="w"), b=RunnableGenerator(speak)
    )
    with pytest.raises(ValueError, match="broken"):
        call.stream(chain, "x", config_of(w="b"))


def test_configs_of_nested_choices_count_too(call):
    inner = GREET.with_config(configurable={"word": "inner"})
    outer = inner.configurable_alternatives(ConfigurableField(id="who"), other=inner)

    assert call.invoke(outer, "ann") == "inner ann"
    assert call.invoke(outer, "ann", config_of(who="other")) == "inner ann"
    assert call.invoke(outer, "ann", config_of(who="other", word="call")) == "call ann"
    assert outer.get_output_schema() is Greet().get_output_schema()
    assert outer.OutputType is str
    assert [spec.id for spec in outer.config_specs] == ["who", "word"]
