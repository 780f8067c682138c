"""The shipped tools: the sample of each, on real files, with a scripted model."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playing import ACCEPT, Play, Played, plan
from web_site import web_site

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.errors import Exit
from kernel.tools.tool import Tool
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.evolution.sample_tests import sample_missing
from runtime.sandbox.sandbox import Sandbox

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = Catalogue([shipped_system()])
FOLDERS = sorted(tool.name for tool in CATALOGUE.tools.values() if not tool.operation)
SANDBOX = "off" if Sandbox("auto").available() else "auto"
Loop = Mapping[str, Any]
"""Replies in the loop of a tool: by phase, and in DO by step; functions get the ask."""


@pytest.mark.parametrize("name", FOLDERS)
def test_shipped_tool_has_a_pattern_a_sample_and_documentation(name: str) -> None:
    tool = CATALOGUE.tools[name]
    folder = tool.path.parent
    special = folder.parent.name == "specialists"
    assert name == (f"request-{folder.name}" if special else folder.name)
    assert sample_missing(tool) == ""
    re.compile(tool.sample["shows"])
    assert len(tool.description.split()) <= 12
    page = (ROOT / "docs" / "tools.md").read_text("utf-8")
    assert f"| `{name}` | {tool.description} |" in page
    assert special or f"- **{name}**" in page


@pytest.mark.parametrize("name", [name for name in FOLDERS if CATALOGUE.tools[name].guided])
def test_guided_tool_has_text_for_every_phase_and_names_existing_operations(name: str) -> None:
    tool = CATALOGUE.tools[name]
    for phase in () if tool.open else ("understand", "plan", "do", "check"):
        assert len(tool.section(phase).split()) >= 5, phase
    named = re.findall(r'"tool": "([a-z-]+)"', tool.body)
    assert [each for each in named if each not in CATALOGUE.tools] == []


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def model(tool: str, what: str, loop: Loop, *, has: str = "") -> Callable[[Ask], Any]:
    """A model that plans one step of the tool and replies in its loop."""
    root = {
        "plan": plan(
            {"tool": tool, "what": what}, success=[{"step": 1, "has": has} if has else {"judge": what}]
        ),
        "check": {**ACCEPT, "output": "{{ steps[1].result }}"},
    }

    def answer(ask: Ask) -> Any:
        if ask.document.meta.type != tool:
            return root[ask.phase]
        own = loop[ask.phase]
        own = own[ask.step] if ask.part == "do" else own
        return own(ask) if callable(own) else own

    return answer


def played(play: Play, tool: Tool, work: Path, loop: Loop, **settings: Any) -> Played:
    put(work, tool.sample.get("files", {}))
    result = play(
        model(tool.name, tool.sample["task"], loop, has=tool.sample["shows"]),
        tool.sample["task"],
        settings={"sandbox": SANDBOX, **settings},
    )
    assert result.result.exit == Exit.ACCEPTED, result.result.reason
    assert re.search(tool.sample["shows"], result.result.output), result.result.output
    for name in tool.sample.get("leaves", []):
        assert (work / name).is_file()
    return result


def loop_of(result: Played, tool: str) -> Any:
    return result.documents[f"tool-{tool}-{result.result.run}-1"]


def text_of(ask: Ask, step: int) -> str:
    return ask.document.steps[step].result or ""


def test_research_reads_around_hits_and_names_its_sources(play: Play, tmp_path: Path) -> None:
    def read(step: int) -> Callable[[Ask], Any]:
        def action(ask: Ask) -> Any:
            path, line, _ = text_of(ask, step).split(":", 2)
            return {"tool": "read", "args": {"path": path, "lines": f"1-{line}"}}

        return action

    def facts(ask: Ask) -> Any:
        places = [text_of(ask, step).partition(": ")[0] for step in (1, 2)]
        year = re.search(r"opened in (\d{4})", text_of(ask, 3))
        cost = re.search(r"Alder bridge, final account ([\d,]+)", text_of(ask, 4))
        assert year and cost
        return {**ACCEPT, "output": f"opened {year[1]} ({places[0]}); {cost[1]} crowns ({places[1]})"}

    loop = {
        "plan": plan(
            {"tool": "search", "args": {"query": "Alder bridge opened"}, "needs": []},
            {"tool": "search", "args": {"query": "Alder bridge final account crowns"}, "needs": []},
            {"tool": "read", "what": "the lines around the best hit of step 1", "needs": [1]},
            {"tool": "read", "what": "the lines around the best hit of step 2", "needs": [2]},
            success=[{"step": 3, "has": r"\d{4}"}, {"step": 4, "has": "crowns"}],
        ),
        "do": {3: read(1), 4: read(2)},
        "check": facts,
    }
    result = played(play, CATALOGUE.tools["research"], tmp_path / "work", loop)
    assert result.result.output == "opened 1931 (notes/alder.md:3); 41,500 crowns (archive/accounts.txt:1)"
    evidence = loop_of(result, "research").text(4, "evidence")
    assert evidence.count("- pass") == 2


def test_research_works_without_a_web_search(play: Play, tmp_path: Path) -> None:
    def check(ask: Ask) -> Any:
        assert "no web search is configured" in text_of(ask, 1)
        return {**ACCEPT, "issues": ["no web search"], "output": text_of(ask, 2).partition("\n")[0]}

    loop = {
        "plan": plan(
            {"tool": "web-search", "args": {"query": "Alder bridge"}, "needs": []},
            {"tool": "search", "args": {"query": "Alder bridge opened"}, "needs": []},
            success=[{"step": 2, "has": "1931"}],
        ),
        "check": check,
    }
    put(tmp_path / "work", CATALOGUE.tools["research"].sample["files"])
    result = play(model("research", "when did it open?", loop))
    assert result.result.output.startswith("notes/alder.md:3: ")


def test_web_writes_a_table_of_a_page_to_a_file(play: Play, tmp_path: Path) -> None:
    tool = CATALOGUE.tools["web"]
    address = tool.sample["task"].partition(": ")[2]
    loop = {
        "plan": plan(
            {"tool": "fetch", "args": {"url": address, "part": "table", "to": "prices.csv"}},
            {"tool": "csv", "args": {"path": "prices.csv", "query": "count"}},
            success=[{"file": "prices.csv", "has": "milk,2"}, {"step": 2, "has": "^2$"}],
        ),
        "check": lambda ask: {**ACCEPT, "output": f"prices.csv has {text_of(ask, 2)} rows"},
    }
    played(play, tool, tmp_path / "work", loop)
    assert (tmp_path / "work" / "prices.csv").read_text() == "item,price\ntea,3\nmilk,2\n"


TOWN = {
    "/": "<h1>Town</h1><a href='/news'>News</a> <a href='/baths'>Opening <b>hours</b></a>",
    "/baths": "<table><tr><th>day<th>open<tr><td>Mo<td>9-17<tr><td>Su<td>closed</table>",
}


@pytest.fixture
def site() -> Iterator[str]:
    with web_site({path: f"<html><body>{page}</body></html>" for path, page in TOWN.items()}) as address:
        yield address


def test_web_follows_a_link(play: Play, tmp_path: Path, site: str) -> None:
    def follow(ask: Ask) -> Any:
        link = next(line for line in text_of(ask, 1).splitlines() if line.startswith("Opening hours"))
        return {"tool": "fetch", "args": {"url": link.rpartition(" — ")[2], "part": "table"}}

    loop = {
        "plan": plan(
            {"tool": "fetch", "args": {"url": f"{site}/", "part": "links"}},
            {"tool": "fetch", "what": "the link to the opening hours"},
            {"tool": "write", "args": {"path": "hours.csv", "content": "{{ steps[2].result }}\n"}},
            success=[{"file": "hours.csv", "has": "closed"}],
        ),
        "do": {2: follow},
        "check": {**ACCEPT, "output": "hours.csv"},
    }
    what = f"write the opening hours of the baths, from {site}/, into hours.csv"
    result = play(model("web", what, loop), what, settings={"operations": {"fetch": {"allow_private": True}}})
    assert result.result.exit == Exit.ACCEPTED
    assert (tmp_path / "work" / "hours.csv").read_text() == "day,open\nMo,9-17\nSu,closed\n"
    assert loop_of(result, "web").steps[2].evidence["url"] == f"{site}/baths"


CODE_PLAN = plan(
    {"tool": "bash", "args": {"command": "python3 -m unittest 2>&1; true"}},
    {"tool": "read", "args": {"path": "cart.py"}, "needs": []},
    {"tool": "edit", "what": "the smallest change that mends the failing test", "needs": [1, 2]},
    {"tool": "bash", "args": {"command": "python3 -m unittest 2>&1"}},
    success=[{"run": "python3 -m unittest"}, {"same": "test_cart.py"}],
)


def test_code_fixes_a_failing_test_and_shows_the_diff(play: Play, tmp_path: Path) -> None:
    def mend(ask: Ask) -> Any:
        assert "test_discount_is_a_percentage" in text_of(ask, 1)
        old = next(line for line in text_of(ask, 2).splitlines() if "return" in line)
        new = "    return sum(prices) * (1 - discount / 100)"
        return {"tool": "edit", "args": {"path": "cart.py", "old": old, "new": new}}

    def show(ask: Ask) -> Any:
        diff = ask.document.text(4, "diff")
        return {**ACCEPT, "output": f"a discount is a part of the sum\n{diff}\nbefore 1 failed, now none"}

    result = played(
        play,
        CATALOGUE.tools["code"],
        tmp_path / "work",
        {"plan": CODE_PLAN, "do": {3: mend}, "check": show},
    )
    evidence = loop_of(result, "code").text(4, "evidence")
    assert '{"same": "test_cart.py"} (before: pass)' in evidence
    if SANDBOX != "off":  # without a sandbox no command runs before approval
        assert '- pass {"run": "python3 -m unittest"} (before: FAIL)' in evidence
    assert loop_of(result, "code").text(4, "changes").startswith("changed cart.py")


@pytest.mark.skipif(SANDBOX == "off", reason="no sandbox here")
def test_code_that_changes_a_test_is_not_accepted(play: Play, tmp_path: Path) -> None:
    def cheat(ask: Ask) -> Any:
        args = {"path": "test_cart.py", "old": "10), 90)", "new": "10), 99.9)"}
        return {"tool": "edit", "args": args}

    verdicts = iter(
        [
            {**ACCEPT, "output": "all tests pass"},
            {**ACCEPT, "validation": "fail", "decision": "ESCALATE", "issues": ["a test was changed"]},
        ]
    )
    tool = CATALOGUE.tools["code"]
    put(tmp_path / "work", tool.sample["files"])
    loop = {"plan": CODE_PLAN, "do": {3: cheat}, "check": lambda _: next(verdicts)}
    answer = model("code", tool.sample["task"], loop)

    def at_the_root_too(ask: Ask) -> Any:
        if ask.document.meta.type != "code" and ask.phase == "check":
            return {**ACCEPT, "validation": "fail", "decision": "ESCALATE", "issues": ["code gave up"]}
        return answer(ask)

    result = play(at_the_root_too, tool.sample["task"], settings={"sandbox": SANDBOX})
    assert result.result.exit == Exit.FAILED
    evidence = loop_of(result, "code").text(4, "evidence")
    assert '- FAIL {"same": "test_cart.py"}' in evidence
    refused = [event for event in result.events if "ACCEPT is not open" in str(event.data)]
    assert refused or len(result.asks("check")) >= 3  # the false ACCEPT was refused


def test_data_joins_two_files(play: Play, tmp_path: Path) -> None:
    program = (
        "import csv, json; rates = json.load(open('rates.json')); "
        "rows = list(csv.DictReader(open('orders.csv'))); "
        "print(sum(float(row['amount']) * rates[row['currency']] for row in rows), len(rows), 'rows used')"
    )

    def ask_python(ask: Ask) -> Any:
        assert "id,amount,currency" in text_of(ask, 1)
        assert "USD" in text_of(ask, 2)
        return {"tool": "bash", "args": {"command": f'python3 -c "{program}"'}}

    loop = {
        "plan": plan(
            {"tool": "read", "args": {"path": "orders.csv", "lines": "1-5"}, "needs": []},
            {"tool": "read", "args": {"path": "rates.json", "lines": "1-5"}, "needs": []},
            {"tool": "bash", "what": "the revenue in euros; print the rows used", "needs": [1, 2]},
            success=[{"step": 3, "has": "rows used"}],
        ),
        "do": {3: ask_python},
        "check": lambda ask: {**ACCEPT, "output": f"{text_of(ask, 3)} (orders.csv × rates.json)"},
    }
    result = played(play, CATALOGUE.tools["data"], tmp_path / "work", loop)
    assert result.result.output.startswith("30.0 3 rows used")


def test_data_queries_a_database(play: Play, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(exist_ok=True)
    with sqlite3.connect(tmp_path / "work" / "crm.db") as database:
        database.execute("CREATE TABLE people (name TEXT, country TEXT)")
        database.executemany(
            "INSERT INTO people VALUES (?, ?)", [("Ada", "DE"), ("Bo", "FR"), ("Cy", "DE"), ("Di", None)]
        )
    database.close()

    def select(ask: Ask) -> Any:
        table, column = re.match(r"(\w+) \(name TEXT, (\w+) TEXT\): 4 rows", text_of(ask, 1)).groups()  # type: ignore[union-attr]
        query = f"SELECT {column}, count(*) AS people FROM {table} GROUP BY {column} ORDER BY 2 DESC, 1"
        return {"tool": "sqlite", "args": {"path": "crm.db", "query": query}}

    loop = {
        "plan": plan(
            {"tool": "sqlite", "args": {"path": "crm.db"}},
            {"tool": "sqlite", "what": "people per country"},
            success=[{"step": 2, "has": "people"}],
        ),
        "do": {2: select},
        "check": {**ACCEPT, "output": "{{ steps[2].result }}"},
    }
    result = play(model("data", "how many people per country?", loop))
    rows = list(csv.reader(io.StringIO(result.result.output)))
    assert rows == [["country", "people"], ["DE", "2"], ["", "1"], ["FR", "1"]]
    assert [path.name for path in (tmp_path / "work").iterdir() if "crm" in path.name] == ["crm.db"]


QUESTION = "Shall the label be A red or B blue? It is printed today. I would take B."


def asking(ask: Ask) -> Any:
    """A model that delegates the question to `ask`, passes it up, and acts on the answer."""
    if ask.document.meta.type == "ask":
        return {"question": QUESTION}
    answer = ask.document.note(1, "answer")
    if ask.phase == "check" and not answer:
        question = ask.document.steps[1].evidence["question"]
        return {
            "validation": "fail",
            "issues": ["the colour is for a person to say"],
            "decision": "ESCALATE",
            "learned": "ask settled nothing without a person",
            "output": "",
            "question": question,
        }
    if ask.phase == "check":
        return {**ACCEPT, "output": "{{ steps[2].result }}"}
    if not answer:
        return plan(
            {"tool": "ask", "what": "whether the label is red or blue"},
            success=[{"step": 1, "has": "red|blue"}],
        )
    assert answer.text in prompt_text(ask)  # the answer is in the prompt
    colour = answer.text.split()[-1]
    return plan(
        {"tool": "write", "args": {"path": "label.txt", "content": f"{colour}\n"}},
        success=[{"file": "label.txt", "has": "red|blue"}],
    )


def test_ask_waits_for_a_person_and_continues_with_the_answer(play: Play, tmp_path: Path) -> None:
    tool = CATALOGUE.tools["ask"]
    first = play(asking, tool.sample["task"])
    assert first.result.exit == Exit.WAITING
    assert first.result.question.startswith(QUESTION)
    assert not (tmp_path / "work" / "label.txt").exists()
    first.fractal.tell(first.result.run, "answer", text="please take blue")
    again = play(asking, resume=first.result.run)
    assert again.result.exit == Exit.ACCEPTED, again.result.reason
    assert again.result.output.startswith("wrote label.txt")
    assert (tmp_path / "work" / "label.txt").read_text() == "blue\n"
    assert again.root.meta.waiting is None
