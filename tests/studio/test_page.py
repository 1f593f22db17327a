"""Every screen in a real browser: what people see and do. Screenshots for the docs are made here.

`FOLDLINE_SCREENSHOTS=1` writes them into docs/images/studio; otherwise they go to a temporary folder.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer, TraceStore
from foldline.tracers._columns import COLUMNS, UPSERT
from foldline.tracers._database import TraceDatabase
from foldline.workflows import Command
from tests.studio.test_api import asking_agent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SHOWN = (
    "traces", "trace", "error", "compare", "charts", "playground", "sessions", "threads", "datasets", "dark",
    "narrow-light-traces", "narrow-dark-trace", "right-to-left",
)  # fmt: skip
"""Screenshots that the docs have."""
DOCS = Path(__file__).parents[2] / "docs" / "images" / "studio"


@pytest.fixture
def shoot(tmp_path: Path) -> Callable[[Any, str], None]:
    def take(page: Any, name: str) -> None:
        is_wanted = name in SHOWN and os.environ.get("FOLDLINE_SCREENSHOTS")
        page.screenshot(path=(DOCS if is_wanted else tmp_path) / f"{name}.png")

    return take


def until(check: Callable[[], Any], patience: float = 15) -> None:
    """Wait for something to be so. (Playwright's own way needs `eval`, which the page forbids.)"""
    deadline = time.monotonic() + patience
    while not check():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.05)


def no_overflow(page: Any) -> None:
    """Nothing may be wider than the window."""
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


# -- traces


def test_the_list_shows_searches_and_filters(studio: Any, open_page: Any, shoot: Any):
    page = open_page(studio)
    page.wait_for_selector(".row .question")
    assert page.inner_text(".total") == "71 traces"
    shoot(page, "traces")
    page.keyboard.press("/")
    page.keyboard.type("weather kyo")
    until(lambda: page.inner_text(".total") == "1 trace")
    assert page.inner_text(".row .question") == "What is the weather in Kyoto?"
    page.click("text=Clear")
    until(lambda: page.inner_text(".total") == "71 traces")
    page.check("label.check input")
    page.wait_for_selector(".row .answer.bad")
    page.uncheck("label.check input")
    page.select_option("[aria-label=Model]", "gpt-4o-mini")
    until(lambda: page.inner_text(".total") == "20 traces")
    page.fill(".search", "no such words at all")
    page.wait_for_selector("text=Nothing fits these filters.")


@pytest.mark.timing
def test_a_run_appears_without_a_reload(studio: Any, open_page: Any):
    page = open_page(studio)
    page.wait_for_selector(".row .question")
    page.wait_for_timeout(700)
    with SQLiteTracer(studio.folder / "traces.db") as tracer:
        config = {"callbacks": [tracer]}
        RunnableLambda(lambda x: "fine", name="later").invoke("A question of this minute", config)

    page.wait_for_selector("text=A question of this minute", timeout=5_000)


@pytest.mark.timing
def test_a_run_under_way_is_shown_and_ends(studio: Any, open_page: Any):
    page = open_page(studio)
    page.wait_for_selector(".row .question")
    page.wait_for_timeout(700)
    go = threading.Event()
    with SQLiteTracer(studio.folder / "traces.db") as tracer:
        step = RunnableLambda(lambda x: go.wait(20) and "done", name="slow")
        thread = threading.Thread(target=step.invoke, args=("wait", {"callbacks": [tracer]}))
        thread.start()
        page.wait_for_selector(".row.running", timeout=5_000)
        go.set()
        thread.join()
    page.wait_for_selector(".row.running", state="detached", timeout=5_000)


