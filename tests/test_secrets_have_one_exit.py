"""All that leaves Fractal goes through one redactor: files, terminal, JSON, pages, HTTP, MCP, ACP, traces.

Only what is executed, and what a person is asked to approve, is exact.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from credentials import HARMLESS, TUNED, UNREAD, Credential
from in_process import Ran, in_process
from lanes import every
from playing import ACCEPT, Played, plan, player, put, write
from starlette.testclient import TestClient

from runtime.acp.rendering import View, opening, without_secrets
from runtime.api.live_runs import Runs
from runtime.cli import COMMANDS
from runtime.mcp.server.mcp import make
from runtime.secrets.redaction import redact
from runtime.server.app import create_app
from runtime.server.leaving import Html, Json, Markdown, Text
from runtime.telemetry import tables, tracing

CREDENTIALS = (*TUNED, *UNREAD)
BARE = "Kq7vZt2mXw9bLr4d"
"""A password of no form."""
REPOSITORY = Path(__file__).parents[1]
OUTPUT = REPOSITORY / "runtime" / "cli" / "output.py"
READS = (
    ["ls"],
    ["show"],
    ["show", "--raw"],
    ["show", "--json"],
    ["show", "--atif"],
    ["tree"],
    ["tree", "--json"],
    ["cost", "--json"],
    ["diff"],
    ["diff", "--json"],
    ["explain"],
    ["explain", "--json"],
    ["prompt"],
    ["prompt", "--json"],
    ["prompt", "--call", "1"],
    ["review"],
    ["decisions", "--json"],
    ["messages", "--all", "--json"],
    ["brain"],
    ["brain", "export"],
)


def seen(text: str, credentials: Iterator[Credential] | tuple[Credential, ...] = CREDENTIALS) -> list[str]:
    """The credentials that stand in a text."""
    return [each.name for each in credentials if each.value in text or json.dumps(each.value)[1:-1] in text]


@pytest.mark.parametrize("name", [each.name for each in CREDENTIALS])
def test_credential_shows_by_its_form(name: str) -> None:
    """The forms were written with half of them; of the other half they then found 84 of 88 at first sight."""
    each = next(each for each in CREDENTIALS if each.name == name)
    assert each.value not in redact(each.text)


@pytest.mark.parametrize(
    "first", ["theme=[redacted Cookie]", "a=sk-0a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d", "[redacted X]"]
)
def test_a_hidden_part_of_a_value_leaves_no_other_part_open(first: str) -> None:
    secret = "p0DQ4QrtWu6qs1LTBiBHeUopH1ZYICDP"
    for text in (f"Cookie: {first}; sessionid={secret}", f"Cookie: id={secret}; {first}; other={secret}"):
        once = redact(text)
        assert secret not in once
        assert redact(once) == once


@pytest.mark.parametrize("text", HARMLESS)
def test_what_looks_like_a_credential_stays(text: str) -> None:
    assert redact(text) == text


def test_the_page_about_security_has_these_numbers() -> None:
    page = (REPOSITORY / "docs" / "security.md").read_text("utf-8")
    assert (
        f"Of {len(CREDENTIALS)} forms of credentials" in page and f"{len(HARMLESS)} texts that look" in page
    )


def test_redacting_twice_changes_nothing() -> None:
    for each in CREDENTIALS:
        once = redact(each.text)
        assert redact(once) == once


# ---- views ----

PLACED = CREDENTIALS[:: every(4)]
"""The credentials that a run meets: a quarter by day, as each form is looked at on its own above."""
PLACED += tuple(each for each in CREDENTIALS if "\n" in each.text and each not in PLACED)
FOUND = "\n".join(each.text for each in PLACED)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder beside the home of its user."""
    place = tmp_path_factory.mktemp("secrets")
    with pytest.MonkeyPatch.context() as patch:
        for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state")):
            patch.setenv(name, str(place / "home" / folder))
        yield place


@pytest.fixture(scope="module")
def played(place: Path) -> Played:
    """A run whose task, plan, arguments, files, results, errors and output have the credentials."""
    play = player(place / "work")
    put(place / "work", "planted.txt", FOUND)
    steps = (
        {"tool": "read", "args": {"path": "planted.txt"}},
        write("made.txt", FOUND, what=f"write {BARE} down"),
        write("again.txt", f"it is {BARE} again"),
        write("structured.txt", json.dumps({"lines": FOUND.splitlines(), "db_password": BARE})),
        {"tool": "read", "args": {"path": f"no/{PLACED[0].value}/{BARE}.txt"}},
    )

    def answer(ask: Any) -> Any:
        if ask.phase == "check":
            return {**ACCEPT, "output": f"done with {BARE}:\n{FOUND}"}
        return plan(*steps, approach=f"take {BARE}", success=[{"file": "made.txt"}])

    given = f"copy it; DB_PASSWORD={BARE}; the others:\n{FOUND}"
    made = play(answer, task=given, settings={"keep_prompts": True, "remember": True, "recall": True})
    assert made.root.steps[5].state == "failed", "an error repeats its argument"
    assert (place / "work" / "again.txt").read_text() == f"it is {BARE} again", "what is executed is exact"
    return made


