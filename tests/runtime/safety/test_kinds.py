"""The kind of a call, which a person can approve for the rest of a run: one program with plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernel.tools.tool import Tool
from runtime.api.fractal import shipped_system
from runtime.catalogue.catalogue import Catalogue
from runtime.safety.guard import Guard

CATALOGUE = Catalogue([shipped_system()])


def kind(tool: str, **args: Any) -> str:
    return Guard([shipped_system()], Path("/work/folder")).kind(CATALOGUE.get(tool), args)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest", "bash: pytest"),
        ("pytest -q tests/kernel", "bash: pytest"),
        ("pytest 'tests/a b.py' -k x", "bash: pytest"),
        ("git push", "bash: git push"),
        ("git push origin main", "bash: git push origin"),
        ("npm run test -- --ci", "bash: npm run test -- --ci"),
        ("make deploy", "bash: make deploy"),
        ("cargo test --all", "bash: cargo test"),
        ("mkdir out", "bash: mkdir"),
        ("rm -rf build", "bash: rm"),
        ("cat notes.txt", "bash: cat"),
        ("python scripts/build.py --fast", "bash: python scripts/build.py"),
        ("python -m pytest -q", "bash: python -m pytest"),
        ("./run.sh now", "bash: ./run.sh now"),
        ("/usr/bin/git status", "bash: /usr/bin/git status"),
        ("'git push' origin", "bash: 'git push' origin"),
    ],
)
def test_a_plain_command_is_of_the_kind_of_its_program(command: str, expected: str) -> None:
    assert kind("bash", command=command) == expected


@pytest.mark.parametrize(
    "command",
    [
        *("pytest; rm -rf src", "pytest && rm x", "pytest || rm x", "pytest | tee x", "pytest & rm x"),
        *("pytest > x", "pytest < x", "pytest >> x", "pytest 2>&1", "pytest <<E\nrm\nE", "pytest <(rm x)"),
        *("pytest $(rm x)", "pytest `rm x`", "pytest $X", "pytest ${X}", 'pytest "$(rm x)"'),
        *("pytest\nrm x", "pytest\trm", "pytest # x", "pytest *", "pytest ?", "pytest [a]", "pytest {a,b}"),
        *("(pytest)", "{ pytest; }", "! pytest", "pytest \\; x", "pytest ~", "pytest 'a"),
        *("X=1 pytest", "env pytest", "sudo pytest", "timeout 5 pytest", "xargs pytest", "nohup pytest"),
        *(
            "time pytest",
            "command pytest",
            "exec pytest",
            "eval pytest",
            "source x",
            ". x",
            "cd /",
            "trap x EXIT",
        ),
        *("sh x.sh", "bash -c pytest", "python", "python -c pass", "python - x", "python -m", "node -e x"),
        *("perl -e x", "sed s/a/b/e x", "awk x y", "git -c core.pager=x log", "find . -exec rm x"),
        *("npx x", "npm exec x", "uv run x", "docker run x", "ssh host rm", "tmux new x", "", " ", "''"),
        *("pytest\x00", "pyt\u200best", "pytest\r", "pytest \u2028 rm"),
    ],
)
def test_a_command_that_could_be_more_than_it_seems_is_of_no_kind(command: str) -> None:
    assert kind("bash", command=command) == ""


def test_a_command_with_input_is_of_no_kind() -> None:
    assert kind("bash", command="pytest", stdin="x") == ""


def test_other_tools_are_of_their_own_kind_and_requests_of_their_host() -> None:
    assert kind("write", path="a.txt", content="x") == "write"
    assert kind("fetch", url="https://example.org/a") == "fetch example.org"
    assert kind("fetch", url="nonsense") == kind("fetch", url="http://[x") == ""
    tool = Tool("files-move", Path("x"), args={"a": {}}, run="mcp: files/move")
    assert Guard([], Path("/work/folder")).kind(tool, {"a": 1}) == "files-move"