def test_a_trace_is_a_tree_with_messages_request_and_raw(studio: Any, open_page: Any, shoot: Any):
    [trace] = studio.get("traces?q=weather+Kyoto")["traces"]
    page = open_page(studio, f"/traces/{trace['id']}")
    page.wait_for_selector(".message")
    assert page.locator(".node").count() == 7
    assert page.inner_text(".message.user .markdown") == "What is the weather in Kyoto?"
    shoot(page, "trace")
    page.click("summary:has-text('Reasoning')")
    assert page.locator("text=I should look up Kyoto.").is_visible()
    page.click(".node:has-text('weather') >> nth=1")
    page.click("[role=tab]:has-text('Input & output')")
    page.wait_for_selector("text='Output'")
    for tab in ("Request", "Raw"):
        page.click(f"[role=tab]:has-text('{tab}')")
        page.wait_for_selector(".run pre.code")
    page.click("text=Good")
    page.wait_for_selector(".badge.score:has-text('thumb')")
    page.click("text=Delete")
    page.click("button.danger")
    page.wait_for_selector(".row .question")
    assert studio.get("traces")["total"] == 70


def test_an_error_is_shown_with_what_came_before_it(studio: Any, open_page: Any, shoot: Any):
    trace = next(
        trace
        for trace in studio.get("traces?errors=1")["traces"]
        if trace["error_class"] == "ModelRateLimitError"
    )
    page = open_page(studio, f"/traces/{trace['id']}")
    page.wait_for_selector(".failure")
    assert "slow down" in page.inner_text(".failure summary")
    assert "The beginning of an" in page.inner_text(".message.assistant")
    assert str(studio.folder) not in page.content()
    shoot(page, "error")


CHANGE_ADDRESS_WHILE_DRAWING = """
window.requestAnimationFrame = (draw) => setTimeout(draw, 2000);
new MutationObserver((_, observer) => {
  if (!document.querySelector("#app nav")) return;
  observer.disconnect();
  location.hash = "/sessions";
}).observe(document, { childList: true, subtree: true });
"""


def test_an_address_that_changes_while_the_page_is_drawn_is_followed(studio: Any, open_page: Any):
    page = open_page(studio)
    page.add_init_script(CHANGE_ADDRESS_WHILE_DRAWING)
    page.reload()
    page.wait_for_selector("text=holiday plans", timeout=10_000)


def test_what_a_model_writes_is_inert(studio: Any, open_page: Any):
    [trace] = studio.get("traces?q=hacked")["traces"]
    page = open_page(studio)
    page.wait_for_selector(".row .question")
    page.goto(f"{studio.url}/#/traces/{trace['id']}")
    page.wait_for_selector(".message.assistant")
    text = page.inner_text(".message.assistant")

    assert "<script>window.hacked = 1</script>" in text
    assert page.evaluate("window.hacked") is None
    assert page.locator(".message img").count() == 0
    assert page.locator("a[href^=javascript]").count() == 0
    assert "red" in text
    assert "\x1b" not in text
    assert page.title() != "title"
    for tab in ("Input & output", "Raw"):
        page.click(f"[role=tab]:has-text('{tab}')")
        page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None


@pytest.mark.timing
def test_long_pictured_and_right_to_left_texts(studio: Any, open_page: Any, shoot: Any):
    [long] = studio.get("traces?q=five+thousand")["traces"]
    page = open_page(studio, f"/traces/{long['id']}")
    page.wait_for_selector("text=Show all 5,000 lines")
    assert page.locator(".message.assistant li").count() <= 200
    milliseconds = page.evaluate(
        """async () => { const begun = performance.now(); document.querySelector(".run .more").click();
        while (document.querySelectorAll(".message.assistant li").length < 5000)
          await new Promise((done) => setTimeout(done, 5));
        return performance.now() - begun; }"""
    )
    assert milliseconds < 5_000
    [picture] = studio.get("traces?q=chessboard")["traces"]
    page.goto(f"{studio.url}/#/traces/{picture['id']}")
    page.wait_for_selector("img.picture")
    assert page.evaluate("document.querySelector('img.picture').naturalWidth") == 8
    arabic = studio.get("traces?q=السماء")["traces"][0]
    page.goto(f"{studio.url}/#/traces/{arabic['id']}")
    page.wait_for_selector(".message.assistant li")
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.message.assistant p')).direction")
        == "rtl"
    )
    shoot(page, "right-to-left")
    word = studio.get("traces?q=Supercalifragilisticexpialidocious*")["traces"]
    word = word or studio.get("traces?q=AAAA")["traces"]
    page.goto(f"{studio.url}/#/traces/{word[0]['id']}")
    page.wait_for_selector(".message.assistant")
    no_overflow(page)


