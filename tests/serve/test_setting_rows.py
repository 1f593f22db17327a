"""The settings of a server: one list, and flags, variables, file and docs that come from it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foldline._cli.serve import _check_address
from foldline.exceptions import UsageError
from foldline.serve import ServeSettings, create_app
from foldline.serve._load_apps import make_apps, read_config
from foldline.serve._setting_rows import (
    SETTINGS,
    expand_variables,
    find_values,
    hide_password,
    settings_of,
    unknown_variables,
)
from foldline.serve.settings import ProcessSettings
from foldline.testing import ScriptedChatModel
from tests.serve.process import ROOT
from tests.serve.setting_table import PAGE, table

SAMPLES: dict[Any, tuple[Any, ...]] = {
    bool: (True, False),
    int: (7, 9, 11),
    float: (1.5, 2.5, 3.5),
    str: ("a", "b", "c"),
}


def foldline(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "foldline", "serve", *args],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def samples(row: Any) -> tuple[Any, ...]:
    """Return values of a setting that are not its default."""
    if row.choices:
        return tuple(choice for choice in row.choices if choice != row.default)
    kinds = [SAMPLES[kind] for kind in row.types if kind in SAMPLES]
    values = kinds[0] if kinds else (["a"], ["b", "c"], ["d"])
    return tuple(value for value in values if value != row.default)


def text_of(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("row", SETTINGS.values(), ids=lambda row: row.name)
def test_S37_a_flag_wins_over_the_environment_the_file_and_the_default(row):
    value = samples(row)[-1]
    name, text = row.name, text_of(value)

    def found(flags: Any, environment: Any, file: Any) -> Any:
        each = find_values(flags, environment, file, "serve.toml")[name]
        return each.value, each.source

    flag = row.flags[0].partition("/")[0]
    given = value if isinstance(value, bool) else [text] if row.is_list else text
    others = ({row.variable: text_of(samples(row)[0])}, {name: samples(row)[0]})
    assert found({name: given}, *others) == (value, flag)
    assert found({}, {row.variable: text}, others[1]) == (value, row.variable)
    assert found({}, {}, {name: value}) == (value, f"serve.toml [serve] {name}")
    assert found({}, {}, {}) == (row.default, "default")
    assert found({}, {row.variable: ""}, {}) == (row.default, "default")


def test_S37_flags_variables_and_names_of_the_file_are_made_from_the_name():
    row = SETTINGS["max_runs"]

    assert (row.flags[0], row.variable) == ("--max-runs", "FOLDLINE_SERVE_MAX_RUNS")
    assert set(SETTINGS) == {
        field.name for owner in (ServeSettings, ProcessSettings) for field in fields(owner)
    }


@pytest.mark.parametrize("command", ["run", "config"])
def test_S37_the_help_has_the_flags_of_every_setting(command):
    help = " ".join(foldline(command, "--help").stdout.split())  # without the breaks of lines
    shown = set(re.findall(r"--[a-z][a-z0-9-]*", help))

    for row in SETTINGS.values():
        for spelling in row.flags:
            assert set(spelling.split("/")) <= shown, row.name
        assert row.facts.help[1:].replace(" ", "") in help.replace(" ", "")
    own = {"--help", "--model", "--config", "--trace", "--no-trace", "--json", "--max-runs"}
    flags = {part for row in SETTINGS.values() for flag in row.flags for part in flag.split("/")}
    files = {f"--{row.name}-file" for row in SETTINGS.values() if row.facts.is_secret}
    assert shown - flags - files <= own


def test_S37_the_table_of_the_docs_is_that_of_the_settings():
    assert table() in PAGE.read_text(encoding="utf-8"), "run python -m tests.serve.setting_table"


def test_S37_a_configuration_file_may_have_every_setting(tmp_path):
    lines = ["[serve]"]
    lines += [f"{row.name} = {json.dumps(samples(row)[-1])}" for row in SETTINGS.values()]
    file = tmp_path / "serve.toml"
    file.write_text("\n".join(lines))

    values = find_values({}, {}, read_config(file)["serve"], file.name)

    assert {name: each.value for name, each in values.items()} == {
        row.name: samples(row)[-1] for row in SETTINGS.values()
    }


@pytest.mark.parametrize(
    ("flags", "environment", "file", "sentence"),
    [
        ({"port": "many"}, {}, {}, "--port: 'many' is not a whole number"),
        ({}, {"FOLDLINE_SERVE_PORT": "tcp://10.0.0.1:80"}, {}, "FOLDLINE_SERVE_PORT: 'tcp://"),
        ({}, {"FOLDLINE_SERVE_STUDIO": "maybe"}, {}, "'maybe' is not true or false"),
        ({}, {}, {"port": "80"}, r"serve.toml \[serve\] port: '80' is not a whole number"),
        ({}, {}, {"cors_origins": "https://a"}, "is not a list of texts"),
        ({}, {}, {"keep_days": "long"}, "'long' is not a number or none"),
        ({"port": "-1"}, {}, {}, "port must be 0 or more"),
        ({"port": "65536"}, {}, {}, "port must be 65535 or less"),
        ({}, {"FOLDLINE_SERVE_MAX_RUNS": "0"}, {}, "max_runs must be 1 or more"),
        ({"queue_seconds": "nan"}, {}, {}, "queue_seconds must be a number"),
        ({}, {}, {"run_timeout": float("nan")}, "run_timeout must be a number"),
    ],
)
def test_S37_a_wrong_value_is_refused_with_the_place_it_is_from(flags, environment, file, sentence):
    with pytest.raises(UsageError, match=sentence):
        settings_of(find_values(flags, environment, file, "serve.toml"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"\xff\xfe", "is not TOML"),
        (b"models = 3", r"\[models\] must be a table"),
        (b"apps = [1]", r"\[apps\] must be a table"),
        (
            b"[apps]\nx = 'tests.serve.served:chat'\n[on_disconnect]\ny = 'cancel'",
            "there is no 'y'",
        ),
        (b"on_disconnect = 1\n[apps]\nx = 'tests.serve.served:chat'", "must be a table"),
        (b"[models]\nx = {use = 'openai:m', retries = 'many'}", "x: retries must be a number"),
        (b"[models]\nx = {use = 'openai:m', timeout = 'long'}", "x: timeout must be a number"),
        (b"[models]\nx = {use = 'openai:m', timeout = nan}", "x: timeout must be a number"),
    ],
)
def test_S37_a_wrong_configuration_file_is_refused_with_a_sentence(tmp_path, text, sentence):
    file = tmp_path / "serve.toml"
    file.write_bytes(text)
    with pytest.raises(UsageError, match=sentence):
        make_apps([], [], read_config(file))


def test_S37_a_socket_in_no_folder_is_refused_with_a_sentence(tmp_path):
    process = ProcessSettings(uds=str(tmp_path / "nowhere" / "socket"))
    with pytest.raises(UsageError, match="there is no such folder"):
        _check_address(process, ServeSettings(log=str(tmp_path / "runs.db")))


def test_S37_none_switches_off_what_may_be_off():
    values = find_values({"traces": "none"}, {"FOLDLINE_SERVE_KEEP_DAYS": "none"}, {}, "")

    assert (values["traces"].value, values["keep_days"].value) == (None, None)
    assert find_values({}, {}, {"keep_days": "none"}, "f")["keep_days"].value is None


def test_S37_a_misspelt_variable_gets_a_sentence():
    assert unknown_variables({"FOLDLINE_SERVE_MAX_RUN": "3", "FOLDLINE_SERVE_LOG": "a"}) == [
        "FOLDLINE_SERVE_MAX_RUN is no setting (did you mean 'FOLDLINE_SERVE_MAX_RUNS'?): it has no effect"
    ]


def test_S37_config_prints_values_and_where_each_is_from_without_passwords(tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text('[serve]\nmax_tools = 3\nlog = "postgresql://u:${PASS}@db/serve?password=x"\n')
    data = tmp_path / "data"
    answer = foldline(
        "config", "-c", str(file), "--max-runs", "5", "--json",
        PASS="secret", FOLDLINE_SERVE_WORKERS="2", FOLDLINE_DATA_DIR=str(data),
    )  # fmt: skip
    values = json.loads(answer.stdout)

    assert values["max_runs"] == {"value": 5, "from": "--max-runs"}
    assert values["workers"] == {"value": 2, "from": "FOLDLINE_SERVE_WORKERS"}
    assert values["max_tools"] == {"value": 3, "from": "serve.toml [serve] max_tools"}
    assert values["port"] == {"value": 8000, "from": "default"}
    assert values["log"]["value"] == "postgresql://…@db/serve"
    assert values["traces"]["value"] == str(data / "traces.db")
    assert not data.exists()
    text = foldline("config", "-c", str(file), PASS="secret", FOLDLINE_SERVE_MAX_RUN="3")
    assert re.search(r"^max_tools +3 +serve.toml \[serve\] max_tools$", text.stdout, re.MULTILINE)
    assert "secret" not in text.stdout
    assert "FOLDLINE_SERVE_MAX_RUN is no setting" in text.stderr


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("runs@home.db", "runs@home.db"),
        ("postgresql://db/serve", "postgresql://db/serve"),
        ("postgresql://u:p@ss@db:5432/serve", "postgresql://…@db:5432/serve"),
        ("postgresql://db/serve?user=u&password=p", "postgresql://db/serve"),
    ],
)
def test_a_place_is_shown_without_its_password(place, shown):
    assert hide_password(place) == shown


# -- secrets


@pytest.mark.parametrize("source", ["flag", "environment", "file"])
def test_S38_a_file_holds_the_url_of_the_log(tmp_path, source):
    secret = tmp_path / "url"
    secret.write_text("postgresql://u:p@db/serve\n")
    path = str(secret)

    values = find_values(
        {"log_file": path} if source == "flag" else {},
        {"FOLDLINE_SERVE_LOG_FILE": path} if source == "environment" else {},
        {"log_file": path} if source == "file" else {},
        "serve.toml",
    )

    assert values["log"].value == "postgresql://u:p@db/serve"
    assert values["log"].shown == "postgresql://…@db/serve"
    assert "file" in values["log"].source.lower()


def test_S38_a_secret_and_its_file_together_and_files_that_hold_nothing_are_refused(tmp_path):
    (tmp_path / "empty").write_text("\n")

    for flags, sentence in (
        ({"log": "a.db", "log_file": "b"}, "--log and --log-file are both given"),
        ({"log_file": str(tmp_path / "none")}, "cannot be read"),
        ({"log_file": str(tmp_path / "empty")}, "is empty"),
    ):
        with pytest.raises(UsageError, match=sentence):
            find_values(flags, {}, {}, "")


def test_S38_variables_in_the_file_are_expanded_and_a_missing_one_is_an_error(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DB_PASSWORD", "p$w")
    monkeypatch.delenv("NOT_SET", raising=False)
    file = tmp_path / "serve.toml"
    file.write_text(
        '[serve]\nlog = "postgresql://u:${DB_PASSWORD}@db/s"\ncors_origins = ["a$${x}"]\n'
    )

    assert read_config(file)["serve"] == {
        "log": "postgresql://u:p$w@db/s",
        "cors_origins": ["a${x}"],
    }
    file.write_text('[models]\nfast = "openai:${NOT_SET}"\n')
    with pytest.raises(UsageError, match=r"models fast: the environment has no NOT_SET"):
        read_config(file)
    assert expand_variables({"a": [1, "$x"]}, {}, "f") == {"a": [1, "$x"]}


def test_S38_a_password_of_a_file_is_not_in_the_environment_of_the_server(tmp_path, monkeypatch):
    from foldline._cli import serve as command

    monkeypatch.setenv("FOLDLINE_DATA_DIR", str(tmp_path))
    (tmp_path / "place").write_text(str(tmp_path / "hidden.db"))
    seen: list[str] = []
    monkeypatch.setattr("foldline.serve._log_lines.set_up_logs", lambda *args, **options: None)

    def make_server(app, options):
        seen.append(app.server.settings.log)
        return SimpleNamespace(run=lambda: None)

    monkeypatch.setattr("foldline.serve._draining.make_server", make_server)

    command.serve(
        ["double=tests.serve.served:double"],
        models=[],
        config=None,
        flags={"log_file": str(tmp_path / "place")},
    )

    assert seen == [str(tmp_path / "hidden.db")]
    assert "hidden.db" not in os.environ.pop("FOLDLINE_SERVE")


# -- what is served


def test_S40_a_dict_of_a_module_is_served_by_its_keys():
    apps = make_apps(["tests.serve.served:every"], [], {"on_disconnect": {"talker": "continue"}})

    assert {name: app.kind for name, app in apps.items()} == {
        "talker": "model",
        "doubler": "runnable",
    }
    assert apps["talker"].on_disconnect == "continue"
    assert list(make_apps([], [], {"apps": {"one": "tests.serve.served:double"}})) == ["one"]


def test_S40_a_list_of_a_module_is_refused_with_the_reason():
    with pytest.raises(UsageError, match=r"served:in_order: a list has no names.*write a dict"):
        make_apps(["tests.serve.served:in_order"], [], {})
    with pytest.raises(UsageError, match="a list has no names"):
        create_app([ScriptedChatModel(script=["hi"])])


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("both=tests.serve.served:every", "leave out both="),
        ("tests.serve.served:USAGE", "the target of the app 'input_tokens' is a int"),
        ("tests.serve.served:SECRET", "the target of the app 'SECRET' is a str"),
    ],
)
def test_S40_what_cannot_be_served_is_refused_by_the_command_and_by_create_app(target, sentence):
    with pytest.raises(UsageError, match=sentence):
        make_apps([target], [], {})


def test_S40_an_app_needs_a_text_as_its_name():
    with pytest.raises(UsageError, match="the name of an app is a text, not 3"):
        create_app({3: ScriptedChatModel(script=["hi"])})  # type: ignore[dict-item]


def test_S40_the_command_serves_a_dict(tmp_path: Path):
    from tests.serve.process import ServeProcess

    process = ServeProcess(tmp_path, apps=["tests.serve.served:every"]).start()
    try:
        import httpx

        answer = httpx.post(f"{process.url}/doubler/invoke", json={"input": 4}, timeout=30)
        assert answer.json()["output"] == 8
    finally:
        process.stop()


def test_the_page_for_operators_has_the_number_of_settings():
    page = (PAGE.parent / "serve-deployment.md").read_text(encoding="utf-8")

    assert f"| {len(SETTINGS)} settings |" in page
