"""Keys, default model, aliases, templates, fragments, logs, attachments, tools with approval, MCP, index and ask."""

from __future__ import annotations

import json
import os
import stat
import sys

import pytest

from foldline._cli.interactive import _completion
from foldline._cli.keys import use_stored_keys
from foldline._cli.short_schema import read_schema
from foldline.exceptions import UsageError
from tests.cli.conftest import OWN, run_process

pytestmark = pytest.mark.slow

ECHO = ("-m", f"{OWN}echo")


# -- keys


def test_a_key_is_kept_privately_and_used(foldline, own_folders, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    outcome = foldline("keys", "set", "openai", stdin="sk-secret-1\n")

    file = own_folders / "data" / "keys.json"
    assert (outcome.code, outcome.out) == (0, "")
    assert "sk-secret" not in outcome.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listing = foldline("keys").out
    assert "openai\tOPENAI_API_KEY\tthe file" in listing
    assert "sk-secret" not in listing
    use_stored_keys()
    assert os.environ["OPENAI_API_KEY"] == "sk-secret-1"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    use_stored_keys()
    assert os.environ["OPENAI_API_KEY"] == "sk-other"
    assert foldline("keys", "delete", "openai").code == 0
    assert json.loads(file.read_text()) == {}
    assert foldline("keys", "path").out.strip() == str(file)


@pytest.mark.parametrize(
    ("arguments", "stdin", "complaint"),
    [
        (("set", "opnai"), "x", "did you mean 'openai'?"),
        (("set",), "x", "which one?"),
        (("set", "openai"), "", "a key is one word"),
        (("set", "openai"), "two words", "a key is one word"),
        (("set", "local"), "x", "local needs no key"),
        (("delete", "openai"), "", "no key OPENAI_API_KEY is kept"),
        (("sett", "openai"), "", "did you mean 'set'?"),
    ],
)
def test_wrong_uses_of_keys_are_explained(foldline, arguments, stdin, complaint):
    outcome = foldline("keys", *arguments, stdin=stdin)

    assert outcome.code == 2
    assert complaint in outcome.err


def test_a_key_may_be_in_the_keyring(foldline, monkeypatch):
    passwords = {}

    class Ring:
        set_password = staticmethod(lambda service, name, value: passwords.update({name: value}))
        get_password = staticmethod(lambda service, name: passwords.get(name))
        delete_password = staticmethod(lambda service, name: passwords.pop(name))

    monkeypatch.setitem(sys.modules, "keyring", Ring)
    monkeypatch.delenv("GROQ_API_KEY", raising=False)

    assert foldline("keys", "set", "groq", "--keyring", stdin="gsk-1\n").code == 0
    assert "the keyring" in foldline("keys").out
    use_stored_keys()
    assert os.environ.pop("GROQ_API_KEY") == "gsk-1"
    foldline("keys", "delete", "groq")
    assert passwords == {}


# -- models by name


def test_a_default_model_and_aliases(foldline):
    assert foldline("default").out == "local:smollm2\n"
    assert foldline("default", f"{OWN}hello").out == f"{OWN}hello\n"
    assert foldline("chat", "hi").out == "Hello there!\n"
    assert foldline("aliases", "e", f"{OWN}echo").code == 0
    assert foldline("chat", "hi", "-m", "e").out == "1: hi\n"
    assert foldline("aliases", "e").out == f"{OWN}echo\n"
    assert foldline("aliases", "--json").out == json.dumps({"e": f"{OWN}echo"}) + "\n"
    assert foldline("aliases", "e", "--delete").code == 0
    assert foldline("aliases", "e").code == 2
    assert foldline("default", "--clear").out == "local:smollm2\n"


def test_names_that_are_nearly_right_are_suggested(foldline):
    foldline("aliases", "quick", f"{OWN}echo")

    assert "did you mean 'quick'?" in foldline("chat", "hi", "-m", "quikc").err
    assert "did you mean 'openai'?" in foldline("chat", "hi", "-m", "opnai:gpt-5").err
    assert "Did you mean" in foldline("chta", "hi").err
    assert foldline("default", "opnai:x").code == 2


# -- templates and fragments


def test_a_template_keeps_what_a_prompt_is_made_of(foldline):
    saved = foldline("chat", "Say $word of: $input", *ECHO, "-s", "Be brief.", "--save", "sayer")

    assert "template sayer is kept" in saved.err
    assert (
        foldline("chat", "owls", "-T", "sayer", "-p", "word=much").out == "2: Say much of: owls\n"
    )
    assert "needs word: give -p word=VALUE" in foldline("chat", "x", "-T", "sayer").err
    assert foldline("templates").out.splitlines()[1].startswith("sayer\tSay $word")
    assert json.loads(foldline("templates", "sayer").out)["system"] == "Be brief."
    assert "did you mean 'sayer'?" in foldline("chat", "x", "-T", "sayr").err
    assert foldline("templates", "sayer", "--delete").code == 0
    assert "no templates" in foldline("templates").err
    assert "nothing to save" in foldline("chat", "--save", "none").err
    assert "choose a name of letters" in foldline("chat", "x", "--save", "../up").err


def test_a_template_without_input_gets_the_prompt_behind_it(foldline):
    foldline("chat", "Translate:", *ECHO, "--save", "t")

    assert foldline("chat", "-T", "t", stdin="eule").out == "1: Translate:\n\neule\n"


def test_fragments_go_before_the_prompt(foldline, tmp_path):
    (tmp_path / "a.txt").write_text("Owls hunt.\n")
    foldline("fragments", "owls", str(tmp_path / "a.txt"))

    assert foldline("chat", "Sum up", *ECHO, "-f", "owls").out == "1: Owls hunt.\n\nSum up\n"
    assert foldline("chat", *ECHO, "-f", str(tmp_path / "a.txt")).out == "1: Owls hunt.\n"
    assert "nor a fragment (did you mean 'owls'?)" in foldline("chat", "x", *ECHO, "-f", "owl").err
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe\xff")
    assert "is not text" in foldline("chat", "x", *ECHO, "-f", str(tmp_path / "b.bin")).err
    assert foldline("fragments").out.splitlines()[1].startswith("owls\t")


# -- logs


def test_every_prompt_is_logged_and_found(foldline):
    foldline("chat", "about owls", *ECHO)
    foldline("chat", "about mice", *ECHO, "--session", "s")

    output = foldline("logs").out
    assert output.index("> about owls") < output.index("> about mice")
    assert "scripted:scripted" in output
    entries = json.loads(foldline("logs", "-q", "OWLS about", "--json").out)
    assert [(entry["prompt"], entry["answer"]) for entry in entries] == [
        ("about owls", "1: about owls")
    ]
    assert json.loads(foldline("logs", "--session", "s", "--json").out)[0]["prompt"] == "about mice"
    assert foldline("logs", "-r").out == "1: about mice\n"
    assert "about owls" in foldline("logs", entries[0]["id"][-12:]).out
    assert foldline("logs", "zzz").code == 2
    assert "nothing like that" in foldline("logs", "-m", "gpt").err
    assert len(json.loads(foldline("traces", "--json").out)) == 2


def test_logging_can_be_off(foldline, monkeypatch):
    assert "logging is off" in foldline("logs", "off").out
    foldline("chat", "one", *ECHO)
    foldline("logs", "on")
    foldline("chat", "two", *ECHO, "--no-log")
    monkeypatch.setenv("FOLDLINE_LOG", "0")
    foldline("chat", "three", *ECHO)

    assert "nothing is logged" in foldline("logs").err
    foldline("chat", "four", *ECHO, "--trace")
    assert "four" in foldline("logs").out


def test_a_log_that_cannot_be_written_costs_a_remark(foldline, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FOLDLINE_TRACES", str(tmp_path / "file" / "traces.db"))

    outcome = foldline("chat", "hi", *ECHO)

    assert (outcome.code, outcome.out) == (0, "1: hi\n")
    assert "not logged" in outcome.err


def test_continue_goes_on_with_the_newest_prompt(foldline):
    foldline("chat", "1+2", "-m", f"{OWN}adding", "-t", "tests.cli.scripted:add")

    assert foldline("chat", "and now?", *ECHO, "-c").out == "5: and now?\n"
    assert foldline("chat", "more", *ECHO, "-c").out == "7: more\n"


# -- how the answer is wanted


def test_code_is_extracted(foldline):
    assert foldline("chat", "x", "-m", f"{OWN}code", "-x").out == "x = 1\n"
    assert foldline("chat", "x", "-m", f"{OWN}code", "--xl").out == "y\n"
    assert foldline("chat", "x", "-m", f"{OWN}hello", "-x").out == "Hello there!\n"
    assert foldline("logs", "-x").out == "Hello there!\n"


def test_a_schema_in_a_line(foldline):
    outcome = foldline("chat", "where?", "-m", f"{OWN}structured", "--schema", "city")

    assert json.loads(outcome.out) == {"city": "Paris"}


def test_shorthand_of_schemas():
    schema = read_schema("name, age int, tags str[], bio: one sentence")

    assert schema["properties"] == {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "bio": {"type": "string", "description": "one sentence"},
    }
    assert schema["required"] == ["name", "age", "tags", "bio"]
    assert read_schema("a\nb: x, y")["properties"]["b"]["description"] == "x, y"
    assert read_schema('{"type": "object"}')["type"] == "object"
    assert read_schema("a", is_list=True)["properties"]["items"]["type"] == "array"
    for text, complaint in [
        ("age intt", "did you mean 'int'"),
        ("a b c", "is not a field"),
        (",", "is empty"),
        ("{", "is not JSON"),
        ("none.json", "cannot be read"),
    ]:
        with pytest.raises(UsageError, match=complaint):
            read_schema(text)


# -- attachments


def test_an_attachment_from_stdin(foldline, monkeypatch):
    class Piped:
        buffer = __import__("io").BytesIO(b"\x89PNG\r\n\x1a\nrest")

        def isatty(self):
            return False

    monkeypatch.setattr("foldline._cli.inputs.sys", type("S", (), {"stdin": Piped()}))
    from foldline._cli.attach import human_message

    block = human_message("what?", ["-"]).content_blocks[1]

    assert (block["type"], block["mime_type"]) == ("image", "image/png")


def test_an_attachment_by_address(monkeypatch, foldline):
    from foldline._cli import attach

    with monkeypatch.context() as patch:
        patch.setattr(attach, "fetch", lambda url: (b"\x89PNG\r\n\x1a\n", "image/png"))
        block = attach.human_message("what?", ["https://owls.test/a/owl.png"]).content_blocks[1]

    assert block["extras"]["filename"] == "owl.png"
    outcome = foldline("chat", "x", *ECHO, "-a", "http://127.0.0.1:9/x.png")
    assert outcome.code == 2
    assert "not a public address" in outcome.err


# -- tools


def test_approval_needs_a_terminal_and_mcp_a_file(foldline, tmp_path):
    tool = ("-t", "tests.cli.scripted:add")
    assert (
        "--ask needs a terminal" in foldline("chat", "x", "-m", f"{OWN}adding", *tool, "--ask").err
    )
    (tmp_path / "m.json").write_text("[]")
    for file, complaint in [("none.json", "cannot be read"), ("m.json", 'write {"mcpServers"')]:
        assert complaint in foldline("chat", "x", *ECHO, "--mcp", str(tmp_path / file)).err


def test_a_person_says_yes_or_no_to_a_call(terminal):
    for answer, expected in [
        ("y\n", "<- 3"),
        ("not today\n", "did not allow this call: not today"),
    ]:
        screen = terminal(
            "chat", "1+2", "-m", f"{OWN}adding", "-t", "tests.cli.scripted:add", "--ask"
        )
        screen.wait_for('run add({"a": 1, "b": 2})?')
        screen.type(answer)
        screen.wait_for(expected)
        screen.wait_for("It is 3.")
        assert screen.end() == 0


MCP = """
import sys
from foldline.tools import tool
from foldline.tools.mcp import serve_mcp

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

serve_mcp([add])
"""


def test_tools_of_mcp_servers(tmp_path):
    (tmp_path / "server.py").write_text(MCP)
    servers = {
        "mcpServers": {"math": {"command": sys.executable, "args": [str(tmp_path / "server.py")]}}
    }
    (tmp_path / "m.json").write_text(json.dumps(servers))

    outcome = run_process(
        "chat", "1+2", "-m", f"{OWN}adding_by_mcp", "--mcp", str(tmp_path / "m.json")
    )

    assert (outcome.returncode, outcome.stdout) == (0, "It is 3.\n"), outcome.stderr
    assert "<- 3" in outcome.stderr


def test_tab_completes_commands_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owl.png").write_text("")

    commands = ["/model", "/more", "/save"]
    assert _completion(commands, "/mo", "/mo", 1) == "/more "
    assert _completion(commands, "/mo", "/mo", 2) is None
    assert _completion(commands, "/attach ow", "ow", 0) == "owl.png"
    assert _completion(commands, "hello /m", "/m", 0) is None


# -- an index


@pytest.fixture
def pages(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "owls.md").write_text("# Owls\n\nAn owl hunts at night.")
    (folder / "cars.txt").write_text("A car drives.")
    (folder / "bad.json").write_text("no JSON")
    return folder


ENCODER = ("-m", f"{OWN}Words")


def test_two_commands_answer_from_a_folder_with_sources(foldline, pages):
    outcome = foldline("index", str(pages), *ENCODER)

    assert (outcome.code, outcome.out) == (
        0,
        "docs: 2 pieces added, 0 unchanged, 0 deleted, 1 file left out\n",
    )
    assert "bad.json: is not JSON" in outcome.err
    outcome = foldline("ask", "What does an owl do?", "-m", f"{OWN}citing", "-k", "1")
    assert outcome.out.startswith("They hunt at night [1].\n")
    assert f"*[1] {pages / 'owls.md'}" in outcome.out
    answer = json.loads(foldline("ask", "owl?", "-m", f"{OWN}citing", "-k", "1", "--json").out)
    assert answer["blocks"] == [{"text": "They hunt at night [1].", "sources": [1]}]
    entry = json.loads(foldline("logs", "--json", "-n", "1").out)[0]
    assert (entry["prompt"], entry["answer"]) == ("owl?", "They hunt at night [1].")


def test_indexing_again_does_only_what_changed(foldline, pages):
    foldline("index", str(pages), *ENCODER)
    (pages / "cars.txt").unlink()
    (pages / "bad.json").unlink()
    (pages / "mice.txt").write_text("A mouse sleeps.")

    second_run = foldline("index", str(pages))

    assert second_run.out == "docs: 1 piece added, 1 unchanged, 1 deleted, 0 files left out\n"
    near = json.loads(foldline("similar", "mouse", "-k", "1", "--json").out)
    assert near[0]["text"] == "A mouse sleeps."
    assert "A mouse sleeps." in foldline("similar", "mouse").out
    assert "mice.txt" in foldline("ask", "mouse", "--sources").out
    assert foldline("index").out.splitlines()[1] == f"docs\t{OWN}Words"


def test_wrong_uses_of_an_index_are_explained(foldline, pages):
    assert "there is no index 'docs'" in foldline("ask", "x").err
    foldline("index", str(pages), *ENCODER)
    assert "was made with" in foldline("index", str(pages), "-m", "openai:x").err
    assert "did you mean 'docs'?" in foldline("similar", "x", "--name", "doc").err
    assert "no such file or folder" in foldline("index", str(pages / "none")).err
    assert "no embeddings of 'opnai'" in foldline("embed", "x", "-m", "opnai:x").err
    assert json.loads(foldline("embed", "an owl", *ENCODER).out) == [1.1, 0.1, 0.1]
    assert json.loads(foldline("embed", *ENCODER, stdin="an owl").out) == [1.1, 0.1, 0.1]


# -- one file


def test_logs_traces_and_sessions_are_views_of_one_file(foldline, own_folders):
    foldline("chat", "hi", *ECHO, "--session", "holiday")

    assert sorted(file.name for file in (own_folders / "data").glob("*.db")) == ["traces.db"]
    [entry] = json.loads(foldline("logs", "--session", "holiday", "--json").out)
    assert entry["prompt"] == "hi"
    [trace] = json.loads(foldline("traces", "--json").out)
    assert trace["session_id"] == "holiday"
    assert foldline("sessions").out.splitlines()[1].startswith("holiday\t2\t")

    outcome = foldline("sessions", "holiday", "--delete")

    assert "holiday is deleted, and 2 runs of the log" in outcome.err
    assert json.loads(foldline("logs", "--json").out) == []
    assert json.loads(foldline("sessions", "--json").out) == []
