"""Rules of the repository that no linter checks: layout, imports, samples, start-up time."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest
from in_process import in_process

from runtime.catalogue.catalogue import Catalogue

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fractal", "kernel", "runtime", "bench")
HEAVY = ("litellm", "llama_cpp", "rich", "pydantic", "numpy", "pint", "jinja2")
# Paths of a machine and addresses of a registry do not belong into a published file.
OURS_ALONE = re.compile(
    r"/(?:home|Users)/(?!me\b|you\b|user\b)[\w.-]+/|(?<!/proc/1)/root/(?=[\w.])|index-url"
)


def tracked() -> list[str]:
    """Every tracked file; in a copy without git, every file that is not ignored."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    hidden = {".git", ".venv", "build", "dist"}
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [str(path) for path in files if not hidden & set(path.parts) and "__pycache__" not in path.parts]


def python_files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


def tree_entries() -> dict[str, str]:
    """The annotated tree as folder → phrase; an indented line is inside the folder above it."""
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    found = re.search(r"<!-- tree -->\n+```text\n(.*?)```", text, re.S)
    assert found, "docs/architecture.md: the annotated tree is a text block below <!-- tree -->"
    entries: dict[str, str] = {}
    above = ""
    for line in found[1].splitlines():
        indent, name, phrase = re.fullmatch(r"( *)(\S+) *(.*)", line).groups()  # type: ignore[union-attr]
        above = above if indent else name
        entries[above + name if indent else name] = phrase
    return entries


def test_annotated_tree_lists_exactly_the_folders_and_modules_of_the_kernel():
    real: set[str] = set()
    for name in tracked():
        first, *rest = name.split("/")
        if rest and not first.startswith("."):
            real.add(f"{first}/")
        if len(rest) > 1 and first in ("kernel", "runtime", "system"):
            real.add(f"{first}/{rest[0]}/")
        if first == "kernel" and len(rest) == 1 and rest[0].endswith(".py") and rest[0] != "__init__.py":
            real.add(name)
    entries = tree_entries()
    assert sorted(real - set(entries)) == [], "tracked, and not in the tree"
    assert sorted(set(entries) - real) == [], "in the tree, and not tracked"
    assert [name for name, phrase in entries.items() if len(phrase) < 8] == []


def test_every_module_has_a_docstring():
    silent = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in python_files(package)
        if (text := path.read_text("utf-8").strip()) and not text.startswith('"""')
    ]
    assert silent == []


def test_no_module_has_a_vague_name():
    vague = {"utils", "util", "helpers", "helper", "manager", "misc", "common"}
    assert [path for package in PACKAGES for path in python_files(package) if path.stem in vague] == []


def test_kernel_imports_nothing_of_the_runtime():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in python_files("kernel")
        for line, name in imported(path)
        if name.split(".")[0] == "runtime"
    ]
    assert wrong == []


def import_circles() -> list[set[str]]:
    """Groups of modules that import each other, also inside functions; type-only imports do not count."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    reached: dict[str, set[str]] = {}
    for start in imports:
        seen: set[str] = set()
        waiting = list(imports[start])
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += imports[name]
        reached[start] = seen
    groups = {frozenset(b for b in reached[a] if a in reached[b]) for a in imports if a in reached[a]}
    return [set(group) for group in groups]


def test_there_are_no_import_cycles():
    assert import_circles() == []


def test_operations_import_no_responder():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in python_files("runtime/operations")
        for line, name in imported(path)
        if name.startswith(("runtime.models", "runtime.cli", "runtime.api.fractal"))
    ]
    assert wrong == []


def test_no_tracked_file_names_a_machine_or_registry():
    found = []
    for name in tracked():
        if name in ("tests/test_repository.py", "system/dangers.md", "tests/runtime/safety/later.tsv"):
            continue  # these contain the patterns, secret places, and commands of attackers
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            if OURS_ALONE.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []


def operation_files() -> list[Path]:
    return sorted([*(ROOT / "system/kernel").glob("*.md"), *(ROOT / "system/operations").glob("*.md")])


def test_shipped_files_load_without_faults():
    catalogue = Catalogue([ROOT / "system"])
    assert [str(fault) for fault in catalogue.faults] == []
    assert {path.stem for path in operation_files()} <= set(catalogue.tools)


@pytest.mark.parametrize("path", operation_files(), ids=lambda path: path.stem)
def test_every_operation_has_a_sample_and_code(path):
    tool = Catalogue([ROOT / "system"]).tools[path.stem]
    assert callable(tool.function)
    assert len(tool.description.split()) <= 12, "the index has room for twelve words"
    assert isinstance(tool.sample.get("task"), str) and tool.sample["task"].strip()
    assert tool.problem(tool.sample.get("args")) == ""
    assert re.compile(tool.sample["shows"])
    assert tool.body.strip() and "#" not in tool.body, "DO shows the whole of it"


def imports_of(*arguments: str) -> set[str]:
    """The top-level modules that a command imports, as `-X importtime` reports them."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from fractal.__main__ import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.strip()
    return {line.rpartition("|")[2].strip().split(".")[0] for line in ran.stderr.splitlines() if "|" in line}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("run", "--help")], ids=" ".join)
