"""Loaders of single files: each format, its metadata, and the errors for malformed files."""

from __future__ import annotations

import json
import re

import pytest

from foldline.document_loaders import (
    BaseLoader,
    Blob,
    BSHTMLLoader,
    CSVLoader,
    EmailLoader,
    FileLoader,
    HTMLLoader,
    JSONLoader,
    MarkdownLoader,
    NotebookLoader,
    PyPDFLoader,
    PythonLoader,
    TextLoader,
    UnstructuredMarkdownLoader,
)
from foldline.documents import Document
from foldline.exceptions import DocumentError, MissingExtraError, UsageError


def pdf(*pages: str, title: str = "") -> bytes:
    """Make a PDF of one line of text for each page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects.append(f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for at, text in enumerate(pages):
        operators = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * at} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(operators)} >>\nstream\n{operators}\nendstream")
    objects.append(f"<< /Title ({title}) /Producer (tests) >>")
    body, places = "%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (
        f"{body}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n"
        f"<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    ).encode("latin-1")


@pytest.fixture
def write(tmp_path):
    def write_file(name: str, content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write_file


def test_text_is_one_document_with_its_source(call, write):
    path = write("a.txt", "Grüße\r\nzwei")

    documents = call.run(TextLoader(path), "load")

    assert documents == [Document("Grüße\nzwei", metadata={"source": path})]
    assert call.run(TextLoader(path), "lazy_load") == documents


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_the_encoding(write, encoding):
    path = write("a.txt", "Grüße".encode(encoding))

    assert TextLoader(path).load()[0].page_content == "Grüße"


def test_text_in_another_encoding_says_what_to_do(write):
    path = write("a.txt", "Grüße".encode("cp1252"))

    with pytest.raises(DocumentError, match=re.escape('encoding="cp1252"')) as excinfo:
        TextLoader(path).load()

    assert excinfo.value.source == path
    assert TextLoader(path, encoding="cp1252").load()[0].page_content == "Grüße"
    assert TextLoader(path, autodetect_encoding=True).load()[0].page_content == "Grüße"
    with pytest.raises(UsageError, match="there is no encoding 'utf-9'"):
        TextLoader(path, encoding="utf-9").load()


@pytest.mark.parametrize(
    "kind",
    [TextLoader, CSVLoader, JSONLoader, PyPDFLoader, HTMLLoader, MarkdownLoader, NotebookLoader],
)
def test_a_file_that_is_not_there_is_named(kind, tmp_path):
    with pytest.raises(DocumentError, match=r"none\.x: cannot be read: No such file"):
        kind(tmp_path / "none.x").load()


def test_nothing_is_read_before_the_first_document_is_asked_for(tmp_path):
    TextLoader(tmp_path / "none.txt").lazy_load()


def test_a_loader_takes_a_path_and_nothing_else():
    with pytest.raises(UsageError, match="takes the path of a file, not a list"):
        TextLoader(["a"])  # type: ignore[arg-type]


def test_python_is_read_in_the_encoding_that_it_declares(write):
    path = write("a.py", "# -*- coding: latin-1 -*-\nx = 'ü'\n".encode("latin-1"))

    assert "'ü'" in PythonLoader(path).load()[0].page_content


def test_rows_of_a_table_are_documents(call, write):
    path = write("t.csv", "name,age,home\nAda,36,London\nBo,,\n")

    first, second = call.run(CSVLoader(path), "load")

    assert first.page_content == "name: Ada\nage: 36\nhome: London"
    assert first.metadata == {"source": path, "row": 0}
    assert second.page_content == "name: Bo\nage: \nhome: "


def test_columns_are_content_metadata_or_the_source(write):
    path = write("t.csv", "id;text;by\nn1;hello;Ada\n")
    loader = CSVLoader(
        path,
        source_column="id",
        metadata_columns=["by"],
        content_columns=["text"],
        csv_args={"delimiter": ";"},
    )

    assert loader.load() == [
        Document("text: hello", metadata={"source": "n1", "row": 0, "by": "Ada"})
    ]


def test_a_column_that_is_not_there_is_named_with_those_that_are(write):
    path = write("t.csv", "name,age\nAda,36\n")

    with pytest.raises(
        DocumentError, match=r"no column 'nmae' \(did you mean 'name'\?\); it has name, age"
    ):
        CSVLoader(path, metadata_columns=["nmae"]).load()


def test_a_row_longer_than_the_header_keeps_its_cells_and_tabs_separate_a_tsv(write):
    assert CSVLoader(write("t.csv", "a\n1,2,3\n")).load()[0].page_content == "a: 1\n2 3"
    assert CSVLoader(write("t.tsv", "a\tb\n1\t2\n")).load()[0].page_content == "a: 1\nb: 2"


NOTES = {"notes": [{"text": "one", "by": {"name": "Ada"}}, {"text": "two", "by": {"name": "Bo"}}]}


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        (".notes[].text", ["one", "two"]),
        (".notes[] | .text", ["one", "two"]),
        (".notes[1].text", ["two"]),
        (".notes[-1].by.name", ["Bo"]),
        ('.["notes"][0]."text"', ["one"]),
        (".notes[9].text", [""]),
        (".none", [""]),
        (".notes[0].by", ['{"name": "Ada"}']),
    ],
)
def test_an_expression_selects_documents(write, expression, texts):
    path = write("n.json", json.dumps(NOTES))

    assert [document.page_content for document in JSONLoader(path, expression).load()] == texts


def test_content_key_and_metadata_func_take_what_is_selected_apart(call, write):
    path = write("n.json", json.dumps(NOTES))

    def by(record, metadata):
        return {**metadata, "by": record["by"]["name"]}

    documents = call.run(JSONLoader(path, ".notes[]", "text", metadata_func=by), "load")

    assert documents[1] == Document("two", metadata={"source": path, "seq_num": 2, "by": "Bo"})
    nested = JSONLoader(path, ".notes[]", ".by.name", is_content_key_jq_parsable=True).load()
    assert [document.page_content for document in nested] == ["Ada", "Bo"]


def test_lines_of_json_are_read_one_by_one(write):
    path = write("n.jsonl", '{"a": 1}\n\n{"a": 2}\n{"a"\n')
    documents = JSONLoader(path, ".a").lazy_load()

    assert [next(documents).page_content, next(documents).page_content] == ["1", "2"]
    with pytest.raises(DocumentError, match=r"n\.jsonl: line 4: is not JSON"):
        next(documents)


@pytest.mark.parametrize(
    ("text", "expression", "complaint"),
    [
        ("{", ".", "is not JSON"),
        ("[" * 100_000, ".", "nested too deep"),
        ('{"a": 1}', ".a[]", r"\.a\[\]: \[\] needs a list, not a number"),
        ('{"a": 1}', ".a.b", r"\.b needs an object, not a number"),
        ('[{"b": 1}]', ".[]", "has no key 'text': it has b"),
    ],
)
def test_json_that_does_not_fit_is_explained(write, text, expression, complaint):
    loader = JSONLoader(write("n.json", text), expression, "text" if expression == ".[]" else None)

    with pytest.raises(DocumentError, match=complaint):
        loader.load()


def test_more_of_jq_needs_its_package(write):
    path = write("n.json", "[1]")

    with pytest.raises(MissingExtraError, match="pip install jq"):
        JSONLoader(path, "map(. + 1)").load()
    with pytest.raises(DocumentError, match="not text but int"):
        JSONLoader(path, ".[]", text_content=True).load()


def test_markdown_keeps_its_marks_and_front_matter_is_metadata(write):
    text = "---\nauthor: 'Ada'\ntags: [x]\n---\n```\n# no title\n```\n# Owls\n\nThey *hunt*.\n"
    path = write("a.md", text)

    document = MarkdownLoader(path).load()[0]

    assert document.metadata == {"author": "Ada", "tags": "[x]", "source": path, "title": "Owls"}
    assert document.page_content.endswith("# Owls\n\nThey *hunt*.\n")


def test_sections_of_markdown_know_their_headings(write):
    path = write("a.md", "# A\n\none\n\n## B\n\ntwo\n\n# C\n\nthree\n")

    documents = MarkdownLoader(path, "elements").load()

    assert [document.metadata["heading"] for document in documents] == ["A", "A > B", "C"]
    assert documents[1].page_content.split() == ["##", "B", "two"]
    with pytest.raises(UsageError, match="'single' or 'elements', not 'paged'"):
        MarkdownLoader(path, "paged")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has no option strategy: leave it out"):
        UnstructuredMarkdownLoader(path, strategy="fast")


PAGE = """<!doctype html><html lang="en"><head><title>Owls &amp; mice</title>
<meta name="description" content="Of owls"><style>p {}</style><script>var a = "<p>no</p>"</script></head>
<body><nav><a href="/">Home</a></nav><h1>Owls</h1><p>They <b>hunt</b>
at  night.</p><ul><li>mice</li><li>voles</li></ul><table><tr><td>a</td><td>b</td></tr></table>
<pre>x  =  1
y</pre><br>last<noscript>no</noscript></body></html>"""


def test_a_page_is_its_text(call, write):
    path = write("a.html", PAGE)

    (document,) = call.run(HTMLLoader(path), "load")

    assert document.metadata == {
        "source": path,
        "title": "Owls & mice",
        "language": "en",
        "description": "Of owls",
    }
    assert document.page_content == (
        "Home\n\nOwls\n\nThey hunt at night.\n\n- mice\n- voles\n\na\tb\n\nx  =  1\ny\n\nlast"
    )


def test_a_page_is_read_in_the_encoding_that_it_names(write):
    path = write("a.html", '<meta charset="iso-8859-1"><p>Grüße'.encode("latin-1"))

    assert HTMLLoader(path).load()[0].page_content == "Grüße"
    assert BSHTMLLoader(path, open_encoding="latin-1").load()[0].page_content == "Grüße"


def test_a_page_nested_deep_or_cut_costs_no_more_than_its_length(write):
    path = write("a.html", "<title>t<p>" + "<div>" * 50_000 + "deep<script>cut")

    document = HTMLLoader(path).load()[0]

    assert (document.metadata["title"], document.page_content) == ("t", "deep")


CELLS = [
    {"cell_type": "markdown", "source": ["# Sums\n", "of numbers"]},
    {
        "cell_type": "code",
        "source": "print(1 + 2)\n1/0",
        "outputs": [
            {"output_type": "stream", "text": ["3\n"]},
            {"output_type": "execute_result", "data": {"text/plain": ["'x'"]}},
            {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "by zero"},
        ],
    },
    {"cell_type": "code", "source": "", "outputs": []},
]


def test_a_notebook_is_text_and_code(write):
    path = write("n.ipynb", json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4}))

    document = NotebookLoader(path).load()[0]
    outputs = NotebookLoader(path, include_outputs=True, max_output_length=5).load()[0]

    assert document.page_content == "# Sums\nof numbers\n\n```python\nprint(1 + 2)\n1/0\n```"
    assert document.metadata == {"source": path, "language": "python", "cells": 3}
    assert outputs.page_content.endswith("```\n\n```\n3\n'x'\n```")


def test_what_is_no_notebook_says_so(write):
    with pytest.raises(DocumentError, match="is not a notebook"):
        NotebookLoader(write("n.ipynb", "[1]")).load()


MAIL = b"""From: Ada <ada@example.com>
To: bo@example.com
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
Date: Tue, 17 Nov 2026 09:00:00 +0100
Message-ID: <1@example.com>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/html; charset=utf-8

