"""What a wrong value of each option of a server and of its client does."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from foldline.serve import RemoteRunnable, ServedApp, ServeSettings, create_app
from foldline.testing import ScriptedChatModel
from tests.options.matrix import Row, Target, options_of

SETTINGS = frozenset(field.name for field in fields(ServeSettings))


def model() -> ScriptedChatModel:
    return ScriptedChatModel(script=["hi"], is_cyclic=True)


TARGETS = {
    "create_app": Target(
        options_of(create_app) | SETTINGS,
        build=lambda **options: create_app(**{"apps": model(), **options}),
    ),
    "ServeSettings": Target(SETTINGS, build=ServeSettings),
    "ServedApp": Target(
        options_of(ServedApp),
        build=lambda **options: ServedApp(**{"name": "app", "target": model(), **options}),
    ),
    "RemoteRunnable": Target(
        options_of(RemoteRunnable),
        build=lambda **options: RemoteRunnable(**{"url": "http://127.0.0.1:9", **options}),
    ),
}

ERROR = "error at construction"
COUNTS = (
    "max_body",
    "max_messages",
    "max_tools",
    "max_batch",
    "max_runs",
    "max_streams",
    "max_events",
)
WRONG_SETTINGS: list[tuple[str, Any, str]] = [
    *(
        (name, value, "a whole number from 1")
        for name in COUNTS
        for value in (0, -1, 1.5, "many", True)
    ),
    ("log", 3, "a file or a URL"),
    ("log", "", "a file or a URL"),
    ("traces", 3, "a file or a URL"),
    ("no_auth", "yes", "True or False"),
    ("mcp", "yes", "True or False"),
    ("studio", 1, "True or False"),
    ("cors_origins", "https://a.example", "a list of texts"),
    ("cors_origins", ["*", "https://a.example"], "alone"),
    ("cors_origins", [3], "a list of texts"),
    ("allowed_hosts", "a.example", "a list of texts"),
    ("drain_seconds", -1, "a number of seconds from 0"),
    ("drain_seconds", "long", "a number of seconds from 0"),
    ("keep_days", 0, "a number of days above 0"),
    ("keep_days", "long", "a number of days above 0"),
]

ROWS = [
    *(
        Row(target, option, value, ERROR, match)
        for target in ("create_app", "ServeSettings")
        for option, value, match in WRONG_SETTINGS
    ),
    Row("create_app", "apps", 3, ERROR, "apps are chat models"),
    Row("create_app", "settings", {"max_runs": 3}, ERROR, "ServeSettings"),
    Row("create_app", "callbacks", [3], ERROR, "a list of callback handlers"),
    Row("create_app", "max_rums", 3, ERROR, "did you mean 'max_runs'"),
    Row("ServeSettings", "nonsense", 3, ERROR, "nonsense"),
    Row("ServedApp", "name", 3, ERROR, "name"),
    Row("ServedApp", "target", 3, ERROR, "apps are chat models"),
    Row("ServedApp", "on_disconnect", "explode", ERROR, '"cancel", "continue" or None'),
    Row("ServedApp", "provider_name", 3, ERROR, "is a text"),
    Row("ServedApp", "nonsense", 3, ERROR, "nonsense"),
    Row("RemoteRunnable", "url", "localhost:8000", ERROR, "begins with http://"),
    Row("RemoteRunnable", "url", 3, ERROR, "begins with http://"),
    Row("RemoteRunnable", "app", 3, ERROR, "is a text"),
    Row("RemoteRunnable", "key", 3, ERROR, "is a text"),
    Row("RemoteRunnable", "timeouts", 3, ERROR, "is a Timeouts"),
    Row("RemoteRunnable", "transport", 3, ERROR, "is a Transport"),
    Row("RemoteRunnable", "nonsense", 3, ERROR, "nonsense"),
]