def test_two_traces_are_compared(studio: Any, open_page: Any, shoot: Any):
    page = open_page(studio)
    page.wait_for_selector(".row .question")
    boxes = page.locator(".row .state input")
    boxes.nth(1).click()
    boxes.nth(2).click()
    page.click("button:has-text('Compare')")
    page.wait_for_selector(".diff")
    assert page.locator(".diff .gone").count() > 0
    assert page.locator("table.plain tbody tr").count() == 6
    shoot(page, "compare")


def test_charts(studio: Any, open_page: Any, shoot: Any):
    page = open_page(studio, "/charts")
    page.wait_for_selector(".u-over")
    assert page.locator(".chart").count() == 5
    page.select_option("[aria-label=Time]", "168")
    until(lambda: int(page.inner_text(".sums dd >> nth=0")) > 60)
    page.wait_for_selector("option[value='gpt-5-mini']", state="attached")
    page.select_option("[aria-label=Model]", "gpt-5-mini")
    page.wait_for_timeout(300)
    page.select_option("[aria-label=Model]", "")
    page.wait_for_timeout(500)
    page.click(".by-model button >> nth=0")
    assert page.input_value("[aria-label=Model]") != ""
    page.select_option("[aria-label=Model]", "")
    page.click(".theme")
    page.click(".theme")
    page.wait_for_timeout(300)
    assert page.locator(".chart canvas").count() == 5
    page.click(".theme")
    page.wait_for_timeout(500)
    shoot(page, "charts")


# -- the other screens


