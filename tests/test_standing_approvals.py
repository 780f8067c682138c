"""An approval for all of a kind in one run, or for an exact call in one folder, covers exactly that.

Each session here is a new one that reads everything from disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from lanes import NIGHT
from playing import ACCEPT, Played, bash, doing, plan, player, put, write

from kernel.errors import UsageError
from runtime.api.fractal import Fractal
from runtime.workspace import trust
from runtime.workspace.deciders import ALWAYS, SAME_KIND, TERMINAL, Decider
from runtime.workspace.inbox import drop
from runtime.workspace.trust import Untrusted


class Work:
    """A folder with a `fractal.yaml`, in which one run after the other is played."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.play = folder, player(folder, memory=NIGHT)
        self.file = folder / "fractal.yaml"
        self.file.write_text("# mine\nretries: 0  # few\n")

    def run(self, *steps: Mapping[str, Any], **settings: Any) -> Played:
        self.settings = {"approve": ["shell", "write"], **settings}
        self.answer = doing(*steps)  # with no proof but a judge: such a run ends `unverified`
        return self.play(self.answer, settings=self.settings)

    def approve(self, played: Played, scope: str = "", by: Decider = TERMINAL) -> Played:
        played.fractal.tell(played.result.run, "approve", by=by, **({"scope": scope} if scope else {}))
        return self.play(self.answer, settings=self.settings, resume=played.result.run)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "work")


def asks(played: Played) -> str:
    """The command or path that waits; "" if the run has ended."""
    waiting = [step for step in played.root.steps.values() if step.state == "waiting"]
    assert (played.result.status == "waiting") == bool(waiting)
    args = dict(waiting[0].args or {}) if waiting else {}
    return str(args.get("command") or args.get("path") or "")


# ---- the same kind, for the rest of the run --------------------------------------------------------------


def test_the_same_kind_is_not_asked_for_again_in_this_run(work: Work) -> None:
    played = work.run(bash("touch a"), bash("touch b"), bash("mkdir c"))
    played = work.approve(played, SAME_KIND)
    assert asks(played) == "mkdir c" and (work.folder / "b").exists()
    assert played.root.meta.extra["approved"] == [
        {"kind": "bash: touch", "effects": ["shell", "write"], "dangers": [], "by": "person at terminal"}
    ]
    assert played.root.steps[2].evidence["approved"] == "person at terminal, for `bash: touch`"
    assert work.approve(played).result.status == "unverified"
    assert asks(work.run(bash("touch d"))) == "touch d"


def test_a_kind_that_is_removed_from_the_document_asks_again(work: Work) -> None:
    played = work.run(bash("touch a"), bash("mkdir b"), bash("touch c"))
    played = work.approve(played, SAME_KIND)
    assert asks(played) == "mkdir b"
    text = played.result.path.read_text("utf-8")
    start = text.index("approved:")
    end = text.index("\n---", start)
    kept = "\n".join(line for line in text[start:end].splitlines()[1:] if line[0] not in " -")
    played.result.path.write_text(text[:start] + kept + text[end:], "utf-8")
    assert asks(work.approve(played)) == "touch c"


@pytest.mark.parametrize(
    "more",
    [
        *("touch b; rm a", "touch b && rm a", "touch b | tee x", "touch $(ls)", "touch `ls`", "touch b > x"),
        *("touch b\nrm a", "env touch b", "X=1 touch b", "rm a", "touch b & rm a", "touch <(ls)"),
    ],
)
def test_a_command_with_more_than_the_kind_asks(work: Work, more: str) -> None:
    assert asks(work.approve(work.run(bash("touch a"), bash(more)), SAME_KIND)) == more


def test_another_command_of_the_program_asks_where_a_rule_says_so(work: Work) -> None:
    steps = [bash("git init -q ."), bash("git init -q other"), bash("git push origin main")]
    played = work.approve(work.run(*steps), SAME_KIND)
    assert asks(played) == "git push origin main"


def test_the_same_program_with_a_new_danger_asks(work: Work) -> None:
    (work.folder / "a").touch()
    played = work.approve(work.run(bash("rm a"), bash("rm -rf .")), SAME_KIND)
    assert asks(played) == "rm -rf ."
    assert "dangers" in played.root.steps[2].evidence


def test_a_serious_danger_always_asks_and_has_no_kind(work: Work) -> None:
    (work.folder / ".env").write_text("KEY=4711\n")
    played = work.run(bash("cat .env"))
    for scope in (SAME_KIND, ALWAYS):
        with pytest.raises(UsageError, match="a serious danger is approved one at a time"):
            work.approve(played, scope)
    assert work.file.read_text() == "# mine\nretries: 0  # few\n"
    assert work.approve(played).result.status == "unverified"
    assert asks(work.run(bash("cat .env"))) == "cat .env"


