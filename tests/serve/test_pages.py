"""The serve pages agree with the routes and the settings of the server."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.routing import Match, Route

from foldline.serve import ServeSettings, create_app
from foldline.serve._log.schema import SCHEMA
from foldline.serve._run_host import PING
from foldline.serve._wires.langgraph_view import MODES
from foldline.serve.settings import MEBIBYTE
from foldline.testing import ScriptedChatModel

DOCS = Path(__file__).parents[2] / "docs"
ENDPOINT = re.compile(r"`(GET|POST|DELETE) (/[\w/{}.]*)`")


def page(name: str) -> str:
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def routes() -> list[Route]:
    app = create_app({"echo": ScriptedChatModel(script=["Hello."])}, log=":memory:")
    return [route for route in app.routes if isinstance(route, Route)]


def test_every_endpoint_on_a_page_is_a_route():
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("serve*.md")))
    endpoints = set(ENDPOINT.findall(text))

    assert len(endpoints) > 30
    for method, path in endpoints:
        scope = {"type": "http", "method": method, "path": path}
        matches = {route.matches(scope)[0] for route in routes()}  # type: ignore[arg-type]
        assert Match.FULL in matches, f"{method} {path}"


def test_every_family_of_routes_is_on_a_page():
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("serve*.md")))
    heads = {route.path.split("/")[1] for route in routes()} - {"{app}"}

    assert {head for head in heads if f"/{head}" not in text} == {"info"}  # asked by one client


def test_the_bounds_on_the_pages_are_the_defaults():
    settings = ServeSettings()

    assert (
        f"body {settings.max_body // MEBIBYTE} MiB, {settings.max_messages:,} messages, "
        f"{settings.max_tools} tools, {settings.max_runs:,} concurrent runs" in page("serve.md")
    )
    deployment = page("serve-deployment.md")
    assert f"kept for {settings.keep_days:g} days (`keep_days`)" in deployment
    assert f"`--drain` seconds ({settings.drain_seconds:g})" in deployment
    assert f"longer than {PING:g} seconds" in deployment


def test_the_tables_and_stream_modes_on_the_pages_are_those_of_the_server():
    tables = list(SCHEMA.tables)

    assert f"The tables ({', '.join(f'`{table}`' for table in tables)})" in page(
        "serve-deployment.md"
    )
    assert f"Stream modes: {', '.join(MODES)}." in page("serve-langgraph.md")


def test_the_unit_for_systemd_writes_only_where_it_may():
    unit = (DOCS.parent / "deploy" / "foldline.service").read_text(encoding="utf-8")
    values = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    folder = Path(values["ReadWritePaths"])

    assert values["ProtectSystem"] == "strict"  # the home of the user cannot be written
    assert Path(values["WorkingDirectory"]).is_relative_to(folder)
    name, _, data = values["Environment"].partition("=")
    assert name == "FOLDLINE_DATA_DIR"  # for traces, and for a log that is not configured
    assert Path(data).is_relative_to(folder)
