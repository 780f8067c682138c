"""Hostile tool files: nothing is fetched, nothing hangs, memory stays bounded."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from lanes import within
from playing import boxed

from kernel.errors import FractalError
from kernel.tools.tool import Tool
from runtime.catalogue.catalogue import Catalogue
from runtime.catalogue.pattern import Fault, load
from runtime.catalogue.schemas import checker
from runtime.evolution.sample_tests import try_sample
from runtime.operations.running import caller
from runtime.sandbox.context import OperationContext
from runtime.sandbox.sandbox import Sandbox
from runtime.tool_files import program_of

HEAD = "---\ndescription: does its worst\n"


def read(folder: Path, text: str) -> Tool | Fault:
    """Load a tool from the text of its pattern."""
    path = folder / "tools" / "worst" / "pattern.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (path.parent / "tool.sh").write_text("echo harmless\n")
    return load(path, path.stat().st_mtime_ns, path.stat().st_size)


BOMB = "\n".join(
    [
        "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)),
    ]
)
PLACES = [
    "name",
    "description",
    "args",
    "required",
    "effects",
    "sample",
    "status",
    "origin",
    "returns",
    "run",
    "timeout",
]


@pytest.mark.parametrize("place", [*PLACES, "states", "idempotent", "rank"])
def test_yaml_bomb_is_refused_quickly(tmp_path: Path, place: str) -> None:
    head = "---\n" if place == "description" else HEAD
    with within(2):
        got = read(tmp_path, f"{head}{BOMB}\n{place}: *a8\n---\n# Worst\n")
    assert isinstance(got, Fault)
    assert len(str(got)) < 1_000


@pytest.mark.parametrize("place", ["name", "description", "license", "metadata"])
def test_yaml_bomb_in_a_skill_is_refused_quickly(tmp_path: Path, place: str) -> None:
    path = tmp_path / "helper" / "SKILL.md"
    path.parent.mkdir()
    path.write_text(f"---\n{BOMB}\n{place}: *a8\n---\n# Helper\n\nHelps with everything.\n")
    with within(2):
        got = load(path, path.stat().st_mtime_ns, path.stat().st_size)
    assert len(str(got)) < 3_000


ODD = {
    "no name for a person": "name: ../../x",
    "a deep list": f"args: {'[' * 5_000}{']' * 5_000}",
    "python of YAML": "args: !!python/object/apply:os.system [touch pwned]",
    "no number": "timeout: .nan\nrun: 'command: ./tool.sh'",
    "for ever": "timeout: .inf\nrun: 'command: ./tool.sh'",
    "before now": "timeout: -5\nrun: 'command: ./tool.sh'",
    "a long time": "timeout: 1e300\nrun: 'command: ./tool.sh'",
}


@pytest.mark.parametrize("kind", ODD)
def test_invalid_frontmatter_is_reported_briefly(tmp_path: Path, kind: str) -> None:
    got = read(tmp_path, f"{HEAD}{ODD[kind]}\n---\n# Worst\n")
    assert isinstance(got, Fault)
    assert len(got.message) < 500
    assert not Path("pwned").exists()


def test_program_outside_the_tool_folder_or_foreign_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.sh").write_text("echo outside\n")
    for run in (
        "command: ../../outside.sh",
        "command: /bin/sh",
        "command: .",
        "python: os:system",
        "python: kernel",
    ):
        got = read(tmp_path, f"{HEAD}run: '{run}'\n---\n# Worst\n")
        assert isinstance(got, Tool)
        with pytest.raises(FractalError):
            print(program_of(got) if got.scheme == "command" else got.function)
    linked = tmp_path / "tools" / "worst" / "linked.sh"
    linked.symlink_to(tmp_path / "outside.sh")
    got = read(tmp_path, f"{HEAD}run: 'command: ./linked.sh'\n---\n# Worst\n")
    assert isinstance(got, Tool)
    with pytest.raises(FractalError, match="no program"):
        print(program_of(got))


# ---- schemas of arguments ---------------------------------------------------------------------------------


def tool(**args: Any) -> Tool:
    """A tool with these arguments, as a server or a pattern may give them."""
    return Tool("worst", Path("worst.md"), args=args, run="command: ./tool.sh", check=checker(args))


def test_schema_references_are_not_fetched(tmp_path: Path) -> None:
    heard: list[int] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.5)
        place = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        (tmp_path / "schema.json").write_text('{"type": "string"}')

        def serve() -> None:
            try:
                heard.append(server.accept()[1][1])
            except OSError:
                return

        waiting = threading.Thread(target=serve)
        waiting.start()
        for reference in (place, f"file://{tmp_path}/schema.json", "ftp://127.0.0.1/x", "other.json"):
            one = tool(a={"anyOf": [{"$ref": reference}]}, b={"type": "string", "$id": place})
            assert "a: " in one.problem({"a": "x"}) or one.problem({"a": "x"}) == ""
        waiting.join()
    assert heard == []


def test_references_inside_a_schema_are_resolved() -> None:
    one = tool(a={"$ref": "#/definitions/b", "definitions": {"b": {"type": "integer", "minimum": 3}}})
    assert one.problem({"a": 3}) == ""
    assert "a" in one.problem({"a": 2})


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "(a|aa)+$", "a*a*a*a*a*a*a*a*$", "(.*)\\1\\1x", "("]
)
def test_slow_patterns_in_a_schema_are_ignored(pattern: str) -> None:
    schema = {"type": "object", "patternProperties": {pattern: {"type": "string"}}}
    one = tool(
        a={"type": "string", "pattern": pattern}, b=schema, c={"type": "array", "items": {"pattern": pattern}}
    )
    evil = "a" * 5_000 + "!"
    with within(1):
        assert one.problem({"a": evil, "b": {evil: "x"}, "c": [evil]}) == ""


def test_plain_patterns_in_a_schema_are_checked() -> None:
    one = tool(a={"type": "string", "pattern": "^[a-z]{3}$"}, pattern={"type": "string", "maxLength": 3})
    assert one.problem({"a": "abc", "pattern": "x"}) == ""
    assert "a" in one.problem({"a": "abcd"})
    assert "pattern" in one.problem({"pattern": "abcd"})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": ["nonsense"]},
        {"minLength": "x", "type": "string"},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
    ],
)
def test_invalid_schema_fails_the_call(schema: dict[str, Any]) -> None:
    assert tool(a=schema).problem({"a": "x"})


# ---- samples ---------------------------------------------------------------------------------------------

DEEP = """python3 -c 'import os
for n in range(1500): os.mkdir("d"); os.chdir("d")' && echo harmless"""
SAMPLES = {
    "leads outside": ("files: {../../outside.txt: hostile}", "echo harmless", "leads outside"),
    "absolute": ("files: {/tmp/outside-of-the-sample.txt: hostile}", "echo harmless", "leads outside"),
    "deep": ("files: {}", DEEP, "its sample passed"),
    "a pattern for ever": ("files: {}", "printf 'a%.0s' {1..5000}; echo '!'", "took longer"),
}


