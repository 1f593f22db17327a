"""The old paths of the call's parts: they import the same objects, and warn."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from foldline import language_models

PATHS = [
    ("call.request", "ChatRequest"),
    ("call.retry", "RetryPolicy"),
    ("call.chunk_bridge", "chunks_to_events"),
    ("policies.usage", "Limits"),
    ("policies.usage_scope", "usage_scope"),
    ("policies.file_resolver", "FileResolver"),
    ("policies.model_hooks", "ModelHooks"),
    ("policies.prompt_caching", "CacheConfig"),
    ("policies.call_options", "ToolChoice"),
    ("streams.stream", "ChatModelStream"),
]


@pytest.mark.filterwarnings("ignore:.*private and moved:DeprecationWarning")
@pytest.mark.parametrize(("path", "name"), PATHS)
def test_an_old_path_has_the_same_object(path: str, name: str):
    module = importlib.import_module(f"foldline.language_models.{path}")

    assert getattr(module, name) is getattr(language_models, name)


@pytest.mark.parametrize("package", ["call", "policies", "streams"])
def test_an_old_path_warns_where_it_is_imported(package: str):
    program = f"import foldline.language_models.{package}"
    output = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"foldline.language_models.{package} is private and moved" in output.stderr


def test_foldline_itself_uses_no_old_path():
    program = "import foldline.agents, foldline.providers.openai, foldline.serve, sys\n" + (
        "print([name for name in sys.modules if name.startswith(('foldline.language_models.call',"
        " 'foldline.language_models.policies', 'foldline.language_models.streams'))])"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert output.stdout.strip() == b"[]"
