"""`WebBaseLoader`: pages through the fetcher that checks where it goes, over a transport that answers from a table."""

from __future__ import annotations

import pytest

from foldline.document_loaders import WebBaseLoader
from foldline.exceptions import DocumentError, SecurityError, UsageError
from tests.language_models.test_files import PUBLIC, resolver
from tests.servers.script import Answer

PAGE = b"<title>Owls</title><p>They hunt."


def pages(answers, addresses=None, **options):
    file_resolver, web, _ = resolver(answers, addresses or [PUBLIC], allow_hosts=())
    return (
        lambda *urls, **more: WebBaseLoader(urls, resolver=file_resolver, **{**options, **more})
    ), web


def test_a_page_is_a_document(call):
    url = "https://owls.test/a"
    load, web = pages({url: (200, {"content-type": "text/html; charset=utf-8"}, PAGE)})

    (document,) = call.run(load(url, header_template={"User-Agent": "tests"}), "load")

    assert document.page_content == "They hunt."
    assert document.metadata == {"source": url, "title": "Owls"}
    assert web.requests[0].headers["User-Agent"] == "tests"
    assert web.requests[0].address == PUBLIC


def test_what_is_no_page_is_loaded_as_a_file_of_its_kind():
    base = "https://owls.test"
    load, _ = pages(
        {
            f"{base}/a": (200, {"content-type": "text/csv"}, b"a\n1\n"),
            f"{base}/b.md": (200, {"content-type": "text/plain"}, b"# x"),
            f"{base}/c": (200, {"content-type": "image/png"}, b"\x89PNG"),
        }
    )

    assert load(f"{base}/a").load()[0].page_content == "a: 1"
    assert load(f"{base}/b.md").load()[0].page_content == "# x"
    with pytest.raises(DocumentError, match="is image/png; there is no loader"):
        load(f"{base}/c").load()


def test_the_charset_of_the_header_wins():
    url = "https://owls.test/a"
    load, _ = pages(
        {url: (200, {"content-type": "text/html; charset=latin-1"}, "Grüße".encode("latin-1"))}
    )

    assert load(url).load()[0].page_content == "Grüße"


def test_a_page_that_fails_ends_the_load_or_is_listed(call):
    good, bad = "https://owls.test/a", "https://owls.test/b"
    load, _ = pages({good: (200, {}, PAGE), bad: (404, {})})

    with pytest.raises(DocumentError, match="/b: the server answered 404"):
        call.run(load(bad, good), "load")
    loader = load(bad, good, continue_on_failure=True)
    assert len(call.run(loader, "load")) == 1
    assert [failure.source for failure in loader.errors] == [bad]


def test_a_redirect_stays_with_the_site_and_https():
    start, www = "https://owls.test/", "https://www.owls.test/"
    load, _ = pages(
        {
            start: (301, {"location": www}),
            www: (200, {}, PAGE),
            "https://owls.test/out": (302, {"location": "https://evil.test/"}),
            "https://owls.test/plain": (302, {"location": "http://owls.test/"}),
        }
    )

    assert load(start).load()[0].metadata["url"] == www
    with pytest.raises(SecurityError, match=r"'evil\.test' is not among those allowed"):
        load("https://owls.test/out").load()
    with pytest.raises(SecurityError, match="by https, not by 'http'"):
        load("https://owls.test/plain").load()


def test_a_private_address_is_refused_unless_allowed():
    url = "http://intra.test/"
    load, web = pages({url: (200, {}, PAGE)}, ["10.0.0.5"])

    with pytest.raises(SecurityError, match="not a public address"):
        load(url).load()
    assert web.requests == []


def test_headers_meant_for_one_host_are_not_sent_to_another():
    start, www = "https://owls.test/", "https://www.owls.test/"
    load, web = pages({start: (301, {"location": www}), www: (200, {}, PAGE)})

    load(start, header_template={"Authorization": "x"}).load()

    assert "Authorization" in web.requests[0].headers
    assert "Authorization" not in web.requests[1].headers


@pytest.mark.parametrize("url", ["", "owls.test", "ftp://owls.test/", "file:///etc/passwd"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UsageError, match="URL"):
        WebBaseLoader(url)


def test_progress_and_several_addresses():
    calls = []
    urls = [f"https://owls.test/{n}" for n in range(3)]
    load, _ = pages({url: (200, {}, PAGE) for url in urls})
    loader = load(*urls, show_progress=lambda done, total: calls.append(done))

    assert len(loader.load()) == 3
    assert calls == [0, 1, 2, 3]
    with pytest.raises(UsageError, match="several addresses"):
        _ = loader.web_path
    assert load(urls[0]).web_path == urls[0]


def test_a_real_connection_to_a_server_of_your_own(call, fault_server):
    headers = {"content-type": "text/html"}
    url = fault_server.script("/page", Answer(headers=headers, body=PAGE))

    (document,) = call.run(WebBaseLoader(url, allow_private=True), "load")

    assert (document.page_content, document.metadata["title"]) == ("They hunt.", "Owls")
    with pytest.raises(SecurityError, match="not a public address"):
        call.run(WebBaseLoader(url), "load")
