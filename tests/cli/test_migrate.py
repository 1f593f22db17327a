"""`foldline migrate` on files: what it writes, what it leaves unchanged, what it prints."""

import json
import os
from pathlib import Path

import pytest

from foldline._cli.start import Code, start

OLD, NEW = (
    "from langchain_core.messages import AIMessage\n",
    "from foldline.messages import AIMessage\n",
)
GAP = "from langchain_community.vectorstores import FAISS\n"


def run(capsys, *arguments):
    code = start(["migrate", *map(str, arguments)])
    return code, capsys.readouterr().out


def test_a_folder_is_rewritten_and_counted(tmp_path, capsys):
    (tmp_path / "a.py").write_text(OLD)
    (tmp_path / "b.py").write_text(GAP)
    for folder in (".hidden", "node_modules", "env"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "c.py").write_text(OLD)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    code, out = run(capsys, tmp_path)

    assert code == Code.FINE
    assert (tmp_path / "a.py").read_text() == NEW
    assert (tmp_path / "b.py").read_text() == GAP
    assert (tmp_path / "node_modules" / "c.py").read_text() == OLD
    assert (tmp_path / "env" / "c.py").read_text() == OLD
    assert f"{tmp_path / 'b.py'}:1: langchain_community.vectorstores.FAISS has no home" in out
    assert "2 files read, 1 changed, 1 imports have no home" in out


@pytest.mark.parametrize("option", ["--check", "--diff"])
def test_check_and_diff_change_nothing(tmp_path, capsys, option):
    (tmp_path / "a.py").write_text(OLD + GAP)
    code, out = run(capsys, tmp_path / "a.py", option)

    assert (tmp_path / "a.py").read_text() == OLD + GAP
    assert code == (Code.FAILED if option == "--check" else Code.FINE)
    assert ("+" + NEW in out) == (option == "--diff")
    assert "1 would change" in out


def test_check_is_fine_where_every_name_has_a_home(tmp_path, capsys):
    (tmp_path / "a.py").write_text(OLD)
    assert run(capsys, tmp_path, "--check")[0] == Code.FINE


