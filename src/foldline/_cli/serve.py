"""`foldline serve`: runs the server, and manages its keys."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from foldline._cli.places import data_dir, make_folder_of, traces_place
from foldline.exceptions import MissingExtraError, UsageError
from foldline.serve._setting_rows import (
    DEFAULT,
    SettingValue,
    find_values,
    hide_password,
    settings_of,
    unknown_variables,
)

if TYPE_CHECKING:
    from foldline.serve._keys import KeyStore
    from foldline.serve.app import ServeApp
    from foldline.serve.settings import ProcessSettings, ServeSettings

__all__ = ["add_key", "list_keys", "make_from_environment", "remove_key", "serve", "show_config"]

PASSED_ON = "FOLDLINE_SERVE"
"""The environment variable that passes the arguments to worker processes."""


def serve(
    targets: Sequence[str], *, models: Sequence[str], config: Path | None, flags: Mapping[str, Any]
) -> int:
    """Serve until interrupted."""
    _need_extra()

    from foldline.serve._log_lines import line_of
    from foldline.serve._tls import tls_options

    plan = {
        "targets": list(targets),
        "models": list(models),
        "config": str(config) if config is not None else None,
        "flags": dict(flags),
    }
    values = _values(plan)
    _make_folder(values["log"])
    process, settings = settings_of(values)
    note = _check_address(process, settings)
    # The plan and not the values: a password of a file does not become a variable, which tools of apps could read.
    os.environ[PASSED_ON] = json.dumps(plan)
    app = make_from_environment()  # fails now where something cannot be served
    for sentence in (
        *unknown_variables(os.environ),
        f"Serving {', '.join(app.server.apps)} on {_address(process)}",
        f"Runs are kept in {hide_password(settings.log)}. {note}",
    ):
        _print(sentence if process.log_format == "text" else line_of(sentence))
    options: dict[str, Any] = {
        "host": process.host,
        "port": process.port,
        "uds": process.uds,
        "log_level": process.log_level,
        "log_config": None,
        "access_log": False,
        "timeout_keep_alive": 75,
        "server_header": False,
        "proxy_headers": False,
        **tls_options(process),
    }
    if process.workers > 1:
        app.server.host.log.close()

        with TemporaryDirectory(prefix="foldline-metrics-") as folder:
            os.environ[PASSED_ON] = json.dumps({**plan, "metrics_folder": folder})
            return _supervise(options, process.workers, lambda: settings_of(_values(plan)))
    from foldline.serve._draining import make_server

    make_server(app, options).run()
    return 0


def _supervise(options: dict[str, Any], count: int, read_again: Callable[[], object]) -> int:
    """Run several workers; return the status of the process."""
    import uvicorn

    from foldline.serve._supervisor import Supervisor

    address = {name: options[name] for name in ("host", "port", "uds")}
    listener = uvicorn.Config("", **address).bind_socket()
    return Supervisor(
        make_from_environment, options, sockets=[listener], count=count, read_again=read_again
    ).run()


def make_from_environment() -> ServeApp:
    """Make the app from the environment variable; called in each worker."""
    from foldline.serve import create_app
    from foldline.serve._load_apps import make_apps, read_config
    from foldline.serve._log_lines import set_up_logs

    plan = json.loads(os.environ[PASSED_ON])
    config = read_config(plan["config"]) if plan["config"] else {}
    apps = make_apps(plan["targets"], plan["models"], config)
    process, settings = settings_of(_values(plan))
    if settings.access_log is None:
        settings.access_log = process.log_format == "json"
    set_up_logs(process.log_format, process.log_level, access_log=settings.access_log)
    return create_app(apps, settings=settings, metrics_folder=plan.get("metrics_folder"))


def _values(plan: Mapping[str, Any]) -> dict[str, SettingValue]:
    """Return the settings of the command: the log and the traces are in the user's folder unless they are set."""
    from foldline.serve._load_apps import read_config

    config = read_config(plan["config"]) if plan["config"] else {}
    name = Path(plan["config"]).name if plan["config"] else ""
    values = find_values(plan["flags"], os.environ, config.get("serve") or {}, name)
    for name, place in (("log", data_dir() / "serve.db"), ("traces", traces_place())):
        if values[name].source == DEFAULT:
            values[name] = replace(values[name], value=str(place))
    return values


def _make_folder(log: SettingValue) -> str:
    """Make the user's folder, where the log is in it; return the place of the log."""
    if log.source == DEFAULT:
        make_folder_of(Path(log.value))
    return str(log.value)


