from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from pathlib import Path

import pytest

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive
from foldline.exceptions import LimitExceededError, ModelError, SecurityError, UsageError
from foldline.language_models import FileResolver
from foldline.language_models._call.policies.file_resolver import check_address
from foldline.messages import AIMessage, HumanMessage
from foldline.transports import HttpOptions, NativeTransport, Request
from foldline.transports.httpx import HttpxTransport
from tests.language_models.scripted import Speaking
from tests.servers.script import Answer, redirect

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def asking(**block):
    return [HumanMessage([{"type": "text", "text": "what is it?"}, {"type": "image", **block}])]


def sent_block(model):
    return model.requests[0].messages[0].content[1]


# -- paths


@pytest.fixture
def uploads(tmp_path):
    folder = tmp_path / "uploads"
    (folder / "deep").mkdir(parents=True)
    (folder / "cat.png").write_bytes(PNG)
    (folder / "deep" / "dog.jpg").write_bytes(b"\xff\xd8\xff...")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": "file:///{}", "detail": "low"}},
        {"type": "image_url", "image_url": "file:///{}"},
        {"type": "image", "source_type": "url", "url": "file:///{}"},
    ],
    ids=["openai", "openai short", "langchain v0"],
)
def test_other_forms_of_a_file_are_held_to_the_same_rules(call, uploads, block):
    text = json.dumps(block).replace("/{}", f"{uploads}/cat.png")
    messages = [HumanMessage([{"type": "text", "text": "what is it?"}, json.loads(text)])]

    with pytest.raises(SecurityError, match="names the file"):
        call.invoke(Speaking(answers=["x"]), messages)
    model = Speaking(answers=["a cat"], file_resolver=FileResolver(allow_dirs=[uploads]))
    call.invoke(model, messages)

    image = sent_block(model)
    assert (image["type"], image["mime_type"]) == ("image", "image/png")
    assert image["base64"] == base64.b64encode(PNG).decode()
    assert not {"url", "image_url", "source_type"} & image.keys()


def test_an_image_without_a_place_is_left_to_the_provider(call):
    model, block = Speaking(answers=["x"]), {"type": "image_url", "image_url": {"detail": "low"}}

    call.invoke(model, [HumanMessage([{"type": "text", "text": "?"}, block])])

    assert sent_block(model) == block


def test_a_url_that_the_provider_fetches_stays_as_it_was_given(call):
    block = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
    model = Speaking(answers=["a cat"])

    call.invoke(model, [HumanMessage([{"type": "text", "text": "?"}, block])])

    assert sent_block(model) == block


def test_a_file_under_an_allowed_folder_is_sent_as_bytes_with_its_media_type(call, uploads):
    model = Speaking(answers=["a cat"], file_resolver=FileResolver(allow_dirs=[uploads]))
    messages = asking(path="cat.png")

    call.invoke(model, messages)

    assert sent_block(model) == {
        "type": "image",
        "base64": base64.b64encode(PNG).decode(),
        "mime_type": "image/png",
    }
    assert messages[0].content[1] == {"type": "image", "path": "cat.png"}


@pytest.mark.parametrize(
    "name",
    ["deep/dog.jpg", "./deep/./dog.jpg", "{root}/deep/dog.jpg", "file://{root}/deep/dog.jpg"],
)
def test_paths_below_the_folder_are_found(call, uploads, name):
    model = Speaking(answers=["a dog"], file_resolver=FileResolver(allow_dirs=[uploads]))
    key = "url" if name.startswith("file:") else "path"

    call.invoke(model, asking(**{key: name.format(root=uploads)}))

    assert sent_block(model)["mime_type"] == "image/jpeg"


def test_reading_a_path_is_off(call, uploads):
    model = Speaking(answers=["x"])

    for block in ({"path": str(uploads / "cat.png")}, {"url": f"file://{uploads}/cat.png"}):
        with pytest.raises(SecurityError, match="file_resolver=FileResolver"):
            call.invoke(model, asking(**block))

    assert model.requests == []


