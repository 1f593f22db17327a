"""Values from the environment."""

import pytest
from pydantic import SecretStr

from foldline.exceptions import UsageError
from foldline.utils.env import (
    env_var_is_set,
    from_env,
    get_from_dict_or_env,
    get_from_env,
    secret_from_env,
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("FOLDLINE_TEST_KEY", "value")
    monkeypatch.setenv("FOLDLINE_TEST_NO", "false")
    monkeypatch.delenv("FOLDLINE_TEST_MISSING", raising=False)


def test_a_variable_is_read_or_its_absence_says_what_to_do():
    assert get_from_env("key", "FOLDLINE_TEST_KEY") == "value"
    assert get_from_env("key", "FOLDLINE_TEST_MISSING", default="d") == "d"
    with pytest.raises(
        UsageError, match="set the environment variable FOLDLINE_TEST_MISSING, or pass key="
    ):
        get_from_env("key", "FOLDLINE_TEST_MISSING")


def test_a_dict_goes_before_the_environment():
    assert get_from_dict_or_env({"k": "v"}, ["j", "k"], "FOLDLINE_TEST_KEY") == "v"
    assert get_from_dict_or_env({"k": ""}, "k", "FOLDLINE_TEST_KEY") == "value"


def test_factories_read_when_called(monkeypatch):
    read = from_env(["FOLDLINE_TEST_MISSING", "FOLDLINE_TEST_LATER"])
    monkeypatch.setenv("FOLDLINE_TEST_LATER", "now")

    assert read() == "now"
    assert from_env("FOLDLINE_TEST_MISSING", default=None)() is None
    assert secret_from_env("FOLDLINE_TEST_KEY")() == SecretStr("value")
    assert secret_from_env("FOLDLINE_TEST_MISSING", default=None)() is None
    with pytest.raises(UsageError, match="boo"):
        from_env("FOLDLINE_TEST_MISSING", error_message="boo")()
    with pytest.raises(UsageError, match="FOLDLINE_TEST_MISSING or OTHER"):
        secret_from_env(["FOLDLINE_TEST_MISSING", "OTHER"])()


def test_a_variable_that_says_no_is_not_set():
    assert env_var_is_set("FOLDLINE_TEST_KEY")
    assert not env_var_is_set("FOLDLINE_TEST_NO")
    assert not env_var_is_set("FOLDLINE_TEST_MISSING")
