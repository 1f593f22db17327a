"""Reading: hostile data meets a closed registry (F-D02, F-D03)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from pydantic import SecretStr

from foldline.documents import Document
from foldline.exceptions import SchemaError, UsageError
from foldline.load import (
    Serializable,
    default_init_validator,
    dumpd,
    dumps,
    load,
    loads,
    register_loadable,
)
from foldline.load.dump import MAX_DEPTH
from foldline.load.load import Reviver
from foldline.load.registry import REGISTRY
from foldline.messages import HumanMessage
from tests.load.values import json_values


def constructor(*path: str, **kwargs: object) -> dict[str, object]:
    return {"lc": 1, "type": "constructor", "id": list(path), "kwargs": kwargs}


DOCUMENT = ("foldline", "documents", "Document")


class Client(Serializable):
    """A provider's stand-in: it has a key and an address."""

    key: SecretStr | None = None
    plain_key: str = ""
    base_url: str = "https://api.example"

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        return ["acme"]

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"key": "ACME_KEY", "plain_key": "ACME_PLAIN"}


@pytest.fixture
def registered():
    before = dict(REGISTRY)
    register_loadable(Client, group="provider")
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


@given(json_values)
def test_F_D02_hostile_data_gives_a_value_or_a_schema_error(data):
    refusal = "cannot load"
    try:
        load(data)
    except SchemaError as error:
        refusal = str(error)
    assert refusal.startswith("cannot load")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (constructor("os", "system", command="ls"), "os.system is not a class that may be loaded"),
        (constructor("foldline", "load", "Serializable"), "not a class"),
        (constructor("foldline", "messages", "__builtins__"), "not a class"),
        (constructor(*DOCUMENT), "does not fit Document"),
        (constructor(*DOCUMENT, page_content=5), "does not fit Document: page_content"),
        (constructor(*DOCUMENT, page_content="x", more=1), "Document has no argument 'more'"),
        (constructor(*DOCUMENT, page_content="x", self=1), "Document has no argument 'self'"),
        ({**constructor(*DOCUMENT, page_content="x"), "lc": 2}, "unknown format version 2"),
        ({**constructor(*DOCUMENT, page_content="x"), "lc": True}, "unknown format version True"),
        ({**constructor(*DOCUMENT, page_content="x"), "more": 2}, "no key 'more'"),
        ({"lc": 1, "type": "constructor", "id": list(DOCUMENT), "kwargs": []}, "are an object"),
        ({"lc": 1, "type": "constructor", "id": "Document", "kwargs": {}}, "list of names"),
        ({"lc": 1, "type": "call", "id": ["os", "system"]}, "unknown type"),
        ({"lc": 1, "type": "value", "id": ["code"], "value": "1"}, "not a 'code' value"),
        ({"lc": 1, "type": "value", "id": ["bytes"], "value": "%"}, "not a 'bytes' value"),
        ({"lc": 1, "type": "value", "id": ["map"], "value": [[[], 1]]}, "not a 'map' value"),
        ({"lc": 1, "type": "value", "id": ["set"], "value": 5}, "not a 'set' value"),
        (
            {"lc": 1, "type": "value", "id": ["tuple"], "value": [{"lc": 2}]},
            "unknown format version 2",
        ),
        ({"lc": 1, "type": "secret", "id": ["HOME"]}, "the secret 'HOME' is not given"),
        ({"lc": 1, "type": "secret", "id": ["HOME"], "more": 1}, "no key 'more'"),
        ({"lc": 1, "type": "not_implemented", "id": ["x"]}, "was not serialisable"),
    ],
)
def test_F_D02_what_does_not_fit_is_a_schema_error_that_says_where(data, says):
    with pytest.raises(SchemaError) as excinfo:
        load({"a": [data]})
    assert str(excinfo.value).startswith("cannot load a[0]")
    assert says in str(excinfo.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", "[1e999]", '{"a": 1, "a": 2}', "1" * 5000, "[" * 100_000, b"\xff", "\ud800"],
)
def test_F_D02_text_that_is_not_strict_json_is_a_schema_error(text):
    with pytest.raises(SchemaError, match="cannot load the text"):
        loads(text)


def test_F_D02_deep_and_cyclic_values_are_schema_errors():
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    cycle: list[object] = []
    cycle.append(cycle)
    for value in (deep, cycle):
        with pytest.raises(SchemaError, match="nested deeper"):
            load(value)


def test_F_D02_more_values_than_the_limit_are_a_schema_error(monkeypatch):
    monkeypatch.setattr(sys.modules["foldline.load._reader"], "MAX_VALUES", 10)
    with pytest.raises(SchemaError, match="more than 10 values"):
        load([[] for _ in range(20)])


def test_load_leaves_its_input_alone():
    data = {"a": [dumpd(Document("x"))], "b": 1}
    copy = {"a": [dumpd(Document("x"))], "b": 1}

    load(data)

    assert data == copy


def test_allowed_objects_narrows_what_is_built():
    data = dumpd(Document("x"))

    assert load(data, allowed_objects=[Document]) == Document("x")
    assert load(data, allowed_objects="core") == Document("x")
    for allowed in ("messages", []):
        with pytest.raises(SchemaError, match="may not be loaded here"):
            load(data, allowed_objects=allowed)
    with pytest.raises(UsageError, match="'messages', 'core', 'all'"):
        load(data, allowed_objects="everything")


def test_a_class_named_in_code_needs_no_registration():
    assert load(dumpd(Client(base_url="x")), allowed_objects=[Client]) == Client(base_url="x")
    with pytest.raises(SchemaError, match=r"acme\.Client is not a class"):
        load(dumpd(Client()), allowed_objects="all")


def test_namespaces_and_mappings_open_only_what_code_named(registered):
    data = dumpd(Client())

    with pytest.raises(SchemaError, match="may not be loaded here"):
        load(data)
    assert load(data, valid_namespaces=["acme"]) == Client()
    assert load(data, allowed_objects="all") == Client()
    with pytest.raises(SchemaError, match="not a class"):
        load(constructor("acme", "Other"), valid_namespaces=["acme"])
    with pytest.raises(SchemaError, match="not a class"):
        load(constructor("subprocess", "Popen", args=["ls"]), valid_namespaces=["subprocess"])
    mapping = {("old", "Doc"): ("foldline", "documents", "Document")}
    old = constructor("old", "Doc", page_content="x")
    assert load(old, additional_import_mappings=mapping) == Document("x")


def test_registering_twice_is_fine_and_stealing_a_name_is_not(registered):
    register_loadable(Client, group="provider")

    @register_loadable
    class Mine(Client):
        @classmethod
        def lc_id(cls) -> list[str]:
            return ["acme", "Mine"]

    assert load(dumpd(Mine())) == Mine()

    @register_loadable(group="provider")
    class Held(Client):
        @classmethod
        def lc_id(cls) -> list[str]:
            return ["acme", "Held"]

    with pytest.raises(SchemaError, match="may not be loaded here"):
        load(dumpd(Held()))
    with pytest.raises(UsageError, match="already registered"):

        @register_loadable
        class Thief(Client):
            @classmethod
            def lc_id(cls) -> list[str]:
                return ["acme", "Client"]


def test_F_D03_data_does_not_choose_where_keys_are_sent(registered):
    data = dumpd(Client(base_url="https://evil.example"))

    with pytest.raises(SchemaError, match="data may not set 'base_url'"):
        load(data, allowed_objects="all")
    trusted = load(data, allowed_objects="all", init_validator=None)
    assert trusted.base_url == "https://evil.example"


def test_an_init_validator_of_the_caller_sees_every_object():
    paths = []

    load([dumpd(Document("x"))], init_validator=lambda path, kwargs: paths.append((path, kwargs)))

    assert paths == [(DOCUMENT, {"page_content": "x", "type": "Document"})]


@pytest.mark.parametrize(
    "kwargs",
    [
        {"template_format": "jinja2"},
        {"messages": [{"prompt": {"template": "{{ x }}", "template_format": "jinja2"}}]},
    ],
)
@pytest.mark.parametrize("root", [("foldline", "prompts"), ("langchain_core", "prompts", "prompt")])
def test_CVE_2025_65106_a_jinja2_template_is_refused_also_inside_plain_dicts(root, kwargs):
    with pytest.raises(SchemaError, match="jinja2"):
        default_init_validator((*root, "PromptTemplate"), kwargs)


def test_data_may_speak_of_jinja2():
    document = Document("x", metadata={"template_format": "jinja2", "base_url": "u"})
    assert loads(dumps(document)) == document


def test_a_reviver_keeps_its_options_for_many_dumps():
    revive = Reviver([Document])

    assert [revive(dumpd(Document(text))) for text in "ab"] == [Document("a"), Document("b")]
    assert revive({"a": [1]}) == {"a": [1]}
    with pytest.raises(SchemaError, match="may not be loaded here"):
        revive(constructor("foldline", "messages", "HumanMessage", content="x"))


def test_secrets_come_back_from_the_map_and_only_from_there(registered, monkeypatch):
    monkeypatch.setenv("ACME_KEY", "from-the-environment")
    data = dumpd(Client(key="one", plain_key="two"))

    client = load(data, allowed_objects="all", secrets_map={"ACME_KEY": "1", "ACME_PLAIN": "2"})
    assert client.key == SecretStr("1")
    assert client.plain_key == "2"
    with pytest.raises(SchemaError, match="the secret 'ACME_KEY' is not given"):
        load(data, allowed_objects="all", secrets_map={"ACME_PLAIN": "2"})
    without = load(data, allowed_objects="all", secrets_map={"ACME_KEY": None, "ACME_PLAIN": "2"})
    assert without.key is None


def test_the_environment_is_read_for_the_names_the_caller_gives(registered, monkeypatch):
    monkeypatch.setenv("ACME_KEY", "from-the-environment")
    data = dumpd(Client(key="one"))

    client = load(data, allowed_objects="all", secrets_from_env=["ACME_KEY"])
    assert client.key == SecretStr("from-the-environment")
    with pytest.raises(SchemaError, match="'HOME' is not given"):
        load({"lc": 1, "type": "secret", "id": ["HOME"]}, secrets_from_env=["ACME_KEY"])


def test_the_environment_is_read_for_the_names_that_a_class_declares(registered, monkeypatch):
    monkeypatch.setenv("ACME_KEY", "from-the-environment")
    monkeypatch.setenv("OTHER_KEY", "of-somebody-else")
    data = dumpd(Client(key="one"))

    client = load(data, allowed_objects="all", secrets_from_env=True)

    assert client.key == SecretStr("from-the-environment")
    secret_marker = {"lc": 1, "type": "secret", "id": ["OTHER_KEY"]}
    with pytest.raises(SchemaError, match="'OTHER_KEY' is not given"):
        load(
            {**data, "kwargs": {"key": secret_marker}}, allowed_objects="all", secrets_from_env=True
        )
    for value in (secret_marker, {"a": [{**secret_marker, "id": ["ACME_KEY"]}]}):
        with pytest.raises(SchemaError, match="is not given"):
            load(
                constructor(*DOCUMENT, page_content="x", metadata={"a": value}),
                secrets_from_env=True,
            )


def test_a_mapping_opens_a_class_that_is_allowed_by_name(registered):
    data = constructor("elsewhere", "Text", page_content="x")
    mappings = {("elsewhere", "Text"): ("foldline", "documents", "Document")}

    document = load(data, allowed_objects=[Document], additional_import_mappings=mappings)

    assert document == Document("x")
    with pytest.raises(SchemaError, match="not allowed"):
        load(data, allowed_objects=[HumanMessage], additional_import_mappings=mappings)


def test_what_the_prompt_hub_writes_beside_a_template_is_ignored():
    data = constructor(
        "langchain", "prompts", "prompt", "PromptTemplate",
        template="hi {name}", input_variables=["name"], additional_content_fields={"text": "hi {name}"},
    )  # fmt: skip

    assert load(data).format(name="ann") == "hi ann"


def test_GHSA_pjwx_r37v_7724_a_secret_planted_in_free_data_is_not_shown(registered):
    secret_marker = {"lc": 1, "type": "secret", "id": ["ACME_KEY"]}
    secrets = {"ACME_KEY": "sk-canary"}

    document = load(
        constructor(*DOCUMENT, page_content="x", metadata={"a": secret_marker}), secrets_map=secrets
    )
    assert "sk-canary" not in repr(document)
    with pytest.raises(SchemaError) as excinfo:
        load(constructor(*DOCUMENT, page_content=secret_marker), secrets_map=secrets)
    assert "sk-canary" not in str(excinfo.value)


HOSTILE = """
    import os, sys
    import foldline.load, foldline.documents, foldline.outputs, foldline.messages
    import foldline.prompt_values, encodings.idna
    from foldline.load import load, loads, dumps
    from foldline.documents import Document

    seen = []
    class Watched(dict):
        def __getitem__(self, key): seen.append(("env", key)); return super().__getitem__(key)
        def get(self, key, default=None): seen.append(("env", key)); return super().get(key, default)
        def __contains__(self, key): seen.append(("env", key)); return super().__contains__(key)

    text = dumps([Document("x", metadata={"lc": 1}), foldline.messages.AIMessage("hi")])
    names = [["os", "system"], ["subprocess", "Popen"], ["antigravity", "X"], ["foldline", "cli", "main"],
             ["langchain_openai", "chat_models", "base", "ChatOpenAI"],
             ["foldline", "providers", "openai", "ChatOpenAI"]]
    hostile = [{"lc": 1, "type": "constructor", "id": name, "kwargs": {"base_url": "http://127.0.0.1:9"}}
               for name in names]
    hostile += [{"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]}]
    load(foldline.load.dumpd([Document("x")]))  # the registry's own lazy look-ups are done once

    watching = False
    def hook(event, args):
        if watching and event.split(".")[0] in {"open", "import", "socket", "subprocess", "os", "exec", "compile"}:
            seen.append((event, str(args)[:100]))
    sys.addaudithook(hook)
    os.environ = Watched(os.environ)
    watching = True
    loads(text)
    for data in hostile:
        try:
            load(data)
        except foldline.exceptions.SchemaError:
            pass
        else:
            seen.append(("loaded", str(data)))
    watching = False
    assert not seen, seen
    print("clean")
"""


def test_F_D03_loading_opens_imports_connects_and_reads_nothing():
    environment = {**os.environ, "OPENAI_API_KEY": "sk-canary"}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HOSTILE)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert result.stdout == "clean\n", result.stderr


