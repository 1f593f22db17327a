"""Prompts from files: what can be read, and F-P03, what cannot be reached."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foldline.exceptions import SchemaError, SecurityError, UsageError
from foldline.output_parsers import StrOutputParser
from foldline.prompts import (
    ChatPromptTemplate,
    FewShotPromptTemplate,
    FewShotPromptWithTemplates,
    PromptTemplate,
    load_prompt,
)
from foldline.prompts.chat import HumanMessagePromptTemplate, MessagesPlaceholder
from foldline.prompts.loading import load_prompt_from_config

OPENED: list[str] = []
WATCH = [False]


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if WATCH[0] and event == "open":
        OPENED.append(str(arguments[0]))


sys.addaudithook(_hear)


@contextmanager
def nothing_opened() -> Iterator[None]:
    OPENED.clear()
    WATCH[0] = True
    try:
        yield
    finally:
        WATCH[0] = False
    assert OPENED == []


def write(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_what_save_wrote_is_read_back(tmp_path):
    example = PromptTemplate.from_template("{i}-{o}")
    prompts = [
        PromptTemplate.from_template("é {a}"),
        FewShotPromptTemplate(examples=[{"i": 1, "o": 2}], example_prompt=example, suffix="{q}"),
        FewShotPromptWithTemplates(
            examples=[{"i": 1, "o": 2}], example_prompt=example, suffix=example
        ),
        ChatPromptTemplate([("system", "{a}"), MessagesPlaceholder("h")]),
    ]
    for number, prompt in enumerate(prompts):
        path = tmp_path / f"{number}.json"
        prompt.save(path)
        assert load_prompt(path) == prompt
        assert load_prompt(f"{number}.json", root=tmp_path) == prompt


def test_a_prompt_names_files_beside_it(tmp_path):
    write(tmp_path, "a/t.txt", "Hello {name}")
    write(tmp_path, "a/examples.json", [{"i": "1", "o": "2"}])
    write(tmp_path, "a/example.json", {"_type": "prompt", "template": "{i}={o}"})
    write(
        tmp_path,
        "a/p.json",
        {"_type": "prompt", "template_path": "t.txt", "output_parser": {"_type": "default"}},
    )
    shots = {
        "_type": "few_shot",
        "examples": "examples.json",
        "example_prompt_path": "example.json",
        "suffix_path": "t.txt",
    }
    write(tmp_path, "a/shots.json", shots)

    prompt = load_prompt("a/p.json", root=tmp_path)
    assert prompt.format(name="Bob") == "Hello Bob"
    assert isinstance(prompt.output_parser, StrOutputParser)
    assert load_prompt(tmp_path / "a" / "shots.json").format(name="Bob") == "1=2\n\nHello Bob"
    assert (
        load_prompt_from_config({"template_path": "a/t.txt"}, root=tmp_path).format(name="x")
        == "Hello x"
    )


def test_langchains_old_chat_form_is_read():
    prompt = load_prompt_from_config(
        {"_type": "chat", "messages": [{"prompt": {"template": "{a}"}}], "input_variables": []}
    )

    assert prompt == ChatPromptTemplate.from_template("{a}")


def test_from_file_reads_a_template(tmp_path):
    path = write(tmp_path, "t.txt", "Hi {a}")
    (tmp_path / "latin.txt").write_bytes("é {a}".encode("latin-1"))

    assert PromptTemplate.from_file(path).format(a=1) == "Hi 1"
    assert PromptTemplate.from_file("t.txt", root=tmp_path).format(a=1) == "Hi 1"
    assert HumanMessagePromptTemplate.from_template_file(path).format(a=1).content == "Hi 1"
    assert PromptTemplate.from_file("latin.txt", "latin-1", root=tmp_path).format(a=1) == "é 1"
    with pytest.raises(UsageError, match="encoding"):
        PromptTemplate.from_file("latin.txt", root=tmp_path)
    with pytest.raises(UsageError, match="no file"):
        PromptTemplate.from_file("nope.txt", root=tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A root with a prompt outside it, and every way to lead there."""
    root = tmp_path / "root"
    root.mkdir()
    write(tmp_path, "secret.json", {"template": "secret"})
    write(tmp_path, "secret.txt", "secret")
    (root / "link.json").symlink_to(tmp_path / "secret.json")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "folder").symlink_to(tmp_path)
    (root / "inner.json").symlink_to(root / "real.json")
    write(root, "real.json", {"template": "real"})
    os.mkfifo(root / "pipe.json")
    os.mkfifo(root / "pipe.txt")
    (root / "dir.json").mkdir()
    return root