def test_a_notebook_keeps_its_magics_its_form_and_its_outputs(tmp_path, capsys):
    cells = [
        {"cell_type": "markdown", "source": ["from langchain_core import x\n"]},
        {
            "cell_type": "code",
            "outputs": [{"text": "é"}],
            "source": ["%load_ext dotenv\n", "!pip install x\n", OLD, "AIMessage?"],
        },
        {
            "cell_type": "code",
            "outputs": [],
            "source": "%%bash\nfrom langchain_core.messages import AIMessage",
        },
        {"cell_type": "code", "outputs": [], "source": "%%time\n" + OLD},
    ]
    text = json.dumps({"cells": cells, "nbformat": 4}, indent=1, ensure_ascii=False) + "\n"
    (tmp_path / "n.ipynb").write_text(text, encoding="utf-8")
    code, _ = run(capsys, tmp_path)

    assert code == Code.FINE
    expected = text.replace(
        "from langchain_core.messages import AIMessage\\n",
        "from foldline.messages import AIMessage\\n",
    )
    assert (tmp_path / "n.ipynb").read_text(encoding="utf-8") == expected


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.py", b"def f(:\n", "line 1: does not parse"),
        ("a.py", b"# \xff\n" + OLD.encode(), "is not UTF-8 (byte 2)"),
        ("a.py", b"x = " + b"(" * 3000 + b")" * 3000, "line 1: does not parse: it is nested too"),
        ("a.py", b"x = " + b"-" * 20_000 + b"1", "nested too deeply"),
        ("a.py", b"x = " + b"not " * 900 + b"1", "nested too deeply"),
        ("a.py", b"x = 'a'\0", "line 1: does not parse"),
        ("a.py", b"# -*- coding: no-such-encoding -*-\n", "unknown encoding: no-such-encoding"),
        ("n.ipynb", b"not json", "is not a notebook"),
        ("n.ipynb", b"[" * 10_000, "is not JSON"),
        ("n.ipynb", b"[]", 'has no list of "cells"'),
        ("n.ipynb", b'{"cells": 5}', 'has no list of "cells"'),
        ("n.ipynb", b'{"cells": [7]}', "cell 1 has no text"),
        ("n.ipynb", b'{"cells": [{"cell_type": "code", "source": [1]}]}', "cell 1 has no text"),
        ("n.ipynb", b'{"cells": [{"cell_type": "code", "source": {"a": 1}}]}', "no text"),
        (
            "n.ipynb",
            b'{"cells": [{"cell_type": "code", "source": "def f(:"}]}',
            "cell 1, line 1: does not parse",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line_and_nothing_is_written(
    tmp_path, capsys, name, content, says
):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "z.py").write_text(OLD)
    code, out = run(capsys, tmp_path)

    assert code == Code.FILES
    assert f"{tmp_path / name}: " in out
    assert says in out
    assert (tmp_path / name).read_bytes() == content
    assert (tmp_path / "z.py").read_text() == NEW  # the others are done


def test_a_read_only_file_is_left_as_it_was(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.py").write_text(OLD)
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and may(path, mode))
    code, out = run(capsys, tmp_path)

    assert code == Code.FILES
    assert "may not be written" in out
    assert (tmp_path / "a.py").read_text() == OLD


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.py").write_text(OLD)

    def fail(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    code, out = run(capsys, tmp_path)

    assert code == Code.FILES
    assert "No space left on device" in out
    assert [file.name for file in tmp_path.iterdir()] == ["a.py"]
    assert (tmp_path / "a.py").read_text() == OLD


def test_a_path_that_is_not_there_is_wrong_usage(tmp_path, capsys):
    assert run(capsys, tmp_path / "nothing")[0] == Code.USAGE


def test_a_program_that_names_its_encoding_keeps_it(tmp_path, capsys):
    text = "# -*- coding: latin-1 -*-\n" + OLD + "name = 'Zo\xeb'\n"
    (tmp_path / "a.py").write_bytes(text.encode("latin-1"))
    code, _ = run(capsys, tmp_path)

    assert code == Code.FINE
    assert (tmp_path / "a.py").read_bytes() == text.replace(OLD, NEW).encode("latin-1")


def test_a_byte_order_mark_and_windows_line_ends_stay(tmp_path, capsys):
    content = b"\xef\xbb\xbf" + OLD.encode().replace(b"\n", b"\r\n")
    (tmp_path / "a.py").write_bytes(content)
    code, _ = run(capsys, tmp_path)

    assert code == Code.FINE
    assert (tmp_path / "a.py").read_bytes() == content.replace(
        OLD.strip().encode(), NEW.strip().encode()
    )


def test_links_that_lead_out_of_the_folder_are_reported_and_not_followed(tmp_path, capsys):
    outside, project = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    (outside / "a.py").write_text(OLD)
    (project / "own.py").write_text(OLD)
    (project / "inner.py").symlink_to(project / "own.py")
    (project / "linked.py").symlink_to(outside / "a.py")
    (project / "folder").symlink_to(outside, target_is_directory=True)
    code, out = run(capsys, project)

    assert code == Code.FINE
    assert (outside / "a.py").read_text() == OLD
    assert (project / "own.py").read_text() == NEW
    assert f"{project / 'linked.py'}: is a link to {outside / 'a.py'}, outside the folder" in out
    assert f"{project / 'folder'}: is a link" in out
    assert (project / "linked.py").is_symlink()
    assert "1 files read, 1 changed" in out


def test_a_link_that_is_named_itself_is_followed(tmp_path, capsys):
    (tmp_path / "a.py").write_text(OLD)
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    code, _ = run(capsys, tmp_path / "link.py")

    assert code == Code.FINE
    assert (tmp_path / "a.py").read_text() == NEW
    assert (tmp_path / "link.py").is_symlink()
