"""`foldline serve`: runs the server, and manages its keys."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldline.cli.places import data_dir, make_folder_of, traces_place
from foldline.exceptions import MissingExtraError, UsageError

if TYPE_CHECKING:
    from foldline.serve.app import ServeApp
    from foldline.serve.keys import KeyStore

__all__ = ["add_key", "list_keys", "make_from_environment", "remove_key", "serve"]

PASSED_ON = "FOLDLINE_SERVE"
"""The environment variable that passes the arguments to worker processes."""


def serve(
    targets: Sequence[str],
    *,
    models: Sequence[str],
    config: Path | None,
    host: str | None,
    port: int | None,
    log: str | None,
    workers: int | None,
    no_auth: bool,
    origins: Sequence[str],
    trace: bool,
    drain: float | None,
) -> int:
    """Serve until interrupted."""
    _need_extra()

    def read_plan() -> dict[str, Any]:
        """Read the file again, and return what the server is to be."""
        return _make_plan(
            targets,
            models,
            config,
            log=log,
            no_auth=no_auth,
            origins=origins,
            trace=trace,
            drain=drain,
        )

    plan = read_plan()
    address = host or plan["host"]
    number = port if port is not None else plan["port"]
    count = workers if workers is not None else plan["workers"]
    server_options = plan["settings"]
    note = _check_address(address, server_options)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    os.environ[PASSED_ON] = json.dumps(plan)
    app = make_from_environment()  # fails now where something cannot be served
    _print(f"Serving {', '.join(app.server.apps)} on http://{_bracketed(address)}:{number}")
    _print(f"Runs are kept in {_without_password(server_options['log'])}. {note}")
    options: dict[str, Any] = {
        "host": address,
        "port": number,
        "log_level": "warning",
        "access_log": False,
        "timeout_keep_alive": 75,
        "server_header": False,
    }
    if count > 1:
        app.server.host.log.close()

        def read_again() -> None:
            os.environ[PASSED_ON] = json.dumps(read_plan())

        return _supervise(options, count, read_again)
    from foldline.serve.draining import make_server

    make_server(app, options).run()
    return 0


def _supervise(options: dict[str, Any], count: int, read_again: Callable[[], None]) -> int:
    """Run several workers; return the status of the process."""
    import uvicorn

    from foldline.serve.supervisor import Supervisor

    listener = uvicorn.Config("", host=options["host"], port=options["port"]).bind_socket()
    return Supervisor(
        make_from_environment, options, sockets=[listener], count=count, read_again=read_again
    ).run()


def _make_plan(
    targets: Sequence[str],
    models: Sequence[str],
    config: Path | None,
    *,
    log: str | None,
    no_auth: bool,
    origins: Sequence[str],
    trace: bool,
    drain: float | None,
) -> dict[str, Any]:
    """Return what is served and how, from the options and the file."""
    from foldline.serve.gateway import read_config

    settings = read_config(config) if config is not None else {}
    server_options: dict[str, Any] = dict(settings.get("serve") or {})
    plan = {
        "host": server_options.pop("host", "127.0.0.1"),
        "port": int(server_options.pop("port", 8000)),
        "workers": int(server_options.pop("workers", 1)),
    }
    server_options["log"] = (
        log or server_options.get("log") or str(make_folder_of(data_dir() / "serve.db"))
    )
    if trace and "traces" not in server_options:
        server_options["traces"] = str(traces_place())
    if no_auth:
        server_options["no_auth"] = True
    if origins:
        server_options["cors_origins"] = list(origins)
    if drain is not None:
        server_options["drain_seconds"] = drain
    return {
        **plan,
        "targets": list(targets),
        "models": list(models),
        "config": str(config) if config is not None else None,
        "settings": server_options,
    }


def make_from_environment() -> ServeApp:
    """Make the app from the environment variable; called in each worker."""
    from foldline.serve import ServeSettings, create_app
    from foldline.serve.gateway import make_apps, read_config

    plan = json.loads(os.environ[PASSED_ON])
    config = read_config(plan["config"]) if plan["config"] else {}
    apps = make_apps(plan["targets"], plan["models"], config)
    return create_app(apps, settings=ServeSettings(**plan["settings"]))


def _check_address(address: str, options: dict[str, Any]) -> str:
    """Refuse a public address without keys; return a sentence about who may call."""
    from foldline._storage.open_database import open_database
    from foldline.serve.keys import KeyStore
    from foldline.serve.log.schema import SCHEMA
    from foldline.serve.server import is_loopback

    database = open_database(options["log"], SCHEMA)
    has_keys = KeyStore(database).has_keys()
    database.close()
    if has_keys:
        return "Callers need a key."
    if is_loopback(address):
        return "There are no keys: only this machine may call (`foldline serve keys add NAME`)."
    if options.get("no_auth"):
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


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _without_password(place: str) -> str:
    head, at, tail = place.rpartition("@")
    return f"{head.partition('://')[0]}://…@{tail}" if at and "://" in head else place


# -- keys


def _keys(log: str | None) -> KeyStore:
    _need_extra()
    from foldline._storage.open_database import open_database
    from foldline.serve.keys import KeyStore
    from foldline.serve.log.schema import SCHEMA

    place = log or str(make_folder_of(data_dir() / "serve.db"))
    return KeyStore(open_database(place, SCHEMA))


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
    from foldline.serve.keys import parse_budget

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
