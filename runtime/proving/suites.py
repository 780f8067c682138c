"""Test files that a run has touched: the command that runs them, and what such a command has counted."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from kernel.loop.hooks import FolderChanges
from runtime.proving.parsing import text_of
from runtime.sandbox.tests_by_name import is_test
from runtime.text.terminal import printed

MOST = 50
"""Test files of one language that are run, and those whose earlier lines are counted."""
_PYTHON = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|tests)\.py$")
_SCRIPT = re.compile(r"(?:\.(?:test|spec)|(?:^|/)__tests__/.*)\.[cm]?[jt]sx?$|(?:^|/)tests?/[^/]*\.[cm]?js$")
_RUNNERS: Mapping[str, str] = {
    "vitest": "npx --no-install vitest run",
    "jest": "npx --no-install jest",
    "mocha": "npx --no-install mocha",
    "ava": "npx --no-install ava",
}
"""Commands of the test runners that a package.json may name."""


def touched_tests(folder: Path, changes: FolderChanges) -> str:
    """The line of bash that runs the new and changed test files from the folder; "" if there are none.

    Python files run in `.venv` or `venv` of the folder if there is one. Files of Go run with their package.
    """
    paths = [path for path in sorted(changes.moved) if is_test(path) and (folder / path).is_file()]
    ways: Sequence[tuple[Callable[[str], object], Callable[[Path, list[str]], str]]] = (
        (_PYTHON.search, _python),
        (_SCRIPT.search, _script),
        (lambda path: path.endswith("_test.go"), _go),
        (lambda path: re.search(r"(?:^|/)tests/[^/]+\.rs$", path), _cargo),
    )
    commands = [command(folder, [path for path in paths if is_one(path)][:MOST]) for is_one, command in ways]
    return " && ".join(filter(None, commands))


def replaced_lines(folder: Path, changes: FolderChanges) -> dict[str, int]:
    """How many lines of tests that were there at the start are no longer there, by file; of `MOST` files.

    A line that stands in another touched test file now was moved.
    """
    paths = [path for path in sorted(changes.moved) if is_test(path)][:MOST]
    now = Counter(line for path in paths for line in _lines(text_of(folder / path) or ""))
    found: dict[str, int] = {}
    for path in paths:
        before = Counter(_lines(changes.before(path)))
        if gone := (before - now).total():
            found[path] = gone
        now -= before
    return found


def _lines(text: str) -> Iterator[str]:
    """The lines of a text that say something."""
    return filter(None, map(str.strip, text.splitlines()))


def counts(output: str) -> str:
    """What a test run counted, such as `12 passed, 1 failed`; "" if no form of counting is recognised.

    Knows pytest, unittest, jest, vitest, mocha, `node --test`, cargo, and go (which counts packages unless
    it is asked for each test). Several runs are added up.
    """
    found: dict[str, int] = {}
    text = printed(output)
    for form in (_pytest, _unittest, _jest, _mocha, _node, _rust, _of_go):
        for kind, count in form(text):
            found[kind] = found.get(kind, 0) + count
    packages = "packages: " if found.pop("packages", 0) else ""
    told = ", ".join(f"{found[kind]} {kind}" for kind in _NAMES if found.get(kind))
    return packages + re.sub(r"\b1 errors", "1 error", told)


# ---- commands ---------------------------------------------------------------------------------------------


def _python(folder: Path, paths: list[str]) -> str:
    if not paths:
        return ""
    own = next((each for each in (".venv", "venv") if (folder / each / "bin" / "python").exists()), "")
    python = f"{own}/bin/python" if own else "python" if shutil.which("python") else "python3"
    if own and not any((folder / own).glob("lib/python3*/site-packages/pytest")):
        with suppress(OSError):
            if all("unittest" in (folder / path).read_text("utf-8", "replace") for path in paths):
                return f"{python} -m unittest {_words(paths)}"
    return f"{python} -m pytest -q -p no:cacheprovider {_words(paths)}"


def _script(folder: Path, paths: list[str]) -> str:
    def command(root: Path, inside: list[str]) -> str:
        try:
            package = json.loads((root / "package.json").read_text("utf-8"))
            script = str(package["scripts"]["test"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            script = ""
        runner = next((line for name, line in _RUNNERS.items() if re.search(rf"\b{name}\b", script)), "")
        if not runner and any(not re.search(r"\.[cm]?js$", path) for path in inside):
            return ""  # plain node reads no TypeScript
        return f"{runner or 'node --test'} {_words(inside)}"

    return _by_root(folder, paths, "package.json", command)


def _go(folder: Path, paths: list[str]) -> str:
    def command(root: Path, inside: list[str]) -> str:
        parents = dict.fromkeys(PurePosixPath(path).parent.as_posix() for path in inside)
        return f"go test {' '.join(shlex.quote(f'./{each}' if each != '.' else '.') for each in parents)}"

    return _by_root(folder, paths, "go.mod", command)


def _cargo(folder: Path, paths: list[str]) -> str:
    def command(root: Path, inside: list[str]) -> str:
        names = (PurePosixPath(path).stem for path in inside)
        return f"cargo test --offline {' '.join(f'--test {shlex.quote(name)}' for name in names)}"

    return _by_root(folder, paths, "Cargo.toml", command)


def _by_root(folder: Path, paths: list[str], marker: str, command: Callable[[Path, list[str]], str]) -> str:
    """A command for the files of each project: the nearest folder above that has the file `marker`."""
    roots: dict[str, list[str]] = {}
    for path in paths:
        above = [each.as_posix() for each in PurePosixPath(path).parents]
        root = next((each for each in above if (folder / each / marker).is_file()), ".")
        roots.setdefault(root, []).append(PurePosixPath(path).relative_to(root).as_posix())
    commands = [(root, command(folder / root, inside)) for root, inside in roots.items()]
    return " && ".join(
        f"(cd {shlex.quote(f'./{root}')} && {line})" if root != "." else line
        for root, line in commands
        if line
    )


def _words(paths: list[str]) -> str:
    return " ".join(shlex.quote(f"./{path}" if path.startswith("-") else path) for path in paths)


# ---- counts -----------------------------------------------------------------------------------------------

_Counted = list[tuple[str, int]]
_NAMES: Mapping[str, Sequence[str]] = {
    "passed": ("passed", "passing", "pass", "xpassed"),
    "failed": ("failed", "failing", "fail", "failures", "unexpected successes"),
    "errors": ("error", "errors"),
    "skipped": ("skipped", "pending", "todo", "ignored"),
    "failed as expected": ("xfailed", "expected failures"),
}
_WORDS = {word: kind for kind, words in _NAMES.items() for word in words}
_ITEM = re.compile(r"(\d{1,9}) (\w+)")


def _counted(text: str) -> _Counted:
    return [(_WORDS[word], int(count)) for count, word in _ITEM.findall(text) if word in _WORDS]


def _pytest(text: str) -> _Counted:
    lines = re.findall(r"(?m)^(?:=+ )?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in \d[\d.,]*s\b", text)
    return [each for line in lines for each in _counted(line)]


def _unittest(text: str) -> _Counted:
    found: _Counted = []
    form = r"(?m)^Ran (\d{1,9}) tests? in [\d.]+s\n+(?:OK|FAILED)(?: \(([^()\n]*)\))?$"
    for ran, listed in re.findall(form, text):
        others = [
            (_WORDS[word], int(count))
            for word, count in re.findall(r"([a-z]+(?: [a-z]+)?)=(\d{1,9})", listed)
            if word in _WORDS
        ]
        found += [("passed", max(int(ran) - sum(count for _, count in others), 0)), *others]
    return found


def _jest(text: str) -> _Counted:
    lines = re.findall(r"(?m)^ *Tests:? +(\d+ [a-z]+(?:(?:, | \| )\d+ [a-z]+)*)", text)
    return [each for line in lines for each in _counted(line)]


def _mocha(text: str) -> _Counted:
    return _counted("\n".join(re.findall(r"(?m)^ +(\d+ (?:passing|failing|pending))\b", text)))


def _node(text: str) -> _Counted:
    lines = re.findall(r"(?m)^[#ℹ] (pass|fail|skipped|todo) (\d{1,9})$", text)
    return [(_WORDS[word], int(count)) for word, count in lines]


def _rust(text: str) -> _Counted:
    lines = re.findall(r"(?m)^test result: (?:ok|FAILED)\. (.*)$", text)
    return [each for line in lines for each in _counted(line)]


def _of_go(text: str) -> _Counted:
    tests = re.findall(r"(?m)^--- (PASS|FAIL|SKIP): ", text)
    packages = re.findall(r"(?m)^(ok|FAIL)[ \t]+\S+[ \t]", text)
    if "PASS" in tests:  # `go test` without -v names only those that fail
        words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
        return [(words[word], 1) for word in tests]
    return (
        [("packages", 1), *(("passed" if each == "ok" else "failed", 1) for each in packages)]
        if packages
        else []
    )
