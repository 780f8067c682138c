"""No operation and no command sees the memory of a space or anything else in `state/`."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHT
from playing import Played, boxed, doing

SECRET = "the-tulip-is-black"
PLACES = ("spaces/other/memory/brain", "experiments/1", "runs/abcdef", "a-place-of-tomorrow")


@pytest.fixture(params=["workspace", "folder"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder `state` of an open workspace, and of one in `.fractal/`."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    if request.param == "workspace":
        (work / "fractal.yaml").touch()
    state = work / "state" if request.param == "workspace" else work / ".fractal" / "state"
    for place in PLACES:
        (state / place).mkdir(parents=True, exist_ok=True)
        (state / place / "kept.md").write_text(f"{SECRET}\n", "utf-8")
    return state


def said(played: Played, steps: int) -> list[str]:
    """The result of each of these steps."""
    made = played.root.steps
    assert [made[n].state in ("done", "failed") for n in made] == [True] * steps
    return [step.result or "" for step in made.values()]


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("read", {"path": "{place}/kept.md"}),
        ("grep", {"pattern": "tulip", "path": "{place}"}),
        ("grep", {"pattern": "tulip", "path": "."}),
        ("search", {"query": "tulip", "path": "."}),
        ("find", {"pattern": "**/kept.md"}),
        ("list", {"path": ".", "recursive": True}),
        ("list", {"path": "{place}"}),
        ("count", {"what": "matches", "pattern": "tulip", "path": "{place}"}),
        ("copy", {"from": "{place}"}),
        ("copy", {"from": "{state}"}),
        ("archive", {"action": "create", "path": "stolen.zip", "files": ["{state}"]}),
        ("compare", {"a": "{state}", "b": "."}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_no_operation_sees_state(
    play: Callable[..., Played], state: Path, tool: str, args: dict[str, Any]
) -> None:
    work = state.parent if state.parent.name == "work" else state.parent.parent
    steps: list[dict[str, Any]] = []
    for place in PLACES if "{place}" in str(args) else PLACES[:1]:
        names = {"state": state.relative_to(work).as_posix()}
        names["place"] = f"{names['state']}/{place}"

        def filled(value: Any, names: dict[str, str] = names) -> Any:
            if isinstance(value, list):
                return [filled(each) for each in value]
            return value.format(**names) if isinstance(value, str) else value

        named = {key: filled(value) for key, value in args.items()}
        if tool == "copy":
            named["to"] = f"stolen-{len(steps)}"
        steps.append({"tool": tool, "args": named, "needs": []})
    for output in said(play(doing(*steps)), len(steps)):
        assert SECRET not in output and "kept.md\n" not in output
    stolen = [path for path in work.glob("stolen*/**/*") if path.is_file()]
    assert not [path for path in stolen if SECRET in path.read_text("utf-8")]
    if (work / "stolen.zip").exists():
        assert not [n for n in zipfile.ZipFile(work / "stolen.zip").namelist() if "kept" in n]


@boxed
def test_no_command_sees_state(play: Callable[..., Played], state: Path) -> None:
    work = state.parent if state.parent.name == "work" else state.parent.parent
    of_the_system = " -o ".join(f"-path {path}" for path in ("/usr", "/sys", sys.base_prefix))
    passed_over = "" if NIGHT else f"\\( {of_the_system} \\) -prune -o"
    found = f"find / {passed_over} -name kept.md -print 2>/dev/null"
    command = f"grep -r tulip . ; cat {state}/spaces/*/memory/brain/* ; {found}; true"
    step = {"tool": "bash", "args": {"command": command}}
    played = play(doing(step), settings={"sandbox": "auto"})
    (output,) = said(played, 1)
    assert SECRET not in output and f"{work}/" not in output.replace(f"{state}/spaces/*", "")