def nothing_in(text: str, where: object) -> None:
    assert seen(text) == [], where
    assert BARE not in text, where


def fractal(played: Played, *words: str, stdin: str = "") -> Ran:
    import os

    return in_process(played.fractal.workspace.folder, words, {**os.environ, "FRACTAL_TRUST": "all"}, stdin)


def test_no_view_shows_a_credential(played: Played, place: Path) -> None:
    """Files, events, commands, the exported page, JSON, HTTP, MCP, ACP, traces and tables."""
    run, work = played.result.run, place / "work"
    kept = ("planted.txt", "made.txt", "again.txt", "structured.txt")
    for path in [*work.rglob("*"), *(place / "home").rglob("*")]:
        if path.is_file() and path.name not in kept and "snapshots" not in path.parts:
            nothing_in(path.read_bytes().decode("utf-8", "replace"), path)
    nothing_in(json.dumps([each.as_dict() for each in played.events], ensure_ascii=False), "events")
    for words in READS:
        ran = fractal(played, *words)
        assert ran.exit in (0, 1, 2, 3), (words, ran.err)
        nothing_in(ran.out + ran.err, words)
    for child in sorted(each for each in played.documents if each != played.result.id):
        nothing_in(fractal(played, "show", child, "--raw").out, child)
    assert fractal(played, "show", "--html", "page.html").exit == 0
    nothing_in((work / "page.html").read_text(), "page.html")
    for path, text in answers(work, run, [*played.documents]):
        nothing_in(text, path)
    for name, text in asyncio.run(tools(work, run, [*played.documents])):
        nothing_in(text, name)
    view = View(work, played.fractal.catalogue().tools, played.fractal.snapshots(work))
    for document in played.documents.values():
        for update in [*opening(document), *view.news(document)]:
            nothing_in(without_secrets(update).model_dump_json(), "ACP")
    for span in tracing.spans(played.folder, content=True):
        nothing_in(f"{span.name} {span.to_json()}", "trace")
    tables.write(played.fractal.memory.brain.shelf, place / "tables.sqlite")
    nothing_in((place / "tables.sqlite").read_bytes().decode("utf-8", "replace"), "tables")


def answers(work: Path, run: str, documents: list[str]) -> Iterator[tuple[str, str]]:
    """What each GET endpoint answers, with the run and its documents in the place of its parameters."""
    app = create_app(work, settings={"embedder": "lexical"}, hosts={"testserver"})
    with TestClient(app) as client:
        for route in routes(app):
            path = route.path
            if "GET" not in route.methods or path.endswith("/events"):
                continue
            for doc in documents if "{doc}" in path else [""]:
                filled = path.replace("{run}", run).replace("{doc}", doc)
                for query in QUERIES if path.startswith("/runs/{run}") else QUERIES[:1]:
                    answer = client.get(filled + query)
                    yield f"{filled}{query} {answer.status_code}", answer.text


QUERIES = ("", "?format=json", "?prompt=true", "?text=true", "?step=2", "?query=password", "?text=copy")


def routes(app: Any) -> list[Any]:
    return [each for each in app.app.routes if getattr(each, "methods", None)]


async def tools(work: Path, run: str, documents: list[str]) -> list[tuple[str, str]]:
    """What each tool of the MCP server that only reads returns, and each resource."""
    from mcp import Client

    found: list[tuple[str, str]] = []
    runs = Runs(work, settings={"embedder": "lexical"})
    async with Client(make(runs)) as client:
        for tool in (await client.list_tools()).tools:
            if not tool.annotations or not tool.annotations.read_only_hint:
                continue
            needed = tool.input_schema.get("required", [])
            for value in documents if needed == ["name"] else [run]:
                result = await client.call_tool(tool.name, dict.fromkeys(needed, value))
                found.append((tool.name, result.model_dump_json()))
        for id in documents:
            found.append((id, (await client.read_resource(f"loop://{id}")).model_dump_json()))
    await runs.close()
    return found


def test_a_value_is_hidden_where_another_process_shows_it(played: Played) -> None:
    """A view by a process that has not seen the run knows its secrets from the run's own store."""
    import subprocess
    import sys

    path = next(played.folder.glob("system-*.md"))
    before = path.read_text()
    path.write_text(f"{before}\n".replace("copy it;", f"copy it; {BARE} is it;", 1))  # a person puts it back
    script = "from runtime.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", script, "show", "--raw"],
        cwd=played.fractal.workspace.folder,
        capture_output=True,
        text=True,
    )
    path.write_text(before)
    assert BARE not in ran.stdout + ran.stderr and "copy it; [redacted" in ran.stdout