HOSTILE = [
    "../secret.txt", "deep/../../secret.txt", "/etc/passwd", "{root}/../secret.txt", "..", "a/..",
    "\0", "cat.png\0.jpg", "~/x", "//etc/passwd", "..\\secret.txt", "C:\\x", "link",
    "linked/secret.txt", "pipe", "", "deep", "/dev/zero", "{root}2/x", "deep/dog.jpg/x",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_F_P03_nothing_outside_the_folder_is_opened(uploads, name):
    (uploads / "link").symlink_to(uploads.parent / "secret.txt")
    (uploads / "linked").symlink_to(uploads.parent)
    os.mkfifo(uploads / "pipe")
    resolver = FileResolver(allow_dirs=[uploads])
    paths = []
    watch = [True]

    def hook(event, arguments):
        if watch and event == "open" and isinstance(arguments[0], str) and "secret" in arguments[0]:
            paths.append(arguments[0])

    sys.addaudithook(hook)
    with pytest.raises(SecurityError):
        drive(resolver.read(name.format(root=uploads), BLOCKING))
    watch.clear()

    assert paths == []


def test_a_file_that_is_not_there_is_no_security_matter(uploads):
    with pytest.raises(UsageError, match="no file"):
        drive(FileResolver(allow_dirs=[uploads]).read("none.png", BLOCKING))


def test_a_large_file_is_refused(uploads):
    with pytest.raises(LimitExceededError, match="larger than the 10 bytes"):
        drive(FileResolver(allow_dirs=[uploads], max_bytes=10).read("cat.png", BLOCKING))


# -- URLs


class Web:
    """A transport that answers by URL, and remembers to which address it was asked to connect."""

    def __init__(self, pages):
        self.pages = pages
        self.requests: list[Request] = []

    def open(self, request, *, blocking):
        self.requests.append(request)
        return Page(*self.pages[request.url])

    def close(self): ...


class Page:
    def __init__(self, status, headers, body=b""):
        self.status, self.headers, self._body = status, headers, body

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    async def read(self, limit=None):
        return self._body


PUBLIC = "93.184.216.34"


def resolver(pages=None, addresses=(PUBLIC,), **options):
    web = Web(pages or {})
    hosts = []

    def look_up(host, port):
        hosts.append(host)
        return addresses(host) if callable(addresses) else list(addresses)

    file_resolver = FileResolver(
        **{"allow_hosts": ["*.shop.test", "*"], "look_up": look_up, "transport": web, **options}
    )
    return file_resolver, web, hosts


def test_a_url_is_left_to_the_provider_unless_asked_for(call):
    model = Speaking(answers=["x"])

    call.invoke(model, asking(url="https://img.shop.test/cat.png"))

    assert sent_block(model)["url"] == "https://img.shop.test/cat.png"


def test_fetching_is_off_for_a_model_that_takes_no_urls(call):
    model = Speaking(answers=["x"], profile={"image_url_inputs": False})

    with pytest.raises(SecurityError, match="allow_hosts"):
        call.invoke(model, asking(url="https://img.shop.test/cat.png"))


def test_an_address_that_only_the_provider_can_read_stays_one(call):
    model = Speaking(answers=["x"], profile={"image_url_inputs": False})

    call.invoke(model, asking(url="s3://bucket/cat.png"))

    assert sent_block(model)["url"] == "s3://bucket/cat.png"


def test_an_allowed_url_is_fetched_from_the_address_that_was_checked(call):
    url = "https://img.shop.test/cat"
    file_resolver, web, _ = resolver({url: (200, {"content-type": "image/webp; q=1"}, PNG)})
    model = Speaking(
        answers=["x"], profile={"image_url_inputs": False}, file_resolver=file_resolver
    )

    call.invoke(model, asking(url=url))

    assert sent_block(model) == {
        "type": "image", "base64": base64.b64encode(PNG).decode(), "mime_type": "image/webp",
    }  # fmt: skip
    assert web.requests[0].address == PUBLIC
    assert web.requests[0].url == url


def test_a_media_type_that_was_given_is_kept(call):
    url = "https://img.shop.test/cat"
    file_resolver, _, _ = resolver(
        {url: (200, {"content-type": "text/plain"}, PNG)}, inline_urls=True
    )
    model = Speaking(answers=["x"], file_resolver=file_resolver)

    call.invoke(model, asking(url=url, mime_type="image/png", detail="high"))

    assert sent_block(model)["mime_type"] == "image/png"
    assert sent_block(model)["detail"] == "high"


def test_F_P04_every_redirect_is_checked_anew():
    start, inside = "https://a.shop.test/x", "https://b.shop.test/y"
    pages = {start: (302, {"location": inside}), inside: (200, {}, PNG)}
    file_resolver, web, _ = resolver(
        pages, lambda host: [PUBLIC] if host.startswith("a.") else ["10.0.0.5"]
    )

    with pytest.raises(SecurityError, match=r"10\.0\.0\.5"):
        drive(file_resolver.fetch(start, BLOCKING))

    assert [request.url for request in web.requests] == [start]


@pytest.mark.parametrize(
    "target",
    [
        "http://a.shop.test/",
        "file:///etc/passwd",
        "gopher://x/",
        "//evil.test@10.0.0.1/",
        "https://[bad",
    ],
)
def test_F_P04_a_redirect_to_another_scheme_or_host_is_refused(target):
    start = "https://a.shop.test/x"
    file_resolver, web, _ = resolver(
        {start: (301, {"location": target})}, allow_hosts=["*.shop.test"]
    )

    with pytest.raises(SecurityError):
        drive(file_resolver.fetch(start, BLOCKING))

    assert len(web.requests) == 1


def test_endless_redirects_end():
    start = "https://a.shop.test/x"
    file_resolver, web, _ = resolver({start: (302, {"location": start})})

    with pytest.raises(SecurityError, match="redirects more than"):
        drive(file_resolver.fetch(start, BLOCKING))

    assert len(web.requests) == 6


def test_F_P04_a_name_with_one_private_address_among_public_ones_is_refused():
    file_resolver, web, _ = resolver({}, [PUBLIC, "127.0.0.1"])

    with pytest.raises(SecurityError):
        drive(file_resolver.fetch("https://a.shop.test/", BLOCKING))

    assert web.requests == []


def test_F_P04_rebinding_does_not_help_because_the_name_is_looked_up_once():
    url = "https://a.shop.test/x"
    file_resolver, web, hosts = resolver({url: (200, {}, PNG)})

    drive(file_resolver.fetch(url, BLOCKING))

    assert hosts == ["a.shop.test"]
    assert web.requests[0].address == PUBLIC


HOSTS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "0", "0.0.0.0",
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376",
    "100.64.0.1", "192.0.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "localhost", "LOCALHOST",
    "foo.localhost", "localhost.", "metadata.google.internal", "printer.local", "[::1]", "[::]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "[::127.0.0.1]", "[fe80::1]", "[fc00::1]", "[fd00::1]", "[ff02::1]", "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::]", "[2001:db8::1]", "[100::1]", "[fec0::1]",
    "1.1.1.1.", "127.0.0.1.", "127.0.0.01", "0x7f.0x0.0x0.0x1", "00000177.0.0.1", "127.000.000.001", "93.184.216.34",
    "%31%32%37.0.0.1", "a_b..c", "-", "①②⑦.⓪.⓪.①", "127。0。0。1",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_F_P04_no_spelling_of_an_address_is_connected_to(host):
    address = host.strip("[]").split("%")[0]
    file_resolver, web, _ = resolver({}, ["127.0.0.1"] if ":" not in address else [address])

    with pytest.raises(SecurityError):
        drive(file_resolver.fetch(f"https://{host}/x", BLOCKING))

    assert web.requests == []


