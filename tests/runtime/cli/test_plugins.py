"""Operations, responders and embedders of installed packages; docs/plugins.md is a test of the template."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Command

Install = Callable[..., None]
STAMP = """---
description: stamps a file
args: {path: {type: string}}
required: [path]
effects: [write]
sample: {task: stamp, args: {path: a.txt}, shows: stamped}
---
"""
CODE = '''
from fractal import Touch, operation


def prepare(ctx, path):
    return (Touch(ctx.writable(path)),)


@operation(prepare)
def stamp(ctx, path):
    ctx.writable(path).write_text("seen\\n")
    return f"stamped {path}"


class Letters:
    """Counts letters."""

    size = 26

    def __init__(self, rest):
        self.name = f"letters{rest}"

    def embed(self, texts):
        import numpy as np

        rows = np.array([[1e-3 + text.count(chr(97 + n)) for n in range(26)] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True) if len(texts) else rows.reshape(0, 26)

    def embed_tokens(self, text):
        from fractal.memory import Tokens

        return Tokens(((0, len(text)),), self.embed([text]))


number = 7
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Lay out a package `NAME` with entry points (by group) as pip would have installed it."""

    def lay_out(name: str, code: str, files: dict[str, str] | None = None, **groups: str) -> None:
        site = tmp_path / f"site-{name}"
        (site / name / "operations").mkdir(parents=True)
        (site / name / "__init__.py").write_text(code, "utf-8")
        for each, text in (files or {}).items():
            (site / name / "operations" / f"{each}.md").write_text(text, "utf-8")
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        sections = [f"[fractal.{group}]\n{lines}\n" for group, lines in groups.items()]
        (info / "entry_points.txt").write_text("\n".join(sections), "utf-8")
        monkeypatch.syspath_prepend(site)

    return lay_out


def calls(fractal: Command, tool: str, args: str) -> str:
    """A script whose plan calls one tool."""
    step = {"tool": tool, "args": json.loads(args)}
    plan = {"task": "do it", "approach": "one call", "confidence": "high", "steps": [step]}
    verdict = {"validation": "pass", "issues": [], "decision": "ACCEPT", "output": "{{ steps[1].result }}"}
    return fractal.script(
        "script.yaml", {"fused": plan | {"success": [{"judge": "it is done"}]}, "check": verdict}
    )


def doctor(fractal: Command, check: str, **env: str) -> dict[str, str]:
    return {each["name"]: each for each in json.loads(fractal("doctor", "--json", env=env).out)}[check]


def test_operation_of_a_package_changes_a_file_and_is_undone(fractal: Command, install: Install) -> None:
    install("stamping", CODE, {"stamp": STAMP}, operations="stamp = stamping:stamp")
    assert "plugin" in next(row for row in fractal("tools", "ls").out.splitlines() if "stamp(" in row)
    assert fractal("tools", "check", "stamp").exit == 0
    ran = fractal("run", "--model", calls(fractal, "stamp", '{"path": "a.txt"}'), "stamp the file for me")
    assert (ran.exit, ran.out) == (0, "stamped a.txt\n"), ran.err
    assert fractal("undo").exit == 0
    assert not (fractal.folder / "a.txt").exists()


def test_evidence_of_a_package_that_no_document_can_hold_is_told_and_left_out(
    fractal: Command, install: Install
) -> None:
    code = CODE.replace("import Touch", "import Result, Touch").replace(
        'return f"stamped {path}"',
        'return Result(f"stamped {path}", evidence={"results": "many", "dangers": [None], "told": ("wet",), '
        '"ink": "blue", "pen": object(), "most": 10**5000})',
    )
    install("inking", code, {"stamp": STAMP}, operations="stamp = inking:stamp")
    ran = fractal("run", "--model", calls(fractal, "stamp", '{"path": "a.txt"}'), "stamp the file for me")
    assert (ran.exit, ran.out) == (0, "stamped a.txt\n"), ran.err
    assert 'step 1: evidence.results cannot be "many"; a list is needed; results is left out' in ran.err
    for key in ("pen", "most"):
        assert re.search(rf"step 1: evidence cannot be stored: .+; {key} is left out", ran.err)
    shown = fractal("show", "--raw").out
    assert '"ink": "blue"' in shown and '"told": ["wet"]' in shown


def test_operation_of_a_package_keeps_to_the_folder(fractal: Command, install: Install) -> None:
    install("stamping", CODE, {"stamp": STAMP}, operations="stamp = stamping:stamp")
    ran = fractal("run", "--model", calls(fractal, "stamp", '{"path": "../a.txt"}'), "stamp the file for me")
    assert ran.exit != 0
    assert not (fractal.folder.parent / "a.txt").exists()


def test_broken_operation_stops_a_run_that_calls_it_and_no_other(fractal: Command, install: Install) -> None:
    install("broken", "import no_such_module", {"stamp": STAMP}, operations="stamp = broken:stamp")
    ran = fractal("run", "what is 15% of 80?")
    assert (ran.exit, ran.out) == (0, "12\n")
    ran = fractal("run", "--model", calls(fractal, "stamp", '{"path": "a.txt"}'), "stamp the file for me")
    assert ran.exit == 3
    assert "plugin stamp (fractal.operations) of the package broken: ModuleNotFoundError" in ran.err
    assert "fractal resume" in ran.err


