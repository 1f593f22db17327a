"""The import hook: programs that import langchain_core run on foldline."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from foldline.compat._private_names import PRIVATE_NAMES


def run(tmp_path, source, *arguments):
    (tmp_path / "app.py").write_text(source)
    return subprocess.run(
        [sys.executable, *(arguments or ("-m", "foldline.compat")), str(tmp_path / "app.py"), "x"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )


@pytest.mark.slow
def test_a_program_runs_unmodified(tmp_path):
    result = run(
        tmp_path,
        """
import sys
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
import langchain_core.messages as messages
from langchain_core import tools

chain = ChatPromptTemplate.from_template("{x}") | FakeListChatModel(responses=["hello"]) | StrOutputParser()
print(chain.invoke({"x": 1}), messages.AIMessage.__module__.split(".")[0], tools.tool.__name__, sys.argv[1])
""",
    )
    assert (result.returncode, result.stdout) == (0, "hello foldline tool x\n"), result.stderr


def test_importing_the_module_is_enough_and_other_packages_are_left_alone(tmp_path):
    (tmp_path / "langchain_openai.py").write_text(
        "from langchain_core.messages import AIMessage\nMINE = True\n"
    )
    result = run(
        tmp_path,
        "import foldline.compat.langchain\nimport langchain_openai as o\nprint(o.MINE, o.AIMessage('a').text)\n",
        "-W",
        "ignore",
    )
    assert (result.returncode, result.stdout) == (0, "True a\n"), result.stderr


@pytest.mark.slow
def test_more_packages_may_be_replaced(tmp_path):
    source = (
        "from foldline.compat.langchain import install\ninstall(replace=['langchain_openai'])\n"
        "from langchain_openai import ChatOpenAI\nprint(ChatOpenAI.__module__)\n"
    )
    result = run(tmp_path, source, "-W", "ignore")
    assert result.stdout == "foldline.providers.openai.chat\n", result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "import langchain_core\nimport foldline.compat.langchain\n",
            "langchain_core is already imported: install",
        ),
        (
            "from foldline.compat.langchain import install\ninstall(['numpy'])\n",
            "foldline has no map of 'numpy'",
        ),
        (
            "import foldline.compat.langchain\nimport langchain_core.nothing\n",
            "langchain_core.nothing has no counterpart",
        ),
        (
            "import foldline.compat.langchain\nfrom langchain_core.messages import Nothing\n",
            "cannot import name 'Nothing'",
        ),
    ],
)
def test_what_cannot_be_is_said(tmp_path, source, says):
    (tmp_path / "langchain_core").mkdir()
    (tmp_path / "langchain_core" / "__init__.py").touch()
    result = run(tmp_path, source, "-W", "ignore")
    assert result.returncode == 1
    assert says in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("-m",), ("nothing.py",)])
def test_wrong_usage_is_told(arguments):
    result = subprocess.run(
        [sys.executable, "-m", "foldline.compat", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "usage: python -m foldline.compat FILE" in result.stderr


def test_settings_that_are_no_field_go_to_model_kwargs():
    build = PRIVATE_NAMES["langchain_core.utils.utils._build_model_kwargs"]
    with pytest.warns(UserWarning, match="other is not a setting"):
        assert build({"model": "m", "other": 1}, {"model"}) == {
            "model": "m",
            "model_kwargs": {"other": 1},
        }
    with pytest.raises(ValueError, match="twice"):
        build({"other": 1, "model_kwargs": {"other": 2}}, {"model", "model_kwargs"})
