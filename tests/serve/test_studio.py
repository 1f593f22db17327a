"""`/studio` of a server: which keys open it, and which clients see it without keys."""

from __future__ import annotations

import base64
from pathlib import Path

import httpx
import pytest

from foldline.serve import create_app
from foldline.testing import ScriptedChatModel
from tests.serve.conftest import KeyedServer
from tests.serve.in_process import post_in_process
from tests.serve.process import ServeProcess


def test_without_keys_this_machine_sees_the_runs(server: ServeProcess) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
    assert httpx.post(f"{server.url}/v1/chat/completions", json=body).status_code == 200
    assert "<html" in httpx.get(f"{server.url}/studio/").text
    assert httpx.get(f"{server.url}/studio/api/info").json()["apps"] == ["agent", "graph"]
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        assert httpx.get(f"{server.url}/studio/api/info", headers=headers).status_code == 403


@pytest.mark.slow
def test_with_keys_it_needs_a_key_that_opens_it(keyed: KeyedServer) -> None:
    url = f"{keyed.url}/studio/api/info"
    unauthorized = httpx.get(url)
    assert unauthorized.status_code == 401
    assert unauthorized.headers["www-authenticate"].startswith("Basic ")
    plain = httpx.get(url, headers={"authorization": f"Bearer {keyed.first}"})
    assert plain.status_code == 403
    assert "--studio" in plain.json()["error"]["message"]
    key = keyed.add_key("operator", "--studio")
    basic = base64.b64encode(f"me:{key}".encode()).decode()
    for headers in ({"authorization": f"Bearer {key}"}, {"authorization": f"Basic {basic}"}):
        assert httpx.get(url, headers=headers).status_code == 200
        answer = httpx.get(url, headers={**headers, "host": "llm.example"})
        assert answer.status_code == 200
        change = httpx.post(f"{keyed.url}/studio/api/datasets", json={}, headers=headers)
        assert change.status_code == 403  # a change without the studio's own header
    assert httpx.get(url, headers={"authorization": "Basic ???"}).status_code == 401


@pytest.mark.parametrize("no_auth", [False, True])
def test_strangers_never_see_it(tmp_path: Path, no_auth: bool) -> None:
    model = ScriptedChatModel(script=["hi"])
    app = create_app({"chat": model}, traces=str(tmp_path / "t.db"), no_auth=no_auth)
    assert post_in_process(app, "/studio/api/info", None, "GET").status_code == 200
    second_app = create_app({"chat": model}, traces=str(tmp_path / "t.db"), no_auth=no_auth)
    answer = post_in_process(second_app, "/studio/api/info", None, "GET", client="192.0.2.7")
    assert answer.status_code == 401
