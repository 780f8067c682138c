"""The page without a browser: its views, its forms, and who may send them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
import warm
import yaml
from lanes import until, within
from page_place import ACCEPT, EVIL, WRITE, asking, full, hostile, plan, ran, runner, waiting
from page_serving import served

from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section
from kernel.errors import Exit
from runtime.api.fractal import Fractal
from runtime.benchmarks.arithmetic import drawn
from runtime.benchmarks.bench import folder_of
from runtime.benchmarks.log import BenchLog
from runtime.benchmarks.queue import Queue
from runtime.memory.tasks.decisions import Decision
from runtime.server.page.rendering import ASSETS, markdown

VIEWS = ("/", "/brain", "/patterns", "/runners", "/nerves")
AGAIN = plan({"tool": "read", "args": {"path": "notes.md"}})
"""What the model of the served runs plans."""
TURN = {"calls": [*AGAIN["steps"], {"tool": "done", "args": {"answer": "done"}}]}
"""Its later turns."""
BASES = ("You do one task in a folder", "You judge the work of one loop")
"""How the prompts of a turn and of CHECK begin."""
REPOSITORY = Path(__file__).parents[3]


@dataclass
class Visitor:
    """A browser as the server sees it: it keeps cookies, and sends the origin with forms."""

    http: httpx.Client
    base: str
    proof: str = ""

    def get(self, path: str) -> str:
        response = self.http.get(path)
        assert response.status_code == 200, response.text
        return response.text

    def send(self, path: str, **fields: str) -> httpx.Response:
        if not self.http.cookies:
            self.get("/")
        fields["form"] = self.http.cookies["fractal-form"]
        headers = {"origin": self.base, "x-fractal-person": self.proof}
        return self.http.post(path, data=fields, headers=headers)

    def open_link(self, code: str) -> None:
        """Show that a person sits here, as the script of the page does with the link of the terminal."""
        self.proof = self.http.post("/api/person", json={"code": code}).json()["proof"]


@dataclass
class Place:
    folder: Path
    runs: dict[str, str]
    visitor: Visitor
    codes: list[str]  # of the links at the terminal

    @property
    def fractal(self) -> Fractal:
        return Fractal(self.folder)

    def ended(self, run: str) -> Document:
        """The root of a run when it has ended."""
        until(lambda: self.fractal.root_document(run).ended)
        return self.fractal.root_document(run)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A served workspace; a test that decides about a run makes that run."""
    tmp_path = tmp_path_factory.mktemp("page")
    runs = full(tmp_path / "work")
    script = tmp_path / "answers.yaml"
    script.write_text(yaml.safe_dump({"fused": AGAIN, "work": TURN, "check": ACCEPT}))
    settings: dict[str, Any] = {"model": f"scripted:{script}", "sandbox": "off", "check": "always"}
    codes: list[str] = []
    with (
        served(tmp_path / "work", announce=codes.append, **settings) as base,
        httpx.Client(base_url=base, timeout=60) as http,
    ):
        yield Place(tmp_path / "work", runs, Visitor(http, base), codes)


def test_every_view_shows_what_there_is(place: Place) -> None:
    views = {path: place.visitor.get(path) for path in VIEWS}
    for run in place.runs.values():
        assert f'href="/runs/{run}"' in views["/"]
    assert "the shop opens at ten" in views["/brain"] and ">the shop opens at nine\n" not in views["/brain"]
    assert "Read a file before you change it." in views["/patterns"]
    assert "12 of 50" in views["/runners"]
    assert "count the invoices" in views["/nerves"] and "Which file should I write?" in views["/nerves"]


def test_the_recognition_rate_is_that_of_the_metrics(tmp_path: Path) -> None:
    fractal = Fractal(tmp_path, settings={"embedder": "lexical"})
    met = ("recognized", "familiar", "familiar", "novel")
    fractal.brain.shelf.put(
        *(
            Decision(id=f"a/{n}", text="count", run="a", at="2026-03-01", path="novel", recognition=each)
            for n, each in enumerate(met)
        )
    )
    fractal.brain.close()
    with served(tmp_path) as base, httpx.Client(base_url=base, timeout=60) as http:
        card = re.search(r"<dt>Recognition</dt><dd>([^<]*)", http.get("/brain").text)
        assert card and card[1] == "75%"
        assert "fractal_recognition_ratio 0.75" in http.get("/metrics").text


