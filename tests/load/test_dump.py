"""Dumping: exact, or a typed error that names the place (F-D01, F-D04)."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel, Field, SecretBytes, SecretStr

from foldline.chains import LLMChain
from foldline.documents import Document
from foldline.exceptions import FoldlineError, SchemaError, UsageError
from foldline.language_models import FakeListChatModel
from foldline.load import Serializable, dumpd, dumps, load, loads
from foldline.load.dump import MAX_DEPTH, default
from foldline.load.registry import REGISTRY, RegistryEntry
from foldline.messages import HumanMessage
from foldline.prompts import PromptTemplate
from tests.load.values import json_values, python_values, same


@given(json_values)
def test_F_D01_any_json_value_comes_back_as_it_was(value):
    assert same(load(dumpd(value)), value)
    assert same(loads(dumps(value)), value)


@given(json_values)
def test_F_D01_any_json_value_in_a_free_field_comes_back_as_it_was(value):
    document = Document("text", metadata={"free": value, "lc": value})

    loaded_document = loads(dumps(document))

    assert type(loaded_document) is Document
    assert same(loaded_document.metadata, document.metadata)


@given(python_values)
def test_F_D04_plain_python_values_come_back_as_they_were(value):
    assert same(loads(dumps(value)), value)


@given(json_values)
def test_the_text_and_the_values_say_the_same(value):
    assert same(json.loads(dumps(value)), dumpd(value))


def test_CVE_2025_68664_user_data_that_looks_like_an_object_stays_data():
    secret_marker = {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]}
    document = Document("x", metadata={"a": secret_marker, "b": [{"deep": secret_marker}]})

    loaded_document = loads(dumps(document), secrets_map={"OPENAI_API_KEY": "sk-canary"})

    assert loaded_document == document
    assert "sk-canary" not in repr(loaded_document)


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_F_D04_nesting_is_exact_up_to_the_limit_and_typed_beyond():
    assert loads(dumps(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(SchemaError, match="nested deeper than 256"):
        dumps(nested(MAX_DEPTH + 1))
    with pytest.raises(SchemaError, match="nested deeper"):
        dumps(Document("x", metadata={"deep": nested(10_000)}))


def test_F_D04_a_dict_of_tool_arguments_two_hundred_deep_is_written():
    value: dict[str, object] = {}
    for _ in range(200):
        value = {"lc": value}

    assert loads(dumps(Document("x", metadata=value))).metadata == value


def from_deep_down(frames_left: int, function: Callable[[], object]) -> object:
    """Call a function where the stack has only so many frames left."""
    depth = len(inspect.stack(0))

    def down(count: int) -> object:
        return down(count - 1) if count else function()

    return down(sys.getrecursionlimit() - depth - frames_left)


def test_F_D04_a_short_stack_is_a_schema_error_and_not_a_recursion_error():
    text = dumps(nested(200))
    for function in (
        lambda: dumpd(nested(200)),
        lambda: dumps(nested(200)),
        lambda: load(nested(200)),
        lambda: loads(text),
    ):
        with pytest.raises(SchemaError, match=r"too deep|recursion"):
            from_deep_down(100, function)


def test_F_D04_a_cycle_is_an_error_at_once():
    wide: list[object] = []
    wide.extend([wide] * 10)
    with pytest.raises(SchemaError, match="contains itself"):
        dumps({"a": wide})


def test_F_D04_shared_values_are_not_cycles():
    shared = {"a": 1}
    assert loads(dumps([shared, shared])) == [shared, shared]


def test_F_D04_a_small_structure_that_means_an_endless_tree_is_an_error(monkeypatch):
    monkeypatch.setattr("foldline.load.dump.MAX_VALUES", 1000)
    value: list[object] = []
    for _ in range(60):
        value = [value, value]
    with pytest.raises(SchemaError, match="more than 1,000 values"):
        dumps(value)


def test_F_D04_two_lone_surrogates_do_not_become_one_character():
    text = "\ud83d" + "\ude00"
    assert loads(dumps(["\ud83d\ude00", text])) == ["\ud83d\ude00", text]
    assert loads(dumps({text: 1})) == {text: 1}


def test_F_D04_an_integer_too_long_for_decimal_text_is_exact():
    assert loads(dumps([-(10**5000)])) == [-(10**5000)]


def test_a_ten_megabyte_string_is_written():
    text = "é" * 10_000_000
    assert loads(dumps(text)) == text


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize("value", [object(), Colour.RED, len, range(3), Document])
def test_an_object_inside_data_is_an_error_that_says_where(value):
    with pytest.raises(SchemaError, match=r"cannot dump metadata\.a\[1\]: "):
        dumps(Document("x", metadata={"a": [0, value]}))
    with pytest.raises(SchemaError, match=r"cannot dump a: "):
        dumps({"a": value})


class Plain(BaseModel):
    a: int = 1


def test_a_pydantic_model_that_nobody_registered_is_an_object_like_any_other():
    with pytest.raises(SchemaError, match=r"Plain cannot be written"):
        dumps([Plain()])
    assert dumpd(Plain())["type"] == "not_implemented"


def test_an_object_can_be_left_as_a_mark():
    data = dumpd({"a": object()}, unserializable="mark")

    assert data["a"]["type"] == "not_implemented"
    with pytest.raises(SchemaError, match="was not serialisable"):
        load(data)
    assert load(data, ignore_unserializable_fields=True) == {}


def test_a_behaviour_at_the_top_is_a_mark_unless_told_otherwise():
    assert dumpd(len)["id"] == ["builtins", "len"]
    with pytest.raises(SchemaError, match="cannot dump the value"):
        dumpd(len, unserializable="raise")


class Holder(Serializable):
    key: str = ""
    token: SecretStr | None = None
    raw: SecretBytes | None = None
    headers: dict[str, object] = Field(default_factory=dict)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"key": "HOLDER_KEY"}


CANARY = "sk-canary-0123456789"


@pytest.mark.parametrize(
    "holder",
    [
        Holder(key=CANARY),
        Holder(token=CANARY),
        Holder(raw=CANARY),
        Holder(token=CANARY, headers={"copy": CANARY}),
        Holder(key=CANARY, headers={"Authorization": f"Bearer {CANARY}"}),
        Holder(headers={"deep": [SecretStr(CANARY)]}),
    ],
)
def test_secrets_never_leave_in_a_dump(holder):
    for value in (holder, [holder], {"a": (holder,)}):
        assert CANARY not in dumps(value)
    assert CANARY not in dumps(Document("x", metadata={"a": SecretStr(CANARY)}))


@pytest.mark.parametrize("length", [7, 8, 9])
def test_a_secret_of_eight_letters_or_more_is_found_inside_a_text(length):
    secret = "k" * length
    text = dumps(Holder(key=secret, headers={"note": f"my {secret} here"}))
    assert (secret in text) is (length < 8)


def test_a_secret_in_the_key_of_a_dict_is_an_error():
    with pytest.raises(SchemaError, match="key of this dict holds a secret") as excinfo:
        dumps(Holder(key=CANARY, headers={CANARY: 1}))
    assert CANARY not in str(excinfo.value)


def test_a_class_that_borrows_the_name_of_another_is_an_error():
    class DocumentImpostor(Document):
        @classmethod
        def lc_id(cls) -> list[str]:
            return ["foldline", "documents", "Document"]

    with pytest.raises(SchemaError, match="which is another class"):
        dumps(DocumentImpostor("x"))


def test_a_class_that_borrows_the_name_of_one_never_imported_is_an_error(monkeypatch):
    class DocumentImpostor(Document):
        @classmethod
        def lc_id(cls) -> list[str]:
            return ["foldline", "nowhere", "Thing"]

    monkeypatch.setitem(
        REGISTRY, ("foldline", "nowhere", "Thing"), RegistryEntry("foldline.nowhere:Thing", "core")
    )
    with pytest.raises(SchemaError, match="which is another class"):
        dumps(DocumentImpostor("x"))


def test_pretty_indents_and_other_options_go_to_json():
    assert dumps({"a": 1}, pretty=True) == '{\n  "a": 1\n}'
    assert dumps("é", ensure_ascii=False) == '"é"'
    with pytest.raises(UsageError, match="default"):
        dumps({}, default=str)


def test_every_error_is_one_of_ours():
    assert issubclass(SchemaError, FoldlineError)


def test_default_lets_the_json_module_write_our_objects():
    text = json.dumps({"a": Document("x"), "b": len}, default=default)

    assert json.loads(text)["b"]["type"] == "not_implemented"
    assert load(json.loads(text)["a"]) == Document("x")


class Words(str):
    __slots__ = ()


class Number(IntEnum):
    ONE = 1


class Share(float):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "plain"), [(Words("a"), "a"), (Number.ONE, 1), (Share(0.5), 0.5), (True, True)]
)
def test_a_value_of_a_derived_class_is_written_as_the_plain_value(value, plain):
    for dumped in (dumpd(value), dumpd([value])[0], dumpd({"a": value})["a"]):
        assert dumped == plain
        assert type(dumped) is type(plain)


def test_an_object_may_occur_twice():
    document = Document("x")

    assert loads(dumps([document, document])) == [document, document]
    assert loads(dumps({"a": document, "b": {"c": document}}))["b"]["c"] == document


class Connection(Serializable):
    key: SecretStr
    other_key: SecretStr | None = None
    headers: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"key": "THE_KEY"}


def test_a_secret_that_stands_in_another_field_is_not_written():
    connection = Connection(
        key=SecretStr("sk-canary-1"),
        other_key=SecretStr("sk-canary-2"),
        headers={"a": "sk-canary-1", "b": ["Bearer sk-canary-2"], "c": "nothing"},
    )

    dumped = dumpd(connection)

    assert "canary" not in json.dumps(dumped)
    headers = dumped["kwargs"]["headers"]
    assert headers["a"] == {"lc": 1, "type": "secret", "id": ["THE_KEY"]}
    assert (headers["b"][0]["type"], headers["b"][0]["lc"]) == ("secret", 1)
    assert headers["c"] == "nothing"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (HumanMessage("hello"), ["langchain", "schema", "messages", "HumanMessage"]),
        (Document("x"), ["langchain", "schema", "document", "Document"]),
    ],
)
def test_a_dump_for_langchain_has_the_names_of_langchain(value, name):
    assert dumpd(value, namespace="langchain")["id"] == name
    assert dumpd(value)["id"][0] == "foldline"


def test_a_class_of_a_program_keeps_its_name_in_a_dump_for_langchain():
    value = Connection(key=SecretStr("k"))

    assert dumpd(value, namespace="langchain")["id"] == dumpd(value)["id"]


def test_a_class_that_langchain_does_not_have_is_refused_in_a_dump_for_langchain():
    chain = LLMChain(
        llm=FakeListChatModel(responses=["a"]), prompt=PromptTemplate.from_template("{a}")
    )

    with pytest.raises(SchemaError, match="LangChain has no class that it would load as"):
        dumpd(chain, namespace="langchain")
