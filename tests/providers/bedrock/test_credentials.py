"""Sources of credentials and their order; files and metadata services only when chosen."""

from __future__ import annotations

import asyncio
import builtins
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.credentials import Credentials as TheirCredentials
from botocore.session import Session

from foldline.exceptions import (
    MissingExtraError,
    ModelAuthenticationError,
    ModelConnectionError,
    SecurityError,
    UsageError,
)
from foldline.providers.bedrock import ChatBedrockConverse
from tests.providers.bedrock.answers import whole_of
from tests.servers.bedrock import ACCESS_KEY, REGION, SECRET_KEY, SESSION_TOKEN, BedrockStub

KEYS = f"aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
FOLDER = "/latest/meta-data/iam/security-credentials/"


def model_of(stub: BedrockStub, **fields: Any) -> ChatBedrockConverse:
    stub.answer = whole_of("text")
    settings = {"model": "m", "base_url": stub.url, "region_name": REGION, "max_retries": 0}
    return ChatBedrockConverse(**{**settings, **fields})


def answers(stub: BedrockStub, call: Any, **fields: Any) -> bool:
    return bool(call.invoke(model_of(stub, **fields), "Hi").text == "Hello there.")


def metadata_answer(minutes: float = 60, **more: Any) -> str:
    expires = datetime.now(UTC) + timedelta(minutes=minutes)
    return json.dumps(
        {
            "Code": "Success",
            "AccessKeyId": ACCESS_KEY,
            "SecretAccessKey": SECRET_KEY,
            "Token": SESSION_TOKEN,
            "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
            **more,
        }
    )


def test_the_environment_is_read_at_the_call(stub, call, monkeypatch):
    model = model_of(stub)
    with pytest.raises(ModelAuthenticationError, match="AWS_ACCESS_KEY_ID"):
        call.invoke(model, "Hi")

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION_TOKEN)
    assert call.invoke(model, "Hi").text == "Hello there."
    assert stub.requests[0]["headers"]["x-amz-security-token"] == SESSION_TOKEN


def test_files_are_not_read_unless_they_are_chosen(stub, call, monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text(f"[default]\n{KEYS}")
    monkeypatch.setenv("AWS_PROFILE", "default")
    with pytest.raises(ModelAuthenticationError):
        answers(stub, call)

    assert answers(stub, call, credentials="profile")


def test_a_profile_of_either_file(stub, call, monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text(
        f"[other]\naws_access_key_id = x\n[work]\n{KEYS}aws_session_token = tt\n"
    )
    (tmp_path / "config").write_text(
        f"[profile inline]\n{KEYS}region = {REGION}\n[profile work]\nregion = {REGION}\n"
    )

    assert answers(stub, call, credentials_profile_name="work")
    assert stub.requests[-1]["headers"]["x-amz-security-token"] == "tt"
    assert answers(stub, call, credentials="profile", profile_name="inline", region_name=None)
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert answers(stub, call, credentials="profile", region_name=None)


@pytest.mark.parametrize(
    ("text", "error", "error_text"),
    [
        ("", ModelAuthenticationError, "no keys"),
        ("[default]\nregion = us-east-1\n", ModelAuthenticationError, "no keys"),
        ("[default]\nrole_arn = arn:aws:iam::1:role/x\n", UsageError, "role_arn"),
        ("[default]\nsso_session = x\n", UsageError, "botocore"),
        ("no section = secret-canary\n", UsageError, "does not parse"),
    ],
)
def test_a_profile_without_keys_says_what_to_do(stub, call, tmp_path, text, error, error_text):
    (tmp_path / "credentials").write_text(text)
    with pytest.raises(error, match=error_text) as excinfo:
        answers(stub, call, credentials="profile")

    assert "secret-canary" not in str(excinfo.value)
    assert excinfo.value.__cause__ is None


def test_keys_given_as_fields_come_before_everything(stub, call, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "wrong")

    assert answers(stub, call, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)


# -- metadata services


def test_a_container_gives_its_keys_and_they_are_kept(stub, call, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("token-1\n")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stub.url}/creds")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    stub.metadata["/creds"] = metadata_answer()
    model = model_of(stub, credentials="container")

    call.invoke(model, "Hi")
    call.invoke(model, "Hi")
    requests = [request for request in stub.requests if request["path"] == "/creds"]
    assert [request["headers"]["authorization"] for request in requests] == ["token-1"]
    assert stub.requests[-1]["headers"]["x-amz-security-token"] == SESSION_TOKEN


@pytest.mark.parametrize("minutes", [-5, 4])
def test_keys_that_are_about_to_expire_are_fetched_anew(stub, call, monkeypatch, minutes):
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stub.url}/creds")
    stub.metadata["/creds"] = metadata_answer(minutes)
    model = model_of(stub, credentials="container")

    call.invoke(model, "Hi")
    call.invoke(model, "Hi")
    assert [request["path"] for request in stub.requests].count("/creds") == 2


def test_an_instance_is_asked_with_a_token(stub, call, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", stub.url)
    stub.metadata = {
        "/latest/api/token": "imds-token",
        FOLDER: "my-role\n",
        f"{FOLDER}my-role": metadata_answer(),
    }

    assert answers(stub, call, credentials="instance")
    token, role, keys = stub.requests[:3]
    assert token["method"] == "PUT"
    assert role["headers"]["x-aws-ec2-metadata-token"] == "imds-token"
    assert keys["path"] == f"{FOLDER}my-role"


@pytest.mark.parametrize(
    "body",
    [
        "no JSON", "[]", "{}", '{"AccessKeyId": "", "SecretAccessKey": "s"}', '{"AccessKeyId": "a"}', "[" * 100_000,
        '{"AccessKeyId": "a", "SecretAccessKey": "s", "Expiration": "0001-01-01T00:00:00"}',
    ],
    ids=lambda body: body[:40],
)  # fmt: skip
def test_an_answer_without_keys_is_an_authentication_error(stub, call, monkeypatch, body):
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stub.url}/creds")
    stub.metadata["/creds"] = body
    with pytest.raises(ModelAuthenticationError, match="no credentials"):
        answers(stub, call, credentials="container")


def test_services_that_are_not_there_say_so(stub, call, monkeypatch):
    with pytest.raises(ModelAuthenticationError, match="AWS_CONTAINER"):
        answers(stub, call, credentials="container")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{stub.url}/nothing")
    with pytest.raises(ModelAuthenticationError, match="404"):
        answers(stub, call, credentials="container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/no/such/file")
    with pytest.raises(ModelAuthenticationError, match="token file"):
        answers(stub, call, credentials="container")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", stub.url)
    stub.metadata = {"/latest/api/token": "t", FOLDER: " "}
    with pytest.raises(ModelAuthenticationError, match="no IAM role"):
        answers(stub, call, credentials="instance")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ModelAuthenticationError, match="forbids"):
        answers(stub, call, credentials="instance")