def test_the_playground_asks_two_models_and_goes_on(studio: Any, open_page: Any, shoot: Any):
    page = open_page(studio, "/playground")
    until(lambda: page.input_value("[aria-label=Model]") == "fake:plain")
    page.fill("[aria-label='Message 2, user']", "Tell me.")
    page.click("text=+ Second model")
    page.click("button:has-text('Run')")
    page.wait_for_selector(".answer-box >> nth=1 >> text=Another answer.")
    page.wait_for_selector(".answer-box >> nth=0 >> text=Go on from here")
    shoot(page, "playground")
    page.click(".answer-box >> nth=0 >> text=Go on from here")
    assert page.input_value("[aria-label='Message 3, assistant']") == "A **short** answer."
    page.fill("[aria-label='Message 4, user']", "More.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".answer-box >> text=Go on from here")
    with page.expect_download() as download:
        page.select_option("[aria-label='Save as']", "python")
    assert "init_chat_model" in Path(download.value.path()).read_text()


def test_a_tool_is_called_and_run_in_the_playground(studio: Any, open_page: Any):
    page = open_page(studio, "/playground")
    until(lambda: page.input_value("[aria-label=Model]") == "fake:plain")
    page.fill("[aria-label=Model]", "fake:tools")
    page.fill("[aria-label='Message 2, user']", "1+2?")
    page.click("summary:has-text('Parameters')")
    page.check("label:has-text('add') input")
    page.click("button:has-text('Run')")
    page.click("text=Run the tool")
    page.wait_for_selector("[aria-label='Message 4, tool']")
    assert page.input_value("[aria-label='Message 4, tool']") == "3"


def test_a_trace_is_forked_and_run_again(studio: Any, open_page: Any):
    trace = studio.get("traces?q=haiku")["traces"][0]
    page = open_page(studio, f"/traces/{trace['id']}")
    page.click("text=Fork in playground")
    page.wait_for_selector("text=forked from a trace")
    assert page.input_value("[aria-label='Message 2, user']") == "Write a haiku about rain."
    page.fill("[aria-label=Model]", "fake:plain")
    page.fill("[aria-label='Message 2, user']", "Write two.")
    page.click("button:has-text('Run')")
    page.wait_for_selector("text=Go on from here")


def test_conversations_and_threads(
    start: Any, example_folder: Path, tmp_path: Path, open_page: Any, shoot: Any
):
    agent = asking_agent()
    shutil.copytree(example_folder, tmp_path, dirs_exist_ok=True)
    with SQLiteTracer(tmp_path / "traces.db") as tracer:
        config = {"configurable": {"thread_id": "trip"}, "callbacks": [tracer]}
        agent.invoke({"messages": "Book Rome"}, config)
    studio = start(apps={"booker": agent})
    page = open_page(studio, "/sessions")
    page.click("text=holiday plans")
    page.wait_for_selector(".detail .message")
    shoot(page, "sessions")
    page.click(".list a:has-text('trip')")
    page.wait_for_selector("text=The agent asks")
    shoot(page, "threads")
    page.fill("[aria-label='Your answer']", "yes")
    page.click("button:has-text('Answer')")
    page.wait_for_selector("text=Done.")
    page.click(".timeline button >> nth=0")
    page.wait_for_selector("text=Done.", state="detached")


def test_a_run_that_waits_for_a_person_looks_so_until_it_is_answered(
    start: Any, tmp_path: Path, open_page: Any
):
    agent = asking_agent()
    studio = start(apps={"booker": agent})
    with SQLiteTracer(tmp_path / "traces.db") as tracer:
        config = {"configurable": {"thread_id": "trip"}, "callbacks": [tracer]}
        agent.invoke({"messages": "Book Rome"}, config)
        tracer.flush()
        page = open_page(studio)
        page.wait_for_selector(".row .dot.asks[title='waits for an answer']")
        assert page.inner_text(".row .answer") == "Waits: Book Rome?"
        assert page.inner_text(".row .took") == "waiting"
        page.click("label:has-text('Waiting')")
        page.wait_for_selector(".row .dot.asks")
        page.click(".row .question")
        page.wait_for_selector(".badge:has-text('waits for an answer')")
        page.wait_for_selector("text=This run waits for an answer to")
        assert "Book Rome?" in page.inner_text(".run .interrupt")
        page.goto(f"{studio.url}/#/sessions")
        page.wait_for_selector(".list a:has-text('trip') .asks:has-text('Book Rome?')")
        agent.invoke(Command(resume="yes"), config)
    page.goto(f"{studio.url}/#/traces")
    until(lambda: studio.get("traces?waiting=1")["traces"] == [])
    page.click("label:has-text('Waiting')")
    until(lambda: page.locator(".row .dot.fine").count() == 2)


def test_runs_that_could_not_be_written_are_told(start: Any, tmp_path: Path, open_page: Any):
    with SQLiteTracer(tmp_path / "traces.db") as tracer:
        tracer._writer._count_lost(7, "a test")
        RunnableLambda(lambda x: x, name="step").invoke(1, {"callbacks": [tracer]})
    page = open_page(start())

    page.wait_for_selector("text=7 runs could not be written")


def test_a_dataset_is_made_run_and_scored(studio: Any, open_page: Any, shoot: Any):
    trace = studio.get("traces?q=scatters")["traces"][0]
    page = open_page(studio, f"/traces/{trace['id']}")
    page.click("text=Add to dataset")
    page.fill("[aria-label=Dataset]", "sky")
    page.click("button:has-text('Add')")
    page.wait_for_selector("text=Added to sky")
    page.goto(f"{studio.url}/#/datasets")
    page.click("text=sky")
    for model in ("fake:plain", "fake:other"):
        page.wait_for_selector("text=Run all cases")
        page.fill("[aria-label=Model]", model)
        page.click("text=Run all cases")
        page.wait_for_selector(f"th:has-text('{model}')")
    assert page.locator(".cases .badge.score").count() >= 4
    shoot(page, "datasets")


# -- every screen, everywhere


SCREENS = ["/traces", "/charts", "/playground", "/sessions", "/datasets"]


@pytest.mark.parametrize("screen", SCREENS)
def test_screens_without_anything_say_what_to_do(
    start: Any, open_page: Any, screen: str, shoot: Any
):
    page = open_page(start(), screen)
    page.wait_for_selector(".empty")
    no_overflow(page)
    if screen == "/traces":
        assert "FOLDLINE_TRACES=1" in page.inner_text(".empty")
        shoot(page, "empty")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [*SCREENS, "trace"])
