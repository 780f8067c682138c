"""Packages and editable installs outside the folder can be imported in the sandbox, and only these."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playing import Play, bash, boxed, doing, put

from runtime.sandbox.importable import importable
from runtime.sandbox.sandbox import Sandbox

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "lent"
version = "1"
[tool.hatch.build]
dev-mode-dirs = ["src"]
"""
FINDER = "MAPPING: dict[str, str] = {'shared': '%s'}\nNAMESPACES: dict[str, list[str]] = {}\n" + (
    "import sys\nfrom importlib.machinery import PathFinder\n"
    "def install():\n    sys.path[:0] = [__import__('os').path.dirname(each) for each in MAPPING.values()]\n"
)
TEST = "import lent, shared\n\ndef test_it():\n    assert lent.ONE + shared.ONE == 2\n"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment and a project that is installed in it as editable, both outside the folder."""
    home, place = tmp_path / "home", tmp_path / "home" / "venvs" / "one"
    monkeypatch.setenv("HOME", str(home))
    put(home / "lent", "pyproject.toml", PROJECT)
    put(home / "lent", "src/lent/__init__.py", "ONE = 1\n")
    put(home / "lent", "src/.env", "PASSWORD=hunter22\n")
    put(home / "shared" / "shared", "__init__.py", "ONE = 1\n")
    put(home, "private.txt", "mine")
    put(home, ".ssh/id_rsa", "a key")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    packages = next(place.glob("lib/python3*/site-packages"))
    outer = [each for each in sys.path if each.endswith("site-packages")]
    put(packages, "outer.pth", "\n".join(outer) + "\n")
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "-e", str(home / "lent")], check=True, cwd=home)
    put(packages, "__editable___shared_finder.py", FINDER % (home / "shared" / "shared"))
    put(
        packages,
        "__editable__.shared.pth",
        "import __editable___shared_finder; __editable___shared_finder.install()\n",
    )
    (home / "link").symlink_to(home / ".ssh")
    put(packages, "wide.pth", f"{home}\n/\n{home / '.ssh'}\n{home / 'link'}\n")
    monkeypatch.setenv("PATH", f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return home


@boxed
def test_pytest_starts_with_an_editable_install_outside_the_folder(
    play: Play, tmp_path: Path, environment: Path
) -> None:
    put(tmp_path / "work", "test_it.py", TEST)
    played = play(
        doing(bash("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -q -p no:cacheprovider test_it.py")),
        settings={"sandbox": "auto"},
    )
    step = played.root.steps[1]
    assert step.state == "done" and "1 passed" in str(step.result), step.result


@boxed
async def test_only_what_is_imported_is_seen_and_nothing_can_be_changed(
    tmp_path: Path, environment: Path
) -> None:
    here = environment
    put(tmp_path / "work", "a.txt")
    looks = f"""
        cat {here}/private.txt {here}/.ssh/id_rsa {here}/link/id_rsa; cat {here}/lent/src/.env
        ls -A {here}/lent
        echo x >> {here}/lent/src/lent/__init__.py; touch {here}/venvs/one/new
        true
    """
    result = (await Sandbox("auto").run(looks, folder=tmp_path / "work")).output
    assert "mine" not in result and "a key" not in result and "hunter22" not in result
    assert result.count("Read-only file system") == 2, result
    assert (here / "lent/src/lent/__init__.py").read_text() == "ONE = 1\n"


@boxed
def test_environment_in_the_folder_shows_nothing_outside_it(
    play: Play, tmp_path: Path, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "work" / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    put(next(place.glob("lib/python3*/site-packages")), "wide.pth", f"{environment / 'lent' / 'src'}\n")
    monkeypatch.setenv("PATH", f"{place / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    played = play(doing(bash(f"ls {environment}/lent/src; true")), settings={"sandbox": "auto"})
    assert "lent/src" in str(played.root.steps[1].result) and "No such file" in str(
        played.root.steps[1].result
    )


PROGRAM = """
def save(path, text):
    with open(path, "w") as file:
        file.write(text)

save("one.txt", "1")
save("two.txt", "2")
"""


@boxed
def test_program_that_writes_to_an_unread_path_asks_nobody_in_the_sandbox(play: Play, tmp_path: Path) -> None:
    put(tmp_path / "work", "save.py", PROGRAM)
    played = play(doing(bash("python3 save.py")), settings={"sandbox": "auto"})
    assert played.root.meta.status in ("complete", "unverified")
    assert (tmp_path / "work" / "two.txt").read_text() == "2"


@pytest.fixture
def elsewhere(environment: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of `environment`, which the PATH does not name."""
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(os.pathsep)[2])
    return environment


