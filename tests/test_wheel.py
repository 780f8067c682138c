"""The wheel: one package with the instructions and the line numbers of the repository."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from test_repository import ROOT, tracked

IMPORT = re.compile(r"\s*(?:from|import)\s")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = ["hatchling", "build", "-t", "wheel", "-d", str(folder)]
    if not importlib.util.find_spec("hatchling"):  # then pip fetches it
        command = ["pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), "."]
    built = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory) -> Path:
    """The wheel installed in an environment that uses the libraries of this one."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python3*/site-packages")
    libraries = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    # .pth files in the borrowed folders are ignored, so an editable install is not visible.
    (packages / "borrowed.pth").write_text("\n".join(libraries), "utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "--quiet"]
    variables = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True, env=variables)
    return packages


@pytest.fixture(scope="module")
def beside_others(tmp_path_factory) -> Path:
    """A user's folder with modules called `kernel` and `runtime`."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "kernel").mkdir()
    (folder / "kernel" / "__init__.py").write_text("raise RuntimeError('not yours')\n", "utf-8")
    (folder / "runtime.py").write_text("raise RuntimeError('not yours')\n", "utf-8")
    return folder


def ran(site: Path, folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    programs = site.parents[2] / "bin"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(programs / command[0]), *command[1:]],
        cwd=folder,
        env={**kept, "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
    )


def test_wheel_is_one_package_with_the_instructions(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0] for name in names} - {"fractal"} == {"fractal_runtime-0.1.0.dist-info"}
    shipped = {
        f"fractal/runtime/_system/{name.removeprefix('system/')}"
        for name in tracked()
        if name.startswith("system/")
    }
    assert "fractal/runtime/_system/pattern.md" in shipped
    assert sorted(shipped - names) == []
    assert {"fractal/py.typed", "fractal/kernel/py.typed", "fractal/runtime/py.typed"} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert not any(name.endswith(".pyc") for name in names)


def test_modules_equal_the_repository_except_imports(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in tracked():
            package = name.partition("/")[0]
            if package not in ("fractal", "kernel", "runtime") or not name.endswith(".py"):
                continue
            packed = archive.read(name if package == "fractal" else f"fractal/{name}").decode("utf-8")
            ours, theirs = (ROOT / name).read_text("utf-8").splitlines(), packed.splitlines()
            assert len(ours) == len(theirs), name
            changed = [(old, new) for old, new in zip(ours, theirs, strict=True) if old != new]
            assert all(IMPORT.match(old) and new.replace(" fractal.", " ", 1) == old for old, new in changed)
            assert not re.search(r"^\s*(?:from|import) (?:kernel|runtime)\b", packed, re.M), name


def test_command_runs_beside_modules_of_the_same_names(site, beside_others):
    for command in (("fractal",), ("python", "-m", "fractal")):
        done = ran(site, beside_others, *command, "run", "what is 15% of 80?")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "12"), done.stderr


def test_public_api_is_imported_beside_modules_of_the_same_names(site, beside_others):
    program = (
        "import fractal, fractal.memory\n"
        "from fractal import *\n"
        "print(Fractal.__module__, all(getattr(fractal, name) for name in fractal.__all__))\n"
    )
    done = ran(site, beside_others, "python", "-c", program)
    assert done.stdout == "fractal.runtime.api.fractal True\n", done.stderr


def test_traceback_shows_the_lines_of_the_repository(site, beside_others):
    done = ran(site, beside_others, "fractal", "show", "no-such-run", FRACTAL_DEBUG="1")
    frames = re.findall(
        r'/site-packages/fractal/((?:kernel|runtime)/.+)", line (\d+), .*\n +(.+)', done.stderr
    )
    assert len(frames) > 2, done.stderr
    for name, number, line in frames:
        assert (ROOT / name).read_text("utf-8").splitlines()[int(number) - 1].strip() == line.strip()