def test_360_pixels_dark_and_light(
    studio: Any, open_page: Any, screen: str, scheme: str, shoot: Any
):
    if screen == "trace":
        screen = f"/traces/{studio.get('traces?q=weather+Kyoto')['traces'][0]['id']}"
    page = open_page(studio, screen, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page.wait_for_selector("main section")
    page.wait_for_timeout(400)
    no_overflow(page)
    shoot(page, f"narrow-{scheme}-{'trace' if 'traces/' in screen else screen[1:]}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(studio: Any, open_page: Any, scheme: str, shoot: Any):
    trace = studio.get("traces?q=weather+Kyoto")["traces"][0]
    page = open_page(studio, f"/traces/{trace['id']}", color_scheme=scheme)
    page.wait_for_selector(".message")
    low = page.evaluate(CONTRAST)
    page.goto(f"{studio.url}/#/traces")
    page.wait_for_selector(".row .question")
    low += page.evaluate(CONTRAST)
    if scheme == "dark":
        shoot(page, "dark")

    assert low == []


CONTRAST = """
() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const back = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("main *, nav *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.disabled) continue;
    const [one, two] = [light(parse(getComputedStyle(element).color)), light(back(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    const name = element.className || element.tagName;
    if (ratio < 4.5) low.push(`${name}: ${ratio.toFixed(2)} ${element.textContent.slice(0, 30)}`);
  }
  return [...new Set(low)];
}
"""


def test_the_keyboard_is_enough(studio: Any, open_page: Any):
    page = open_page(studio)
    page.wait_for_selector(".row .question")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "listbox":
            break
    assert page.evaluate("document.activeElement.getAttribute('role')") == "listbox"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("k")
    second = page.inner_text(".row[aria-selected=true] .question")
    page.keyboard.press("Enter")
    page.wait_for_selector(".trace-head h1")
    assert page.inner_text(".trace-head h1") == second
    page.wait_for_selector("[role=treeitem][aria-selected=true]")
    page.focus("[role=treeitem][aria-selected=true]")
    page.keyboard.press("ArrowUp")
    until(lambda: page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true")
    page.keyboard.press("Escape")
    page.wait_for_selector(".row .question")


def test_the_theme_is_chosen_and_kept(studio: Any, open_page: Any):
    page = open_page(studio)
    page.evaluate("for (const click of [1, 2]) document.querySelector('.theme').click()")
    until(lambda: page.evaluate("document.documentElement.dataset.theme") == "dark")
    page.reload()
    page.wait_for_selector(".theme")
    assert page.inner_text(".theme") == "● dark"


@pytest.mark.parametrize("trouble", ["damaged", "newer"])
def test_a_file_in_trouble_is_told(start: Any, tmp_path: Path, chromium: Any, trouble: str):
    if trouble == "damaged":
        (tmp_path / "traces.db").write_text("this is no database " * 500)
    else:
        SQLiteTracer(tmp_path / "traces.db").close()
        connection = sqlite3.connect(tmp_path / "traces.db")
        connection.execute("UPDATE foldline_schema SET version = 99")
        connection.commit()
        connection.close()
    studio = start()
    page = chromium.new_page()
    page.goto(studio.address)
    page.wait_for_selector(".trouble")
    message = page.inner_text(".trouble >> nth=0")
    page.close()

    assert ("no database" if trouble == "damaged" else "upgrade foldline") in message
    assert str(tmp_path) not in message


def test_without_a_token_the_browser_gets_nothing(studio: Any, chromium: Any):
    page = chromium.new_page()
    answer = page.goto(studio.url)

    assert answer.status == 401
    page.close()


# -- many


def write_many(path: Path, count: int, size: int = 60) -> None:
    """Write model calls into a trace file, as the tracer writes them."""
    now = time.time()
    text = "lorem ipsum dolor sit amet " * (size // 27 + 1)

    def row(number: int) -> tuple[Any, ...]:
        run_id = f"{number:032x}"
        run_id = f"{run_id[:8]}-{run_id[8:12]}-{run_id[12:16]}-{run_id[16:20]}-{run_id[20:]}"
        start = now - (count - number) * 0.5
        values = {
            "id": run_id, "trace_id": run_id, "name": "ChatModel", "run_type": "llm", "start_time": start,
            "end_time": start + 1.5, "first_token_time": start + 0.3, "provider": "openai",
            "model": f"model-{number % 5}",
            "input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "cost": 0.001,
            "question": f"question {number}", "answer": text[:60], "extra": "{}",
            "inputs": '{"messages": [[]]}', "outputs": '{"generations": [[{"text": "' + text[:size] + '"}]]}',
        }  # fmt: skip
        return tuple(map(values.get, COLUMNS))

    database = TraceDatabase(path)
    for start in range(0, count, 10_000):
        rows = list(map(row, range(start, min(count, start + 10_000))))
        database.write(lambda connection, rows=rows: connection.each(UPSERT, rows))  # type: ignore[misc]
    database.close()


@pytest.mark.timing
def test_a_hundred_thousand_runs_are_listed_and_scrolled(
    start: Any, tmp_path: Path, open_page: Any
):
    write_many(tmp_path / "traces.db", 100_000)
    studio = start()
    page = open_page(studio)
    page.wait_for_selector("text=question 99999")
    until(lambda: page.inner_text(".total") == "100,000 traces")
    start_time = time.monotonic()
    page.evaluate("document.querySelector('.rows').scrollTo(0, 50000 * 36)")
    page.wait_for_selector("text='question 49999'")
    assert time.monotonic() - start_time < 1
    start_time = time.monotonic()
    page.focus(".rows")
    page.keyboard.press("End")
    page.wait_for_selector("text='question 0'")
    assert time.monotonic() - start_time < 1
    assert page.locator(".row").count() < 60


@pytest.mark.timing
def test_two_hundred_runs_a_second_do_not_freeze_the_page(studio: Any, open_page: Any):
    page = open_page(studio)
    page.wait_for_selector(".row .question")
    page.wait_for_timeout(600)
    page.evaluate(
        """() => { window.longest = 0; let last = performance.now();
        const tick = () => { const now = performance.now(); window.longest = Math.max(window.longest, now - last);
        last = now; requestAnimationFrame(tick); }; requestAnimationFrame(tick); }"""
    )
    step = RunnableLambda(lambda x: x, name="burst")
    with SQLiteTracer(studio.folder / "traces.db") as tracer:
        start_time = time.monotonic()
        for number in range(800):
            step.invoke(f"burst {number}", {"callbacks": [tracer]})
            time.sleep(max(0.0, start_time + number / 200 - time.monotonic()))
    page.wait_for_selector("text='burst 799'", timeout=10_000)
    until(lambda: page.inner_text(".total") == "871 traces")
    assert page.evaluate("window.longest") < 1_000
    assert len(TraceStore(studio.folder / "traces.db").find(limit=5)) == 5