def test_no_rule_in_a_file_covers_a_serious_danger(work: Work) -> None:
    (work.folder / ".env").write_text("KEY=4711\n")
    dangers = list(work.run(bash("cat .env")).root.steps[1].evidence["dangers"])
    call = {
        "tool": "bash",
        "args": {"command": "cat .env"},
        "effects": ["shell", "write"],
        "dangers": dangers,
    }
    work.file.write_text(yaml.safe_dump({"approved": [call]}))
    assert asks(work.run(bash("cat .env"))) == "cat .env"


def test_a_chain_has_no_kind_and_says_so(work: Work) -> None:
    played = work.run(bash("touch a && touch b"))
    with pytest.raises(UsageError, match="a command of several parts, or with code, is of no kind"):
        work.approve(played, SAME_KIND)


def test_a_kind_that_a_child_asked_for_holds_in_the_whole_run(work: Work) -> None:
    def answer(ask: Any) -> Any:
        if ask.phase == "check":
            return ACCEPT
        if not ask.document.meta.parent:
            return plan({"subtask": "make a"}, {"subtask": "make b"}, bash("touch e"))
        if "make a" in ask.document.task:
            return plan(bash("touch a"))
        return plan(bash("mkdir b"), bash("touch c"))

    work.answer, work.settings = answer, {"approve": ["shell"]}
    played = work.approve(work.play(answer, settings=work.settings), SAME_KIND)
    assert "mkdir b" in played.result.question
    assert played.root.meta.extra["approved"][0]["kind"] == "bash: touch"
    played = work.approve(played)
    assert played.result.status == "unverified" and (work.folder / "e").exists()


@pytest.mark.parametrize("by", [Decider("client", "claude-code"), Decider("file")])
def test_a_client_or_a_handwritten_message_approves_one_call_whatever_it_says(
    work: Work, by: Decider
) -> None:
    played = work.run(bash("touch a"), bash("touch b"))
    if by.kind == "client":
        with pytest.raises(UsageError, match="a client approves one call at a time"):
            work.approve(played, ALWAYS, by)
    for scope in (SAME_KIND, ALWAYS):
        drop(played.folder, "approve", by=by.values, scope=scope)
    played = work.play(work.answer, settings=work.settings, resume=played.result.run)
    assert asks(played) == "touch b" and "approved" not in work.file.read_text()


# ---- exactly this call, always ---------------------------------------------------------------------------


def test_an_exact_call_is_kept_in_the_folders_settings_and_runs_from_then_on(work: Work) -> None:
    played = work.approve(work.run(bash("touch a; touch b"), bash("touch a; touch b")), ALWAYS)
    assert played.result.status == "unverified"
    text = work.file.read_text()
    assert text.startswith("# mine\nretries: 0  # few\n")
    call = {"tool": "bash", "args": {"command": "touch a; touch b"}, "effects": ["shell", "write"]}
    assert yaml.safe_load(text) == {"retries": 0, "approved": [call]}
    again = work.run(bash("touch a; touch b"))
    assert again.result.status == "unverified"
    assert again.root.steps[1].evidence["approved"] == "policy approved in fractal.yaml"


@pytest.fixture(scope="module")
def touching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    """A folder in which one call is always approved; what only asks changes nothing of it."""
    work = Work(tmp_path_factory.mktemp("touching") / "work")
    assert work.approve(work.run(bash("touch a")), ALWAYS).result.status == "unverified"
    before = work.file.read_text()
    yield work
    assert work.file.read_text() == before
    assert work.run(bash("touch a")).result.status == "unverified"


@pytest.mark.parametrize(
    "other",
    [
        *(
            "touch a; rm x",
            "touch a;rm x",
            "touch a && rm x",
            "touch a | tee x",
            "touch a $(rm x)",
            "touch a`rm x`",
        ),
        *(
            "touch  a",
            "touch a ",
            " touch a",
            "touch b",
            "touch a\nrm x",
            "touch A",
            "touch 'a'",
            "touch",
            "",
        ),
    ],
)
def test_any_other_command_asks(touching: Work, other: str) -> None:
    assert touching.run(bash(other or "true")).result.status == "waiting"


