"""`foldline migrate`: how it rewrites a source."""

import pytest

from foldline.compat._rewrite import UnparsableError, rewrite


def test_imports_are_renamed_and_all_else_stays():
    before = '''"""Doc."""
# the model
from langchain_openai import ChatOpenAI  # paid
from langchain_core.messages import (
    AIMessage,  # theirs
    HumanMessage,
)


def f( x ):
    return ChatOpenAI().invoke( x )
'''
    result = rewrite(before)

    assert result.source == before.replace("langchain_openai", "foldline.providers.openai").replace(
        "langchain_core", "foldline"
    )
    assert result.findings == ()


def test_one_import_may_become_several_and_keeps_its_comments():
    result = rewrite(
        "from langchain.tools import (\n    ToolRuntime,  # of the run\n    tool,\n)  # end\nx = 1\n"
    )
    assert (
        result.source
        == (
            "# of the run\nfrom foldline.graph import ToolRuntime\n"
            "from foldline.tools import tool  # end\nx = 1\n"
        )
        or "import tool" in result.source
    )
    assert "# of the run" in result.source
    assert "langchain" not in result.source


def test_a_name_that_is_called_differently_keeps_its_local_name():
    result = rewrite(
        "from langchain_community.chat_message_histories import ChatMessageHistory\nChatMessageHistory()\n"
    )
    assert result.source == (
        "from foldline.chat_history import InMemoryChatMessageHistory as ChatMessageHistory\n"
        "ChatMessageHistory()\n"
    )


def test_what_has_no_home_keeps_its_import_and_is_told_with_advice():
    result = rewrite(
        "import os\nfrom langchain_community.vectorstores import FAISS, InMemoryVectorStore\n"
    )

    assert "from langchain_community.vectorstores import FAISS\n" in result.source
    assert "from foldline.vectorstores import InMemoryVectorStore\n" in result.source
    (finding,) = result.findings
    assert (finding.line, finding.is_gap) == (2, True)
    assert finding.message.startswith("langchain_community.vectorstores.FAISS has no home: ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import langchain_core.messages as m\nm.AIMessage\n",
            "import foldline.messages as m\nm.AIMessage\n",
        ),
        (
            "import langchain_core.messages\nx = langchain_core.messages.AIMessage('a')\n",
            "import foldline.messages\nx = foldline.messages.AIMessage('a')\n",
        ),
        ("from langchain_core import messages\n", "from foldline import messages\n"),
        (
            "import os; from langchain_openai import ChatOpenAI\n",
            "import os; from foldline.providers.openai import ChatOpenAI\n",
        ),
        (
            "import importlib\nimportlib.import_module('langchain_core.tools')\n",
            "import importlib\nimportlib.import_module('foldline.tools')\n",
        ),
        (
            'from unittest.mock import patch\npatch("langchain_openai.ChatOpenAI.invoke")\n',
            'from unittest.mock import patch\npatch("foldline.providers.openai.ChatOpenAI.invoke")\n',
        ),
        ("from .langchain_core import x\n", "from .langchain_core import x\n"),
        ("x = 'langchain_core.messages'\n", "x = 'langchain_core.messages'\n"),
        ("import langsmith\n", "import langsmith\n"),
        (
            "if x:\n    from langchain_core.tools import tool\n",
            "if x:\n    from foldline.tools import tool\n",
        ),
        (
            "from langchain_community.chat_models import BedrockChat\nBedrockChat(model_id='m')\n",
            "from foldline.providers.bedrock import ChatBedrock as BedrockChat\nBedrockChat(model='m')\n",
        ),
    ],
)
def test_ways_to_import(before, after):
    assert rewrite(before).source == after


def test_star_and_dynamic_imports_are_told():
    result = rewrite("from langchain_core.messages import *\n__import__(f'langchain_{x}')\n")

    assert result.source.startswith("from foldline.messages import *\n")
    assert [finding.line for finding in result.findings] == [1, 2]
    assert not any(finding.is_gap for finding in result.findings)


def test_a_package_that_is_not_ours_is_told():
    result = rewrite("from langchain_pinecone import PineconeVectorStore\n")
    assert result.source == "from langchain_pinecone import PineconeVectorStore\n"
    assert "python -m foldline.compat" in result.findings[0].message


def test_what_does_not_parse_says_the_line():
    with pytest.raises(UnparsableError, match="does not parse") as excinfo:
        rewrite("import os\ndef f(:\n")
    assert excinfo.value.line == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import langchain\nlangchain.llm_cache = make()\n",
            "import foldline.globals\nimport foldline\nfoldline.globals.set_llm_cache(make())\n",
        ),
        (
            "import langchain as lc\nlc.debug = True\n",
            "import foldline.globals\nimport foldline as lc\nfoldline.globals.set_debug(True)\n",
        ),
        (
            "import langchain\nif langchain.verbose: pass\n",
            "import foldline.globals\nimport foldline\nif foldline.globals.get_verbose(): pass\n",
        ),
    ],
)
def test_a_setting_of_the_package_becomes_a_call(before, after):
    result = rewrite(before)

    assert result.source == after
    assert result.findings == ()


@pytest.mark.parametrize("use", ["langchain.no_such_name = 1", "print(langchain)", "f(langchain)"])
def test_a_package_that_is_still_used_stays_imported(use):
    result = rewrite(f"import langchain\n{use}\n")

    assert result.source == f"import langchain\nimport foldline\n{use}\n"


def test_a_keyword_or_member_with_the_name_of_a_package_does_not_import_it():
    result = rewrite("import langchain\nf(langchain=1)\nx.langchain\n")
    assert result.source == "import foldline\nf(langchain=1)\nx.langchain\n"


def test_a_member_that_lives_in_another_module_is_named_by_its_path():
    result = rewrite("import langchain.tools as t\nt.ToolRuntime\nt.tool\n")

    assert result.source == (
        "import foldline.agents\nimport foldline.tools as t\nfoldline.agents.ToolRuntime\nt.tool\n"
    )


def test_a_chain_of_hundreds_of_terms_is_rewritten():
    terms = " + ".join("a" * 150)
    result = rewrite(f"from langchain_core.messages import AIMessage\nx = {terms}\n")
    assert result.source == f"from foldline.messages import AIMessage\nx = {terms}\n"
