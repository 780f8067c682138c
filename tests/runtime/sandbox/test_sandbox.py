"""The sandbox: what commands see and may write, how they end, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lanes import NIGHT, PATIENCE, async_until, pause
from playing import boxed
from process_list import gone

from kernel.errors import ConfigurationError, OperationFailed
from runtime.sandbox.bubblewrap import PROTECTED, enclosed
from runtime.sandbox.limits import FIRST, Limits
from runtime.sandbox.process import CommandResult, end_group
from runtime.sandbox.sandbox import Sandbox

BOXED = Sandbox("auto")
BARE = Sandbox("off")
both = pytest.mark.parametrize(
    "sandbox", [pytest.param(BOXED, marks=boxed, id="bwrap"), pytest.param(BARE, id="off")]
)


async def ended(mark: str) -> bool:
    """Whether these processes end."""
    return await asyncio.to_thread(gone, mark)


# ---- input and output ------------------------------------------------------------------------------------


@both
async def test_stdout_and_stderr_are_one_text_with_the_exit_code(sandbox: Sandbox, folder: Path) -> None:
    ran = await sandbox.run("echo one; echo two >&2; echo three; exit 3", folder=folder)
    assert (ran.exit, ran.output, ran.timed_out, ran.cut) == (3, "one\ntwo\nthree\n", False, False)
    assert ran.mode == sandbox.mode
    assert ran.seconds > 0


AUTOGROUP = Path("/proc/self/autogroup")
RUN_EACH = """
import asyncio, pathlib, sys
from runtime.sandbox.sandbox import Sandbox
group = pathlib.Path("/proc/self/autogroup")
for before in sys.argv[2:]:
    group.write_text(before)
    asyncio.run(Sandbox(sys.argv[1]).run(["true"], folder=pathlib.Path.cwd()))
    print(group.read_text().split()[-1])
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not AUTOGROUP.exists(), reason="only root raises the priority of a session"
)
@pytest.mark.parametrize("mode", [pytest.param("bwrap", marks=boxed), "off"])
def test_a_session_has_its_priority_back_after_a_command(folder: Path, mode: str) -> None:
    """The highest one is what another process of the session has raised it to meanwhile.

    In a session of its own: the other tests run in this one, and the first of a machine has no priority.
    """
    root = Path(__file__).resolve().parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", RUN_EACH, mode, "0", FIRST],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root)},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["0", "0"]


@both
async def test_list_of_words_runs_without_a_shell(sandbox: Sandbox, folder: Path) -> None:
    words = ["printf", "%s|", "$HOME", "a b", "$(touch x)", "--", ";", "ü"]
    assert (await sandbox.run(words, folder=folder)).output == "$HOME|a b|$(touch x)|--|;|ü|"
    assert not list(folder.iterdir())


@both
@pytest.mark.parametrize("text", ["", "hello\n", "no line end", "ü\u2028\r\n\0\x1b", "long line\n" * 300_000])
async def test_stdin_arrives_exactly(sandbox: Sandbox, folder: Path, text: str) -> None:
    ran = await sandbox.run("cat", folder=folder, stdin=text, output_chars=4_000_000)
    assert ran.output == text


@both
async def test_stdin_is_empty_by_default(sandbox: Sandbox, folder: Path) -> None:
    assert (await sandbox.run("cat; echo end", folder=folder, timeout=10)).output == "end\n"


@both
async def test_unread_stdin_is_harmless(sandbox: Sandbox, folder: Path) -> None:
    assert (await sandbox.run("true", folder=folder, stdin="x" * 3_000_000)).exit == 0


@both
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true | false | true", 1),
        ("exit 7 | cat", 7),
        ("yes | head -1", 0),
        ("true && yes | head -1", 0),
        ("for n in 1 2; do yes | head -1; done", 0),
        ("yes | head -1; false", 1),
        ("set +o pipefail; false | true", 0),
        # what follows was not run, and that may not be hidden
        ("yes | head -1 && touch made | cat", 141),
        ("set -e; yes | head -1; touch made", 141),
        ("kill -PIPE $$", 141),
    ],
)
async def test_a_pipe_fails_unless_its_reader_needs_no_more(
    sandbox: Sandbox, folder: Path, command: str, code: int
) -> None:
    assert (await sandbox.run(command, folder=folder)).exit == code
    assert not (folder / "made").exists()


