"""Access to the studio, and what a browser may do: attempts to get around it."""

from __future__ import annotations

import gzip
import json
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from foldline.studio import app as studio_app
from tests.studio.conftest import CHANGE, TOKEN

PAGE = studio_app.PAGE


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/api/info", "/api/traces", "/api/live", "/assets/x.js"])
def test_without_the_token_nothing_is_shown(studio: Any, path: str):
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "foldline_studio=x"}):
        answer = httpx.get(f"{studio.url}{path}", headers=headers)
        assert answer.status_code == 401
        assert "token" in answer.json()["error"]
    assert httpx.get(f"{studio.url}{path}?token=wrong").status_code == 401


def test_the_token_becomes_a_cookie_that_no_script_reads_and_leaves_the_address(studio: Any):
    with httpx.Client(base_url=studio.url) as client:
        response = client.get("/", params={"token": TOKEN})
        assert response.status_code == 303
        assert response.headers["location"] == "/"
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert client.get("/api/info").status_code == 200
        assert TOKEN not in client.get("/").text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_another_name_is_refused(studio: Any, host: str):
    with studio.client(host=host) as client:
        assert client.get("/api/info").status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "["},
        {"host": "[::1"},
        {"host": "a]b"},
        {"host": ""},
        {"host": "127.0.0.1:http"},
        {"host": "\xff"},
        {"origin": "http://["},
        {"origin": "["},
        {"cookie": 'a[b]=1; =; ;;, "\\'},
        {"authorization": "Bearer \xff"},
        {"authorization": "Bearer"},
        {"content-length": "0", "content-type": "["},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_odd_headers_are_refused_and_no_crash(studio: Any, headers: dict[str, str], method: str):
    lines = {"host": studio.url.removeprefix("http://"), "connection": "close", **headers}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    host, port = studio.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        request = f"{method} /api/info HTTP/1.1\r\n{text}\r\n"
        connection.sendall(request.encode("latin-1"))
        status = connection.makefile("rb").readline().split()[1]

    assert status in (b"400", b"401", b"403", b"405")


def test_a_page_of_another_site_is_refused(studio: Any):
    with studio.client(origin="http://evil.example") as client:
        assert client.get("/api/info").status_code == 403
        assert client.post("/api/datasets/x/cases", json={}).status_code == 403
    with studio.client(origin="null") as client:
        assert client.get("/api/info").status_code == 403
    with studio.client(origin=studio.url) as client:
        assert client.get("/api/info").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/chat"),
        ("POST", "/api/tools/add"),
        ("POST", "/api/code"),
        ("POST", "/api/datasets/x/cases"),
        ("DELETE", "/api/traces/0000"),
        ("DELETE", "/api/sessions/x"),
    ],
)
def test_a_change_needs_what_a_form_of_another_site_cannot_send(
    studio: Any, method: str, path: str
):
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = httpx.request(method, f"{studio.url}{path}", headers=headers)

    assert answer.status_code == 403
    assert "x-foldline-studio" in answer.json()["error"]
    assert httpx.request(method, f"{studio.url}{path}", headers=headers | CHANGE).status_code != 403


def test_no_script_but_ours_runs_and_nobody_frames_the_page(studio: Any):
    with studio.client() as client:
        page = client.get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "<script>" not in page.text
        assert "style=" not in page.text
        assert "://" not in page.text
        assert client.get("/api/traces").headers["content-security-policy"] == policy


def test_no_secret_and_no_path_of_the_machine_is_in_what_the_page_gets(
    studio: Any, monkeypatch: pytest.MonkeyPatch
):
    folder = str(studio.folder)
    texts = []
    with studio.client() as client:
        failed = client.get("/api/traces", params={"errors": "1"}).json()["traces"]
        paths = ["/", "/api/info", "/api/models", "/api/choices", "/api/sessions", "/api/threads"]
        paths += [f"/api/traces/{trace['id']}" for trace in failed]
        for trace in failed:
            runs = client.get(f"/api/traces/{trace['id']}").json()["runs"]
            paths += [f"/api/runs/{run['id']}" for run in runs]
        paths += [
            "/api/runs/0000",
            "/api/sessions/none",
            "/assets/..%2fapp.py",
            "/api/traces?limit=x",
        ]
        texts = [client.get(path).text for path in paths]
    text = "\n".join(texts)

    assert failed
    assert "Traceback" in text
    assert folder not in text
    assert str(Path(studio_app.__file__).parents[2]) not in text
    assert str(Path.home()) not in text or str(Path.home()) == "/"
    assert TOKEN not in text


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "x.js"]
)
def test_only_the_files_of_the_page_are_served(studio: Any, name: str):
    with studio.client() as client:
        assert client.get(f"/assets/{name}").status_code == 404


def test_a_damaged_file_is_told_and_not_a_crash(start: Any, tmp_path: Path):
    (tmp_path / "traces.db").write_text("this is no database " * 500)
    studio = start()

    assert "no database" in studio.get("info")["problem"]
    with studio.client() as client:
        answer = client.get("/api/traces")
    assert answer.status_code == 409
    assert str(tmp_path) not in answer.text


def test_a_newer_file_is_told(studio: Any):
    connection = sqlite3.connect(studio.folder / "traces.db")
    with connection:
        connection.execute("UPDATE foldline_schema SET version = 99 WHERE kind = 'traces'")
    connection.close()

    assert "upgrade foldline" in studio.get("info")["problem"]


def test_the_page_is_small_and_carries_its_licences():
    files = [file for file in PAGE.rglob("*") if file.is_file()]
    sizes = {file.name: len(gzip.compress(file.read_bytes())) for file in files}

    assert sum(sizes.values()) <= 150_000, sizes
    licences = (PAGE / "licences.txt").read_text(encoding="utf-8")
    assert "Preact" in licences
    assert "uPlot" in licences


@pytest.mark.slow
@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_another_address_needs_a_key_of_your_own(host: str):
    env = {name: value for name, value in os.environ.items() if name != "FOLDLINE_STUDIO_KEY"}
    result = subprocess.run(
        [sys.executable, "-m", "foldline", "studio", "--no-open", "--host", host],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert result.returncode == 2
    assert "FOLDLINE_STUDIO_KEY" in result.stderr


@pytest.mark.slow
def test_the_command_prints_an_address_that_opens(tmp_path: Path):
    env = {**os.environ, "FOLDLINE_DATA_DIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "foldline", "studio", "--no-open", "--port", "0"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        transport = httpx.HTTPTransport(retries=5)
        with httpx.Client(follow_redirects=True, transport=transport) as client:
            assert "foldline studio" in client.get(address).text
            info = client.get(address.split("?")[0] + "api/info").json()
        assert info["is_there"] is False
        assert json.dumps(info).find(str(tmp_path)) == -1
    finally:
        process.terminate()
        process.communicate(timeout=20)
