"""The fixes: reads `fixes.yaml`, lays out the folder as it was before a fix, and runs the tests of the fix.

A repository is a git directory in a folder that the caller names. Nothing is fetched here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bench.harness import markdown
from bench.swe.job import SweJob
from kernel.errors import UsageError

DATA = Path(__file__).with_name("fixes.yaml")
UNHIDDEN = shutil.ignore_patterns(".git", ".fractal", ".venv", "state", "__pycache__", "fractal.yaml")
"""What stays out of the copy in which the hidden tests run."""
SECONDS = 300
"""The time limit of the hidden tests."""
PASSED, FAILED = 0, 1
"""Exit codes of pytest. Another one says that the tests did not run."""


@dataclass(frozen=True)
class Fix:
    """A commit that fixes something, told as a task. Fields are those of an entry in `fixes.yaml`."""

    name: str
    set: str
    repository: str
    """OWNER/NAME."""
    commit: str
    """The fix; its parent is what the job starts from."""
    tests: Sequence[str]
    """Hidden files of the fix: test modules, and data that they read."""
    task: str
    stubs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that a build would make, by path."""
    packages: Sequence[str] = ()
    """What the tests need besides pytest."""


def read(path: Path = DATA) -> list[Fix]:
    """The fixes of a data file. Raises `UsageError` if an entry has another form."""
    try:
        return [Fix(**entry) for entry in yaml.safe_load(path.read_text("utf-8"))]
    except TypeError as error:
        raise UsageError(f"{path}: {error}") from None


@dataclass(frozen=True)
class Source:
    """Where repositories are, and the Python that runs the tests of the jobs."""

    repositories: Path
    python: Path

    def git(self, fix: Fix, *args: str) -> bytes:
        """What git prints about the repository of a fix. Raises `UsageError` where that is missing."""
        owner_name = fix.repository.replace("/", "+")
        places = (f"{owner_name}/repo", f"{owner_name}.git", f"{owner_name}/.git")
        found = next((p for each in places if (p := self.repositories / each).is_dir()), None)
        if found is None:
            target = self.repositories / f"{owner_name}.git"
            raise UsageError(
                f"{target} does not exist; run: git clone --bare https://github.com/{fix.repository} {target}"
            )
        ran = subprocess.run(["git", f"--git-dir={found}", *args], capture_output=True, check=False)
        if ran.returncode:
            raise UsageError(f"{found}: git {args[0]}: {ran.stderr.decode(errors='replace').strip()}")
        return ran.stdout

    def job(self, fix: Fix) -> SweJob:
        """The fix as a job."""
        return SweJob(fix.name, fix.set, fix.task, partial(_create, self, fix), partial(_check, self, fix))