ADDRESSES = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.255.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1",
    "169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.7",
    "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.88.99.1",
    "::1", "::", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::10.0.0.1", "fe80::1", "fe80::1%eth0",
    "fc00::1", "fdff::1", "ff02::1", "fec0::1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:a00:1::1", "2002:c0a8:1::",
    "2001:db8::1", "2001::1", "2001:0:7f00:1::", "100::1", "3fff::1", "5f00::1",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_F_P04_an_address_that_is_not_public_is_refused_in_every_form(address):
    with pytest.raises(SecurityError):
        check_address(address, "x.test", allow_private=False)


@pytest.mark.parametrize(
    "address", [PUBLIC, "8.8.8.8", "2606:4700::1111", "64:ff9b::8.8.8.8", "2002:808:808::1"]
)
def test_public_addresses_pass(address):
    check_address(address, "x.test", allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://a.shop.test/", "ftp://a.shop.test/", "https://user:pw@a.shop.test/", "https://a.shop.test\\@evil.test/",
        "https://a.shop.test /", "https://a.shop.test:99999/", "https:///x", "javascript:1", "https://evil.test/",
        "https://shop.test/", "https://a.shop.test.evil.test/", "https://ashop.test/",
    ],
)  # fmt: skip
def test_other_schemes_hosts_and_tricks_are_refused_before_anything_is_looked_up(url):
    file_resolver, _, hosts = resolver(allow_hosts=["*.shop.test"])

    with pytest.raises(SecurityError):
        drive(file_resolver.fetch(url, BLOCKING))

    assert hosts == []