@both
async def test_missing_program_is_exit_127(sandbox: Sandbox, folder: Path) -> None:
    ran = await sandbox.run(["no-such-program-at-all"], folder=folder)
    assert ran.exit == 127
    assert "no-such-program-at-all" in ran.output


@both
async def test_command_that_cannot_start_is_refused_with_a_fix(sandbox: Sandbox, folder: Path) -> None:
    with pytest.raises(OperationFailed, match="standard input"):
        await sandbox.run(f"echo {'x' * 300_000}", folder=folder)
    with pytest.raises(OperationFailed, match="null"):
        await sandbox.run("echo \0", folder=folder)
    with pytest.raises(OperationFailed, match="no such folder"):
        await sandbox.run("true", folder=folder / "missing")


@both
async def test_environment_has_no_secret(
    sandbox: Sandbox, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "do-not-tell-heliotrope")
    ran = await sandbox.run("env", folder=folder, env={"CHOSEN": "yes"})
    names = {line.partition("=")[0] for line in ran.output.splitlines()}
    own = {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "PYTHONDONTWRITEBYTECODE"}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == own | {"CHOSEN"}
    assert "heliotrope" not in ran.output
    assert "TERM=dumb" in ran.output


@both
async def test_python_runs_the_edited_code_within_the_same_second(sandbox: Sandbox, folder: Path) -> None:
    for value in ("1", "2", "3"):  # of the same size
        (folder / "module.py").write_text(f"print({value})\n")
        ran = await sandbox.run("python3 -c 'import module'", folder=folder)
        assert ran.output.strip() == value


@both
async def test_current_interpreter_is_available(sandbox: Sandbox, folder: Path) -> None:
    ran = await sandbox.run([sys.executable, "-c", "import sys; print(sys.prefix)"], folder=folder)
    assert ran.output.strip() == sys.prefix


# ---- limits -----------------------------------------------------------------------------------------------


@both
async def test_timeout_ends_the_whole_process_group(sandbox: Sandbox, folder: Path) -> None:
    ran = await sandbox.run("echo begun; sleep 61.07 & sleep 61.07", folder=folder, timeout=0.6)
    assert ran.timed_out
    assert ran.output == "begun\n"
    assert ran.exit == 128 + 15
    assert not NIGHT or ran.seconds < 5
    assert await ended("61.07")


@both
async def test_command_may_clean_up_at_its_timeout(sandbox: Sandbox, folder: Path) -> None:
    command = "trap 'echo tidied > left.txt; exit 7' TERM; echo begun; sleep 62.07 & wait"
    ran = await sandbox.run(command, folder=folder, timeout=0.6)
    assert (ran.exit, ran.timed_out) == (7, True)
    assert (folder / "left.txt").read_text() == "tidied\n"
    assert await ended("62.07")


@both
async def test_command_that_ignores_sigterm_is_killed(sandbox: Sandbox, folder: Path) -> None:
    ran = await sandbox.run("trap '' TERM; echo begun; sleep 63.07; sleep 63.07", folder=folder, timeout=0.5)
    assert (ran.exit, ran.timed_out) == (137, True)
    assert await ended("63.07")


@boxed
async def test_process_that_leaves_its_group_ends_with_the_sandbox(folder: Path) -> None:
    ran = await BOXED.run("setsid sleep 64.07 & setsid sleep 64.07 & echo begun", folder=folder)
    assert ran.output == "begun\n"
    assert await ended("64.07")


@both
async def test_background_processes_end_with_the_command(sandbox: Sandbox, folder: Path) -> None:
    ran = await sandbox.run("sleep 65.07 & echo begun", folder=folder, timeout=30)
    assert (ran.exit, ran.output, ran.timed_out) == (0, "begun\n", False)
    assert not NIGHT or ran.seconds < 5
    assert await ended("65.07")


