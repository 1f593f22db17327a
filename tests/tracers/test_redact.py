"""F-V08: secrets are recognised by the name of a field, by their shape, and by being known."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from foldline.tracers._redact import REDACTED, SECRET_NAME, SHAPES, Redactor

pytestmark = pytest.mark.timing

CANARY = "canary-4f9a0c7e1b"
SECRETS = [
    "sk-proj-abcdefghijklmnop1234",
    "Authorization: Bearer abc.def.ghi-jkl",
    "https://host.example/v1?key=abcdef123456&x=1",
    "https://user:hunter22@host.example/",
    "AIzaSyA1234567890abcdefghijk",
    "AKIAABCDEFGHIJKLMNOP",
    "ghp_abcdefghijklmnopqrstuvwx",
    "api_key=abcdef123456",
    "Basic YWJjZGVmOmdoaWprbG1u",
    "ACME_TOKEN=abcdef123456 run",
]


@pytest.mark.parametrize("text", SECRETS)
def test_F_V08_the_shapes_of_secrets_are_removed(text: str):
    clean = Redactor().text(f"before {text} after")

    assert REDACTED in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")
    for part in ("abcdef", "YWJj", "hunter22", "SyA123", "ABCDEF", "abc.def"):
        assert part not in clean


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "openai_api_key",
        "x-api-key",
        "Authorization",
        "password",
        "client_secret",
        "access_token",
        "Cookie",
    ],
)
def test_F_V08_the_values_of_secret_fields_are_removed(key: str):
    assert Redactor().json({"a": [{key: CANARY}]}) == {"a": [{key: REDACTED}]}


@pytest.mark.parametrize(
    "value",
    [
        {
            "max_tokens": 5,
            "total_tokens": 3,
            "token": "hello",
            "key": "name",
            "tokenizer": "x",
            "secretary": "Ann",
        },
        "the key is under the mat, basic understanding needed; sk-1",
        "x = monkey=bananas; size=1234567",
        ["author: Poe", 1, None, 2.5, True],
        {"api_key": None},
    ],
)
def test_ordinary_words_stay(value: Any):
    assert Redactor().json(value) == value


def test_F_V08_known_values_are_removed_wherever_they_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACME_API_KEY", CANARY)
    redactor = Redactor(secrets=["another-secret"])

    clean = redactor.json({f"in {CANARY} key": [f"x{CANARY}y", "say another-secret"]})

    assert clean == {f"in {REDACTED} key": [f"x{REDACTED}y", f"say {REDACTED}"]}


def test_a_long_text_is_searched_quickly():
    redactor, text = Redactor(), "the quick brown fox = jumps over. " * 30_000
    start_time = time.perf_counter()

    assert redactor.text(text) == text

    assert time.perf_counter() - start_time < 0.5


def test_the_quick_look_misses_no_shape_and_no_name():
    names = "api_key apikey authorization client_secret db-password passwd passphrase credential credentials cookie"
    tokens = (
        "access_token refresh-token id_token authtoken session_token bearer_token security_token"
    )
    redactor = Redactor()
    for name in (names + " " + tokens + " private_key accessKey access-key").split():
        if SECRET_NAME.search(name):
            assert redactor.may_show_secrets(json.dumps({name.upper(): "x"}))
    for word, _ in SHAPES:
        assert redactor.may_show_secrets(json.dumps({"text": f"so {word}1234"}))


@given(st.lists(st.one_of(st.text(), st.sampled_from(SECRETS)), max_size=4))
def test_what_the_quick_look_lets_pass_holds_no_secret(parts: list[str]):
    redactor = Redactor(['known "secret" ☃'])
    value = {"text": " ".join(parts)}
    if not redactor.may_show_secrets(json.dumps(value)):
        assert redactor.json(value) == value


def test_the_quick_look_knows_known_values_as_json_writes_them():
    redactor = Redactor(['known "secret" ☃'])

    assert redactor.may_show_secrets(json.dumps({"text": 'my known "secret" ☃'}))
    assert not redactor.may_show_secrets(json.dumps({"text": "nothing of the kind"}))