def test_an_error_about_settings_repeats_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of no form, in settings that are wrong: the error names it, and shows nothing of it."""
    import os

    secret = "plainkeywithoutform"
    for wrong in (
        {"ladder": [{"model": "openai/m", "options": {"api_key": secret}, secret: 1}]},
        {"ladder": [{"model": "openai/m", "api_key": secret, "price": secret}]},
        {"operations": {"web-search": {"token": secret}}, "bounds": secret},
        {"auth_token": secret, "model": [secret]},
    ):
        put(tmp_path / "work", "fractal.yaml", json.dumps(wrong))
        ran = in_process(tmp_path / "work", ["run", "x"], {**os.environ, "FRACTAL_TRUST": "all"})
        assert ran.exit != 0 and secret not in ran.out + ran.err, ran.err


# ---- nothing can leave by another way ----


def modules(*packages: str, having: str = "") -> Iterator[tuple[Path, ast.Module]]:
    """The modules that have this pattern: to parse all of them takes seconds."""
    for package in packages:
        for path in (REPOSITORY / package).rglob("*.py"):
            if re.search(having, text := path.read_text("utf-8")):
                yield path, ast.parse(text)


WRITER = re.compile(r"echo|confirm|prompt|print|write|warn")
"""What is in the last name of each function that writes to the terminal, but for those of `logging`."""


def last_name(function: ast.expr) -> str:
    """`print` of `console.print`; the module's name for a function of `logging`."""
    if isinstance(function, ast.Attribute):
        own = isinstance(function.value, ast.Name) and function.value.id == "logging"
        return "print of logging" if own else function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_only_one_module_writes_to_the_terminal() -> None:
    """`click.echo`, `print` and the streams themselves are for `output.py`."""
    allowed = {
        "runtime/cli/live.py": {"_console.print"},  # the text of events, which have no secrets
        "runtime/cli/read.py": {"console.print"},  # a document that is redacted before it is rendered
        "runtime/proving/forms.py": {"print"},  # in a process of its own, to the one that redacts it
        "runtime/cli/changes.py": {"click.prompt"},  # three letters to choose from
        "runtime/telemetry/tracing.py": {"print"},  # at the end of the process, redacted
    }
    writes = re.compile(
        r"(?:click\.(?:s?echo|confirm|prompt|echo_via_pager)|print|.*console\.print|"
        r".*sys\.(?:stdout|stderr|__stdout__|__stderr__)\.(?:buffer\.)?write(?:lines)?|"
        r"traceback\.print_\w+|logging\.\w+|warnings\.warn)"
    )
    found: dict[str, set[str]] = {}
    for path, tree in modules(
        "runtime", "kernel", having=r"click\.|print|std(?:out|err)|logging\.|warnings\."
    ):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and path != OUTPUT and WRITER.search(last_name(node.func)):
                name = ast.unparse(node.func).removeprefix("self.")
                if writes.fullmatch(name) and name != "logging.NullHandler" and name != "logging.getLogger":
                    found.setdefault(str(path.relative_to(REPOSITORY)), set()).add(name)
    assert found == allowed


def test_every_answer_of_the_server_is_made_by_the_module_that_redacts(tmp_path: Path) -> None:
    """No endpoint makes a response of its own that has content."""
    classes = r"(?:JSONResponse|PlainTextResponse|HTMLResponse|StreamingResponse|FileResponse|Response)"
    found: set[str] = set()
    for path, tree in modules("runtime/server"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and re.fullmatch(classes, ast.unparse(node.func)):
                content = [*node.args, *(each for each in node.keywords if each.arg != "status_code")]
                if content:
                    found.add(f"{path.name}: {ast.unparse(node)[:60]}")
    assert all(each.startswith("routes.py") for each in found), found  # files of the page itself
    app = create_app(tmp_path)
    for route in routes(app):
        made = getattr(route, "response_class", None)
        made = getattr(made, "value", made)
        returns = str(inspect.signature(route.endpoint).return_annotation)
        if "Response" not in returns and "Stream" not in returns and made is not None:
            assert issubclass(made, Json | Text | Markdown | Html), (route.path, made)


def test_only_a_question_for_approval_is_exact_on_the_page() -> None:
    """The filter `exact` stands in the form for decisions, and at the tokens of forms."""
    for path in (REPOSITORY / "runtime/server/page/templates").glob("*.html"):
        text = path.read_text("utf-8")
        forms = re.sub(r"(?s){% macro (?:decide|changes|token)\(.*?{% endmacro %}", "", text)
        assert "|exact" not in re.sub(r"form_token\|exact", "", forms), path.name
        assert "|safe" not in text and "autoescape" not in text, path.name


def test_every_tool_of_the_mcp_server_answers_through_the_redactor() -> None:
    source = (REPOSITORY / "runtime/mcp/server/mcp.py").read_text("utf-8")
    assert source.count("server.tool(") == 1 and "(_plainly(function))" in source


def test_every_command_is_known() -> None:
    """A new command that shows runs is added to `READS`."""
    known = {each[0] for each in READS}
    names = {name for group in COMMANDS.values() for name in group}
    assert known <= names
    assert isinstance(click.Command, type)