<p>See you at <b>nine</b>.</p>
--b
Content-Type: text/csv
Content-Disposition: attachment; filename="../../list.csv"

a,b
1,2
--b--
"""


def test_a_message_is_its_body_and_its_headers_are_metadata(call, write):
    path = write("m.eml", MAIL)

    message, attached = call.run(EmailLoader(path, process_attachments=True), "load")

    assert message.page_content == "See you at nine."
    assert message.metadata["subject"] == "Grüße"
    assert message.metadata["sent_from"] == "Ada <ada@example.com>"
    assert message.metadata["date"] == "2026-11-17T09:00:00+01:00"
    assert message.metadata["attachments"] == ["list.csv"]
    assert attached.page_content == "a: 1\nb: 2"
    assert attached.metadata["source"] == f"{path}/list.csv"
    assert EmailLoader(path).load() == [message]
    with pytest.raises(DocumentError, match="it has no headers"):
        EmailLoader(write("x.eml", "\nno message")).load()


def test_pages_of_a_pdf_are_documents(call, write):
    path = write("r.pdf", pdf("First page", "Second page", title="Report"))

    first, second = call.run(PyPDFLoader(path), "load")

    assert (first.page_content, second.page_content) == ("First page", "Second page")
    assert first.metadata["title"] == "Report"
    assert (second.metadata["page"], second.metadata["page_label"]) == (1, "2")
    assert second.metadata["total_pages"] == 2
    documents = PyPDFLoader(path, mode="single", pages_delimiter="|").load()
    assert [document.page_content for document in documents] == ["First page|Second page"]


def test_an_encrypted_pdf_asks_for_its_password(write, tmp_path):
    pypdf = pytest.importorskip("pypdf")
    writer = pypdf.PdfWriter(clone_from=write("r.pdf", pdf("Secret")))
    writer.encrypt("owl", algorithm="RC4-128")
    writer.write(tmp_path / "e.pdf")

    with pytest.raises(DocumentError, match="is encrypted; it needs its password"):
        PyPDFLoader(tmp_path / "e.pdf").load()
    with pytest.raises(DocumentError, match="it needs another password"):
        PyPDFLoader(tmp_path / "e.pdf", "mouse").load()
    assert PyPDFLoader(tmp_path / "e.pdf", "owl").load()[0].page_content == "Secret"


@pytest.mark.parametrize("data", [b"", b"no PDF", pdf("Cut")[:200], b"%PDF-1.4\n" + b"\xff" * 999])
def test_what_is_no_pdf_says_so(write, data):
    with pytest.raises(DocumentError, match="is not a readable PDF"):
        PyPDFLoader(write("x.pdf", data)).load()


def test_pdf_without_its_package_names_the_command(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pypdf", None)

    with pytest.raises(MissingExtraError, match=re.escape('pip install "foldline[pdf]"')):
        PyPDFLoader(write("r.pdf", pdf("x"))).load()
    with pytest.raises(UsageError, match="no characters in pictures"):
        PyPDFLoader("r.pdf", extract_images=True)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.MD", "# x", "# x"),
        ("a.html", "<p>x", "x"),
        ("a.csv", "a\n1", "a: 1"),
        ("a.json", '{"a": 1}', '{"a": 1}'),
        ("a.unknown", "x", "x"),
        ("README", "BM is no picture here", "BM is no picture here"),
        ("report", pdf("Page"), "Page"),
    ],
)
def test_a_file_is_loaded_by_its_ending(write, name, content, text):
    assert FileLoader(write(name, content)).load()[0].page_content == text


def test_a_file_that_is_no_text_is_refused(write):
    with pytest.raises(DocumentError, match=r"is not text \(image/png\); there is no loader"):
        FileLoader(write("a.bin", b"\x89PNG\r\n\x1a\n\x00\x00")).load()


def test_a_loader_parses_blobs_too():
    blob = Blob.from_data("a\n1", path="t.csv", metadata={"by": "Ada"})

    assert CSVLoader("t.csv").parse(blob)[0].metadata == {"by": "Ada", "source": "t.csv", "row": 0}


def test_an_author_writes_lazy_load_or_load(call):
    class Old(BaseLoader):
        def load(self):
            return [Document("old")]

    class Nothing(BaseLoader):
        pass

    assert call.run(Old(), "lazy_load") == [Document("old")]
    assert Old().load_and_split()[0].page_content == "old"
    with pytest.raises(NotImplementedError, match="Nothing has no lazy_load"):
        Nothing().load()