def test_a_private_host_can_be_opted_in():
    url = "https://files.corp.test/x"
    file_resolver, web, _ = resolver(
        {url: (200, {}, PNG)}, ["10.0.0.5"], allow_hosts=["files.corp.test"], allow_private=True
    )

    assert drive(file_resolver.fetch(url, BLOCKING)) == (PNG, "image/png")
    assert web.requests[0].address == "10.0.0.5"


def test_a_host_that_is_not_known_and_an_answer_that_is_no_file_say_so():
    def fails(host):
        raise OSError("no such host")

    with pytest.raises(UsageError, match="not known"):
        drive(resolver(addresses=fails)[0].fetch("https://a.shop.test/", BLOCKING))
    url = "https://a.shop.test/"
    with pytest.raises(UsageError, match="answered 404"):
        drive(resolver({url: (404, {})})[0].fetch(url, BLOCKING))


# -- for real: the address that was checked is the one that is connected to


def fetch(call, file_resolver, url):
    if not call.is_async:
        return drive(file_resolver.fetch(url, BLOCKING))
    return asyncio.run(file_resolver.fetch(url, ASYNC))


def test_F_P04_the_connection_goes_to_the_pinned_address_under_the_hosts_own_name(
    call, fault_server
):
    fault_server.script("/cat", Answer(body=PNG))
    port = fault_server.ports["http"]
    file_resolver = FileResolver(
        allow_hosts=["nobody.test"],
        schemes=["http"],
        allow_private=True,
        look_up=lambda host, port: ["127.0.0.1"],
    )

    assert fetch(call, file_resolver, f"http://nobody.test:{port}/cat") == (PNG, "image/png")
    assert fault_server.requests("/cat")[-1].headers["host"] == f"nobody.test:{port}"