@boxed
@pytest.mark.parametrize(
    "command",
    [
        "{venv}/bin/python -c 'import lent, shared; print(lent.ONE + shared.ONE)'",
        "cd /tmp && ~/venvs/one/bin/python -c 'import lent, shared; print(lent.ONE + shared.ONE)'",
        ". {venv}/bin/activate && python -c 'import lent, shared; print(lent.ONE + shared.ONE)'",
        "X=1 \"$HOME/venvs/one/bin/python\" -c 'import lent, shared; print(lent.ONE + shared.ONE)'",
    ],
)
async def test_environment_that_a_command_names_is_seen(
    tmp_path: Path, elsewhere: Path, command: str
) -> None:
    put(tmp_path / "work", "a.txt")
    (elsewhere / "venvs/one/bin/activate").write_text(f"export PATH={elsewhere}/venvs/one/bin:$PATH\n")
    said = await Sandbox("auto").run(command.format(venv=elsewhere / "venvs/one"), folder=tmp_path / "work")
    assert said.output == "2\n", said.output


@boxed
async def test_what_is_no_environment_is_not_seen_by_its_name(tmp_path: Path, elsewhere: Path) -> None:
    put(elsewhere, "bin/python", "#!/bin/sh\necho mine\n").chmod(0o755)
    put(elsewhere, "pyvenv.cfg", "home = /usr/bin\n")
    put(elsewhere / "tool", "bin/python", "#!/bin/sh\necho mine\n").chmod(0o755)
    put(elsewhere / ".ssh", "pyvenv.cfg", "home = /usr/bin\n")
    put(elsewhere / ".ssh", "bin/python", "#!/bin/sh\necho mine\n").chmod(0o755)
    looks = (
        f"{elsewhere}/bin/python; {elsewhere}/tool/bin/python; {elsewhere}/.ssh/bin/python; ls {elsewhere}"
    )
    put(tmp_path / "work", "a.txt")
    said = (await Sandbox("auto").run(f"{looks}; true", folder=tmp_path / "work")).output
    assert "mine" not in said and "private.txt" not in said, said


@boxed
async def test_interpreter_of_an_environment_in_the_folder_is_seen(tmp_path: Path, elsewhere: Path) -> None:
    """As a project manager makes it: `.venv/bin/python` leads to an interpreter below the home folder."""
    base, real = elsewhere / "pythons" / "three", Path(sys.base_prefix)
    (base / "bin").mkdir(parents=True)
    version = f"python3.{sys.version_info[1]}"
    (base / "lib" / version).mkdir(parents=True)
    put(base, f"lib/{version}/os.py")
    put(base, "bin/python3", "#!/bin/sh\necho started\n").chmod(0o755)
    place = tmp_path / "work" / ".venv"
    put(place, "pyvenv.cfg", f"home = {base / 'bin'}\n")
    (place / "bin").mkdir()
    (place / "bin/python").symlink_to(base / "bin/python3")
    said = (await Sandbox("auto").run(".venv/bin/python", folder=tmp_path / "work")).output
    assert said == "started\n", (said, real)
    (place / "bin/python").unlink()
    (place / "bin/python").symlink_to(elsewhere / ".ssh" / "id_rsa")
    put(place, "pyvenv.cfg", f"home = {elsewhere / '.ssh'}\n")
    said = (await Sandbox("auto").run("cat .venv/bin/python; true", folder=tmp_path / "work")).output
    assert "a key" not in said


@boxed
async def test_editable_project_whose_finder_is_not_read_is_seen(tmp_path: Path, environment: Path) -> None:
    packages = next((environment / "venvs/one").glob("lib/python3*/site-packages"))
    project = environment / "other"
    put(project, "pyproject.toml", PROJECT)
    put(project, "other.py", "print('other')")
    put(project, ".env", "PASSWORD=hunter22\n")
    put(packages, "_other_editable.py", f"import sys\nsys.path.append({str(project)!r})\n")
    put(packages, "_other_editable.pth", "import _other_editable\n")
    told = '{"url": "%s", "dir_info": {"editable": %s}}'
    put(packages, "other-1.dist-info/direct_url.json", told % (project.as_uri(), "true"))
    put(packages, "mine-1.dist-info/direct_url.json", told % (environment.as_uri(), "true"))
    put(packages, "key-1.dist-info/direct_url.json", told % ((environment / ".ssh").as_uri(), "true"))
    (gone := environment / "gone").mkdir()
    put(gone, "gone.py", "")
    put(packages, "gone-1.dist-info/direct_url.json", told % (gone.as_uri(), "false"))
    put(packages, "odd-1.dist-info/direct_url.json", "[1")
    put(tmp_path / "work", "a.txt")
    looks = f"python -c 'import other'; cat {project}/.env {environment}/.ssh/id_rsa; ls {gone} {environment}"
    said = (await Sandbox("auto").run(f"{looks}; true", folder=tmp_path / "work")).output
    assert said.startswith("other\n"), said
    assert not {"hunter22", "a key", "private.txt", "gone.py"} & set(said.split()), said