def show_config(*, config: Path | None, flags: Mapping[str, Any], as_json: bool) -> int:
    """Print the value of every setting, and where it is from."""
    _need_extra()
    plan = {"config": str(config) if config is not None else None, "flags": dict(flags)}
    values = _values(plan)
    settings_of(values)  # refuses what is out of bounds
    if as_json:
        facts = {
            name: {
                "value": each.shown if each.setting.facts.is_secret else each.value,
                "from": each.source,
            }
            for name, each in values.items()
        }
        print(json.dumps(facts, indent=2))  # noqa: T201  the answer of the command
    else:
        widths = max(map(len, values)), max(len(each.shown) for each in values.values())
        for name, each in values.items():
            print(f"{name:{widths[0]}}  {each.shown:{widths[1]}}  {each.source}")  # noqa: T201
    for sentence in unknown_variables(os.environ):
        _print(sentence)
    return 0


def _check_address(process: ProcessSettings, settings: ServeSettings) -> str:
    """Refuse a public address without keys; return a sentence about who may call."""
    from foldline._storage.open_database import open_database
    from foldline.serve._forwarded import is_loopback
    from foldline.serve._keys import KeyStore
    from foldline.serve._log.schema import SCHEMA

    if process.uds is not None and not Path(process.uds).parent.is_dir():
        raise UsageError(f"uds: {process.uds} cannot be made: there is no such folder")
    database = open_database(settings.log, SCHEMA)
    has_keys = KeyStore(database).has_keys()
    database.close()
    if has_keys:
        return "Callers need a key."
    address = process.host
    if process.uds is not None or is_loopback(address):
        return "There are no keys: only this machine may call (`foldline serve keys add NAME`)."
    if settings.no_auth:
        return "THERE ARE NO KEYS, AND ANYBODY WHO REACHES THIS ADDRESS MAY CALL (--no-auth)."
    raise UsageError(
        f"there are no keys, so {address} is refused: `foldline serve keys add NAME` makes one; "
        "--no-auth serves everybody who can reach it"
    )


def _need_extra() -> None:
    try:
        import starlette
        import uvicorn
    except ImportError as error:
        raise MissingExtraError(
            'the server needs starlette and uvicorn: pip install "foldline[serve]"'
        ) from error
    del starlette, uvicorn


def _print(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def _address(process: ProcessSettings) -> str:
    if process.uds is not None:
        return f"the socket {process.uds}"
    host = f"[{process.host}]" if ":" in process.host else process.host
    return f"{'http' if process.tls_cert is None else 'https'}://{host}:{process.port}"


# -- keys


def log_place(log: str | None) -> str:
    """Return where the log is, by the flag, the environment, or in the user's folder."""
    flags = {"log": log} if log is not None else {}
    return _make_folder(_values({"config": None, "flags": flags})["log"])


def _keys(log: str | None) -> KeyStore:
    _need_extra()
    from foldline._storage.open_database import open_database
    from foldline.serve._keys import KeyStore
    from foldline.serve._log.schema import SCHEMA

    return KeyStore(open_database(log_place(log), SCHEMA))


def add_key(
    name: str,
    *,
    log: str | None,
    models: Sequence[str],
    budget: str | None,
    rpm: int | None,
    tpm: int | None,
    studio: bool,
    max_runs: int | None,
) -> int:
    """Make a key and print it."""
    from foldline.serve._keys import parse_budget

    names = [
        part.strip() for names_text in models for part in names_text.split(",") if part.strip()
    ]
    text, _ = _keys(log).add(
        name,
        models=names or None,
        budget=parse_budget(budget) if budget is not None else None,
        rpm=rpm,
        tpm=tpm,
        studio=studio,
        max_runs=max_runs,
    )
    print(text)  # noqa: T201  the answer of the command
    _print("This is the only time that the key is shown: only its hash is kept.")
    return 0


def list_keys(*, log: str | None, as_json: bool) -> int:
    """List the keys: names and limits, never the keys."""
    keys = _keys(log).all()
    if as_json:
        print(json.dumps([asdict(key) for key in keys], indent=2))  # noqa: T201
        return 0
    for key in keys:
        parts = [
            f"models {','.join(key.models)}" if key.models is not None else "",
            f"${key.budget:g}/day" if key.budget is not None else "",
            f"{key.rpm} requests/min" if key.rpm is not None else "",
            f"{key.tpm} tokens/min" if key.tpm is not None else "",
            f"{key.max_runs} runs at once" if key.max_runs is not None else "",
            "opens the studio" if key.studio else "",
        ]
        limits = " · ".join(part for part in parts if part) or "no limits"
        print(f"{key.name}  fl_{key.id}_…  {limits}")  # noqa: T201
    if not keys:
        _print("There are no keys: `foldline serve keys add NAME` makes one.")
    return 0


def remove_key(name: str, *, log: str | None) -> int:
    """Remove a key; servers refuse it within seconds."""
    if not _keys(log).remove(name):
        raise UsageError(f"there is no key named {name!r}: `foldline serve keys list` shows them")
    _print(f"{name} is removed; servers refuse it within {2} seconds.")
    return 0
