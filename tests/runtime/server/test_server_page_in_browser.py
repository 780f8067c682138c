"""The page in a real browser: nothing hostile runs, the keyboard suffices, and a refresh disturbs nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from chromium import browser, contrasts, with_browser
from page_place import ACCEPT, asking, full, hostile, plan, ran, waiting
from page_serving import served

from runtime.api import knowledge
from runtime.api.fractal import Fractal
from runtime.server.page.export import as_file

pytestmark = with_browser
VIEWS = ("/", "/brain", "/patterns", "/runners", "/nerves")
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
TRY_ALL = """() => {
  document.querySelectorAll("details").forEach((each) => each.open = true);
  document.querySelectorAll("main *").forEach((each) => each.dispatchEvent(new MouseEvent("mouseover")));
  const wrong = [...document.links].filter((each) => !["http:", "https:", "file:"].includes(each.protocol));
  if (wrong.length) throw new Error(`a link leads to ${wrong[0].href}`);
}"""
"""Open and touch all there is, and look where links lead."""
READABLE = 4.5
"""The least contrast of a text. Source: WCAG 2.2, 1.4.3."""
REFRESH = "document.dispatchEvent(new Event('visibilitychange'))"
"""As if the tab were shown again: the view is read and morphed."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as launched:
        yield launched


@pytest.fixture
def visitor(chromium: Any) -> Iterator[Any]:
    """A page of a fresh visitor, which collects what it asks for and what goes wrong."""
    context = chromium.new_context()
    page = context.new_page()
    page.asked, page.wrong = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("dialog", lambda dialog: (page.wrong.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda said: page.wrong.append(said.text) if "Content Security" in said.text else None)
    yield page
    context.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any], str]]:
    """A folder, its runs, and the address at which it is served, with the newest link's code behind it."""
    work = tmp_path_factory.mktemp("page")
    runs = full(work / "work")
    again = plan({"tool": "read", "args": {"path": "notes.md"}})
    turn = {"calls": again["steps"], "done": "done"}
    (work / "answers.yaml").write_text(yaml.safe_dump({"fused": again, "work": turn, "check": ACCEPT}))
    settings: dict[str, Any] = {
        "model": f"scripted:{work / 'answers.yaml'}",
        "sandbox": "off",
        "check": "always",
    }
    codes: list[str] = []
    with served(work / "work", announce=codes.append, **settings) as base:
        yield work / "work", runs | {"codes": codes}, base


def unharmed(page: Any, base: str) -> None:
    assert page.evaluate("window.hit") is None
    assert page.wrong == []
    assert [url for url in page.asked if not url.startswith((base, "data:"))] == []


def test_hostile_text_runs_nowhere(tmp_path: Path, visitor: Any) -> None:
    hostile(tmp_path / "work")
    fractal = Fractal(tmp_path / "work")
    runs = fractal.workspace.run_ids()
    with served(tmp_path / "work") as base:
        for path in (*VIEWS, *(f"/runs/{run}" for run in runs), *(f"/runs/{run}?text=true" for run in runs)):
            visitor.goto(base + path)
            visitor.evaluate(TRY_ALL)
            if path in VIEWS or path == f"/runs/{runs[-1]}":
                with visitor.expect_response(base + path):
                    visitor.evaluate(REFRESH)
            unharmed(visitor, base)
    for run in runs:
        file = tmp_path / f"{run}.html"
        file.write_text(as_file(fractal, run), "utf-8")
        visitor.goto(file.as_uri())
        visitor.evaluate(TRY_ALL)
        assert visitor.evaluate("getComputedStyle(document.querySelector('pre')).whiteSpace") == "pre-wrap"
        assert visitor.evaluate("window.hit") is None and visitor.wrong == []


