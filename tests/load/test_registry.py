"""The table of what may be loaded: every row is real, public and written under its own id."""

from __future__ import annotations

import pytest

from weft.exceptions import SchemaError
from weft.load.mapping import LANGCHAIN_NAMES, LOADABLE
from weft.load.registry import REGISTRY, Allowance, is_value, our_id, resolve
from weft.load.serializable import class_id

VALUES = [
    "weft.messages",
    "weft.agents",
    "weft.documents",
    "weft.outputs",
    "weft.prompt_values",
    "weft.structured_query",
]
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

    if cls is None:  # a row of a higher floor that is not built yet gives nothing, and says so
        assert module not in VALUES
        with pytest.raises(SchemaError, match="is not in this build"):
            Allowance("all").find(key)
    else:
        assert tuple(class_id(cls)) == key


def test_names_are_unique_so_that_a_name_of_langchain_means_one_class():
    assert len(set(LANGCHAIN_NAMES.values())) == len(REGISTRY) - _outside()


def _outside() -> int:
    return sum(1 for key in REGISTRY if key[0] != "weft")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("langchain.schema.messages.HumanMessage", "weft.messages.HumanMessage"),
        ("langchain_core.messages.ai.AIMessage", "weft.messages.AIMessage"),
        ("langchain_core.messages.AIMessage", "weft.messages.AIMessage"),
        ("langchain.schema.document.Document", "weft.documents.Document"),
        ("langchain.chat_models.openai.ChatOpenAI", "weft.providers.openai.ChatOpenAI"),
        ("langchain_openai.chat_models.base.ChatOpenAI", "weft.providers.openai.ChatOpenAI"),
        ("langchain.chat_models.bedrock.BedrockChat", "weft.providers.bedrock.ChatBedrock"),
        ("evil.schema.messages.HumanMessage", "evil.schema.messages.HumanMessage"),
        ("langchain.os.system", "langchain.os.system"),
    ],
)
def test_ids_of_langchain_dumps_mean_our_classes(theirs, ours):
    assert our_id(tuple(theirs.split("."))) == tuple(ours.split("."))


def test_messages_and_documents_are_values():
    document = resolve(REGISTRY["weft", "documents", "Document"].target)
    assert document is not None
    assert is_value(document)


def test_a_row_whose_module_is_not_there_gives_nothing():
    assert resolve("weft.no_such_module:Thing") is None
    assert resolve("weft.documents:no_such_name") is None


def test_a_row_whose_module_needs_something_that_is_missing_says_so(monkeypatch, tmp_path):
    (tmp_path / "needy_module.py").write_text("import no_such_package_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):
        resolve("needy_module:Thing")
