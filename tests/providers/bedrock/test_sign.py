"""Signatures: botocore signs the same request with the same keys and writes the same header."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as TheirCredentials
from hypothesis import given, strategies as st

from foldline.providers.bedrock._sign import Credentials, sign_request
from foldline.transports import Request

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
HOST = "https://bedrock-runtime.us-east-1.amazonaws.com"
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SESSION = Credentials("ASIAEXAMPLE", "secret/key+", "IQoJb3JpZ2luX2VjE//////////wEaCXVz==")
MODELS = [
    "anthropic.claude-3-5-sonnet-20240620-v1:0",
    "us.amazon.nova-pro-v1:0",
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a b~c_d(e)",
    "modèle",
]


def sign_theirs(request: Request, keys: Credentials, region: str) -> dict[str, Any]:
    aws_request = AWSRequest(
        method=request.method, url=request.url, headers=dict(request.headers), data=request.body
    )
    signer = auth.SigV4Auth(
        TheirCredentials(keys.access_key, keys.secret_key, keys.session_token), "bedrock", region
    )
    original, auth.get_current_datetime = (
        auth.get_current_datetime,
        lambda: NOW.replace(tzinfo=None),
    )
    try:
        signer.add_auth(aws_request)
    finally:
        auth.get_current_datetime = original
    return {name.lower(): value for name, value in aws_request.headers.items()}


def check_same(request: Request, keys: Credentials = KEYS, region: str = "us-east-1") -> None:
    foldline_headers = sign_request(request, keys, region, now=NOW).headers
    botocore_headers = sign_theirs(request, keys, region)

    assert foldline_headers["authorization"] == botocore_headers["authorization"]
    assert foldline_headers["x-amz-date"] == botocore_headers["x-amz-date"]
    assert foldline_headers.get("x-amz-security-token") == botocore_headers.get(
        "x-amz-security-token"
    )


def request_of(url: str, body: bytes = b"{}", **headers: str) -> Request:
    return Request(url=url, body=body, headers={"content-type": "application/json", **headers})


@pytest.mark.parametrize("keys", [KEYS, SESSION], ids=["keys", "session"])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_id_in_the_path_is_signed_as_botocore_signs_it(model, keys):
    check_same(request_of(f"{HOST}/model/{quote(model, safe='')}/converse"), keys)


@pytest.mark.parametrize("body", [b"", "grüß 漢字 🎈".encode(), b"\x00\xff" * 100])
def test_every_body_is_covered(body):
    check_same(request_of(f"{HOST}/model/m/invoke", body))


@pytest.mark.parametrize("query", ["a=1&b=2", "b=2&a=1&a=0", "key", "x=%20%2F&y=", "a=1=2"])
def test_a_query_is_signed_in_order(query):
    check_same(request_of(f"{HOST}/model/m/converse?{query}"))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/model/m/converse", "https://vpce-1.example.com/a//b/./c/", HOST]
)
def test_other_hosts_ports_and_paths(url):
    check_same(request_of(url), region="eu-central-1")


def test_headers_of_aws_are_signed_with_their_white_space_collapsed():
    check_same(request_of(f"{HOST}/model/m/invoke", **{"x-amzn-bedrock-trace": "  a   b "}))


def test_headers_that_a_proxy_may_change_are_not_signed():
    first = sign_request(request_of(HOST, accept="a", **{"user-agent": "x"}), KEYS, "r", now=NOW)
    second = sign_request(request_of(HOST), KEYS, "r", now=NOW)

    assert first.headers["authorization"] == second.headers["authorization"]
    assert first.headers["accept"] == "a"


@given(
    st.text(min_size=1, max_size=40).filter(lambda text: not {".", ".."} & set(text.split("/"))),
    st.binary(max_size=100),
    st.from_regex(r"[A-Za-z0-9+/]{16,40}", fullmatch=True),
)
def test_any_model_body_and_key_give_the_same_signature(model, body, secret):
    url = f"{HOST}/model/{quote(model, safe='', errors='replace')}/converse-stream"
    check_same(request_of(url, body), Credentials("AKID", secret))


def test_keys_do_not_show():
    assert "secret/key+" not in repr(SESSION)
    assert "IQoJ" not in repr(SESSION)


def test_the_time_of_the_signature_is_now_by_default():
    signed = sign_request(request_of(HOST), KEYS, "us-east-1")

    stamp = datetime.strptime(signed.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - stamp).total_seconds()) < 60
