"""The files of deploy/: linted by the programs that read them, and as far as possible run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from foldline.serve import ServeSettings
from foldline.serve._setting_rows import SETTINGS, VARIABLE_PREFIX
from tests.serve.process import ROOT, ServeProcess

DEPLOY = ROOT / "deploy"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files for Linux")


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, **options
    )


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line.strip()]


def test_S62_hadolint_finds_nothing_in_the_dockerfile():
    program = shutil.which("hadolint") or Path(sys.executable).with_name("hadolint")

    result = run(program, DEPLOY / "Dockerfile")

    assert (result.returncode, result.stdout) == (0, "")


def test_S61_the_image_is_small_locked_unprivileged_and_has_a_probe():
    found = instructions()
    values = dict(found)

    assert [name for name, _ in found].count("FROM") == 2
    assert all("-slim" in value for name, value in found if name == "FROM")
    assert values["USER"] == "10001:10001"
    assert values["STOPSIGNAL"] == "SIGTERM"
    assert "/healthz" in values["HEALTHCHECK"]
    assert any("--require-hashes" in value for name, value in found if name == "RUN")
    lock = (DEPLOY / "requirements.txt").read_text(encoding="utf-8")
    packages = re.findall(r"^([a-z0-9-]+)==\S+", lock, re.MULTILINE)
    assert {"starlette", "uvicorn", "httptools", "typer", "psycopg", "pydantic"} <= set(packages)
    assert lock.count("--hash=sha256:") > len(packages)


@pytest.mark.slow
@pytest.mark.timeout(900)  # it installs every package of the image
def test_S62_every_run_line_of_the_dockerfile_runs_in_a_folder(tmp_path):
    build, home = tmp_path / "build", tmp_path / "opt" / "foldline"
    build.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for name, value in instructions():
        if name == "COPY" and not value.startswith("--from"):
            *sources, target = shlex.split(value)
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                is_folder = (ROOT / source).is_dir()
                copy(ROOT / source, build / target if is_folder else build / Path(source).name)
        elif name == "RUN":
            line = value.replace("/opt/foldline", str(home))
            result = run("sh", "-ec", line, cwd=build, env={**os.environ, "PATH": path})
            assert result.returncode == 0, result.stderr[-2000:]

    answer = run(home / "bin" / "foldline", "serve", "config", cwd=tmp_path)

    assert answer.returncode == 0, answer.stderr
    assert "max_runs" in answer.stdout


def test_S62_systemd_takes_the_unit_and_calls_it_hardened(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "foldline.service").read_text(encoding="utf-8")
    unit = tmp_path / "foldline.service"
    unit.write_text(text.replace("/srv/foldline/.venv/bin/foldline", sys.executable))

    result = run(program, "verify", unit)
    assert (result.returncode, result.stderr) == (0, "")
    hardness = run(program, "security", "--offline=true", "--threshold=25", unit)
    assert hardness.returncode == 0, hardness.stdout[-200:]


def test_S61_the_unit_and_the_compose_file_wait_longer_than_runs_are_drained():
    unit = (DEPLOY / "foldline.service").read_text(encoding="utf-8")
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    settings = ServeSettings()
    longest = settings.drain_seconds + getattr(settings, "drain_delay", 2.0)

    assert int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0]) > longest
    assert int(compose["services"]["server"]["stop_grace_period"].rstrip("s")) > longest


def test_S61_the_compose_file_has_server_database_and_prometheus_without_passwords():
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    services = yaml.safe_load(text)["services"]

    assert set(services) == {"server", "db", "prometheus"}
    server = services["server"]
    assert (server["read_only"], server["cap_drop"]) == (True, ["ALL"])
    known = {row.variable for row in SETTINGS.values()}
    known |= {f"{row.variable}_FILE" for row in SETTINGS.values() if row.facts.is_secret}
    image = dict(
        pair.split("=", 1)
        for name, value in instructions()
        if name == "ENV"
        for pair in value.split()
    )
    used = {name for name in (*server["environment"], *image) if name.startswith(VARIABLE_PREFIX)}
    assert used <= known
    assert used
    assert "PASSWORD:" not in text


def test_S62_promtool_takes_the_configuration_of_prometheus():
    program = shutil.which("promtool")
    assert program, "promtool is not installed: run scripts/servers"

    result = run(program, "check", "config", "--syntax-only", DEPLOY / "prometheus.yml")

    assert result.returncode == 0, result.stderr


def test_S61_a_server_tells_systemd_that_it_is_ready(tmp_path):
    address = str(tmp_path / "notify")
    process = ServeProcess(
        tmp_path, apps=["double=tests.serve.served:double"], options=("--no-trace",)
    )
    process.environment["NOTIFY_SOCKET"] = address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(60)
        process.start()
        try:
            assert listener.recv(100) == b"READY=1"
        finally:
            process.stop()
