"""sort, grep, count and find: what GNU sort, grep, wc and find say, and Python's re."""

from __future__ import annotations

import csv as csvlib
import io
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from references import COUNT, cases, outcome, quick_folder

from runtime.operations.files import find
from runtime.operations.search import count, grep
from runtime.operations.sorting import sort_lines

CASELESS = (
    "apple",
    "file-10",
    "file-9",
    "x y",
    "",
    " lead",
    "zebra",
    "10",
    "ünder",
    "日本",
    "a-b",
    "a_b",
    "~",
    "tab\there",
)
CASED = (*CASELESS, "Apple", "ZEBRA", "Ünder", "straße", "STRASSE", "aPPle")


def gnu(folder: Path, *command: str) -> list[str]:
    """The lines that a program prints; its exit code is not asked."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    ran = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    return ran.stdout.decode().split("\n")[:-1]


def numbered(r: random.Random) -> str:
    number = r.choice((str(r.randint(0, 999)), f"{r.randint(0, 99)}.{r.randint(0, 99):02d}", ".5"))
    return f"{r.choice(('', '-'))}{number}{r.choice(('', ' kg', ' a', 'x'))}"


def test_lines_are_sorted_as_sort_and_python_do(tmp_path: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        numeric = r.random() < 0.5
        cased = r.random() < 0.3 and not numeric
        words = CASED if cased else CASELESS
        lines = [numbered(r) if numeric else r.choice(words) for _ in range(r.randint(1, 9))]
        down, unique = r.random() < 0.4, r.random() < 0.4 and not numeric
        text = "\n".join(lines) + r.choice(("", "\n"))
        if not text.strip("\n"):
            continue
        args = {"order": r.choice(("desc", "descending") if down else ("asc", "ascending"))}
        answer = outcome(sort_lines, tmp_path, text=text, numeric=numeric, unique=unique, **args)
        if cased:
            kept = (
                list(dict.fromkeys(text.removesuffix("\n").split("\n")))
                if unique
                else text.removesuffix("\n").split("\n")
            )
            expected = sorted(kept, key=lambda line: (line.casefold(), line), reverse=down)
        else:
            flags = [flag for flag, on in (("-n", numeric), ("-r", down), ("-u", unique)) if on]
            ran = subprocess.run(
                ["sort", *flags],
                input=text.encode(),
                capture_output=True,
                env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            )
            expected = ran.stdout.decode().split("\n")[:-1]
        if answer is None or answer.split("\n") != expected:
            wrong.append((seed, text, args, numeric, unique, answer, expected))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quick_folder(tmp_path) as quick:
        yield quick / "tree"


NAMES = (
    "a.txt",
    "b.md",
    "notes.txt",
    "data.csv",
    ".hidden",
    "two words.txt",
    "ünï.md",
    "A.TXT",
    "x[1].txt",
    "no_ending",
)
FOLDERS = ("", "", "sub/", "sub/deep/", "other folder/")
LINES = (
    "TODO: write",
    "todo later",
    "one two  three",
    "",
    "a.b",
    "aXb",
    "1234",
    "ünïcode ß",
    "\ttab",
    "end.",
    "(x)",
    "foo foo foo",
    "[a]",
    "trailing  ",
)


def tree(r: random.Random, folder: Path) -> dict[str, str]:
    """Files of a new folder with their texts."""
    shutil.rmtree(folder, ignore_errors=True)
    made: dict[str, str] = {}
    for _ in range(r.randint(1, 6)):
        name = r.choice(FOLDERS) + r.choice(NAMES)
        made[name] = "\n".join(r.choice(LINES) for _ in range(r.randint(0, 5))) + r.choice(("", "\n"))
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(made[name].encode())
    return made


PATTERNS = ("TODO", "a.b", "^one", "[0-9]", "o{2}", "(foo )+", "end[.]$", "ß", "x|y", "^$", "t?o")


def test_lines_are_found_as_grep_and_re_find_them(folder: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        made = tree(r, folder)
        fixed = r.random() < 0.6
        pattern = (
            r.choice(("TODO", "foo", "a.b", "(x)", "[a]", "two  t", "ü", "end."))
            if fixed
            else r.choice(PATTERNS)
        )
        ignore_case = r.random() < 0.3 and pattern.isascii()
        answer = outcome(grep, folder, pattern=pattern, fixed=fixed, ignore_case=ignore_case)
        compiled = re.compile(re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else 0)
        expected = sorted(
            f"{name}:{number}:{line}"
            for name, text in made.items()
            for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1)
            if compiled.search(line)
        )
        found = (
            []
            if answer is not None and answer.startswith("no line matches")
            else sorted((answer or "").split("\n"))
        )
        if answer is None or found != expected:
            wrong.append((seed, pattern, fixed, ignore_case, answer, expected))
        if seed % 4 == 0:
            flags = ["-rn", "-F" if fixed else "-E", *(["-i"] if ignore_case else [])]
            theirs = sorted(
                line.removeprefix("./") for line in gnu(folder, "grep", *flags, "-e", pattern, ".")
            )
            if theirs != expected:
                wrong.append((seed, "grep", pattern, theirs, expected))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"


def test_what_is_counted_is_what_wc_counts(folder: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        made = tree(r, folder)
        what = r.choice(("lines", "words", "characters", "bytes", "matches", "files"))
        pattern = {"pattern": r.choice(("foo", "o", "[a-z]+"))} if what == "matches" else {}
        answer = outcome(count, folder, what=what, format="csv", **pattern)
        found = {row[0]: int(row[1]) for row in list(csvlib.reader(io.StringIO(answer or "")))[1:]}
        if what == "files":
            expected: dict[str, int] = {}
            for name in made:
                place = name.rpartition("/")[0] or "."
                expected[place] = expected.get(place, 0) + 1
        elif what == "matches":
            expected = {name: len(re.findall(pattern["pattern"], text)) for name, text in made.items()}
        else:
            flag = {"lines": "-l", "words": "-w", "characters": "-m", "bytes": "-c"}[what]
            rows = [line.split(None, 1) for line in gnu(folder, "wc", flag, *made)]
            expected = {name: int(number) for number, name in rows[: len(made)]}
            if what == "lines":  # a last line without an end counts
                expected = {name: n + (made[name][-1:] not in ("", "\n")) for name, n in expected.items()}
        total = outcome(count, folder, what=what, format="total", **pattern)
        if found != expected or total != str(sum(expected.values())):
            wrong.append((seed, what, pattern, made, answer, total, expected))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"


def test_names_are_found_as_find_finds_them(folder: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        tree(r, folder)
        pattern = r.choice(
            (
                "*.txt",
                "*.md",
                "*",
                "a*",
                "?.md",
                "[ab].*",
                "*.TXT",
                "*ü*",
                "sub",
                "x[[]1].txt",
                ".*",
                "[!a]*",
                "two words.txt",
            )
        )
        kind = r.choice(("file", "folder"))
        answer = outcome(find, folder, pattern=pattern, type=kind)
        found = set() if (answer or "").startswith("nothing matches") else set((answer or "").split("\n"))
        expected = {
            line.removeprefix("./") + ("/" if kind == "folder" else "")
            for line in gnu(
                folder,
                "find",
                ".",
                "-mindepth",
                "1",
                "-name",
                pattern,
                "-type",
                kind[0].replace("o", "d") if kind == "file" else "d",
            )
        }
        if answer is None or found != expected:
            wrong.append((seed, pattern, kind, answer, expected))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"