def test_a_run_shows_its_phases_steps_replies_costs_and_diff(place: Place) -> None:
    text = place.visitor.get(f"/runs/{place.runs['done']}")
    for part in ("Understand", "Plan", "Do", "Check", "Output", "Reply of", "Evidence", "1 call"):
        assert part in text
    assert '<span class="removed">-The shop opens at nine.\n</span>' in text
    assert '<span class="added">+The shop opens at ten.\n</span>' in text
    written = place.visitor.get(f"/runs/{place.runs['done']}?text=true")
    assert "### task · person" in written
    assert f"?doc=op-write-{place.runs['done']}-1" in text


def test_a_run_by_turns_shows_each_turn_with_its_calls_and_why_its_answer_was_held_back(place: Place) -> None:
    look = {"tool": "read", "args": {"path": "nowhere.md"}}
    first = {"text": "I look first.", "calls": [look], "done": "there are none"}
    run = ran(place.folder, "which hours?", {"fused": first, "work": {"done": ""}, "check": ACCEPT})
    shown = place.visitor.get(f"/runs/{run}").partition('<section aria-label="Document"')[0]
    parts = ("Turn 1", "I look first.", "nowhere.md: there is no such file", "held back: a call", "Turn 2")
    assert [shown.find(part) for part in parts] == sorted(shown.find(part) for part in parts)
    assert all(part in shown for part in parts)
    assert shown.count("<strong>read</strong>") == 1, "a call of a turn is no step of the plan"
    assert "Do, turn 2" in shown


def test_the_next_prompt_of_a_run_that_waits_is_its_whole_conversation(place: Place) -> None:
    text = place.visitor.get(f"/runs/{place.runs['asks']}?prompt=true")
    assert BASES[0] in text and "write the report" in text and "ask_1" in text


def test_the_prompt_of_a_call_opens_beside_its_reply(place: Place) -> None:
    run = place.runs["done"]
    text = place.visitor.get(f"/runs/{run}")
    assert not any(base in text for base in BASES), "it is read when it is asked for"
    links = [unescape(each) for each in re.findall(r'href="([^"]+)">Its prompt', text)]
    assert len(links) == text.count("Reply of") == 2
    for link, base in zip(sorted(links, key=lambda link: "check" in link), BASES, strict=True):
        assert base in place.visitor.get(link)
    assert place.visitor.http.get(f"/runs/{run}?call=../calls.jsonl").status_code == 404
    exported = place.visitor.get(f"/runs/{run}/export.html")
    assert exported.count("<details><summary>Its prompt</summary>") == 2
    assert [exported.count(base) for base in BASES] == [1, 1]


def test_what_a_step_changed_opens_beside_it(place: Place) -> None:
    text = place.visitor.get(f"/runs/{place.runs['done']}")
    (link,) = map(unescape, re.findall(r'href="([^"]+)">What it changed', text))
    shown = place.visitor.get(link).partition('<section aria-label="Document"')[2]
    assert '<span class="added">+The shop opens at ten.\n</span>' in shown
    assert "There are no known changes" in place.visitor.get(f"/runs/{place.runs['done']}?step=99")


def test_runs_are_filtered_by_words_and_status(place: Place) -> None:
    found = place.visitor.get("/?text=INVOICES+up&status=escalated")
    assert place.runs["failed"] in found and place.runs["done"] not in found
    assert "No run fits" in place.visitor.get("/?text=nothing")


def test_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    with served(tmp_path) as base:
        for path, hint in zip(VIEWS, ("run", "remember", "learn", "runner", "lifeforce"), strict=True):
            text = httpx.get(base + path).text
            assert hint in text and 'class="empty"' in text


def test_an_answer_continues_the_run(place: Place) -> None:
    run = asking(place.folder)
    assert place.visitor.send(f"/runs/{run}/answer", text=" ").status_code == 400
    assert place.visitor.send(f"/runs/{run}/answer", text="report.md").status_code == 303
    root = place.ended(run)
    assert root.meta.word == "unverified"
    assert root.text(1, "answer") == "report.md"


def test_a_step_is_carried_out_when_a_person_approves_it(place: Place) -> None:
    (place.folder / "notes.md").write_text("# Notes\n\nThe shop opens at nine.\n")
    run = waiting(place.folder)
    assert "-The shop opens at nine." in place.visitor.get(f"/runs/{run}")
    refused = place.visitor.send(f"/runs/{run}/approve")
    assert refused.status_code == 403 and "fractal approve" in refused.text
    person = Visitor(place.visitor.http, place.visitor.base)
    person.open_link(place.codes[-1])
    assert person.send(f"/runs/{run}/approve").status_code == 303
    assert place.ended(run).steps[1].evidence["approved"] == "person at page"
    assert "ten" in (place.folder / "notes.md").read_text()