@boxed
@pytest.mark.parametrize("kind", SAMPLES)
async def test_sample_stays_in_its_folder_and_ends(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(
        "tempfile.tempdir", str(scratch)
    )  # other tests create samples in /tmp at the same time
    files, program, says = SAMPLES[kind]
    shows = "(a+)+$" if "ever" in kind else "harmless"
    sample = f"sample: {{task: x, args: {{}}, shows: '{shows}', {files}}}"
    got = read(tmp_path, f"{HEAD}effects: [read, write]\nrun: 'command: ./tool.sh'\n{sample}\n---\n# Worst\n")
    assert isinstance(got, Tool)
    (got.path.parent / "tool.sh").write_text(program)
    _, note = await try_sample(got, OperationContext(tmp_path, Sandbox(), timeout=30), caller())
    assert says in note
    assert not list(scratch.glob("fractal-sample-*"))
    assert not Path("/tmp/outside-of-the-sample.txt").exists()


def test_large_catalogue_with_odd_files_is_read_quickly(tmp_path: Path) -> None:
    for number in range(3_000):
        (tmp_path / "tools" / f"t{number}").mkdir(parents=True)
    (tmp_path / "tools" / "file").touch()
    os.mkfifo(tmp_path / "tools" / "pipe")
    (tmp_path / "tools" / "p" / "pattern.md").parent.mkdir()
    os.mkfifo(tmp_path / "tools" / "p" / "pattern.md")
    with within(5):
        assert Catalogue([tmp_path]).tools == {}