@pytest.mark.parametrize(
    "url", ["http://example.com/creds", "http://127.0.0.1.example.com/", "http://10.0.0.1/"]
)
def test_the_token_of_a_container_goes_to_no_stranger(stub, call, monkeypatch, url):
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    with pytest.raises(SecurityError):
        answers(stub, call, credentials="container")


# -- botocore


def test_a_session_of_botocore_is_taken_with_its_region(stub, call):
    session = Session()
    session.set_credentials(ACCESS_KEY, SECRET_KEY, SESSION_TOKEN)
    session.set_config_variable("region", REGION)

    assert answers(stub, call, credentials=session, region_name=None)
    assert answers(stub, call, credentials=TheirCredentials(ACCESS_KEY, SECRET_KEY))


def test_the_chain_of_botocore_is_used_where_it_is_named(stub, call, tmp_path):
    (tmp_path / "credentials").write_text(f"[work]\n{KEYS}")

    assert answers(stub, call, credentials="botocore", profile_name="work")


def test_a_session_without_credentials_says_what_to_do(stub, call, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ModelAuthenticationError, match="no AWS credentials"):
        answers(stub, call, credentials=Session())


def test_without_botocore_the_command_is_named(stub, call, monkeypatch):
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("botocore"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtraError, match=r"foldline\[aws\]"):
        answers(stub, call, credentials="botocore")


def test_the_region_of_a_session_of_boto3(stub):
    class Boto3Session:
        region_name = "sa-east-1"

        def get_credentials(self) -> Any:
            return TheirCredentials("", "")

    model = ChatBedrockConverse(model="m", credentials=Boto3Session(), max_retries=0)
    assert "sa-east-1" in model.explain("Hi").url
    with pytest.raises(ModelAuthenticationError, match="no AWS credentials"):
        model.invoke("Hi")


def test_the_address_of_a_container_service_is_fixed(monkeypatch):
    class Remembering:
        def open(self, request: Any, *, blocking: bool) -> Any:
            raise ModelConnectionError(request.url)

    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/x")
    model = ChatBedrockConverse(
        model="m",
        region_name=REGION,
        credentials="container",
        transport=Remembering(),
        max_retries=0,
    )
    with pytest.raises(ModelConnectionError, match=r"http://169\.254\.170\.2/v2/credentials/x"):
        model.invoke("Hi")


@pytest.mark.parametrize("source", ["files", 5, object()])
def test_a_source_that_nobody_knows_is_refused(source):
    with pytest.raises(ValueError, match="credentials is one of"):
        ChatBedrockConverse(region_name=REGION, credentials=source)


def test_reading_files_does_not_block_a_loop(stub, no_blocking, tmp_path):
    (tmp_path / "credentials").write_text(f"[default]\n{KEYS}")
    (tmp_path / "config").write_text(f"[default]\nregion = {REGION}\n")
    model = model_of(stub, credentials="profile", region_name=None)

    assert asyncio.run(model.ainvoke("Hi")).text == "Hello there."


def test_a_region_in_a_file_does_not_block_a_loop(no_blocking, tmp_path):
    class Remembering:
        def open(self, request: Any, *, blocking: bool) -> Any:
            raise ModelConnectionError(request.url)

    (tmp_path / "credentials").write_text(f"[default]\n{KEYS}")
    (tmp_path / "config").write_text("[default]\nregion = sa-east-1\n")
    for source in ("profile", "botocore", Session()):
        model = ChatBedrockConverse(
            model="m", credentials=source, transport=Remembering(), max_retries=0
        )
        with pytest.raises(ModelConnectionError, match="sa-east-1"):
            asyncio.run(model.ainvoke("Hi"))


def test_a_signature_is_of_now(stub, call):
    answers(stub, call, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)

    stamp = stub.requests[0]["headers"]["x-amz-date"]
    then = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    assert abs(time.time() - then) < 60
