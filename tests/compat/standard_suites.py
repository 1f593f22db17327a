"""langchain-tests' standard suites, a class for each of our providers: run by `test_standard_suites.py`, over the hook
that answers `import langchain_core` with foldline, against the server of all wires whose address is in WIRES_URL.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from foldline.providers import REGISTRY
from foldline.providers.openai_compatible._hosts import HOSTS

URL = os.environ.get("WIRES_URL", "http://127.0.0.1:9")
KEY = {"model": "m", "api_key": "k"}
CLAUDE = {"model": "anthropic.claude-m"}
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai_responses": ({**KEY, "use_responses_api": True}, {"base_url": f"{URL}/v1"}),
    "azure_openai": (KEY, {"azure_endpoint": URL}),
    "anthropic": (KEY, {"base_url": URL}),
    "google": (KEY, {"base_url": URL}),
    "google_vertexai": ({"model": "m", "api_key": "ya29.k"}, {"base_url": URL}),
    "google_anthropic_vertex": ({"model": "claude-m", "api_key": "ya29.k"}, {"base_url": URL}),
    "bedrock": ({"model": "amazon.m"}, {"base_url": URL}),
    "anthropic_bedrock": (CLAUDE, {"base_url": URL}),
    "bedrock_mantle_anthropic": (CLAUDE, {"base_url": URL}),
    "bedrock_mantle_openai": (KEY, {"base_url": f"{URL}/v1"}),
    "openai_compatible": ({**KEY, "base_url": f"{URL}/v1"}, {}),
}
"""Provider -> what its models are made with, and what leads them to the server."""
LEFT_OUT = ("local",)
"""It runs a model itself: `tests/providers/local` holds it to the runtime."""
FLAGS = {"has_tool_calling": True, "has_structured_output": True, "supports_json_mode": True}


def providers() -> dict[str, str]:
    """Return the name of each provider with its class; of several names for one class the first."""
    names_by_path = {path: name for name, path in reversed(REGISTRY.items())}
    paths_by_name = {name: path for path, name in names_by_path.items() if name not in LEFT_OUT}
    return {**paths_by_name, "openai_responses": REGISTRY["openai"]}


def _class(name: str, path: str, suite: type[Any]) -> type[Any]:
    module, _, model = path.partition(":")
    cls = getattr(importlib.import_module(module), model)
    tells_usage = name in HOSTS and not HOSTS[name].asks_for_usage
    address = f"{URL}/usage/v1" if tells_usage else f"{URL}/v1"
    params, place = SETTINGS.get(name, (KEY, {"base_url": address}))
    if suite is ChatModelIntegrationTests:
        params = {**params, **place}
    members: dict[str, Any] = {
        flag: property(lambda self, value=value: value) for flag, value in FLAGS.items()
    }
    members["chat_model_class"] = property(lambda self: cls)
    members["chat_model_params"] = property(lambda self: dict(params))
    kind = "Unit" if suite is ChatModelUnitTests else "Integration"
    return type(f"Test_{name}_{kind}", (suite,), members)


for _name, _path in providers().items():
    for _suite in (ChatModelUnitTests, ChatModelIntegrationTests):
        _suite_class = _class(_name, _path, _suite)
        globals()[_suite_class.__name__] = _suite_class