@pytest.mark.night
def test_a_refresh_keeps_what_is_open_typed_and_focused(visitor: Any, place: tuple[Any, Any, str]) -> None:
    folder, _, base = place
    visitor.goto(base + "/brain")
    fact = visitor.locator("details.fact", has_text="Mara runs the shop")
    fact.locator("summary").click()
    field = fact.get_by_label("What holds instead")
    field.fill("Mara runs the shop in Basel")
    visitor.mouse.wheel(0, 300)
    visitor.wait_for_timeout(100)
    scrolled = visitor.evaluate("scrollY")
    knowledge.remember(Fractal(folder), "the cellar is dry")
    visitor.evaluate(REFRESH)
    visitor.locator("summary", has_text="the cellar is dry").wait_for()
    assert fact.evaluate("each => each.open")
    assert field.input_value() == "Mara runs the shop in Basel"
    assert field.evaluate("each => each === document.activeElement")
    assert abs(visitor.evaluate("scrollY") - scrolled) < 60
    unharmed(visitor, base)


def test_what_another_process_does_appears_by_itself(visitor: Any, place: tuple[Any, Any, str]) -> None:
    folder, _, base = place
    visitor.goto(base)
    with visitor.expect_response("**/api/events"):
        pass
    run = ran(folder, "sort the shelves", {"fused": {"task": "Sort", "question": "Which shelf?"}})
    visitor.locator(f"#run-{run}").wait_for()
    unharmed(visitor, base)


def test_who_opened_the_link_of_the_terminal_may_approve(visitor: Any, place: tuple[Any, Any, str]) -> None:
    _, runs, base = place
    visitor.goto(f"{base}/runs/{runs['waits']}")
    visitor.get_by_role("button", name="Approve").click()
    visitor.get_by_role("alert").filter(has_text="needs the person at the page").wait_for()
    visitor.goto(f"{base}/#person={runs['codes'][-1]}")
    visitor.get_by_text("This tab may approve").wait_for()
    assert visitor.url == f"{base}/"
    visitor.goto(f"{base}/runs/{runs['waits']}")
    visitor.get_by_role("button", name="Approve").click()
    visitor.get_by_role("heading", name="unverified").wait_for()
    unharmed(visitor, base)


def test_a_run_is_followed_from_its_start_through_an_approval_to_its_end(
    visitor: Any, place: tuple[Any, Any, str]
) -> None:
    """In one tab, without a reload of it."""
    folder, runs, base = place
    visitor.goto(f"{base}/#person={runs['codes'][-1]}")
    visitor.get_by_text("This tab may approve").wait_for()
    visitor.evaluate("window.kept = 1")
    script = folder.parent / "writes.json"
    writes = plan({"tool": "write", "args": {"path": "hours.md", "content": "from ten\n"}})
    script.write_text(json.dumps({"fused": writes, "plan": writes, "check": ACCEPT}))
    offered = {"agents": {"writer": {"model": f"scripted:{script}"}}}
    (folder / "fractal.yaml").write_text(json.dumps(offered))  # a client chooses no other model
    task = {"task": "write the hours", "model": f"scripted:{script}"}
    run = httpx.post(f"{base}/api/runs", json=task, timeout=60).json()["run"]
    row = visitor.locator(f"#run-{run}", has_text="waiting")
    row.wait_for()
    visitor.evaluate(f"document.querySelector('#run-{run} a').click()")
    visitor.get_by_role("heading", name="These steps wait").wait_for()
    assert visitor.locator(".decide .added").inner_text().strip() == "+from ten"
    visitor.evaluate("window.kept = 1")
    visitor.get_by_role("button", name="Approve").click()
    visitor.get_by_role("heading", name="unverified").wait_for()
    visitor.locator(".steps .done").wait_for()
    visitor.locator("summary", has_text="Output").wait_for()
    assert visitor.get_by_role("button", name="Approve").count() == 0
    assert (folder / "hours.md").read_text() == "from ten\n"
    assert visitor.evaluate("window.kept") == 1
    unharmed(visitor, base)


