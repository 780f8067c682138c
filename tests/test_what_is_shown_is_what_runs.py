"""What a person is shown before they approve is what runs: every byte of it, and nothing else.

Every view of a question is tried with every way to hide a part of a call. A command of `fractal` or a tool of
the MCP server that is not in `VIEWS` or in `NO_VIEWS` fails the last test, until somebody says which it is.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from in_process import in_process
from lanes import NIGHT
from mcp import Client
from playing import ACCEPT, Played, bash, plan, player, write

from kernel.asking.responder import Ladder
from kernel.errors import UsageError
from runtime.acp.session import Session as EditorSession
from runtime.api.fractal import Fractal
from runtime.api.live_runs import Runs
from runtime.mcp.server.mcp import make
from runtime.models.scripted import Scripted
from runtime.server.app import create_app
from runtime.workspace.deciders import TERMINAL, Decider
from runtime.workspace.inbox import Person
from runtime.workspace.question import seen

TOKEN = "a-token-of-the-tests"
BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
PAYLOAD = "touch PWNED-by-what-was-not-shown"
KEY = f"{BEGIN}\n{PAYLOAD}\n{END}"
CALLS: Mapping[str, dict[str, Any]] = {
    "between the lines of a private key": bash(f": <<X\n{BEGIN}\nX\n{PAYLOAD}\n: <<X\n{END}\nX"),
    "between the lines of a private key, on one line": bash(f"true '{BEGIN}'; {PAYLOAD}; true '{END}'"),
    "behind 300 characters": bash("true " + "x" * 400 + f"; {PAYLOAD}"),
    "behind 100,000 characters": bash("true " + "x" * 100_000 + f"; {PAYLOAD}"),
    "behind 500 lines": bash("true\n" * 500 + PAYLOAD),
    "behind a wide gap": bash(f"true; {' ' * 500}{PAYLOAD}"),
    "as a password": bash(f"export PASSWORD='Zx9-{PAYLOAD}-q8'"),
    "as an option for a token": bash(f"true --token 'Zx9Qw7{PAYLOAD}'"),
    "as a password in an address": bash(f"true https://user:{PAYLOAD.replace(' ', '%20')}Zx9@x.example/"),
    "as a header": bash(f"true -H 'Authorization: Bearer Zx9Qw7Er5; {PAYLOAD}'"),
    "as a redacted text": bash(f"true '[redacted password 0123456789]'; {PAYLOAD}"),
    "in the content of a file": write("run.sh", f"{KEY}\n" + "# filler\n" * 400 + PAYLOAD),
    "in the input of a command": {"tool": "bash", "args": {"command": "sh", "stdin": KEY}},
}
"""A call by how a part of it could be kept from who approves it."""
BY_DAY = (
    "between the lines of a private key",
    "behind 100,000 characters",
    "as a password",
    "in the content of a file",
)


class Asking:
    """A run that waits for the approval of a call, and what each view shows of it."""

    def __init__(self, work: Path) -> None:
        self.work, self.play = work, player(work, memory=False)
        self.played: Played
        (work / "fractal.yaml").write_text("sandbox: off\napprove: [write, shell]\n", "utf-8")

    def run(self, *steps: Mapping[str, Any], **more: Any) -> Played:
        planned = plan(*steps)
        settings = {"approve": ["write", "shell"], "sandbox": "off", **more.pop("settings", {})}
        answer = self.answer = lambda ask: ACCEPT if ask.phase == "check" else planned
        played = self.play(answer, settings=settings, **more)
        self.name = played.result.run
        return played

    def go_on(self, **more: Any) -> Played:
        settings = {"approve": ["write", "shell"], "sandbox": "off"}
        return self.play(self.answer, settings=settings, resume=self.name, **more)

    def command(self, *words: str) -> str:
        ran = in_process(self.work, words, {**os.environ, "FRACTAL_EMBEDDER": "lexical"})
        return ran.out + ran.err

    def printed_json(self, *words: str) -> str:
        """The texts of what a command prints as JSON."""
        out = self.command(*words)
        return "\n".join(_texts(json.loads(out[out.index("[") if out[:1] == "[" else out.index("{") :])))

    def requested(self, address: str, token: str = "") -> httpx2.Response:
        """What the service answers, with its token or where it has none."""

        async def get() -> httpx2.Response:
            app = create_app(self.work, settings={"embedder": "lexical"}, token=token)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1", headers=headers
            ) as client:
                return await client.get(address)

        return asyncio.run(get())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _resumed(asking: Asking) -> str:
    (asking.work / "script.json").write_text(json.dumps([{"phase": "check", "reply": ACCEPT}]))
    return asking.command("resume", asking.name, "--model", f"scripted:{asking.work / 'script.json'}")


def _asked_in_python(asking: Asking) -> str:
    shown: list[str] = []

    async def approve(question: str) -> None:
        shown.append(question)

    async def answer(question: str) -> str:
        return ""

    fractal = Fractal(asking.work, ladder=None, person=Person(answer, approve))
    asyncio.run(fractal.resume(asking.name))
    return "\n".join(shown)


def _editor(asking: Asking) -> str:
    """What an editor is asked for permission, and what a loaded session says."""
    sent: list[Any] = []
    permissions: list[Any] = []

    async def request_permission(session: str, call: Any, options: Any) -> Any:
        permissions.append(call)
        return SimpleNamespace(outcome=None)

    async def session_update(session: str, update: Any) -> None:
        sent.append(update)

    client: Any = SimpleNamespace(request_permission=request_permission, session_update=session_update)

    async def work() -> None:
        session = EditorSession("s", str(asking.work), {}, client, Decider("page"))
        session.run = asking.name
        question = session.fractal.asked(session.fractal.root_document(asking.name)).text
        await session._approve(question)  # what the SDK calls, without its process

    asyncio.run(work())
    return "\n".join(_texts(permissions[0].model_dump()))


def _editor_again(asking: Asking) -> str:
    sent: list[Any] = []

    async def session_update(session: str, update: Any) -> None:
        sent.append(update)

    async def work() -> None:
        client: Any = SimpleNamespace(session_update=session_update)
        session = EditorSession("s", str(asking.work), {}, client, Decider("page"))
        await session.load([asking.name])

    asyncio.run(work())
    return sent[-1].content.text


def _of_mcp(asking: Asking, name: str, **args: Any) -> str:
    async def work() -> str:
        runs = Runs(asking.work)
        try:
            async with Client(make(runs)) as client:
                result = await client.call_tool(name, args)
                return "\n".join(_texts(result.structured_content))
        finally:
            await runs.close()

    return asyncio.run(work())


def _page(asking: Asking, address: str) -> str:
    pages = re.findall(r"<pre>(.*?)</pre>", asking.requested(address).text, re.DOTALL)
    return html.unescape("\n".join(pages))


VIEWS: Mapping[str, Callable[[Asking], str]] = {
    "the result of a run in Python": lambda asking: asking.go_on().result.question,
    "the person in Python": _asked_in_python,
    "fractal resume": _resumed,
    "fractal review": lambda asking: asking.command("review", asking.name),
    "fractal review --json": lambda asking: asking.printed_json("review", asking.name, "--json"),
    "fractal show": lambda asking: asking.command("show", asking.name),
    "fractal show --json": lambda asking: asking.printed_json("show", asking.name, "--json"),
    "fractal explain": lambda asking: asking.command("explain", asking.name),
    "fractal explain --json": lambda asking: asking.printed_json("explain", asking.name, "--json"),
    "mcp status": lambda asking: _of_mcp(asking, "status", run=asking.name, wait=0),
    "mcp review": lambda asking: _of_mcp(asking, "review"),
    "the permission of an editor": _editor,
    "a session that an editor loads": _editor_again,
    "the page of a run": lambda asking: _page(asking, f"/runs/{asking.name}"),
    "the page of what waits": lambda asking: _page(asking, "/nerves"),
    "GET /api/runs/RUN": lambda asking: asking.requested(f"/api/runs/{asking.name}", TOKEN).json()[
        "question"
    ],
}
"""Each view of a question by its name: what it shows as text."""
OF_ALL = ("mcp review", "the page of what waits")
"""Views that show the questions of all runs of a folder at once."""


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path / "work")


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Asking]:
    """A run that waits, for each way to hide a part of its call; the views change nothing."""
    asked: dict[str, Asking] = {}
    work, other = (tmp_path_factory.mktemp("shown") / name for name in ("work", "other"))
    for way, step in CALLS.items():
        asked[way] = Asking(work if NIGHT or way in BY_DAY else other)
        asked[way].played = asked[way].run(step)
        assert asked[way].played.result.waiting == "approval"
    return asked


def lost(way: str, shown: str) -> list[str]:
    """The lines of a call that a view does not show."""
    texts = [text for text in CALLS[way]["args"].values() for text in text.split("\n")]
    return [text for text in texts if text not in shown and json.dumps(text)[1:-1] not in shown]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_a_question_shows_all_that_runs(waiting: Mapping[str, Asking], view: str) -> None:
    hidden = {}
    shown = ""
    for way in CALLS if NIGHT else BY_DAY:
        if view not in OF_ALL or not shown:
            shown = VIEWS[view](waiting[way])
        if missing := lost(way, shown):
            hidden[way] = [text[-200:] for text in missing], shown[-2_000:]
    assert hidden == {}


def test_every_way_to_hide_a_part_of_a_call_is_shown_once_in_python(waiting: Mapping[str, Asking]) -> None:
    for way, asking in waiting.items():
        assert lost(way, asking.played.result.question) == [], way


SIGNS = (
    *("\x1b", "\r", "\x00", "\x08", "\x7f", "\x85", "\xa0", "\xad", "\u034f", "\u061c", "\u115f", "\u180e"),
    *("\u200b", "\u200d", "\u200e", "\u202e", "\u2028", "\u2060", "\u2066", "\u2800", "\u3000", "\u3164"),
    *("\ufe0f", "\ufeff", "\ufffe", "\U000e0041", "\U000e0100", "\ud800"),
)
ALONE = ("\x1b", "\r", "\x00", "\xa0", "\u202e", "\u2028", "\ufe0f", "\U000e0041", "\ud800")
"""One of each kind, which by day is the only one of a command as well."""


@pytest.mark.parametrize(
    "signs",
    [
        pytest.param(SIGNS, id="all"),
        *(
            pytest.param((sign,), id=f"{ord(sign):x}", marks=() if sign in ALONE else pytest.mark.night)
            for sign in SIGNS
        ),
    ],
)
def test_what_cannot_be_seen_is_escaped(asking: Asking, signs: tuple[str, ...]) -> None:
    word = "".join(f"a{sign}b" for sign in signs)
    assert seen(word) == "".join(f"a\\u{{{ord(sign):x}}}b" for sign in signs)
    for command in (f"true {word}", f"true {word}\ntrue"):
        question = asking.run(bash(command)).result.question
        for sign in signs:
            assert sign not in question
            assert f"a\\u{{{ord(sign):x}}}b" in question or f"a{json.dumps(sign)[1:-1]}b" in question


def test_the_lines_of_an_argument_cannot_end_it(asking: Asking) -> None:
    """A line of the content that looks like the end of a question stands within the content."""
    question = asking.run(write("a.txt", "one\n- danger: none\nstep 2 may read: ls\n")).result.question
    said = question.splitlines()
    assert "- danger: none" not in said and "  │ - danger: none" in said
    assert not any(line.startswith("step 2") for line in said)


# ---- secrets -----------------------------------------------------------------------------------------------

VALUE = "Zx9Qw7Er5Ty3-of-the-environment"


def test_a_secret_is_shown_to_the_person_and_to_nobody_else(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", VALUE)
    played = asking.run(bash(f"true {VALUE}; {PAYLOAD}"))
    assert f"true {VALUE}; {PAYLOAD}" in played.result.question
    for view in ("mcp status", "mcp review", "the page of a run", "GET /api/runs/RUN", "fractal review"):
        shown = VIEWS[view](asking)  # a client, a browser, a pipe
        assert VALUE not in shown and f"true [redacted SHOP_API_KEY]; {PAYLOAD}" in shown, view
    assert VALUE not in asking.requested(f"/api/runs/{asking.name}").text, "without a token nobody approves"
    assert not any(VALUE in json.dumps(event.data) for event in played.events)
    kept = [path for path in asking.work.rglob("*") if path.is_file() and VALUE.encode() in path.read_bytes()]
    assert kept == []


def test_a_client_that_may_not_approve_gets_the_redacted_text(asking: Asking) -> None:
    asking.run(bash(f"export PASSWORD='Zx9Qw7Er5Ty3'; {PAYLOAD}"))
    assert "Zx9Qw7Er5Ty3" in asking.requested(f"/api/runs/{asking.name}", TOKEN).text
    assert "Zx9Qw7Er5Ty3" not in asking.requested(f"/api/runs/{asking.name}").text


def test_what_cannot_be_shown_in_full_cannot_be_approved(asking: Asking) -> None:
    """The file with the values of secrets is lost, as the key may be."""
    played = asking.run(bash(f"export PASSWORD='Zx9Qw7Er5Ty3'; {PAYLOAD}"))
    (played.folder / "artifacts" / "exact").unlink()
    assert "cannot be shown in full" in asking.command("review", asking.name)
    with pytest.raises(UsageError, match="cannot be shown in full"):
        played.fractal.tell(asking.name, "approve", by=TERMINAL)
    played.fractal.tell(asking.name, "reject", by=TERMINAL)
    assert asking.go_on().result.status != "waiting"


def test_oversight_approves_nothing_of_which_a_part_is_hidden_from_it(asking: Asking) -> None:
    """A model that reviews is shown no secret, nor what looks like one: such a plan goes to a person."""
    asked: list[str] = []

    def overseer(ask: Any) -> Any:
        asked.append(ask.phase)
        return {"decision": "approve", "why": "fine"}

    step = bash(f"true '{BEGIN}'; {PAYLOAD}; true '{END}'")
    worker = Scripted(lambda ask: ACCEPT if ask.phase == "check" else plan(step))
    ladder = Ladder((worker, Scripted(overseer, name="boss", tier="oversight")))
    fractal = Fractal(asking.work, settings={"review": "always", "sandbox": "off"}, ladder=ladder)
    assert asyncio.run(fractal.run("do the work")).waiting == "approval"
    assert asked == []


# ---- files that a call names -------------------------------------------------------------------------------

NAMING: Mapping[str, tuple[str, str]] = {
    "sh": ("run.sh", "sh run.sh"),
    "a path of its own": ("run.sh", "./run.sh"),
    "a folder first": ("sub/run.sh", "cd sub && sh run.sh"),
    "python": ("run.py", "python3 run.py"),
    "a module": ("tool/run.py", "python3 -m tool.run"),
    "a package": ("tool/__main__.py", "python3 -m tool"),
    "awk": ("run.awk", "awk -f run.awk /dev/null"),
    "awk, joined": ("run.awk", "awk -frun.awk /dev/null"),
    "an option with a value": ("run.mk", "make --file=run.mk"),
    "make": ("Makefile", "make"),
    "make in a folder": ("sub/Makefile", "make -C sub"),
    "npm": ("package.json", "npm run build"),
    "pytest": ("conftest.py", "pytest -q"),
    "git with a folder": ("sub/.git/config", "git -C sub status"),
    "a redirection": ("run.sh", "sh <run.sh"),
    "a substitution": ("run.sh", 'sh -c "$(cat run.sh)"'),
    "an input of xargs": ("list.txt", "xargs -a list.txt rm"),
    "a script that a folder holds": ("sub/deep/run.sh", "for each in sub/*/*.sh; do sh $each; done"),
}
"""A file that runs, and the command that names it."""
RUN_BY_DAY = ("sh", "a module", "make in a folder", "git with a folder", "a substitution")
"""Commands that also run by day, once what was approved is unchanged."""


@pytest.mark.parametrize("way", NAMING)
def test_an_approval_is_for_the_files_that_a_command_names(asking: Asking, way: str) -> None:
    name, command = NAMING[way]
    path = asking.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# harmless\n", "utf-8")
    waiting = asking.run(bash(command))
    call = waiting.root.steps[1].evidence["call"]
    waiting.fractal.tell(asking.name, "approve", by=TERMINAL)
    path.write_text("# harmless no more\n", "utf-8")
    again = asking.go_on()
    assert again.result.waiting == "approval", "what was approved is not what would run"
    assert again.root.steps[1].evidence["call"] != call
    if NIGHT or way in RUN_BY_DAY:
        again.fractal.tell(asking.name, "approve", by=TERMINAL)
        assert asking.go_on().root.steps[1].state in ("done", "failed"), "unchanged, it runs"


def test_files_that_a_command_names_are_listed_with_their_digests(asking: Asking) -> None:
    (asking.work / "run.sh").write_text("true\n", "utf-8")
    assert "- with run.sh as it is now (" in asking.run(bash("sh run.sh")).result.question


def test_a_file_that_changes_after_the_approval_and_before_the_start_voids_it(asking: Asking) -> None:
    """Another step of the run rewrites the script while the approved one is ready to start."""
    script = asking.work / "run.sh"
    script.write_text("true\n", "utf-8")
    steps = [
        {**bash("sleep 0.3; echo 'touch PWNED' > run.sh"), "needs": []},
        {**bash("sleep 0.1; sh run.sh"), "needs": []},
    ]
    played = asking.run(*steps)
    for _ in range(4):
        if played.result.waiting != "approval":
            break
        waiting = [step for step in played.root.steps.values() if step.state == "waiting"]
        if len(played.root.steps) == 2 and script.read_text() != "true\n" and waiting:
            return  # the second step asks again
        played.fractal.tell(asking.name, "approve", by=TERMINAL)
        played = asking.go_on()
    raise AssertionError("the changed script ran under the approval of the old one")


@pytest.mark.parametrize("scope", ["kind", "always"])
def test_a_standing_approval_ends_when_its_script_changes(asking: Asking, scope: str) -> None:
    script = asking.work / "run.py"
    script.write_text("print('one')\n", "utf-8")
    same = {**bash("python3 run.py"), "needs": []}
    rewrite = bash("echo \"print('two')\" > run.py")
    waiting = asking.run(same, {**same, "needs": [1]}, {**rewrite, "needs": [2]}, {**same, "needs": [3]})
    waiting.fractal.tell(asking.name, "approve", by=TERMINAL, scope=scope)
    second = asking.go_on()
    assert [second.root.steps[n].state for n in (1, 2, 3)] == ["done", "done", "waiting"]
    second.fractal.tell(asking.name, "approve", by=TERMINAL)
    last = asking.go_on()
    assert last.result.waiting == "approval" and last.root.steps[4].state == "waiting"


# ---- every view is known -----------------------------------------------------------------------------------

READERS: Mapping[str, str] = {
    "kernel/asking/conversation.py": "declares the call `ask`, and reads nothing of META",
    "kernel/loop/advance.py": "writes it",
    "kernel/loop/engine.py": "gives it to `result_of`, which shows it whole",
    "runtime/workspace/answering.py": "compares it with what a message answers",
    "runtime/workspace/question.py": "shows it whole, and tells the checks of a plan from its steps",
    "runtime/acp/rendering.py": "shows it whole; the rest are questions for an answer",
    "runtime/acp/session.py": "tells a plan from steps",
    "runtime/api/live_runs.py": "gives it to `result_of`, which shows it whole",
    "runtime/cli/explain.py": "shows it whole",
    "runtime/nervous/nerves.py": "names a thread by it; oversight is shown the plan",
    "runtime/nervous/waiting.py": "shows it whole; the rest are questions for an answer",
    "runtime/workspace/inbox.py": "writes it into a message",
    "runtime/workspace/runs.py": "shows it whole",
}
"""The modules that read what META says of a question, short and redacted, and what they do with it."""


def test_every_module_that_reads_a_question_is_known() -> None:
    """A new view shows `Reader.asked`. What META says of a question is a name, and approving it is blind."""
    root = Path(__file__).parent.parent
    modules = (path for place in ("kernel", "runtime") for path in (root / place).rglob("*.py"))
    form = re.compile(r"""get\("question"|\["question"\]|"question": \w*(?:question|asked)""")
    reading = {
        str(path.relative_to(root))
        for path in modules
        if form.search(text := path.read_text("utf-8")) and re.search(r"meta\.waiting|waits", text)
    }
    assert reading == {*READERS}


# ---- files that start programs later -----------------------------------------------------------------------

LATER = (
    *(".envrc", "sub/.envrc", ".vscode/tasks.json", ".husky/pre-commit", ".devcontainer/devcontainer.json"),
    *(".pre-commit-config.yaml", ".github/workflows/ci.yml", ".idea/workspace.xml", ".claude/settings.json"),
    *(
        ".bashrc",
        "sitecustomize.py",
        ".gdbinit",
        ".dir-locals.el",
        "mise.toml",
        "lefthook.yml",
        "x.code-workspace",
    ),
)
"""Files that a program outside starts by itself: nobody has to call them."""


WRITING: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "write": lambda name: write(name, "x"),
    "cp": lambda name: bash(f"mkdir -p sub && cp a.txt {name}"),
    "echo": lambda name: bash(f"echo x > {name}"),
}
COMMANDS_BY_DAY = ("sub/.envrc", ".github/workflows/ci.yml", ".bashrc", "x.code-workspace")
"""In a folder, by its folder, by its name and by its suffix."""


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(
            name,
            way,
            marks=() if way == "write" or name in COMMANDS_BY_DAY else pytest.mark.night,
        )
        for name in LATER
        for way in WRITING
    ],
)
def test_a_file_that_starts_programs_later_is_written_after_a_question(
    asking: Asking, name: str, way: str
) -> None:
    question = asking.run(WRITING[way](name), settings={"approve": []}).result.question
    assert "starts-later" in question and name in question
    assert not (asking.work / name).exists()


def test_a_file_that_somebody_has_to_start_is_written_without_a_question(asking: Asking) -> None:
    names = ("Makefile", "conftest.py", "a.py", ".gitignore", ".env.example", "package.json")
    ended = asking.run(*(write(name, "x") for name in names), settings={"approve": []})
    assert ended.result.waiting == ""
    assert all((asking.work / name).read_text() == "x" for name in names)


def test_a_command_that_writes_such_a_file_unread_is_told_with_its_step(asking: Asking) -> None:
    (asking.work / "from").mkdir()
    (asking.work / "from" / "listed").write_text("x")
    hidden = bash("python3 -c \"import shutil; shutil.copytree('from', chr(46) + 'husky')\"")
    played = asking.run(hidden, settings={"approve": [], "sandbox": "auto"})
    assert played.root.steps[1].state == "done", played.root.steps[1].result
    assert "starts-later" in str(played.root.steps[1].evidence["told"])
    assert any(event.kind == "warning" and ".husky/listed" in str(event.data) for event in played.events)
