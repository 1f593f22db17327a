"""AWS credentials: from the environment or, if selected, from files, the container, the instance or botocore.

Nothing is read when a model is created. Files and botocore are read through `io.call`, metadata services through the
model's transport.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from configparser import Error as ConfigError, RawConfigParser
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from time import time
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from foldline._io import IO
from foldline.exceptions import (
    MissingExtraError,
    ModelAuthenticationError,
    SecurityError,
    UsageError,
)
from foldline.providers._wire import MALFORMED_PAYLOAD_ERRORS
from foldline.providers.bedrock._sign import Credentials

__all__ = [
    "SOURCES",
    "Fetch",
    "environment_credentials",
    "fetch_container_credentials",
    "fetch_instance_credentials",
    "missing_credentials",
    "open_botocore_session",
    "profile_credentials",
    "profile_region",
    "session_credentials",
    "session_region",
]

SourceName: TypeAlias = Literal["environment", "profile", "container", "instance", "botocore"]
Fetch: TypeAlias = Callable[[str, str, Mapping[str, str]], Awaitable[bytes]]
"""Sends a request without a body (method, URL, headers) and returns the body of the answer."""

SOURCES: Final = get_args(SourceName)
BOTOCORE_KEYS: Final = ("role_arn", "sso_session", "sso_start_url", "credential_process")
"""Keys of a profile that only botocore can resolve."""
CONTAINER_ROOT: Final = "http://169.254.170.2"
CONTAINER_HOSTS: Final = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23"})
INSTANCE_ROOT: Final = "http://169.254.169.254"
UNKNOWN_LIFETIME: Final = 900.0
"""Seconds for which credentials without an expiry time are used."""


def environment_credentials() -> Credentials | None:
    """Read AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN."""
    access, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        return None
    return Credentials(access.strip(), secret.strip(), os.environ.get("AWS_SESSION_TOKEN") or None)


def missing_credentials(provider: str | None) -> ModelAuthenticationError:
    """Return the error that explains how to pass credentials."""
    return ModelAuthenticationError(
        "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK, in the "
        'environment; or pass credentials="profile", "container", "instance", "botocore" or a botocore session',
        provider=provider,
    )


# -- files


def profile_credentials(profile: str | None) -> Credentials:
    """Return the keys of a profile: from the credentials file, else from the config file."""
    name = _profile_name(profile)
    values = _read_profile(name)
    access, secret = values.get("aws_access_key_id"), values.get("aws_secret_access_key")
    if access and secret:
        return Credentials(access, secret, values.get("aws_session_token") or None)
    if key := next((key for key in BOTOCORE_KEYS if values.get(key)), None):
        raise UsageError(
            f'the AWS profile {name!r} has {key}: pass credentials="botocore" or a botocore session'
        )
    raise ModelAuthenticationError(
        f"the AWS profile {name!r} has no keys: add aws_access_key_id and aws_secret_access_key, or name another"
    )


def profile_region(profile: str | None) -> str | None:
    """Return the region of a profile."""
    return _read_profile(_profile_name(profile)).get("region")


def _profile_name(profile: str | None) -> str:
    return profile or os.environ.get("AWS_PROFILE") or "default"


def _read_profile(name: str) -> dict[str, str]:
    shared = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    config = os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config"
    in_config = _read_section(config, "default" if name == "default" else f"profile {name}")
    return in_config | _read_section(shared, name)


def _read_section(path: str, section: str) -> dict[str, str]:
    parser = RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError:
        return {}
    except (ConfigError, UnicodeDecodeError):
        # The parser's error shows the line, which may contain a key.
        raise UsageError(f"the AWS file {path} does not parse") from None
    return dict(parser[section]) if parser.has_section(section) else {}


# -- metadata services


async def fetch_container_credentials(fetch: Fetch, io: IO) -> Credentials:
    """Fetch the credentials of the container's role (ECS, EKS)."""
    url = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if relative := os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        url = f"{CONTAINER_ROOT}/{relative.lstrip('/')}"
    if not url:
        raise ModelAuthenticationError(
            "no credentials of a container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI are not set"
        )
    _check_container_url(url)
    headers = {}
    token = os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    if file := os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = await io.call(_read_token, file)  # each time, because it is rotated
    if token:
        headers["authorization"] = token
    return _read_answer(await fetch("GET", url, headers))


def _read_token(path: str) -> str:
    """Return the token of a container from a file."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelAuthenticationError(f"the token file {path!r} cannot be read") from error


def _check_container_url(url: str) -> None:
    """Raise unless the container's token goes over https or to a host that AWS documents."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host in CONTAINER_HOSTS or _is_loopback(host):
        return
    raise SecurityError(
        f"AWS_CONTAINER_CREDENTIALS_FULL_URI names {host!r}: over http only loopback and AWS's own addresses are asked"
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def fetch_instance_credentials(fetch: Fetch) -> Credentials:
    """Fetch the credentials of the instance's role (EC2), with a token (IMDSv2)."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise ModelAuthenticationError("AWS_EC2_METADATA_DISABLED forbids to ask the instance")
    root = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or INSTANCE_ROOT
    root = f"{root.rstrip('/')}/latest"
    lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
    token = (await fetch("PUT", f"{root}/api/token", lifetime)).decode("ascii", "replace").strip()
    headers = {"x-aws-ec2-metadata-token": token}
    folder = f"{root}/meta-data/iam/security-credentials/"
    roles = (await fetch("GET", folder, headers)).decode("ascii", "replace").split()
    if not roles:
        raise ModelAuthenticationError("the instance has no IAM role")
    return _read_answer(await fetch("GET", folder + roles[0], headers))


def _read_answer(body: bytes) -> Credentials:
    try:
        answer: Any = json.loads(body)
        expiration = answer.get("Expiration")
        expires_at = time() + UNKNOWN_LIFETIME
        if expiration:
            expires_at = datetime.fromisoformat(str(expiration)).timestamp()
        keys = [answer["AccessKeyId"], answer["SecretAccessKey"], answer.get("Token")]
        access, secret, token = (None if key is None else str(key) for key in keys)
    except (*MALFORMED_PAYLOAD_ERRORS, RecursionError):
        # Without the cause: it may show part of the answer, which contains keys.
        raise ModelAuthenticationError("the metadata service sent no credentials") from None
    if not access or not secret:
        raise ModelAuthenticationError("the metadata service sent no credentials")
    return Credentials(access, secret, token, expires_at)


# -- botocore


def open_botocore_session(profile: str | None) -> Any:  # noqa: ANN401  a class of an extra
    """Return a botocore session, which supports SSO, assumed roles and credential processes."""
    try:
        from botocore.session import Session  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtraError(
            'credentials="botocore" needs botocore, which is not installed: pip install "foldline[aws]"'
        ) from error
    return Session(profile=profile)


def session_credentials(session: Any) -> Credentials | None:  # noqa: ANN401  of botocore or boto3
    """Return the current credentials of a botocore or boto3 session or credentials object; may block."""
    get = getattr(session, "get_credentials", None)
    resolved = session if get is None else get()
    if resolved is None:
        return None
    keys = resolved.get_frozen_credentials()
    if not keys.access_key or not keys.secret_key:
        return None
    return Credentials(keys.access_key, keys.secret_key, keys.token or None)


def session_region(session: object) -> str | None:
    """Return the region of a session."""
    region = getattr(session, "region_name", None)  # boto3
    get = getattr(session, "get_config_variable", None)
    if region is None and get is not None:
        region = get("region")
    return region if isinstance(region, str) else None