def test_a_rejected_step_is_not_carried_out_and_the_model_reads_why(place: Place) -> None:
    (place.folder / "notes.md").write_text("as it was")
    run = waiting(place.folder)
    assert place.visitor.send(f"/runs/{run}/reject", why="the notes are needed").status_code == 303
    step = place.ended(run).steps[1]
    assert step.state == "failed" and "the notes are needed" in str(step.result)
    assert (place.folder / "notes.md").read_text() == "as it was"


def test_a_plan_that_is_sent_back_is_made_again_with_the_guidance(place: Place) -> None:
    (place.folder / "notes.md").write_text("as it was")
    run = ran(place.folder, "correct the notes", {"fused": plan(WRITE), "plan": plan(WRITE)}, plan_only=True)
    assert "This plan waits for approval" in place.visitor.get(f"/runs/{run}")
    assert place.visitor.send(f"/runs/{run}/nudge", why=" ").status_code == 400
    assert place.visitor.send(f"/runs/{run}/nudge", why="only read the notes").status_code == 303
    until(lambda: "only read the notes" in place.visitor.get(f"/runs/{run}?text=true"))
    text = place.visitor.get(f"/runs/{run}?text=true")
    assert "<strong>read</strong>" in text
    assert (place.folder / "notes.md").read_text() == "as it was"


def test_a_veto_ends_a_run_and_is_kept_as_a_decision(place: Place) -> None:
    run = waiting(place.folder)
    assert place.visitor.send(f"/runs/{run}/veto", why="never touch the notes").status_code == 303
    assert place.ended(run).meta.status == "cancelled"
    assert "never touch the notes" in str([each for each in place.fractal.decisions() if each.run == run])


def test_a_decision_about_another_question_than_the_one_shown_is_refused(place: Place) -> None:
    run, other = asking(place.folder), waiting(place.folder)
    asked = {
        each: re.findall('name="asked" value="([^"]+)"', place.visitor.get(f"/runs/{each}"))[0]
        for each in (run, other)
    }
    stale = place.visitor.send(f"/runs/{run}/answer", text="report.md", asked=asked[other])
    assert stale.status_code == 409 and "asks something else" in stale.text
    assert place.visitor.send(f"/runs/{run}/answer", text="report.md", asked=asked[run]).status_code == 303
    place.visitor.send(f"/runs/{other}/veto", asked=asked[other])
    place.ended(other)


def test_bench_runs_and_the_queue_are_shown_with_their_curves(tmp_path: Path) -> None:
    shots = [{"snapshot": n, "accuracy": 0.75, "without_model": n / 100} for n in (20, 40)]
    figures = {"problems": 40, "accuracy": 0.75, "without_model": 0.3, "calls": 28, "tokens": 9_000}
    fractal = Fractal(tmp_path)
    queue = Queue(fractal.workspace.state)
    queue.put({"suite": "arithmetic", "model": "ollama/llama3.2"})
    queue.put({"suite": "swe", "model": None})
    job = queue.take("lab")
    assert job
    queue.beat("lab", {"status": "done", "job": job["id"], "figures": {**figures, "snapshots": shots}})
    queue.beat("gone", {"status": "running"})
    silent = {"id": "gone", "at": "2025-01-01T00:00:00Z", "status": "running"}
    runner(fractal, "gone", silent)
    log = BenchLog.create(folder_of(fractal), {"suite": "/data/aime.jsonl", "model": None})
    (folder_of(fractal) / "torn.jsonl").write_text("{}\n")
    with served(tmp_path) as base:
        text = httpx.get(f"{base}/runners").text
    assert text.count('aria-label="learning curve"') == 1
    for part in ("ollama/llama3.2", "75%", "30%", "queued", "lost", "aime.jsonl", log.id, "torn.jsonl:1"):
        assert part in text, part