def seen(folder: Path, command: str = "") -> list[Path]:
    """What a command sees whose PATH has no Python."""
    return importable(folder, {"PATH": "/nowhere"}, Path.home(), command)


@pytest.mark.parametrize("mapping", ["-" * 90_000 + "1", "[" * 9_000, "['/a']", "{[]: 1}"])
def test_a_finder_that_cannot_be_read_names_nothing(tmp_path: Path, elsewhere: Path, mapping: str) -> None:
    place = elsewhere / "venvs/one"
    packages = next(place.glob("lib/python3*/site-packages"))
    put(packages, "__editable___odd_finder.py", f"MAPPING = {mapping}\n")
    put(packages, "long.pth", f"/{'a' * 300}\n")
    (work := tmp_path / "work").mkdir(exist_ok=True)
    assert elsewhere / "lent" / "src" in seen(work, f"{place}/bin/python a.py")


@pytest.mark.parametrize("marker", [".git/HEAD", ".fractal/state/x", "fractal.yaml"])
def test_environment_that_came_beside_the_folder_shows_only_itself(
    tmp_path: Path, elsewhere: Path, marker: str
) -> None:
    repo = tmp_path / "repo"
    put(repo, marker)
    put(repo / "sub", "a.txt")
    put(repo / "evil", "pyvenv.cfg", "home = /nowhere\n")
    (repo / "evil/bin").mkdir()
    (repo / "evil/bin/python").symlink_to(sys.executable)
    put(repo / "evil/lib/python3.12/site-packages", "a.pth", f"{elsewhere}/lent\n")
    shown = seen(repo / "sub", "../evil/bin/python a.py")
    assert repo / "evil" in shown and elsewhere / "lent" not in shown
    on_path = importable(repo / "sub", {"PATH": str(repo / "evil/bin")}, elsewhere)
    assert repo / "evil" in on_path and elsewhere / "lent" not in on_path
    (elsewhere / "linked").symlink_to(repo / "evil")
    assert elsewhere / "lent" not in seen(repo / "sub", "~/linked/bin/python a.py")


def test_environment_in_the_main_checkout_of_a_worktree_is_not_followed(
    tmp_path: Path, elsewhere: Path
) -> None:
    main, tree = tmp_path / "main", tmp_path / "trees" / "one"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(main)]
    put(main, "a.txt")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tree)], check=True)
    put(main / "evil", "pyvenv.cfg", "home = /nowhere\n")
    (main / "evil/bin").mkdir()
    (main / "evil/bin/python").symlink_to(sys.executable)
    put(main / "evil/lib/python3.12/site-packages", "a.pth", f"{elsewhere}/lent\n")
    shown = seen(tree, f"{main}/evil/bin/python a.py")
    assert main / "evil" in shown and elsewhere / "lent" not in shown


def test_home_folder_under_git_hides_no_environment(tmp_path: Path, elsewhere: Path) -> None:
    put(elsewhere, ".git/HEAD")
    put(elsewhere / "work", "a.txt")
    assert elsewhere / "lent/src" in seen(elsewhere / "work", "~/venvs/one/bin/python a.py")


@pytest.mark.parametrize("said", ["link", "link to a text", "home"])
def test_no_interpreter_is_above_the_folder_or_missing(tmp_path: Path, elsewhere: Path, said: str) -> None:
    work, lib = tmp_path / "work", tmp_path / "work" / "lib"
    put(lib, "python3x/os.py")
    put(tmp_path / "apart", "lib/python3x/os.py")
    put(lib, ".venv/pyvenv.cfg", f"home = {work}/nobin\n" if said == "home" else "")
    (lib / ".venv/bin").mkdir()
    if said == "link":
        (lib / ".venv/bin/python").symlink_to("../../../nobin/python")
    elif said == "link to a text":
        put(tmp_path / "apart", "bin/python")
        (lib / ".venv/bin/python").symlink_to(tmp_path / "apart/bin/python")
    assert {work, tmp_path / "apart"}.isdisjoint(seen(lib, "python a.py"))
    put(work, "nobin/python", "#!/bin/sh\n").chmod(0o755)
    assert work not in seen(lib, "python a.py")
