"""Suites are read from the formats that users have, and a wrong file is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel.errors import UsageError
from runtime.benchmarks.suites import load


def read(path: Path) -> dict[str, tuple[str, str, str]]:
    return {each.id: (each.task, each.answer, each.family) for each in load("aime", path, None, 1)}


def test_the_seed_decides_the_problems() -> None:
    one, same, other = (load("arithmetic", None, 40, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert load("arithmetic", None, 20, 1) == one[:20]
    assert len({each.family for each in one}) > 8
    assert all(each.answer.isdecimal() for each in one)


def test_formats_of_data_sets_are_read(tmp_path: Path) -> None:
    aime = tmp_path / "aime.csv"
    aime.write_text('ID,Question,Answer\n2024-I-1,"Find $x$, please.",073\n', "utf-8")
    assert read(aime) == {"2024-I-1": ("Find $x$, please.", "073", "")}
    math = tmp_path / "math" / "algebra"
    math.mkdir(parents=True)
    solved = {"problem": "What is 1+1?", "type": "Algebra", "solution": r"It is $\boxed{2}$."}
    (math / "1.json").write_text(json.dumps(solved), "utf-8")
    assert read(tmp_path / "math") == {"algebra/1.json": ("What is 1+1?", "2", "Algebra")}
    own = tmp_path / "own.jsonl"
    own.write_text('{"task": "Say 3", "answer": 3, "family": "easy"}\n\n{"task": "Say 4", "answer": "4"}\n')
    assert read(own) == {"1": ("Say 3", "3", "easy"), "2": ("Say 4", "4", "")}


def test_a_folder_of_repositories_is_laid_out(tmp_path: Path) -> None:
    for name, files in {"repository": {"a.py": "x = 1\n"}, "checks": {"test_a.py": "import a\n"}}.items():
        (tmp_path / "suite" / "one" / name).mkdir(parents=True)
        for path, text in files.items():
            (tmp_path / "suite" / "one" / name / path).write_text(text, "utf-8")
    (tmp_path / "suite" / "one" / "task.yaml").write_text("task: Correct it\ntest: python3 -m unittest\n")
    (problem,) = load(str(tmp_path / "suite"), None, None, 1)
    assert (problem.id, problem.test) == ("one", "python3 -m unittest")
    work = tmp_path / "work"
    problem.lay_out(work)
    (work / "test_a.py").write_text("", "utf-8")
    problem.restore_checks(work)
    assert sorted(path.name for path in work.iterdir()) == ["a.py", "test_a.py"]
    assert (work / "test_a.py").read_text("utf-8") == "import a\n"


def test_checks_are_restored_through_no_link(tmp_path: Path) -> None:
    line = {"task": "x", "test": "true", "checks": {"tests/a.py": "mine", "b.py": "mine"}}
    (tmp_path / "own.jsonl").write_text(json.dumps(line), "utf-8")
    (problem,) = load(str(tmp_path / "own.jsonl"), None, None, 1)
    work, outside = tmp_path / "work", tmp_path / "outside"
    problem.lay_out(work)
    outside.mkdir()
    (outside / "a.py").write_text("theirs", "utf-8")
    (work / "tests" / "a.py").unlink()
    (work / "tests").rmdir()
    (work / "tests").symlink_to(outside)
    (work / "b.py").unlink()
    (work / "b.py").symlink_to(outside / "a.py")
    problem.restore_checks(work)
    assert (outside / "a.py").read_text("utf-8") == "theirs"
    assert (work / "tests" / "a.py").read_text("utf-8") == (work / "b.py").read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("a.jsonl", b'{"task": "x", "answer": "1"}\n{oops\n', "a.jsonl:2: not valid JSON"),
        ("a.jsonl", b"[1]\n", "a.jsonl:1: expected an object"),
        ("a.jsonl", b'{"answer": "1"}\n', "a.jsonl:1: there is no task"),
        ("a.jsonl", b'{"task": "x"}\n', "a.jsonl:1: there is nothing to judge by"),
        ("a.jsonl", b'{"task": "x", "test": "t", "files": [1]}\n', "files is not an object of texts"),
        ("a.jsonl", b"\xff\n", "not UTF-8"),
        ("a.jsonl", b"", "it holds no problems"),
        ("a.csv", b"Question,Answer\n,1\n", "a.csv:2: there is no task"),
        ("a.yaml", b"a: [", "not valid YAML"),
        ("a.yaml", b"[" * 999, "not valid YAML"),
        ("a.csv", b'task,answer\n"%b",1\n' % (b"x" * 10_000_001), "a.csv:2: not valid CSV"),
        ("a.jsonl", b'{"task": ["x"], "answer": "1"}\n', "a.jsonl:1: task is not a text"),
        ("a.jsonl", b'{"task": "\\ud800", "answer": "1"}\n', "a.jsonl:1: .* half a character"),
        ("a.jsonl", b'{"task": "x", "test": "t", "files": {"a": "\\ud800"}}\n', "half a character"),
        ("a.jsonl", b'{"task": "x", "test": "t", "files": {"../a": ""}}\n', "a.jsonl:1: ../a leads out"),
        ("a.jsonl", b'{"task": "x", "test": "t", "checks": {"/a": ""}}\n', "a.jsonl:1: /a leads out"),
        ("a.txt", b"x", "its name ends in none of"),
        (
            "a.jsonl",
            b'{"id": 1, "task": "x", "answer": "1"}\n{"id": 1, "task": "y", "answer": "1"}\n',
            "two problems have the id 1",
        ),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, name: str, raw: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(UsageError, match=why):
        load("aime", tmp_path / name, None, 1)


def test_a_suite_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data"):
        load("aime", None, None, 1)
    with pytest.raises(UsageError, match="no such file"):
        load("nothing.jsonl", None, None, 1)
    with pytest.raises(UsageError, match="leave out --data"):
        load("arithmetic", tmp_path, None, 1)
