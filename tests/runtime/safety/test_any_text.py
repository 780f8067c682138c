"""Whatever stands in a command, the guard answers, and in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import NIGHT, examples, seconds

from runtime.api.fractal import shipped_system
from runtime.safety.guard import FAULT, Guard

GUARD = Guard([shipped_system()], Path("/home/user/project"))
GUARD.command("true; python3 -c 'print(1)'")  # what is imported once is no cost of a command
LIMIT = 0.1
WORDS = "if |then |fi |for i in |do |done |case x in |esac |f() {|while :; |rm -rf |sh -c |eval |xargs "
WORDS += "|sudo |echo |python3 -c |base64 -d|a=|$a|{a,b}|é|漢|$(|${|<<A\n|<(|$((|&&|$'"
PIECES = st.sampled_from([*"'\"`$(){}[]<>|&;#!*?~=\\\n\t \0\x01\x7f\ud800\ufffc", *WORDS.split("|")])


def judge(command: str) -> None:
    """No fault comes of it; at night the quickest of ten times is within the limit."""
    dangers = GUARD.command(command)
    assert not any(FAULT in each.why for each in dangers), dangers
    if NIGHT:
        again = (f"{command}{' ' * number}" for number in range(1, 11))  # no answer is kept
        assert seconds(lambda: GUARD.command(next(again)), 10) < LIMIT


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=60).map("".join))
def test_no_pieces_of_shell_make_it_raise_or_linger(command: str) -> None:
    judge(command)


@settings(max_examples=examples(200), deadline=None)
@given(st.text(st.characters(), max_size=300))
def test_no_text_makes_it_raise_or_linger(command: str) -> None:
    judge(command)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, min_size=1, max_size=4).map("".join), st.integers(1, 5000))
def test_no_repetition_makes_it_raise_or_linger(piece: str, times: int) -> None:
    judge((piece * times)[:10_000])


@pytest.mark.parametrize(
    "command",
    [
        "echo a" + " | cat" * 1000,
        "cat x" + " | sort" * 1000,
        "(" * 5000 + ")" * 5000,
        "$(" * 3000 + "ls" + ")" * 3000,
        "&&".join(["true"] * 2500),
        ";".join(["ls"] * 3000),
        "echo " + "{a,b}" * 2000,
        "a=xx;" + "a=$a$a;" * 1500 + "echo $a",
        "f0() { ls; };" + "".join(f"f{n}() {{ f{n - 1}; f{n - 1}; }};" for n in range(1, 200)) + "f199",
        "".join(f"for i{n} in 1 2 3 4 5 6 7 8; do " for n in range(11)) + "x=1" + ";done" * 11,
        "rm " + " ".join(f"f{n}" for n in range(1500)),
        "ls " + "> a " * 2000,
        "a=(" * 3000,
        "cat <<A\n" * 1000,
        "sh <<A\n" + "echo hi\n" * 1200 + "A\n",
        "sh -c " * 1500,
        "eval " * 2000 + "ls",
        "echo a | tr '\\x00-\U0010ffff' b",
        'python3 -c "' + "(" * 4000 + ")" * 4000 + '"',
        "python3 -c 'os.system(" + "+".join(['"a"'] * 2000) + ")'",
        'sqlite3 x "' + "delete from a " * 700 + '"',
        "curl -XDELETE " * 700,
        "'" * 10_001,
        "\\" * 9_999,
        "\n" * 10_000,
        "a" * 10_000,
        "rm " + "../" * 3000,
        "vim " + '"+!ls" ' * 1200,
        "perl - <<'E'\n" + '"a",' * 2500 + "\nE",
        "awk '" + '"a",' * 2500 + "' x",
    ],
    ids=lambda command: command[:16],
)
def test_what_is_long_deep_or_broken_takes_no_longer(command: str) -> None:
    judge(command)


@pytest.mark.parametrize("command", ["(" * 5000 + "rm -rf ~" + ")" * 5000, "true\n" * 4000 + "rm -rf ~"])
def test_what_is_not_read_to_its_end_waits(command: str) -> None:
    assert "serious" in {danger.severity for danger in GUARD.command(command)}


@pytest.mark.parametrize("command", ["rm -rf ~\0", "rm -rf ~ \ud800", "rm -rf ~ '", 'rm -rf ~ "$('])
def test_a_broken_line_is_judged_by_what_can_be_read(command: str) -> None:
    assert GUARD.command(command)


def test_a_fault_of_the_reading_lets_nothing_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.safety.shell.Shell.line", lambda shell, text: 1 // 0)
    assert [each.rule for each in GUARD.command("ls")] == ["hidden-code"]


def test_no_character_ends_the_process() -> None:
    """The grammar's scanner reads outside its tables at `{` and a far character (tree-sitter-bash#337)."""
    code = (
        "from pathlib import Path\n"
        "from runtime.api.fractal import shipped_system\n"
        "from runtime.safety.guard import Guard\n"
        "guard = Guard([shipped_system()], Path('/home/user/project'))\n"
        "lines = ['echo {' + chr(at) for at in range(128, 0x110000, 257)]\n"
        "assert all(guard.command(f'{line}; rm -rf ~') for line in lines)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
