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
    "stream_buffer",
)
WRONG_SETTINGS: list[tuple[str, Any, str]] = [
    *((name, value, "must be") for name in COUNTS for value in (0, -1, 1.5, "many", True)),
    ("log", 3, "must be str"),
    ("log", "", "must not be an empty text"),
    ("traces", 3, "must be str | None"),
    ("no_auth", "yes", "must be bool"),
    ("mcp", "yes", "must be bool"),
    ("studio", 1, "must be bool"),
    ("metrics", "yes", "must be bool"),
    ("metrics_keys", 1, "must be bool"),
    ("metrics_key", "maybe", "'needed' | 'none'"),
    ("trace_out", "no", "must be bool"),
    ("access_log", "json", "must be bool"),
    ("cors_origins", "https://a.example", "must be Sequence[str]"),
    ("cors_origins", ["*", "https://a.example"], "alone"),
    ("cors_origins", [3], "must be Sequence[str]"),
    ("trusted_proxies", "10.0.0.1", "must be Sequence[str]"),
    ("trusted_proxies", ["*"], "is not an address or a network"),
    ("allowed_hosts", "a.example", "must be Sequence[str]"),
    ("drain_delay", -1, "must be 0 or more"),
    ("drain_delay", "long", "must be float"),
    ("drain_seconds", -1, "must be 0 or more"),
    ("drain_seconds", "long", "must be float"),
    ("max_queued", -1, "must be 0 or more"),
    ("max_queued", 1.5, "must be"),
    ("queue_seconds", -1, "must be 0 or more"),
    ("queue_seconds", "long", "must be float"),
    ("run_timeout", 0, "must be"),
    ("run_timeout", "long", "must be float | None"),
    ("keep_days", -1, "must be 0 or more"),
    ("keep_days", "long", "must be float | None"),
    ("keep_waiting_days", -1, "must be 0 or more"),
    ("keep_waiting_days", "long", "must be float | None"),
    ("prune_every", 0, "must be"),
    ("prune_every", "often", "must be float"),
    ("send_timeout", 0, "must be"),
    ("send_timeout", "long", "must be float"),
    ("auto_resume", "yes", "must be bool"),
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
    Row("create_app", "store", 3, ERROR, "store is a store"),
    Row("create_app", "metrics_folder", 3, ERROR, "metrics_folder is a folder"),
    Row("create_app", "max_rums", 3, ERROR, "did you mean 'max_runs'"),
    Row("ServeSettings", "nonsense", 3, ERROR, "nonsense"),
    Row("ServedApp", "name", 3, ERROR, "must be str"),
    Row("ServedApp", "target", 3, ERROR, "apps are chat models"),
    Row("ServedApp", "on_disconnect", "explode", ERROR, "'cancel' | 'continue' | None"),
    Row("ServedApp", "provider_name", 3, ERROR, "must be str | None"),
    Row("ServedApp", "max_runs", 0, ERROR, "above 0"),
    Row("ServedApp", "max_runs", 1.5, ERROR, "must be int | None"),
    Row("ServedApp", "run_timeout", -1, ERROR, "above 0"),
    Row("ServedApp", "run_timeout", "long", ERROR, "must be float | None"),
    Row("ServedApp", "nonsense", 3, ERROR, "nonsense"),
    Row("RemoteRunnable", "url", "localhost:8000", ERROR, "begins with http://"),
    Row("RemoteRunnable", "url", 3, ERROR, "must be str"),
    Row("RemoteRunnable", "app", 3, ERROR, "must be str | None"),
    Row("RemoteRunnable", "key", 3, ERROR, "must be str | None"),
    Row("RemoteRunnable", "timeouts", 3, ERROR, "must be Timeouts | None"),
    Row("RemoteRunnable", "transport", 3, ERROR, "is a Transport"),
    Row("RemoteRunnable", "nonsense", 3, ERROR, "nonsense"),
]