def test_process_with_a_reused_id_is_not_killed() -> None:
    """Process ids are reused; the group of an ended process is empty."""
    other = subprocess.Popen(["sleep", "69.07"], start_new_session=True)
    try:
        ended = cast(Any, SimpleNamespace(returncode=0, pid=other.pid))
        end_group(ended, None, signal.SIGKILL)
        pause(0.1)
        assert other.poll() is None
        end_group(cast(Any, SimpleNamespace(returncode=None, pid=other.pid)), None, signal.SIGKILL)
        assert other.wait(PATIENCE) == -signal.SIGKILL
    finally:
        other.kill()
        other.wait()


@both
async def test_cancelling_kills_and_reaps_all_processes(sandbox: Sandbox, folder: Path) -> None:
    command = "trap '' TERM; echo > begun; sleep 66.07 & sleep 66.07"
    task = asyncio.create_task(sandbox.run(command, folder=folder))
    await async_until((folder / "begun").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await ended("66.07")
    assert sorted(path.name for path in folder.iterdir()) == ["begun"]


@both
async def test_long_output_keeps_head_and_tail(sandbox: Sandbox, folder: Path) -> None:
    ran = await sandbox.run("seq 1 200000", folder=folder, output_chars=3_000)
    assert ran.cut
    assert ran.exit == 0
    assert ran.output.startswith("1\n2\n3\n")
    assert ran.output.endswith("199999\n200000\n")
    assert "bytes of output cut" in ran.output
    assert len(ran.output) < 3_100


@both
async def test_output_limit_counts_characters_not_bytes(sandbox: Sandbox, folder: Path) -> None:
    text = "\U0001f333" * 1_000
    ran = await sandbox.run("cat", folder=folder, stdin=text, output_chars=1_000)
    assert (ran.output, ran.cut) == (text, False)
    ran = await sandbox.run("cat", folder=folder, stdin=text + "!", output_chars=1_000)
    assert ran.cut
    assert ran.output.endswith("\U0001f333!")


@both
async def test_endless_output_is_stopped(sandbox: Sandbox, folder: Path) -> None:
    ran = await sandbox.run("yes 68.07", folder=folder, timeout=60, output_chars=1_000)
    assert ran.cut
    assert ran.exit == 137
    assert "stopped: more than 100 MB" in ran.output
    assert not NIGHT or ran.seconds < 20


@both
async def test_memory_and_file_size_are_limited(sandbox: Sandbox, folder: Path) -> None:
    eat = [sys.executable, "-c", "x = bytearray(300_000_000)"]
    assert (await sandbox.run(eat, folder=folder)).exit == 0
    ran = await Sandbox(sandbox.mode, limits=Limits(process_mb=128)).run(eat, folder=folder)
    assert ran.exit == 1
    assert "MemoryError" in ran.output
    grow = [sys.executable, "-c", "import os; os.truncate(os.open('big', 66, 0o600), 1 << 31)"]
    ran = await sandbox.run(grow, folder=folder)
    assert ran.exit != 0
    assert not (folder / "big").stat().st_size


@both
async def test_runs_leave_no_file_descriptor_open(sandbox: Sandbox, folder: Path) -> None:
    await sandbox.run("true", folder=folder)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        await asyncio.gather(*(sandbox.run("true", folder=folder) for _ in range(3)))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


# ---- isolation -------------------------------------------------------------------------------------------


@boxed
async def test_only_the_folder_is_writable(folder: Path, tmp_path: Path) -> None:
    command = (
        f"echo hi > a.txt; mkdir -p b/c; echo no > {tmp_path}/out.txt; echo no > /etc/x; echo no > /usr/x"
    )
    await BOXED.run(command, folder=folder)
    assert (folder / "a.txt").read_text() == "hi\n"
    assert (folder / "b" / "c").is_dir()
    assert not (tmp_path / "x").exists()
    assert not Path("/etc/x").exists()
    assert not Path("/usr/x").exists()


@boxed
async def test_read_only_includes_the_folder(folder: Path) -> None:
    (folder / "a.txt").write_text("as it was")
    ran = await BOXED.run(
        "cat a.txt; echo x > a.txt; touch b.txt; echo t > /tmp/t", folder=folder, read_only=True
    )
    assert ran.output.startswith("as it was")
    assert "Read-only" in ran.output
    assert [path.name for path in folder.iterdir()] == ["a.txt"]
    assert (folder / "a.txt").read_text() == "as it was"


@boxed
async def test_homes_and_temporary_files_are_hidden(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hidden")
    inside = f"/tmp/{tmp_path.name}-{os.getpid()}"
    command = (
        f"cat {tmp_path}/secret.txt; ls /home /run /var/tmp; ls -a ~/.ssh; echo t > {inside} && cat {inside}"
    )
    ran = await BOXED.run(command, folder=folder)
    assert "hidden" not in ran.output
    assert ran.output.endswith("t\n")
    for name in ("id_rsa", "known_hosts", "authorized_keys"):
        assert name not in ran.output
    assert not Path(inside).exists()


@boxed
async def test_home_directory_shows_only_installed_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for name in (".ssh/id_rsa", ".config/thing/token", "project/a.txt", ".tool/bin/mine", ".tool/lib/part"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"#!/bin/sh\ncat {home}/.tool/lib/part\n" if name.endswith("mine") else name)
    (home / ".tool/bin/mine").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/.tool/bin:{os.environ['PATH']}")
    command = """
        mine; echo; ls -A ~; cat ~/.ssh/id_rsa ~/.config/thing/token
        echo x > ~/.tool/bin/other; echo y > ~/own
    """
    ran = await BOXED.run(command, folder=home / "project")
    assert ran.output.startswith(".tool/lib/part\n.tool\nproject\n")
    assert ran.output.count("No such file") == 2
    assert "Read-only" in ran.output
    assert not (home / "own").exists()


@boxed
async def test_keys_are_masked_and_startup_files_protected_when_the_folder_is_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id_rsa").write_text("key material")
    (home / ".netrc").write_text("key material")
    (home / ".bashrc").write_text("# mine\n")
    monkeypatch.setenv("HOME", str(home))
    command = """
        cat .ssh/id_rsa .netrc; echo evil >> .bashrc; echo evil > .zshrc; echo evil > .ssh/authorized_keys
        echo > ok
    """
    ran = await BOXED.run(command, folder=home)
    assert "key material" not in ran.output
    assert (home / ".bashrc").read_text() == "# mine\n"
    assert sorted(path.name for path in home.iterdir()) == [".bashrc", ".netrc", ".ssh", "ok"]
    assert [path.name for path in (home / ".ssh").iterdir()] == ["id_rsa"]


@boxed
async def test_credential_files_named_by_the_environment_are_masked(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "kube").write_text("key material")
    monkeypatch.setenv("KUBECONFIG", f"{folder}/kube")
    assert "key material" not in (await BOXED.run("cat kube", folder=folder)).output
    assert (folder / "kube").read_text() == "key material"


@boxed
async def test_command_has_no_capability_and_sees_no_other_process(folder: Path) -> None:
    ran = await BOXED.run("grep CapEff /proc/self/status; ls /proc | grep -c '^[0-9]'", folder=folder)
    eff, processes = ran.output.split("\n")[:2]
    assert int(eff.split()[1], 16) == 0
    assert int(processes) < 10


@contextmanager
def listening() -> Iterator[int]:
    """A port on loopback that accepts connections."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@boxed
@pytest.mark.parametrize(
    ("own", "call", "reached"), [(False, None, 1), (True, None, 0), (False, True, 0), (True, False, 1)]
)
async def test_network_is_available_only_when_allowed(
    folder: Path, own: bool, call: bool | None, reached: int
) -> None:
    with listening() as port:
        sandbox = Sandbox("bwrap", network=own)
        ran = await sandbox.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}", folder=folder, network=call)
    assert ran.exit == reached


@boxed
async def test_root_folder_is_refused() -> None:
    with pytest.raises(OperationFailed, match="choose a folder"):
        await BOXED.run("true", folder=Path("/"))


@boxed
async def test_failing_command_is_not_a_failing_sandbox(folder: Path) -> None:
    assert (await BOXED.run("echo bwrap: no; exit 1", folder=folder)).exit == 1


# ---- protected paths --------------------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, str]:
    """Every path of the folder, with its text where it is a file."""
    return {
        path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else "/"
        for path in sorted(folder.rglob("*"))
    }


@boxed
async def test_existing_protected_paths_cannot_be_changed(folder: Path) -> None:
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / ".git/config").write_text("[core]\n")
    (folder / "fractal.yaml").write_text("model: x\n")
    (folder / "sub/.git").mkdir(parents=True)
    before = tree(folder)
    command = """
        echo x > .git/config; echo x > .git/hooks/post-commit; rm -rf .git; mv .git g; ln -sf /etc .git/x
        echo x > fractal.yaml; rm -f fractal.yaml; mv fractal.yaml f; chmod 777 .git
        echo x > sub/.git/config; rm -rf sub/.git
    """
    ran = await BOXED.run(command, folder=folder)
    assert tree(folder) == before
    assert "Read-only file system" in ran.output


@boxed
@pytest.mark.parametrize(
    "make", ["mkdir {}", "touch {}", "ln -s /etc {}", "mkdir x{} && mv x{} {}", "mkfifo {}"]
)
async def test_missing_protected_paths_cannot_be_created(folder: Path, make: str) -> None:
    await BOXED.run("\n".join(make.replace("{}", name) for name in PROTECTED), folder=folder)
    assert not [name for name in PROTECTED if os.path.lexists(folder / name)]


@boxed
async def test_sandbox_leaves_nothing_in_the_folder(folder: Path) -> None:
    ran = await BOXED.run("ls", folder=folder)
    assert ran.output == ""  # a command sees no placeholder either
    assert not list(folder.iterdir())


@boxed
async def test_files_at_a_protected_name_are_moved_aside_and_reported(folder: Path) -> None:
    guarded = (folder / "state",)
    for expected in ("state.refused", "state.refused-2"):
        ran = await BOXED.run("mkdir state; echo 1 > state/a", folder=folder, protected=guarded)
        assert ran.output.endswith(
            f"[state is a protected name: what the command put there is now {expected}]"
        )
        assert (folder / expected / "a").read_text() == "1\n"
        assert not (folder / "state").exists()


@boxed
async def test_nested_protected_paths_are_protected(folder: Path) -> None:
    (folder / "a/b/system").mkdir(parents=True)
    (folder / "a/b/system/pattern.md").write_text("mine")
    (folder / "a/other").write_text("1")
    command = """
        echo x > a/b/system/pattern.md; mv a away; mv a/b a/c; rm -rf a/b; echo 2 > a/other; echo 3 > a/b/new
    """
    await BOXED.run(command, folder=folder, protected=[folder / "a/b/system"])
    assert tree(folder) == {
        "a": "/",
        "a/b": "/",
        "a/b/new": "3\n",
        "a/b/system": "/",
        "a/b/system/pattern.md": "mine",
        "a/other": "2\n",
    }


@boxed
async def test_folder_inside_a_protected_path_is_read_only(folder: Path) -> None:
    inner = folder / "state/x"
    inner.mkdir(parents=True)
    ran = await BOXED.run("touch y", folder=inner, protected=[folder / "state"])
    assert ran.exit == 1
    assert not (inner / "y").exists()


@boxed
async def test_protected_link_is_restored(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "state").symlink_to(tmp_path / "elsewhere")
    ran = await BOXED.run("rm state; mkdir state; touch state/x", folder=folder, protected=[folder / "state"])
    assert (folder / "state").readlink() == tmp_path / "elsewhere"
    assert (folder / "state.refused/x").exists()
    assert "put back" in ran.output


@boxed
async def test_concurrent_runs_share_the_protection(folder: Path) -> None:
    commands = ["mkdir .git && touch .git/config", "touch .fractal", "sleep 0.2; mkdir .git", "true"] * 2
    await asyncio.gather(*(BOXED.run(command, folder=folder) for command in commands))
    assert not list(folder.iterdir())


@boxed
async def test_processes_share_the_protection(folder: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path; from runtime.sandbox.sandbox import Sandbox\n"
        "async def main():\n"
        "    for _ in range(3): await Sandbox().run('mkdir .git; touch .fractal', folder=Path(sys.argv[1]))\n"
        "asyncio.run(main())"
    )
    words = [sys.executable, "-c", program, str(folder)]
    processes = [await asyncio.create_subprocess_exec(*words, cwd=Path.cwd()) for _ in range(3)]
    assert [await process.wait() for process in processes] == [0, 0, 0]
    assert not list(folder.iterdir())


def test_next_run_removes_placeholders_of_a_crash(folder: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from runtime.sandbox.bubblewrap import enclosed\n"
        "with enclosed(Path(sys.argv[1]), (), read_only=False, network=False, environ={}): os._exit(9)"
    )
    died = subprocess.run([sys.executable, "-c", program, str(folder)], cwd=Path.cwd(), check=False)
    assert died.returncode == 9
    assert sorted(path.name for path in folder.iterdir()) == [".fractal", ".git"]
    with enclosed(folder, (), read_only=False, network=False, environ={}):
        pass
    assert not list(folder.iterdir())


def test_folder_created_meanwhile_is_kept(folder: Path) -> None:
    with enclosed(folder, (), read_only=False, network=False, environ={}):
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")  # as `git init` does
    assert (folder / ".git/HEAD").exists()
    with enclosed(folder, (), read_only=False, network=False, environ={}):
        pass
    assert (folder / ".git/HEAD").exists()


# ---- without bubblewrap ----------------------------------------------------------------------------------


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A PATH with only bash and a bwrap script of the given text."""
    only = tmp_path / "tools"
    only.mkdir()
    (only / "bash").symlink_to(shutil.which("bash") or "/bin/bash")
    monkeypatch.setenv("PATH", str(only))

    def put(text: str) -> None:
        if text:
            (only / "bwrap").write_text(text)
            (only / "bwrap").chmod(0o755)

    return put


DENIED = "#!/bin/bash\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"


@pytest.mark.parametrize(
    ("bwrap", "why"), [("", "apt-get install bubblewrap"), (DENIED, "No permissions to create new namespace")]
)
async def test_sandbox_fails_closed_without_a_working_bubblewrap(
    tools: Callable[[str], None], folder: Path, bwrap: str, why: str
) -> None:
    tools(bwrap)
    for mode in ("auto", "bwrap"):
        assert why in (Sandbox(mode).available() or "")
        with pytest.raises(ConfigurationError, match="sandbox: off"):
            await Sandbox(mode).run("touch x", folder=folder)
    assert not list(folder.iterdir())
    assert Sandbox("off").available() is None
    assert (await Sandbox("off").run("echo ran", folder=folder)).output == "ran\n"


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="auto, bwrap, off"):
        Sandbox("docker")


@boxed
async def test_bubblewrap_setup_error_is_reported(tools: Callable[[str], None], folder: Path) -> None:
    real = f'[ "${{@: -1}}" = : ] && exec {shutil.which("bwrap", path=os.defpath)} "$@"'
    tools(f'#!/bin/bash\n{real}\necho "bwrap: broken" >&2; exit 1\n')  # only the trial run works
    with pytest.raises(OperationFailed, match="could not be set up: bwrap: broken"):
        await BOXED.run("echo hi", folder=folder)


def test_command_results_compare_by_value() -> None:
    assert CommandResult(0, "", False, False, "off", 0.1) == CommandResult(0, "", False, False, "off", 0.1)


@boxed
async def test_bubblewrap_without_size_limits_works(tools: Callable[[str], None], folder: Path) -> None:
    real = shutil.which("bwrap", path=os.defpath)
    unknown = '--size|--perms) echo "bwrap: Unknown option" >&2; exit 1'
    tools(f'#!/bin/bash\nfor word in "$@"; do case $word in {unknown};; esac; done\nexec {real} "$@"\n')
    ran = await BOXED.run("echo x > /tmp/a; echo y > /dev/shm/a; echo z > /dev/a || echo ran", folder=folder)
    assert ran.output.endswith("ran\n")