def test_help_imports_nothing_heavy(arguments):
    modules = imports_of(*arguments)
    assert "click" in modules
    assert modules & set(HEAVY) == set()


CLOCKS = ("perf_counter", "monotonic", "process_time", "thread_time", "time", "sleep")
HAS_CLOCK = re.compile(rf"asyncio\.sleep|time\.(?:{'|'.join(CLOCKS)})")
"""What a file has that may read a clock: most have nothing of it, and to parse all takes seconds."""
CLOCK_READERS = {
    "tests/lanes.py": "what all others use",
    "tests/llm_server.py": "the times of requests: no fewer seconds than a retry waits are between two",
    "tests/runtime/mcp/fake_server.py": "a slow server, in a process of its own",
    "tests/runtime/mcp/oauth_server.py": "the ends of its tokens are times, in a process of its own",
}


def reads_a_clock(node: ast.AST) -> bool:
    """Whether it is a call of a clock or of a sleep; `asyncio.sleep(0)` is none."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    if name == "asyncio.sleep":
        return ast.unparse(node.args[0]) != "0"
    return name.removesuffix("_ns") in [f"time.{each}" for each in CLOCKS]


def test_no_test_of_the_first_lane_reads_a_clock():
    """See tests/lanes.py: `within`, `until` and `pause` are there for it."""
    found: list[str] = []
    for path in python_files("tests"):
        if (name := str(path.relative_to(ROOT))) in CLOCK_READERS:
            continue
        text = path.read_text("utf-8")
        for part in ast.parse(text).body if HAS_CLOCK.search(text) else ():
            if "pytest.mark.night" not in map(ast.unparse, getattr(part, "decorator_list", [])):
                lines = (each.lineno for each in ast.walk(part) if reads_a_clock(each))
                found += [f"{name}:{line}" for line in lines]
    assert found == []


def marks_of(path: Path) -> dict[str, str]:
    """The tests of a file with their decorators."""
    return {
        each.name: "\n".join(map(ast.unparse, each.decorator_list))
        for each in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_")
    }


def has_draws(path: Path) -> bool:
    """Whether Hypothesis may draw for a file."""
    return "given(" in path.read_text("utf-8")


def test_promises_whole_runs_and_formats_are_in_the_first_lane():
    """Of such a file the night has a few tests, and of those with Hypothesis one stays."""
    for path in [*(ROOT / "tests").glob("test_*.py"), *(ROOT / "tests/e2e").glob("test_*.py")]:
        marks = list(marks_of(path).values())
        assert 2 * sum("pytest.mark.night" in each for each in marks) <= len(marks), path
    for path in python_files("tests"):
        drawn = [each for each in marks_of(path).values() if "given(" in each] if has_draws(path) else []
        assert not drawn or not all("pytest.mark.night" in each for each in drawn), path


def test_ci_runs_the_test_command_of_the_readme():
    commands = re.findall(r"^pip install .*&& .*$", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert len(commands) == 2
    pattern = re.search(r'grep -m1 -E "(.+)" README.md', (ROOT / ".ci" / "run").read_text("utf-8"))
    assert pattern
    assert [each for each in commands if re.search(pattern[1], each)] == [commands[1]]
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")]).returncode == 0


def test_a_clone_can_be_used_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first command of the README works in a new clone: nothing in it has to be allowed before."""
    for name in tracked():
        if name.split("/")[0] in ("state", "system", "AGENTS.md", "fractal.yaml"):
            (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / "clone" / name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("FRACTAL_TRUST", raising=False)
    ran = in_process(tmp_path / "clone", ["run", "What is 2 + 3?"], dict(os.environ))
    assert ran.exit == 0, ran.err


def test_no_shipped_guidance_speaks_of_steps_that_turns_do_not_have() -> None:
    """A turn has calls, `checks` and `ask`; a plan of steps in words is what code and small models give."""
    gone = re.compile(r"marked NOW|\"what\":|^success:|\{\"tool\": \"|\{\"question\"", re.M)
    for path in sorted((ROOT / "system/tools").rglob("pattern.md")):
        body = path.read_text("utf-8").split("\n---\n", 1)[1]
        assert not gone.search(body), path