def lay_out(source: Source, fix: Fix, folder: Path, commit: str) -> None:
    """Write the files of a commit, and the stubs, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = source.git(fix, "archive", commit)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    for name, text in fix.stubs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def _create(source: Source, fix: Fix, folder: Path) -> None:
    lay_out(source, fix, folder, f"{fix.commit}^")
    own_environment(folder, source.python)
    version_control(folder)


def version_control(folder: Path) -> None:
    """Make the folder a repository of one commit, so that its future is not in it."""
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A", "-f", "--", ".", ":!.venv"]):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    subprocess.run(["git", *who, "commit", "-qm", "start"], cwd=folder, check=True, capture_output=True)
    with (folder / ".git" / "info" / "exclude").open("a", encoding="utf-8") as file:
        file.write(".venv/\nfractal.yaml\nstate/\n.fractal/\n__pycache__/\n.pytest_cache/\n")


def own_environment(folder: Path, python: Path) -> None:
    """Give the folder a `.venv` with the packages of `python` and the folder's own source importable.

    The packages are copied: a sandbox may hide the place where they lie.
    """
    own = folder / ".venv"
    venv.create(own, symlinks=True)
    packages = next(own.glob("lib/python*/site-packages"))
    for each in python.parent.parent.glob("lib/python*/site-packages/*"):
        if each.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "pip", "setuptools")
            shutil.copytree(each, packages / each.name, ignore=ignored, dirs_exist_ok=True)
        elif each.suffix != ".pth":
            shutil.copy(each, packages)
    (packages / "job.pth").write_text(f"{source_root(folder)}\n", "utf-8")
    pytest = own / "bin" / "pytest"
    pytest.write_text(f"#!{own}/bin/python\nimport pytest, sys\nsys.exit(pytest.console_main())\n", "utf-8")
    pytest.chmod(0o755)


def source_root(folder: Path) -> Path:
    """The folder from which the packages of a repository are imported."""
    return folder / "src" if (folder / "src").is_dir() else folder


def tests_python(environments: Path, packages: Sequence[str]) -> Path:
    """The Python with pytest and these packages; its environment is made where it is missing or lacks one."""
    own = environments / "swe-jobs"
    python, known = own / "bin" / "python", own / "packages.txt"
    wanted = sorted({"pytest", *packages})
    if not known.exists() or not set(wanted) <= set(known.read_text("utf-8").split()):
        venv.create(own, with_pip=True, symlinks=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
        known.write_text("\n".join(wanted), "utf-8")
    return python


def hidden_tests(source: Source, fix: Fix, folder: Path) -> tuple[int, str]:
    """Run the tests of the fix on a copy of a folder; the exit code of pytest, and the end of its output."""
    with tempfile.TemporaryDirectory(prefix="hidden-") as scratch:
        trial = Path(scratch) / "trial"
        shutil.copytree(folder, trial, ignore=UNHIDDEN, symlinks=True)
        for name in fix.tests:
            (trial / name).parent.mkdir(parents=True, exist_ok=True)
            (trial / name).write_bytes(source.git(fix, "show", f"{fix.commit}:{name}"))
        modules = [name for name in fix.tests if name.endswith(".py")]
        options = ["-q", "-W", "ignore", "-p", "no:cacheprovider", "-o", "addopts="]
        environment = {"PATH": os.defpath, "PYTHONPATH": str(source_root(trial))}
        try:
            ran = subprocess.run(
                [source.python, "-m", "pytest", *options, *modules],
                cwd=trial,
                env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return FAILED, f"stopped after {SECONDS} s"
    return ran.returncode, (ran.stdout + ran.stderr)[-1500:]


def _check(source: Source, fix: Fix, folder: Path, _answer: str) -> bool:
    return hidden_tests(source, fix, folder)[0] == PASSED


# ---- verifying -------------------------------------------------------------------------------------------


def verify(source: Source, fixes: Sequence[Fix]) -> Iterator[dict[str, Any]]:
    """For each fix: `name`, `before` and `after` (the last line of its tests) and `valid`.

    It is valid if the hidden tests fail on the parent commit and pass on the fix.
    """
    for fix in fixes:
        ends: list[tuple[int, str]] = []
        for commit in (f"{fix.commit}^", fix.commit):
            with _checkout(source, fix, commit) as folder:
                ends.append(hidden_tests(source, fix, folder))
        before, after = (" ".join(text.strip().splitlines()[-1:]) for _, text in ends)
        valid = [code for code, _ in ends] == [FAILED, PASSED]
        yield {"name": fix.name, "before": before, "after": after, "valid": valid}


@contextmanager
def _checkout(source: Source, fix: Fix, commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="verify-") as name:
        lay_out(source, fix, Path(name), commit)
        yield Path(name)


def verified(rows: Sequence[Mapping[str, Any]]) -> str:
    """What `verify` found, as markdown."""
    cells = [[row["name"], "yes" if row["valid"] else "NO", row["before"], row["after"]] for row in rows]
    return markdown(["fix", "valid", "on the parent commit", "on the fix"], cells, left=4)