def test_doctor_says_what_is_wrong_with_plugins(fractal: Command, install: Install) -> None:
    stamp = {"stamp": STAMP}
    install("unimportable", "import no_such_module", stamp, operations="stamp = unimportable:stamp")
    install("undescribed", "def act(): ...", operations="nowhere = undescribed:act")
    install("unclear", CODE, {"blank": "---\nargs: {}\n---\n"}, operations="blank = unclear:stamp")
    install("greedy", CODE, {"calc": STAMP}, operations="calc = greedy:stamp")
    install("leaving", "raise SystemExit(3)", responders="leaving = leaving:stamp")
    install("seven", "number = 7", responders="seven = seven:number")
    install("absent", "", embedders="absent = absent:Missing")
    install("copying", CODE, responders="mailbox = copying:stamp", embedders="minilm = copying:Letters")
    checks = {each["name"]: each for each in json.loads(fractal("doctor", "--json").out)}
    assert checks["plugins"]["state"] == checks["tools"]["state"] == "missing"
    found = checks["plugins"]["found"]
    for said in (
        "stamp (fractal.operations) of the package unimportable: ModuleNotFoundError: No module named",
        "nowhere.md:1: plugin nowhere (fractal.operations) of the package undescribed: there is no such file",
        "blank.md:1: plugin blank (fractal.operations) of the package unclear: description is missing",
        "leaving (fractal.responders) of the package leaving: SystemExit: 3",
        "seven (fractal.responders) of the package seven: seven:number is int, not a function",
        "absent (fractal.embedders) of the package absent: AttributeError",
        "mailbox (fractal.responders) of the package copying: the name is one of Fractal's own",
        "minilm (fractal.embedders) of the package copying: the name is one of Fractal's own",
    ):
        assert said in found
    assert "calc.md:1: name: 'calc' is taken by" in fractal("tools", "ls").err
    assert fractal("run", "what is 15% of 80?").out == "12\n"


def test_doctor_says_that_no_plugin_is_installed(fractal: Command) -> None:
    assert doctor(fractal, "plugins")["found"] == "none is installed"


def test_bare_workspace_has_no_operations_of_packages(fractal: Command, install: Install) -> None:
    install("stamping", CODE, {"stamp": STAMP}, operations="stamp = stamping:stamp")
    assert "stamp" not in fractal("tools", "ls", env={"FRACTAL_SHIPPED": "false"}).out


def test_file_of_a_folder_adds_no_plugin(fractal: Command) -> None:
    fractal("init")
    place = fractal.folder / "system" / "operations"
    place.mkdir(parents=True, exist_ok=True)
    (place / "stamp.md").write_text(STAMP.replace("effects", 'run: "plugin: os:system"\neffects'), "utf-8")
    assert "not a function that ships" in fractal("tools", "check", "stamp").out
    ran = fractal("run", "--model", calls(fractal, "stamp", '{"path": "a.txt"}'), "stamp the file for me")
    assert ran.exit == 3
    assert "not a function that ships" in ran.err


def test_metadata_in_the_folder_adds_no_plugin(fractal: Command) -> None:
    (fractal.folder / "hostile.py").write_text("def make(rest, tier): raise SystemExit", "utf-8")
    info = fractal.folder / "hostile-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[fractal.responders]\nmine = hostile:make\n", "utf-8")
    checks = json.loads(fractal.process("doctor", "--json").out)  # Python itself puts this folder on sys.path
    assert {each["name"]: each["found"] for each in checks}["plugins"] == "none is installed"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_module", "ModuleNotFoundError"),
        ("def mine(rest, tier): return rest", "str is no responder"),
        ("def mine(rest, tier): raise ValueError('no such voice')", "ValueError: no such voice"),
        ("def mine(): ...", "unexpected keyword argument"),
    ],
)
def test_model_of_a_broken_package_ends_with_an_error_that_names_it(
    fractal: Command, install: Install, code: str, said: str
) -> None:
    name = f"responder_{abs(hash(code))}"
    install(name, code, responders=f"mine = {name}:mine")
    ran = fractal("run", "--model", "mine:x", "say something nice")
    assert ran.exit == 3
    assert said in ran.err and f"of the package {name}" in ran.err


def test_embedder_of_a_package_serves_recall(fractal: Command, install: Install) -> None:
    install("letters", CODE, embedders="letters = letters:Letters")
    env = {"FRACTAL_EMBEDDER": "letters:26"}
    found = doctor(fractal, "embedder", **env)
    assert found["found"].startswith("letters26 (set), 26 dimensions")
    assert fractal("remember", "the harbour opens at nine", env=env).exit == 0
    assert "harbour" in fractal("recall", "when does the harbour open", env=env).out


def test_embedder_of_the_wrong_kind_is_a_clear_error(fractal: Command, install: Install) -> None:
    install("wrong", "def make(rest): return 5", embedders="letters = wrong:make")
    found = doctor(fractal, "embedder", FRACTAL_EMBEDDER="letters")
    assert found["state"] == "broken"
    assert "of the package wrong: int is no embedder" in found["found"]
