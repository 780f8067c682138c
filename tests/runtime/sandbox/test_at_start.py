"""Commands on the folder as it was at the start of a run: what they see, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lanes import until
from playing import Play, bash, boxed, doing, put, standing

from runtime.sandbox.at_start import PLAIN, StartTrial, at_start, copies
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.sandbox.snapshot import Snapshots
from runtime.sandbox.tests_by_name import is_test

RUN = "abc123"
BOXED, BARE = Sandbox("auto"), Sandbox("off")
both = pytest.mark.parametrize(
    "sandbox", [pytest.param(BOXED, marks=boxed, id="bwrap"), pytest.param(BARE, id="off")]
)
PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"
WRONG, RIGHT = "def double(n):\n    return n + n + 1\n", "def double(n):\n    return n + n\n"
TEST = "from sums import double\n\n\ndef test_double():\n    assert double(2) == 4\n"

Tried = Callable[..., StartTrial]


@pytest.fixture
def kept(folder: Path, tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", folder)


def begin(kept: Snapshots) -> None:
    """What a run does before its first step that may change something."""
    with kept.alone():
        kept.take(RUN)


def tried(
    kept: Snapshots, sandbox: Sandbox, *commands: str, tests: bool = True, seconds: float = 60
) -> list[StartTrial]:
    """The trials of these commands in one context."""

    async def all_of_them() -> list[StartTrial]:
        context = OperationContext(kept.folder, sandbox)
        async with kept.at_start() as start:
            return [
                await start.try_at_start(RUN, command, context, tests=tests, seconds=seconds)
                for command in commands
            ]

    found = asyncio.run(all_of_them())
    assert not list(copies(kept.home).glob("*")), "no copy is left"
    return found


# ---- tests ------------------------------------------------------------------------------------------------


@both
def test_a_fix_is_proven_by_its_new_test(sandbox: Sandbox, folder: Path, kept: Snapshots) -> None:
    put(folder, "sums.py", WRONG)
    begin(kept)
    put(folder, "sums.py", RIGHT)
    put(folder, "tests/test_sums.py", TEST)
    (trial,) = tried(kept, sandbox, f"{PYTEST} -o pythonpath=. tests/test_sums.py")
    assert (trial.exit, trial.ran) == (1, True)
    assert "assert 5 == 4" in trial.output
    assert trial.note == ("" if sandbox.mode == "bwrap" else PLAIN)


@both
def test_what_passes_at_both_passes_at_the_start(sandbox: Sandbox, folder: Path, kept: Snapshots) -> None:
    put(folder, "sums.py", RIGHT)
    put(folder, "test_sums.py", TEST)
    begin(kept)
    put(folder, "sums.py", RIGHT + "\n# a comment\n")
    (trial,) = tried(kept, sandbox, f"{PYTEST} test_sums.py")
    assert (trial.exit, trial.ran) == (0, True)
    assert "1 passed" in trial.output


@both
def test_without_tests_the_start_has_none_of_todays(sandbox: Sandbox, folder: Path, kept: Snapshots) -> None:
    put(folder, "tests/old_test.py", "then\n")
    begin(kept)
    put(folder, "tests/old_test.py", "now\n")
    put(folder, "tests/test_new.py", "now\n")
    put(folder, "tests/data/given.txt", "now\n")
    command = "ls -R tests; cat tests/old_test.py"
    then, now = (tried(kept, sandbox, command, tests=tests)[0].output for tests in (False, True))
    assert then == "tests:\nold_test.py\nthen"
    assert now == "tests:\ndata\nold_test.py\ntest_new.py\n\ntests/data:\ngiven.txt\nnow"


def test_a_test_file_that_is_gone_today_is_gone_from_the_start_with_todays_tests(
    folder: Path, kept: Snapshots
) -> None:
    put(folder, "test_old.py", "1")
    put(folder, "main.py", "1")
    begin(kept)
    (folder / "test_old.py").rename(folder / "test_new.py")
    assert tried(kept, BARE, "ls")[0].output == "main.py\ntest_new.py"
    assert tried(kept, BARE, "ls", tests=False)[0].output == "main.py\ntest_old.py"


@pytest.mark.parametrize(
    "path",
    [
        *("tests/a.txt", "pkg/test/deep/x.json", "test_a.py", "pkg/a_test.go", "a.test.ts", "src/a.spec.js"),
        *("conftest.py", "web/__tests__/a.js", "pkg/testdata/in", "__snapshots__/a.snap", "app/tests.py"),
        *(
            "spec/a_spec.rb",
            "a-test.js",
            "SumsTest.java",
            "SumsTests.cs",
            "a_tests.py",
            "pkg/testing/test_a.py",
        ),
        *("a.specs.ts", "specs/a.rb", "pkg/test_data"),
    ],
)
def test_test_files_are_told_by_their_names(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize(
    "path",
    [
        "contest.py",
        "latest/a.py",
        "src/testing.py",
        "attest.go",
        "a.spec",
        "test",
        "src/latest.js",
        "inspect.py",
        "pkg/testing/a.py",
        "spec/calc.py",
        "openapi/specs/load.go",
    ],
)
def test_other_files_are_no_tests(path: str) -> None:
    assert not is_test(path)


@pytest.mark.parametrize("path", ["spec/sums_spec.rb", "sums-test.js", "SumsTest.java", "sums_tests.py"])
def test_a_new_test_file_of_any_kind_is_at_the_start_too(folder: Path, kept: Snapshots, path: str) -> None:
    put(folder, "sums.py", RIGHT)
    begin(kept)
    put(folder, path, "# passes without any change\n")
    assert tried(kept, BARE, f"{sys.executable} {path}")[0].exit == 0


# ---- links ------------------------------------------------------------------------------------------------


@both
def test_what_became_a_link_or_was_one_leads_no_change_out_of_the_copy(
    sandbox: Sandbox, folder: Path, kept: Snapshots, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    put(other, "key", "secret").chmod(0o600)
    put(folder, "test_data.d/key", "k").chmod(0o644)
    (folder / "test_data.d/sub").mkdir()
    (folder / "package").symlink_to(other)
    begin(kept)
    was = standing(other)
    shutil.rmtree(folder / "test_data.d")
    (folder / "test_data.d").symlink_to(other)
    (folder / "package").unlink()
    put(folder, "package/tests/sub/test_a.py", "")
    (folder / "package/tests/sub").chmod(0o755)
    for tests in (True, False):
        assert tried(kept, sandbox, "ls", tests=tests)[0].exit == 0
    assert standing(other) == was
    assert (other / "key").stat().st_mode & 0o777 == 0o600


# ---- what the start is ------------------------------------------------------------------------------------


@both
def test_removed_and_renamed_files_are_there_and_new_ones_are_not(
    sandbox: Sandbox, folder: Path, kept: Snapshots
) -> None:
    put(folder, "removed.txt", "r")
    put(folder, "renamed.txt", "n")
    put(folder, "empty/keep", "").unlink()
    (folder / "link").symlink_to("renamed.txt")
    put(folder, "run.sh", "#!/bin/sh\necho ran\n").chmod(0o755)
    begin(kept)
    (folder / "removed.txt").unlink()
    (folder / "renamed.txt").rename(folder / "other.txt")
    (folder / "link").unlink()
    put(folder, "new.py", "")
    put(folder, "package/__init__.py", "")
    listed, linked, ran = tried(kept, sandbox, "ls -F", "readlink link; cat link", "./run.sh")
    assert listed.output.split() == ["empty/", "link@", "removed.txt", "renamed.txt", "run.sh*"]
    assert linked.output == "renamed.txt\nn"
    assert ran.output == "ran"


@both
def test_an_absolute_path_means_the_copy(sandbox: Sandbox, folder: Path, kept: Snapshots) -> None:
    put(folder, "a.txt", "then")
    put(folder.with_name("folder-2"), "a.txt", "beside")
    begin(kept)
    put(folder, "a.txt", "now")
    (trial,) = tried(kept, sandbox, f"cat {folder}/a.txt; test -e {folder}-2/a.txt && echo beside")
    assert trial.output.startswith("then")
    assert sandbox.mode == "bwrap" or trial.output == "thenbeside"


@both
def test_an_editable_install_means_the_copy(sandbox: Sandbox, folder: Path, kept: Snapshots) -> None:
    put(folder, "src/greeting.py", "WORD = 'then'\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (packages,) = (folder / ".venv").glob("lib/python3*/site-packages")
    put(packages, "greeting.pth", f"{folder}/src\n")
    put(packages, "installed.py", "WORD = 'installed'\n")
    begin(kept)
    put(folder, "src/greeting.py", "WORD = 'now!'\n")
    command = (
        "cd / && {}/.venv/bin/python -c 'import greeting, installed; print(greeting.WORD, installed.WORD)'"
    )
    (trial,) = tried(kept, sandbox, command.format(folder))
    assert trial.output == "then installed"


def imported(folder: Path, kept: Snapshots, sandbox: Sandbox) -> str:
    """What a command imports of `lib/` at the start, where the module says another word now."""
    put(folder, "lib/greeting.py", "WORD = 'then'\n")
    begin(kept)
    put(folder, "lib/greeting.py", "WORD = 'now!'\n")
    return tried(kept, sandbox, f"{sys.executable} -c 'import greeting; print(greeting.WORD)'")[0].output


@both
def test_the_search_path_of_the_user_means_the_copy(
    sandbox: Sandbox, folder: Path, kept: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/nowhere:{folder}/lib")
    assert imported(folder, kept, sandbox) == "then"


def test_a_search_path_by_another_name_of_the_folder_means_the_copy(
    folder: Path, kept: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/link/lib")
    assert imported(folder, kept, BARE) == "then"


@boxed
def test_what_is_installed_is_read_only_and_caches_are_empty(folder: Path, kept: Snapshots) -> None:
    put(folder, "web/node_modules/left/index.js", "1")
    put(folder, "__pycache__/a.pyc", "today's")
    put(folder, "web/.cache/a", "today's")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "venv").symlink_to("web")
    begin(kept)
    looks = "cat web/node_modules/left/index.js; readlink venv; ls -A . web"
    changes = "touch web/node_modules/x .git/x; test -e .git/HEAD"
    looked, changed = tried(kept, BOXED, looks, changes)
    assert looked.output.split() == ["1web", ".:", ".git", "venv", "web", "web:", "node_modules"]
    assert changed.exit == 0
    assert changed.output.count("Read-only file system") == 2


@both
def test_what_a_command_writes_reaches_the_next_one_and_not_the_folder(
    sandbox: Sandbox, folder: Path, kept: Snapshots
) -> None:
    put(folder, "a.txt", "then")
    put(folder, "deep/b.txt", "then")
    begin(kept)
    put(folder, "a.txt", "now")
    was = standing(folder)
    first, second = tried(kept, sandbox, "echo more >> a.txt; rm -r deep; touch .mcp.json x", "cat a.txt; ls")
    assert first.exit == 0
    assert second.output == "thenmore\na.txt\nx"
    assert standing(folder) == was


@both
def test_a_folder_that_a_command_locks_is_gone_as_well(
    sandbox: Sandbox, folder: Path, kept: Snapshots
) -> None:
    put(folder, "deep/er/a.txt", "then")
    begin(kept)
    assert tried(kept, sandbox, "chmod 500 deep/er deep")[0].exit == 0


@boxed
def test_a_large_file_that_is_the_same_is_seen(folder: Path, kept: Snapshots) -> None:
    for name in ("same.bin", "other.bin"):
        with put(folder, name).open("wb") as file:
            file.truncate(21_000_000)
    begin(kept)
    with (folder / "other.bin").open("ab") as file:
        file.write(b"more")
    assert tried(kept, BOXED, "ls")[0].output == "same.bin"


@boxed
def test_private_places_stay_hidden_and_the_network_is_off(
    folder: Path, kept: Snapshots, tmp_path: Path
) -> None:
    put(folder, ".fractal/state/runs/secret.txt", "secret")
    begin(kept)

    async def one() -> StartTrial:
        context = OperationContext(
            folder, Sandbox("auto", network=True), private=(folder / ".fractal/state",)
        )
        async with kept.at_start() as start:
            return await start.try_at_start(
                RUN, "ls -A .fractal/state; ls /sys/class/net", context, tests=True, seconds=60
            )

    trial = asyncio.run(one())
    assert "secret" not in trial.output
    assert "runs" not in trial.output


@boxed
def test_credentials_in_the_folder_cannot_be_read_in_the_copy(
    folder: Path, kept: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept.json", ".venv/lent.json"):
        put(folder, name, "secret")
    begin(kept)
    monkeypatch.setenv("KUBECONFIG", f"{folder}/kept.json:{folder}/.venv/lent.json:{folder}/missing.json")
    (trial,) = tried(kept, BOXED, "cat kept.json .venv/lent.json; ls")
    assert "secret" not in trial.output
    assert trial.output.endswith("\nkept.json")


# ---- what shows nothing -----------------------------------------------------------------------------------


def test_what_shows_nothing_counts_as_not_run(folder: Path, kept: Snapshots) -> None:
    put(folder, "test_none.py", "")
    put(folder, "own.py", "raise SystemExit(3)")
    begin(kept)
    put(folder, "new/__main__.py", "")
    commands = {
        f"{PYTEST} test_none.py": "no test was collected",
        f"{PYTEST} missing.py": "there is no such test",
        "echo 'No tests found, exiting with code 1'; exit 1": "there is no such test",
        "echo 'error: no test target named `x`.' >&2; exit 101": "there is no such test",
        "no-such-program": "missing or cannot be started",
        "./test_none.py": "missing or cannot be started",
        f"{sys.executable} -m nosuchrunner": "nosuchrunner is not installed",
        f"{sys.executable} -m new": "",
        f"{sys.executable} own.py": "",
        "exit 4": "",
    }
    trials = tried(kept, BARE, *commands)
    for (command, why), trial in zip(commands.items(), trials, strict=True):
        assert trial.ran == (not why), command
        assert why in trial.note, command
        assert trial.exit, command


@both
def test_a_command_without_end_is_stopped(sandbox: Sandbox, folder: Path, kept: Snapshots) -> None:
    begin(kept)
    (trial,) = tried(kept, sandbox, "echo began; sleep 600", seconds=1)
    assert not trial.ran
    assert trial.note.startswith("stopped after 1 s")
    assert trial.output == "began"


def test_a_long_output_keeps_its_tail(folder: Path, kept: Snapshots) -> None:
    begin(kept)
    (trial,) = tried(kept, BARE, "seq 1 5000")
    assert len(trial.output) <= 2_500
    assert trial.output.startswith("1\n2\n")
    assert trial.output.endswith("\n4999\n5000")


def test_without_a_start_nothing_is_run(folder: Path, kept: Snapshots) -> None:
    (trial,) = tried(kept, BARE, "true")
    assert trial == StartTrial(None, False, "", "no step could have changed the folder yet")


def test_a_folder_without_git_is_compared_by_snapshots_and_without_the_program_git_by_none(
    folder: Path, kept: Snapshots
) -> None:
    put(folder, "a.txt", "then")
    begin(kept)
    put(folder, "a.txt", "now")
    assert tried(kept, BARE, "cat a.txt")[0].output == "then"
    kept.shadow.git = None
    assert "git is not installed" in tried(kept, BARE, "cat a.txt")[0].note


@pytest.mark.parametrize("limits", [(1, 10**9), (100, 5)])
def test_a_folder_that_is_too_large_is_left_alone(
    folder: Path, kept: Snapshots, limits: tuple[int, int]
) -> None:
    put(folder, "a.txt", "three")
    put(folder, "b.txt", "three")
    begin(kept)

    async def one() -> StartTrial:
        async with at_start(kept, *limits) as start:
            return await start.try_at_start(RUN, "ls", OperationContext(folder, BARE), tests=True, seconds=60)

    trial = asyncio.run(one())
    assert (trial.exit, trial.ran) == (None, False)
    assert "too large" in trial.note


def test_a_sandbox_that_does_not_work_is_told(
    folder: Path, kept: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(kept)
    (tmp_path / "bin").mkdir()
    for name in ("bash", "git"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (trial,) = tried(kept, Sandbox("auto"), "true")
    assert (trial.exit, trial.ran) == (None, False)
    assert "bubblewrap is not installed" in trial.note


@both
def test_the_start_of_a_run_in_a_workspace_is_tried_below_its_state(
    sandbox: Sandbox, play: Play, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    put(work, "a.txt", "then")
    put(work, ".venv/installed.txt", "installed")
    (work / "link").symlink_to("a.txt")
    run = play(doing(bash("echo now > a.txt")))
    kept = run.fractal.snapshots(work)

    async def one() -> StartTrial:
        context = OperationContext(work, sandbox, private=run.fractal.workspace.private)
        async with kept.at_start() as start:
            command = "cat link .venv/installed.txt; ls -A .fractal/state/runs"
            return await start.try_at_start(run.result.run, command, context, tests=True, seconds=60)

    assert asyncio.run(one()).output.startswith("theninstalled")
    assert run.result.run not in asyncio.run(one()).output
    assert not list(copies(kept.home).glob("*"))
    assert (work / "a.txt").read_text("utf-8") == "now\n"


def test_what_lies_among_the_copies_and_is_none_keeps_no_other_from_being_swept(
    folder: Path, kept: Snapshots, tmp_path: Path
) -> None:
    put(folder, "a.txt", "then")
    begin(kept)
    put(copies(kept.home), "0-stray", "")
    (tmp_path / "other").mkdir()
    (copies(kept.home) / "1-link").symlink_to(tmp_path / "other")
    put(copies(kept.home), "mine/notes.txt", "")
    put(copies(kept.home), "2222aaaa/folder/a.txt", "")
    strange = [copies(kept.home) / name for name in ("0-stray", "1-link", "mine")]
    assert kept.sweep() == strange
    assert sorted(copies(kept.home).iterdir()) == strange
    assert (copies(kept.home) / "mine/notes.txt").exists()
    assert not list((tmp_path / "other").iterdir())


def test_what_is_none_of_the_copies_is_told_when_a_run_is_taken_up(play: Play, tmp_path: Path) -> None:
    work = tmp_path / "work"
    run = play(doing(bash("echo now > a.txt")))
    stray = put(copies(run.fractal.snapshots(work).home), "notes.txt", "mine")
    asyncio.run(run.fractal.resume(run.result.run))
    warned = [each.data["message"] for each in run.events if each.kind == "warning"]
    assert any(str(stray) in message for message in warned)
    assert stray.read_text("utf-8") == "mine"


KILLED = """
import asyncio, sys
from pathlib import Path
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.sandbox.snapshot import Snapshots

WAITS = "touch begun; while test -e a.txt; do sleep 0.05; done"

async def go(kept):
    async with kept.at_start() as start:
        context = OperationContext(kept.folder, Sandbox("off"))
        await start.try_at_start("abc123", WAITS, context, tests=True, seconds=600)

asyncio.run(go(Snapshots(Path(sys.argv[1]), Path(sys.argv[2]))))
"""


def test_the_copy_of_a_killed_process_is_swept_and_that_of_a_living_one_is_not(
    folder: Path, kept: Snapshots
) -> None:
    put(folder, "a.txt", "then")
    begin(kept)
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, kept.home, folder],
        env={**os.environ, "PYTHONPATH": str(root)},
        start_new_session=True,
    )
    until(lambda: list(copies(kept.home).glob("*/folder/begun")))
    kept.sweep()
    assert list(copies(kept.home).glob("*/folder/begun"))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept.sweep()
    assert not list(copies(kept.home).glob("*"))
