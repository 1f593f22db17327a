"""The command in a real terminal (a pseudo-terminal): streaming, Ctrl-C, resize, sessions."""

from __future__ import annotations

import pytest

from foldline.chat_history import SQLiteChatMessageHistory
from tests.cli.conftest import OWN

pytestmark = [pytest.mark.timing, pytest.mark.slow]


def test_an_answer_is_shown_before_it_is_whole(terminal):
    screen = terminal("chat", "hi", "-m", f"{OWN}slow")

    screen.wait_for("First words")

    assert screen.process.poll() is None


def test_ctrl_c_stops_an_answer_and_keeps_what_came(terminal, own_folders):
    screen = terminal("chat", "hi", "-m", f"{OWN}slow", "--session", "s")
    screen.wait_for("First words")

    screen.interrupt()

    assert screen.end() == 130
    assert "the answer so far is kept" in screen.text
    assert "Traceback" not in screen.text
    messages = SQLiteChatMessageHistory("s", own_folders / "data" / "traces.db").messages
    assert [message.text for message in messages] == ["hi", "First words"]
    assert messages[1].status == "incomplete"


def test_reasoning_is_dimmed_and_tool_calls_are_shown(terminal):
    screen = terminal("chat", "hi", "-m", f"{OWN}thinking")
    assert screen.end() == 0
    assert "\x1b[2;3mlet me think\x1b[0m" in screen.text
    assert "The answer." in screen.text

    tools = terminal("chat", "1+2", "-m", f"{OWN}adding", "-t", "tests.cli.scripted:add")
    assert tools.end() == 0
    for text in ("I add.", '-> add({"a": 1, "b": 2})', "<- 3", "It is 3."):
        assert text in tools.text


def test_a_model_cannot_command_the_terminal(terminal):
    screen = terminal("chat", "hi", "-m", f"{OWN}rude")

    assert screen.end() == 0
    assert "\x1b]0" not in screen.text
    assert "\x1b[2J" not in screen.text
    assert "a]0;owned[2Jb" in screen.text


def test_a_session_talks_takes_commands_and_leaves(terminal, tmp_path):
    screen = terminal("chat", "-m", f"{OWN}echo", "--session", "talk")
    at = screen.wait_for("> ", screen.wait_for("session talk"))
    screen.type("first\n")
    at = screen.wait_for("> ", screen.wait_for("1: first", at))
    screen.type("one \\\n")
    at = screen.wait_for("... ", at)
    screen.type("two\n")
    at = screen.wait_for("> ", screen.wait_for("3: one \r\ntwo", at))
    screen.type('"""quoted\n')
    at = screen.wait_for("... ", at)
    screen.type('lines"""\n')
    at = screen.wait_for("> ", screen.wait_for("5: quoted\r\nlines", at))
    screen.type("/tools tests.cli.scripted:add\n")
    at = screen.wait_for("> ", screen.wait_for("add: Add two numbers.", at))
    screen.type(f"/model {OWN}hello\n")
    at = screen.wait_for("> ", screen.wait_for("scripted:scripted", at))
    screen.type("/nonsense\n")
    at = screen.wait_for("> ", screen.wait_for("no command /nonsense", at))
    screen.type(f"/save {tmp_path}/talk.md\n")
    at = screen.wait_for("> ", screen.wait_for("6 messages written", at))
    screen.type("/quit\n")

    assert screen.end() == 0
    assert "## human\n\nfirst" in (tmp_path / "talk.md").read_text()


def test_in_a_session_ctrl_c_stops_the_answer_and_twice_leaves(terminal, own_folders):
    screen = terminal("chat", "-m", f"{OWN}slow", "--session", "s")
    at = screen.wait_for("> ", screen.wait_for("session s"))
    screen.type("hi\n")
    at = screen.wait_for("First words", at)
    screen.interrupt()
    at = screen.wait_for("> ", screen.wait_for("the answer so far is kept", at))
    screen.interrupt()
    at = screen.wait_for("> ", screen.wait_for("Ctrl-C again leaves", at))
    screen.interrupt()

    assert screen.end() == 130
    messages = SQLiteChatMessageHistory("s", own_folders / "data" / "traces.db").messages
    assert [getattr(message, "status", None) for message in messages] == [None, "incomplete"]


def test_no_ctrl_c_is_lost_however_soon_it_comes_after_the_prompt(terminal):
    """CPython's readline does not hear one that comes in the instant before it waits."""
    screen = terminal("chat", "-m", f"{OWN}hello")
    at = screen.wait_for("> ", screen.wait_for("session"))
    for _ in range(150):
        screen.interrupt()
        at = screen.wait_for("> ", screen.wait_for("Ctrl-C again leaves", at))
        screen.type("\n")  # an empty line: the next Ctrl-C is the first again
        at = screen.wait_for("> ", at)
    screen.type("/quit\n")

    assert screen.end() == 0


def test_ctrl_d_leaves_a_session(terminal):
    screen = terminal("chat", "-m", f"{OWN}hello")
    screen.wait_for("> ", screen.wait_for("session"))

    screen.type("\x04")

    assert screen.end() == 0


def test_an_error_does_not_end_a_session(terminal):
    screen = terminal("chat", "-m", f"{OWN}broken")
    at = screen.wait_for("> ", screen.wait_for("session"))
    screen.type("hi\n")
    at = screen.wait_for("acme:anvil: slow down", at)
    screen.wait_for("> ", at)
    screen.type("/quit\n")

    assert screen.end() == 0
    assert "Traceback" not in screen.text


def test_a_resize_in_the_middle_of_an_answer_does_no_harm(terminal):
    screen = terminal("chat", "-m", f"{OWN}slow")
    at = screen.wait_for("> ", screen.wait_for("session"))
    screen.type("hi\n")
    at = screen.wait_for("First words", at)

    screen.resize(10, 20)
    screen.resize(50, 200)
    screen.interrupt()

    at = screen.wait_for("> ", screen.wait_for("the answer so far is kept", at))
    screen.type("/quit\n")
    assert screen.end() == 0