@pytest.mark.night
def test_the_page_goes_on_by_itself_when_the_server_was_restarted(tmp_path: Path, visitor: Any) -> None:
    codes: list[str] = []
    with served(tmp_path, announce=codes.append) as base:
        visitor.goto(f"{base}/#person={codes[-1]}")
        visitor.get_by_text("This tab may approve").wait_for()
        visitor.get_by_text("No runs yet").wait_for()
    run = asking(tmp_path)
    script = tmp_path / "script.json"
    reads = plan({"tool": "read", "args": {"path": "script.json"}})
    script.write_text(
        json.dumps({"fused": reads, "work": {"calls": reads["steps"], "done": "done"}, "check": ACCEPT})
    )
    port, model = int(base.rpartition(":")[2]), f"scripted:{script}"
    with served(tmp_path, port=port, announce=codes.append, model=model, sandbox="off", check="always"):
        visitor.locator(f"#run-{run}").wait_for()
        later = asking(tmp_path)
        visitor.locator(f"#run-{later}").wait_for()
        with visitor.expect_response("**/api/person"):  # the tab does not count as a person's any more
            visitor.locator(f"#run-{run} a").click()
        visitor.get_by_label("Answer").fill("report.md")
        visitor.get_by_role("button", name="Answer").click()
        visitor.get_by_role("heading", name="unverified").wait_for()
    unharmed(visitor, base)


@pytest.mark.night
def test_a_person_signs_in_with_the_keyboard_and_out_again(tmp_path: Path, visitor: Any) -> None:
    codes: list[str] = []
    run = waiting(tmp_path)
    with served(tmp_path, token="s3cret ü", announce=codes.append) as base:
        visitor.goto(f"{base}/runs/{run}?text=true#person={codes[0]}")
        visitor.keyboard.type("wrong")
        visitor.keyboard.press("Enter")
        visitor.get_by_text("not the token").wait_for()
        visitor.keyboard.type("s3cret ü")
        with visitor.expect_response("**/api/events") as stream:
            visitor.keyboard.press("Enter")
        assert stream.value.status == 200
        visitor.get_by_text("This tab may approve").wait_for()
        assert visitor.url == f"{base}/runs/{run}?text=true"
        ran(tmp_path, "sort", {"fused": {"task": "Sort", "question": "Which?"}})
        visitor.get_by_role("link", name="Runs").click()
        visitor.locator("tr", has_text="sort").wait_for()
        visitor.get_by_role("button", name="Sign out").click()
        visitor.get_by_label("Token").wait_for()
        unharmed(visitor, base)
        visitor.get_by_label("Token").fill("s3cret ü")
        visitor.keyboard.press("Enter")
        visitor.locator("tr", has_text="sort").wait_for()
    with served(tmp_path, token="s3cret ü", port=int(base.rpartition(":")[2])):
        visitor.get_by_label("Token").wait_for()


def test_a_question_is_answered_with_the_keyboard_alone(visitor: Any, place: tuple[Any, Any, str]) -> None:
    _, runs, base = place
    visitor.goto(f"{base}/runs/{runs['asks']}")
    visitor.keyboard.press("Tab")
    assert visitor.evaluate("document.activeElement.className") == "skip"
    visitor.keyboard.press("Enter")
    visitor.keyboard.press("Tab")
    assert visitor.evaluate("document.activeElement.name") == "text"
    visitor.keyboard.type("report.md")
    visitor.keyboard.press("Tab")
    visitor.keyboard.press("Enter")
    visitor.get_by_role("heading", name="unverified").wait_for()
    assert visitor.get_by_label("Answer").count() == 0
    summary = visitor.locator("summary", has_text="Understand").first
    summary.focus()
    visitor.keyboard.press("Enter")
    visitor.get_by_text("report.md").first.wait_for()
    unharmed(visitor, base)


@pytest.mark.night
def test_no_view_is_wider_than_a_small_window(chromium: Any, place: tuple[Any, Any, str]) -> None:
    _, runs, base = place
    for scheme in ("light", "dark"):
        context = chromium.new_context(viewport={"width": 400, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        for path in (
            *VIEWS,
            "/facts/forget?words=shop",
            *(f"/runs/{runs[each]}" for each in ("done", "asks", "waits", "failed")),
        ):
            page.goto(base + path)
            page.evaluate(OPEN_ALL)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
            assert [each for each in contrasts(page) if each[0] < READABLE] == [], (path, scheme)
        context.close()


@pytest.mark.night
def test_the_first_paint_is_quick(visitor: Any, place: tuple[Any, Any, str]) -> None:
    """Measured: 0.2 s; the aim is 0.7 s, and the limit here is generous."""
    visitor.goto(place[2])
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    visitor.wait_for_timeout(200)
    assert visitor.evaluate(paint) < 7_000
