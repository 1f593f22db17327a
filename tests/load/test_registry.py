"""The table of what may be loaded: every row is real, public and written under its own id."""

from __future__ import annotations

import pytest

from foldline.exceptions import SchemaError
from foldline.load import dumps, loads
from foldline.load.mapping import LANGCHAIN_NAMES, LOADABLE
from foldline.load.registry import REGISTRY, Allowance, RegistryEntry, is_value, our_id, resolve
from foldline.load.serializable import class_id
from foldline.prompts import PromptTemplate
from foldline.runnables import ConfigurableField

ROWS = [
    (module, name)
    for modules in LOADABLE.values()
    for module, row in modules.items()
    for name in row.split()
]


@pytest.mark.parametrize(("module", "name"), ROWS, ids=lambda part: part)
def test_a_row_names_a_class_that_is_written_under_that_id(module, name):
    key = (*module.split("."), name)

    cls = resolve(REGISTRY[key].target)

    assert cls is not None
    assert tuple(class_id(cls)) == key


def test_a_class_that_this_build_does_not_have_is_named(monkeypatch):
    monkeypatch.setitem(
        REGISTRY, ("foldline", "gone", "Old"), RegistryEntry("foldline.gone:Old", "core")
    )

    with pytest.raises(SchemaError, match=r"foldline\.gone\.Old is not in this build"):
        Allowance("all").find(("foldline", "gone", "Old"))


def test_names_are_unique_so_that_a_name_of_langchain_means_one_class():
    assert len(set(LANGCHAIN_NAMES.values())) == len(REGISTRY) - _outside()


def _outside() -> int:
    return sum(1 for key in REGISTRY if key[0] != "foldline")


@pytest.mark.parametrize(
    ("their_id", "our_path"),
    [
        ("langchain.schema.messages.HumanMessage", "foldline.messages.HumanMessage"),
        ("langchain_core.messages.ai.AIMessage", "foldline.messages.AIMessage"),
        ("langchain_core.messages.AIMessage", "foldline.messages.AIMessage"),
        ("langchain.schema.document.Document", "foldline.documents.Document"),
        ("langchain.chat_models.openai.ChatOpenAI", "foldline.providers.openai.ChatOpenAI"),
        ("langchain_openai.chat_models.base.ChatOpenAI", "foldline.providers.openai.ChatOpenAI"),
        (
            "langchain_google_genai.chat_models.ChatGoogleGenerativeAI",
            "foldline.providers.google.ChatGoogle",
        ),
        ("evil.schema.messages.HumanMessage", "evil.schema.messages.HumanMessage"),
        ("langchain.os.system", "langchain.os.system"),
    ],
)
def test_ids_of_langchain_dumps_mean_our_classes(their_id, our_path):
    assert our_id(tuple(their_id.split("."))) == tuple(our_path.split("."))


def test_messages_and_documents_are_values():
    document = resolve(REGISTRY["foldline", "documents", "Document"].target)
    assert document is not None
    assert is_value(document)


def test_a_row_whose_module_is_not_there_gives_nothing():
    assert resolve("foldline.no_such_module:Thing") is None
    assert resolve("foldline.documents:no_such_name") is None


def test_a_row_whose_module_needs_something_that_is_missing_says_so(monkeypatch, tmp_path):
    (tmp_path / "needy_module.py").write_text("import no_such_package_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):
        resolve("needy_module:Thing")


def test_a_configurable_prompt_that_was_dumped_can_be_loaded_and_configured():
    prompt = PromptTemplate.from_template("x {a}").configurable_fields(
        template=ConfigurableField(id="t")
    )

    loaded_prompt = loads(dumps(prompt))

    assert loaded_prompt == prompt
    assert loaded_prompt.invoke({"a": 1}, config={"configurable": {"t": "y {a}"}}).text == "y 1"