@pytest.mark.parametrize(
    "name",
    [
        "../secret.json",
        "x/../../secret.json",
        "link.json",
        "folder/secret.json",
        "inner.json",
        "a\0.json",
        "pipe.json",
        "dir.json",
        "/dev/null.json",
    ],
)
def test_F_P03_CVE_2026_34070_no_path_leads_out_of_its_folder_and_nothing_is_opened(outside, name):
    with nothing_opened(), pytest.raises(SecurityError):
        load_prompt(name, root=outside)


def test_F_P03_an_absolute_path_under_a_root_is_refused(outside):
    with nothing_opened(), pytest.raises(SecurityError, match="leads out"):
        load_prompt(outside / "real.json", root=outside)


@pytest.mark.parametrize(
    "name",
    ["../secret.txt", "link.txt", "folder/secret.txt", "pipe.txt", "a\0.txt", "/etc/hostname.txt"],
)
def test_F_P03_files_named_in_a_file_stay_inside_too(outside, name):
    write(outside, "p.json", {"template_path": name})

    with pytest.raises(SecurityError):
        load_prompt("p.json", root=outside)
    with nothing_opened(), pytest.raises(SecurityError):
        PromptTemplate.from_file(name, root=outside)


def test_F_P03_without_a_root_the_files_own_folder_is_the_root(outside):
    assert load_prompt(outside / "real.json").format() == "real"
    for path in (outside / "link.json", outside / "pipe.json", outside / ".." / "secret.json"):
        with nothing_opened(), pytest.raises(SecurityError):
            load_prompt(path)
    assert (
        load_prompt(outside / "folder" / "secret.json").format() == "secret"
    )  # code named that folder


def test_save_does_not_write_through_a_link(outside):
    with pytest.raises(SecurityError):
        PromptTemplate.from_template("x").save(outside / "link.json")
    assert "secret" in (outside.parent / "secret.json").read_text()
    with pytest.raises(SecurityError):
        PromptTemplate.from_template("x").save(outside / "dir.json")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"_type": "evil", "template": "x"}, SchemaError),
        ({"template": "{{ x }}", "template_format": "jinja2"}, SecurityError),
        ({"template_path": "t.txt"}, SecurityError),
        ({"template": "x", "template_path": "t.txt"}, SchemaError),
        ({"template_path": "t.py"}, SchemaError),
        ({"template": "{a}", "output_parser": {"_type": "os.system"}}, SchemaError),
        ({"_type": "few_shot", "examples": "x.yaml"}, SchemaError),
        ({"_type": "few_shot", "example_prompt": {}, "example_prompt_path": "x"}, SchemaError),
        ({"_type": "few_shot", "example_prompt_path": 3}, SchemaError),
        ({"_type": "few_shot", "examples": [], "example_selector": {}}, SchemaError),
        ({"_type": "chat"}, SchemaError),
        ({"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}, SchemaError),
        (
            {
                "lc": 1,
                "type": "constructor",
                "id": ["foldline", "messages", "HumanMessage"],
                "kwargs": {"content": "x"},
            },
            SchemaError,
        ),
        ([], SchemaError),
    ],
)
def test_a_config_that_is_no_prompt_is_a_typed_error(config, error):
    with pytest.raises(error):
        load_prompt_from_config(config)


def test_other_files_than_json_are_refused_with_a_sentence(tmp_path):
    for name in ("p.yaml", "p.txt"):
        write(tmp_path, name, "x")
        with pytest.raises(UsageError, match="JSON"):
            load_prompt(name, root=tmp_path)
    write(tmp_path, "bad.json", "{")
    with pytest.raises(SchemaError, match="not JSON"):
        load_prompt("bad.json", root=tmp_path)
    for load in (
        lambda: load_prompt("x.json", allow_dangerous_paths=True),
        lambda: load_prompt_from_config({}, allow_dangerous_paths=True),
    ):
        with pytest.raises(UsageError, match="root="):
            load()


def test_a_huge_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("foldline.prompts._files.MAX_FILE_SIZE", 10)
    write(tmp_path, "t.txt", "x" * 11)

    with pytest.raises(SecurityError, match="larger"):
        PromptTemplate.from_file("t.txt", root=tmp_path)