def test_an_object_is_imported_only_because_the_registry_names_it():
    code = """
        import sys
        from foldline.load import loads
        text = '{"lc":1,"type":"constructor","id":["foldline","documents","Document"],"kwargs":{"page_content":"x"}}'
        assert "foldline.documents" not in sys.modules
        assert loads(text).page_content == "x"
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_marks_are_left_out_where_the_caller_says_so():
    data = {"a": [1, {"lc": 1, "type": "not_implemented", "id": ["x"], "repr": None}], "b": 2}
    assert load(data, ignore_unserializable_fields=True) == {"a": [1], "b": 2}


def test_dumps_of_the_registry_are_text():
    assert loads(dumps(Document("x", id="1")).encode()) == Document("x", id="1")


def test_an_error_names_its_own_place_and_not_those_before_it():
    good, bad = dumpd(Document("x")), constructor("os", "system")
    with pytest.raises(SchemaError, match=r"cannot load c\[1\]: "):
        load({"a": {"b": good}, "c": [good, bad]})


@pytest.mark.parametrize(
    ("depth", "expected_path"), [(12, "a" + ".a" * 11 + ": "), (13, "a" + ".a" * 11 + "...: ")]
)
def test_a_long_way_to_an_error_is_cut(depth, expected_path):
    data = constructor("os", "system")
    for _ in range(depth):
        data = {"a": data}
    with pytest.raises(SchemaError) as excinfo:
        load(data)
    assert str(excinfo.value).startswith(f"cannot load {expected_path}")


@pytest.mark.parametrize(
    ("name", "parts"),
    [("dict", [1]), ("dict", "x"), ("map", {"a": 1}), ("nothing", {"a": 1}), ("nothing", [])],
)
def test_a_value_of_another_kind_than_its_name_is_refused(name, parts):
    with pytest.raises(SchemaError):
        load({"lc": 1, "type": "value", "id": [name], "value": parts})


def test_data_may_be_nested_as_deep_as_the_limit():
    def nested(depth):
        value: object = 0
        for _ in range(depth):
            value = [value]
        return value

    assert load(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(SchemaError, match="nested deeper than"):
        load(nested(MAX_DEPTH + 1))


def test_an_argument_of_a_constructor_that_is_no_field_is_taken():
    blocks = [{"type": "text", "text": "hello"}]

    message = load(constructor("foldline", "messages", "HumanMessage", content_blocks=blocks))

    assert message.content_blocks == blocks


@pytest.mark.parametrize("name", ["key", "plain_key"])
def test_a_secret_of_a_declared_field_is_what_the_class_says(registered, name):
    secret = {"lc": 1, "type": "secret", "id": ["ACME_KEY" if name == "key" else "ACME_PLAIN"]}

    client = load(
        constructor("acme", "Client", **{name: secret}),
        secrets_map={secret["id"][0]: "k"},
        allowed_objects=[Client],
    )

    assert client == Client(**{name: "k"})