def local_resolver(**settings):
    return FileResolver(
        allow_hosts=["*.shop.test"],
        schemes=["http"],
        allow_private=True,
        look_up=lambda host, port: ["127.0.0.1"],
        **settings,
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_F_Y08_a_redirect_between_allowed_hosts_is_followed(call, fault_server, status):
    port = fault_server.ports["http"]
    fault_server.script("/from", redirect(f"http://b.shop.test:{port}/to", status))
    fault_server.script("/to", redirect("/cat", status))
    fault_server.script("/cat", Answer(body=PNG))

    file = fetch(call, local_resolver(), f"http://a.shop.test:{port}/from")

    assert file == (PNG, "image/png")
    assert fault_server.requests("/cat")[-1].headers["host"] == f"b.shop.test:{port}"


def test_F_Y08_a_redirect_to_a_host_that_is_not_allowed_is_refused(call, fault_server):
    port = fault_server.ports["http"]
    fault_server.script("/from", redirect(f"http://evil.test:{port}/cat"))
    fault_server.script("/cat", Answer(body=PNG))
    before = fault_server.hits("/cat")

    with pytest.raises(SecurityError, match=r"'evil\.test' is not among those allowed"):
        fetch(call, local_resolver(), f"http://a.shop.test:{port}/from")

    assert fault_server.hits("/cat") == before


def test_F_P04_a_pinned_connection_still_checks_the_certificate_of_the_name(call, fault_server):
    fault_server.script("/cat", Answer(body=PNG))
    port = fault_server.ports["https"]
    file_resolver = FileResolver(
        allow_hosts=["localhost", "nobody.test"],
        allow_private=True,
        look_up=lambda host, port: ["127.0.0.1"],
        transport=NativeTransport(HttpOptions(ca=fault_server.ca_pem)),
    )

    assert fetch(call, file_resolver, f"https://localhost:{port}/cat")[0] == PNG
    with pytest.raises(ModelError):
        fetch(call, file_resolver, f"https://nobody.test:{port}/cat")


def test_a_body_larger_than_allowed_is_not_read(call, fault_server):
    fault_server.script("/big", Answer(body=b"x" * 5000))
    file_resolver = FileResolver(
        allow_hosts=["nobody.test"],
        schemes=["http"],
        allow_private=True,
        max_bytes=100,
        look_up=lambda host, port: ["127.0.0.1"],
    )

    with pytest.raises(LimitExceededError):
        fetch(call, file_resolver, f"http://nobody.test:{fault_server.ports['http']}/big")


def test_a_transport_that_looks_names_up_itself_refuses_a_pinned_request():
    with pytest.raises(UsageError, match="NativeTransport"):
        HttpxTransport().open(
            Request(url="http://nobody.test/", address="127.0.0.1"), blocking=True
        )


# -- files of answers

MADE = AIMessage(
    [
        {"type": "text", "text": "here"},
        {"type": "image", "base64": base64.b64encode(PNG).decode(), "mime_type": "image/png"},
    ]
)


def test_files_of_an_answer_are_written_under_the_given_folder(call, tmp_path):
    model = Speaking(answers=[MADE], output_file_type="local", output_dir=tmp_path / "out")

    block = call.invoke(model, "draw").content[1]

    path = Path(block["path"])
    assert path.read_bytes() == PNG
    assert path.parent == (tmp_path / "out").resolve()
    assert path.suffix == ".png"
    assert block["mime_type"] == "image/png"
    assert "base64" not in block


def test_files_of_an_answer_are_given_as_base64_or_as_urls(call):
    model = Speaking(answers=[MADE])

    as_file = call.invoke(model, "draw", output_file_type="file").content[1]
    as_url = call.invoke(model, "draw", output_file_type="url").content[1]

    assert base64.b64decode(as_file["base64"]) == PNG
    assert as_url["url"].startswith("data:image/png;base64,")


def test_a_folder_must_be_given(call):
    with pytest.raises(UsageError, match="output_dir"):
        call.invoke(Speaking(answers=[MADE]), "draw", output_file_type="local")


def test_a_file_at_a_url_is_fetched_only_where_allowed(call):
    answer = AIMessage([{"type": "image", "url": "https://a.shop.test/p.png"}])
    file_resolver, _, _ = resolver(
        {"https://a.shop.test/p.png": (200, {"content-type": "image/png"}, PNG)}
    )

    with pytest.raises(SecurityError):
        call.invoke(Speaking(answers=[answer]), "draw", output_file_type="file")
    block = call.invoke(
        Speaking(answers=[answer], file_resolver=file_resolver), "draw", output_file_type="file"
    ).content[0]

    assert base64.b64decode(block["base64"]) == PNG
    assert block["mime_type"] == "image/png"


def test_where_nothing_is_opened_relative_to_a_folder_every_part_is_looked_at(
    tmp_path, monkeypatch
):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cat.png").write_bytes(PNG)
    (tmp_path / "a" / "link.png").symlink_to(tmp_path / "a" / "cat.png")
    (tmp_path / "out").symlink_to(tmp_path / "a")
    monkeypatch.setattr(os, "supports_dir_fd", set())
    file_resolver = FileResolver(allow_dirs=[tmp_path])

    assert drive(file_resolver.read("a/cat.png", BLOCKING)) == (PNG, "image/png")
    for path in (
        "a/link.png",
        "out/cat.png",
        "a/../a/cat.png",
        "a\\cat.png",
        "a:cat.png",
        "a",
    ):
        with pytest.raises(SecurityError):
            drive(file_resolver.read(path, BLOCKING))