def test_a_call_is_approved_for_the_folder_that_the_run_works_in(work: Work) -> None:
    """Another folder of the same workspace has the same `fractal.yaml`."""
    assert work.approve(work.run(bash("touch a")), ALWAYS).result.status == "unverified"
    inner = work.folder / "inner"
    inside = Work.__new__(Work)
    inside.folder, inside.play, inside.file = inner, player(inner, memory=NIGHT), work.file
    assert asks(inside.run(bash("touch a"))) == "touch a"
    assert inside.approve(inside.run(bash("touch a")), ALWAYS).result.status == "unverified"
    assert yaml.safe_load(work.file.read_text())["approved"][0]["folder"] == "inner"
    assert (
        inside.run(bash("touch a")).result.status == work.run(bash("touch a")).result.status == "unverified"
    )


def test_another_argument_or_tool_asks(work: Work) -> None:
    assert work.approve(work.run(write("a.txt", "1")), ALWAYS).result.status == "unverified"
    assert work.run(write("a.txt", "1")).result.status == "unverified"
    assert asks(work.run(write("a.txt", "2"))) == "a.txt"
    assert asks(work.run(write("b.txt", "1"))) == "b.txt"
    assert work.run({"tool": "bash", "args": {"command": "touch a", "stdin": "x"}}).result.status == "waiting"


def test_true_is_not_one(work: Work) -> None:
    call = {"tool": "write", "args": {"path": "a.txt", "content": 1}, "effects": ["shell", "write"]}
    work.file.write_text(yaml.safe_dump({"approved": [call | {"args": {"path": "a.txt", "content": True}}]}))
    assert asks(work.run(write("a.txt", "1"))) == "a.txt"


def test_a_rule_covers_only_the_effects_and_dangers_that_were_seen(work: Work) -> None:
    script = work.folder / "deploy.sh"
    script.write_text("#!/bin/sh\ntouch deployed\n")
    script.chmod(0o755)
    assert work.approve(work.run(bash("./deploy.sh")), ALWAYS).result.status == "unverified"
    assert work.run(bash("./deploy.sh")).result.status == "unverified"
    script.write_text("#!/bin/sh\ngit push origin main\n")
    assert asks(work.run(bash("./deploy.sh"))) == "./deploy.sh"
    script.write_text("#!/bin/sh\ntouch deployed\n")
    assert asks(work.run(bash("./deploy.sh"), approve=["shell", "write", "read"])) == "./deploy.sh"


def test_a_call_with_results_of_the_run_is_not_kept(work: Work) -> None:
    (work.folder / "in.txt").write_text("x")
    read = {"tool": "read", "args": {"path": "in.txt"}}
    played = work.run(read, bash('echo "$RESULT_1"', needs=[1]))
    with pytest.raises(UsageError, match="depends on results of this run"):
        work.approve(played, ALWAYS)


@pytest.mark.parametrize("content", ["x" * 3_000, "password sk-abcdefghijklmnopqrstuvwxyz0123456789abcd"])
def test_a_long_call_or_one_with_a_secret_is_not_kept(work: Work, content: str) -> None:
    played = work.run(write("a.txt", content))
    with pytest.raises(UsageError, match="secret"):
        work.approve(played, ALWAYS)
    assert "sk-" not in work.file.read_text()


# ---- trust -----------------------------------------------------------------------------------------------


@pytest.fixture
def distrust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRACTAL_TRUST")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_an_entry_that_came_with_the_folder_needs_trust_and_ones_own_does_not(
    work: Work, distrust: None
) -> None:
    assert work.approve(work.run(bash("touch a")), ALWAYS).result.status == "unverified"
    assert work.run(bash("touch a")).result.status == "unverified"
    text = work.file.read_text()
    work.file.write_text(f"{text}- {{tool: bash, args: {{command: rm -r src}}, effects: [shell, write]}}\n")
    with pytest.raises(Untrusted, match=r"approved bash .*rm -r src"):
        work.run(bash("rm -r src"))
    (item,) = Fractal(work.folder).untrusted()
    assert item.name.startswith("approved bash ")
    work.file.write_text(text)
    assert work.run(bash("touch a")).result.status == "unverified"
    work.file.write_text(text.replace("touch a", "touch b"))
    with pytest.raises(Untrusted):
        work.run(bash("touch b"))


def test_an_approval_blesses_nothing_else_that_waits_for_trust(work: Work, distrust: None) -> None:
    played = work.run(bash("touch a"))
    work.file.write_text("approved:\n- {tool: bash, args: {command: rm -r src}, effects: [shell]}\n")
    played.fractal.tell(played.result.run, "approve", by=TERMINAL, scope=ALWAYS)
    assert [item.shown for item in trust.waiting(Fractal(work.folder).untrusted())] == [
        '{"args": {"command": "rm -r src"}, "effects": ["shell"], "tool": "bash"}'
    ]