@pytest.mark.night
def test_a_bench_run_shows_its_learning_curve_and_what_its_memory_learned(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    success = [{"run": 'test "$RESULT_1" -gt 0'}]
    solved = [
        {
            "task": f"^{re.escape(each.text)}$",
            "phase": ["fused", "plan"],
            "reply": plan({"tool": "calc", "args": {"expression": each.expression}}, success=success),
        }
        for each in drawn(12, 1)
    ]
    accept = {"phase": "check", "reply": {**ACCEPT, "output": "{{ steps[1].result }}"}}
    script.write_text(json.dumps([*solved, accept]))
    words = ["--suite", "arithmetic", "--limit", "12", "--snapshot-every", "4", "-m", f"scripted:{script}"]
    env = {**ENVIRONMENT, "FRACTAL_EMBEDDER": "lexical", "FRACTAL_FSYNC": "false"}
    done = fractal_command(tmp_path, "bench", "run", *words, env=env)
    assert done.returncode == 0, done.stderr
    ((log, folder),) = [(each, each.with_suffix("")) for each in folder_of(Fractal(tmp_path)).glob("*.jsonl")]
    with served(tmp_path) as base:
        text = httpx.get(f"{base}/runners", timeout=60).text
    assert log.stem in text and "<polyline" in text
    with served(folder) as base:
        text = httpx.get(f"{base}/brain", timeout=60).text
    assert "12 decisions" in text and "<polyline" in text


def test_stop_ends_a_run(place: Place) -> None:
    run = waiting(place.folder)
    assert place.visitor.send(f"/runs/{run}/cancel").status_code == 303
    assert place.ended(run).meta.status == "cancelled"


def test_a_fork_is_a_run_of_its_own(place: Place) -> None:
    sent = place.visitor.send(f"/runs/{place.runs['failed']}/fork", step="1")
    run = sent.headers["location"].removeprefix("/runs/")
    assert run not in place.runs.values()
    assert "Resume" in place.visitor.get(f"/runs/{run}")
    assert place.visitor.send(f"/runs/{place.runs['failed']}/fork", step="x").status_code == 400


def test_what_cannot_be_done_is_told_as_a_page(place: Place) -> None:
    sent = place.visitor.send(f"/runs/{place.runs['done']}/cancel")
    assert sent.status_code == 400
    assert "That did not work" in sent.text and "there is nothing to cancel" in sent.text
    assert place.visitor.http.get("/runs/nosuch").status_code == 400
    assert place.visitor.http.get(f"/runs/{place.runs['done']}?doc=../../x").status_code == 404
    assert place.visitor.http.get("/assets/..%2frendering.py").status_code == 404


def test_a_correction_supersedes_the_fact_and_keeps_it(place: Place) -> None:
    id = re.findall(r'id="fact-([^"]+)"', place.visitor.get("/brain?query=when+does+the+shop+open"))[0]
    assert place.visitor.send(f"/facts/{id}/correct", text="the shop opens at eleven").status_code == 303
    text = place.visitor.get("/brain")
    assert "the shop opens at eleven" in text
    history = text.partition("<h3>Before</h3>")[2].partition("</ol>")[0]
    assert history.index("at ten") < history.index("at nine")
    assert place.visitor.send("/facts/nosuch/correct", text="x").status_code == 400


def test_forgetting_shows_first_what_would_go(place: Place) -> None:
    assert "Mara runs the shop in Bern" in place.visitor.get("/facts/forget?words=Mara")
    assert "Mara" in place.visitor.get("/brain")
    assert place.visitor.send("/facts/forget", words="Mara").status_code == 303
    assert "Mara" not in place.visitor.get("/brain")


def test_a_pattern_is_switched_off_and_on(place: Place) -> None:
    library = place.fractal.memory.library
    for switch, active in (("off", False), ("on", True)):
        assert place.visitor.send(f"/patterns/read-first/{switch}").status_code == 303
        assert [each.active for each in library.all()] == [active]
    assert "Read a file before you change it." in place.visitor.get("/patterns.md")


def test_a_form_of_another_page_changes_nothing(place: Place) -> None:
    visitor, path = place.visitor, "/patterns/read-first/off"
    visitor.get("/")
    token = visitor.http.cookies["fractal-form"]
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null", ""):
        sent = visitor.http.post(path, data={"form": token}, headers={"origin": origin} if origin else {})
        assert sent.status_code == 403
    for fields in ({}, {"form": "x"}, {"form": ""}):
        assert visitor.http.post(path, data=fields, headers={"origin": visitor.base}).status_code == 403
    bare = httpx.post(visitor.base + path, data={"form": token}, headers={"origin": visitor.base})
    assert bare.status_code == 403
    assert place.fractal.memory.library.all()[0].active
    cookie = httpx.get(visitor.base).headers["set-cookie"].lower()
    assert "samesite=strict" in cookie and "httponly" in cookie


def test_a_serious_danger_is_shown_and_needs_a_person(place: Place) -> None:
    remove = {"tool": "bash", "args": {"command": "rm -rf /"}}
    run = ran(place.folder, "clean up", {"fused": plan(remove)}, approve=["shell"])
    assert "serious:" in place.visitor.get(f"/runs/{run}")
    sent = place.visitor.send(f"/runs/{run}/approve")
    assert sent.status_code == 403 and "fractal approve" in sent.text
    guessing = Visitor(place.visitor.http, place.visitor.base, "guessed")
    assert guessing.send(f"/runs/{run}/approve").status_code == 403
    assert place.fractal.root_document(run).meta.status == "waiting"


def test_markdown_has_no_html_images_or_scripts() -> None:
    evil = f"{EVIL}\n\n[a](JaVaScRiPt:alert(1)) [b](data:text/html,x) [c](//evil.example) <a href='x'>d</a>\n"
    shown = str(markdown(evil + "[e](https://example.org/) [f](system-a.md)", lambda target: ""))
    assert re.findall(r'href="([^"]*)"', shown) == [
        "http://127.0.0.1:9/x.png",  # an image is a link
        "https://example.org/",
    ]
    assert not re.search(r"<(script|img|style|iframe)", shown)


def test_the_assets_are_small() -> None:
    assert sum(each.stat().st_size for each in ASSETS.iterdir()) <= 60_000


def test_no_view_has_script_or_style_of_its_own(tmp_path: Path) -> None:
    hostile(tmp_path / "work")
    with served(tmp_path / "work") as base, httpx.Client(base_url=base, timeout=60) as http:
        runs = [f"/runs/{each}" for each in Fractal(tmp_path / "work").workspace.run_ids()]
        assert len(runs) == 5
        for path in (*VIEWS, *runs, *(f"{each}?text=true" for each in runs), "/?text=<script>&status=x"):
            response = http.get(path)
            assert response.status_code == 200
            assert "unsafe" not in response.headers["content-security-policy"]
            assert not re.search(r'href="\s*javascript:', response.text, re.IGNORECASE)
            bare = re.sub(r'="[^"]*"', "=", response.text)  # a quote in a value is escaped
            assert not re.search(r"<[^>]*\s(on\w+|style)=|<img|<style", bare)
            assert response.text.count("<script") == 2
            assert "\u202e" not in response.text and "\x1b" not in response.text


@pytest.mark.night
def test_ten_thousand_runs_are_listed_and_one_of_them_shown_at_once(tmp_path: Path) -> None:
    """Measured: 0.2 s and 0.02 s; the aim is 1 s, and the limit here is generous."""
    runs = tmp_path / "state" / "runs"
    (tmp_path / "fractal.yaml").touch()
    for n in range(10_000):
        run = f"r{n:05d}"
        meta = Meta(f"system-{run}", run, status="complete", created="2026-01-01T00:00:00Z")
        (runs / run).mkdir(parents=True)
        document = Document(meta, {1: Section(notes=(Note("task", f"task {n}", "person"),))})
        (runs / run / f"{meta.id}.md").write_bytes(render(document, 1))
    with served(tmp_path) as base, httpx.Client(base_url=base, timeout=60) as http:
        http.get("/")
        with within(10):
            text = http.get("/").text
            assert "task 77" in http.get("/runs/r00077").text
    assert "10000 runs" in text and text.count('<tr id="run-') == 50


def fractal_command(
    folder: Path, *words: str, without: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`fractal` in a process of its own, in which a package is not installed; such a one imports anew."""
    code = f"""
import importlib.util as util
found = util.find_spec
util.find_spec = lambda name, *more: None if name == {without!r} else found(name, *more)
from runtime.cli import main
main()
"""
    command = [sys.executable, "-c", code, *words]
    start = subprocess.run if without else warm.run
    return start(command, cwd=folder, capture_output=True, text=True, env=env or ENVIRONMENT, timeout=60)


ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "FRACTAL_TRUST": "all"}


def test_a_run_is_exported_as_one_file_without_script(tmp_path: Path) -> None:
    run = hostile(tmp_path / "work")
    done = fractal_command(tmp_path / "work", "show", run, "--html", "run.html")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "work" / "run.html").read_text("utf-8")
    assert "<script" not in text and "style-src &#39;sha256-" in text
    assert not re.search(r'(?:src|href)="(?!#)(?!data:)', text)


def test_the_export_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    run = hostile(tmp_path / "work")
    done = fractal_command(tmp_path / "work", "show", run, "--html", "run.html", without="jinja2")
    assert done.returncode == Exit.CONFIGURATION, done.stderr
    assert "pip install 'fractal-runtime[server]'" in done.stderr