def test_a_wider_entry_in_an_agents_settings_or_beside_a_variable_needs_trust(
    work: Work, distrust: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"tool": "bash", "args": {"command": "rm -r src"}}
    work.file.write_text(yaml.safe_dump({"agent": "a", "agents": {"a": {"approved": [call]}}}))
    assert len(Fractal(work.folder).untrusted()) == 1
    work.file.write_text(yaml.safe_dump({"approved": [call]}))
    monkeypatch.setenv("FRACTAL_APPROVED", "[]")
    assert len(Fractal(work.folder).untrusted()) == 1


def test_a_run_cannot_approve_for_itself(work: Work) -> None:
    """Neither by writing the settings, nor the document."""
    entry = "\napproved:\n- {tool: bash, args: {command: touch b}, effects: [shell, write]}\n"
    played = work.run(write("fractal.yaml", entry), bash("touch b"), approve=["shell"])
    assert "approved" not in work.file.read_text()
    assert asks(played) in ("touch b", "") and not (work.folder / "b").exists()


# ---- what a call names is approved as it was, folders as well --------------------------------------------


def helper_changes(place: Path) -> None:
    put(place, "pk/helper.py", "said = 2\n")


def helper_of_the_same_time_and_size(place: Path) -> None:
    before = (place / "pk/helper.py").stat()
    helper_changes(place)
    os.utime(place / "pk/helper.py", ns=(before.st_atime_ns, before.st_mtime_ns))


def another_file_comes(place: Path) -> None:
    put(place, "pk/random.py", "")


def deep_file_comes(place: Path) -> None:
    put(place, "pk/a/b/c.py", "")


def file_goes(place: Path) -> None:
    (place / "pk/helper.py").unlink()


def link_to_a_folder(place: Path) -> None:
    put(place, "other/c.py", "")
    (place / "pk/sub").symlink_to(place / "other")


def link_to_a_file(place: Path) -> None:
    (place / "pk/helper.py").rename(place / "helper.py")
    (place / "pk/helper.py").symlink_to(place / "helper.py")


NAMES_A_FOLDER = (
    "python3 pk",
    "python3 -m unittest discover -s pk",
    "cp -r --from=pk /tmp/x",
    "sh -c 'ls pk/'",
)


def with_a_package(folder: Path) -> None:
    """The folder `pk` as it was approved, and nothing of a change beside it."""
    for name in ("pk", "other"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "helper.py").unlink(missing_ok=True)
    put(folder, "pk/__main__.py", "import helper\n")
    put(folder, "pk/helper.py", "said = 1\n")


@pytest.fixture(scope="module")
def naming(tmp_path_factory: pytest.TempPathFactory) -> Work:
    """A folder in which each call that names `pk` is always approved; a changed one only asks."""
    work = Work(tmp_path_factory.mktemp("naming") / "work")
    for command in NAMES_A_FOLDER:
        with_a_package(work.folder)
        played = work.run(bash(command))
        assert asks(played) == command
        work.approve(played, ALWAYS)
        with_a_package(work.folder)
        assert asks(work.run(bash(command))) == ""
    return work


@pytest.mark.parametrize("command", NAMES_A_FOLDER)
@pytest.mark.parametrize(
    "change",
    [
        helper_changes,
        helper_of_the_same_time_and_size,
        another_file_comes,
        deep_file_comes,
        file_goes,
        link_to_a_folder,
        link_to_a_file,
    ],
)
def test_a_call_that_is_kept_asks_when_a_folder_that_it_names_has_changed(
    naming: Work, command: str, change: Callable[[Path], None]
) -> None:
    with_a_package(naming.folder)
    change(naming.folder)
    assert asks(naming.run(bash(command))) == command


def test_the_folder_counts_by_its_contents_wherever_and_whenever_it_was_copied(work: Work) -> None:
    put(work.folder, "pk/__main__.py", "")
    work.approve(work.run(bash("python3 pk")), ALWAYS)
    os.utime(work.folder / "pk/__main__.py", (1, 1))
    assert asks(work.run(bash("python3 pk"))) == ""


@pytest.mark.parametrize("scope", [ALWAYS, SAME_KIND])
def test_what_changes_between_the_question_and_the_answer_is_not_approved(work: Work, scope: str) -> None:
    put(work.folder, "Makefile", "all:\n\techo one\n")
    played = work.run(bash("make"))
    put(work.folder, "Makefile", "all:\n\techo two\n")
    assert asks(work.approve(played, scope)) == "make"


def test_a_call_that_names_more_than_is_looked_at_is_not_kept(work: Work) -> None:
    for n in range(30):
        put(work.folder, f"d{n}/x", "")
    played = work.run(bash("ls " + " ".join(f"d{n}" for n in range(30))))
    with pytest.raises(UsageError, match="names too many files"):
        work.approve(played, ALWAYS)
