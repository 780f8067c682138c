"""Documents that a person's hand has changed: each command tells what is wrong, with file and line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import examples
from playing import ACCEPT, plan, player

from kernel.asking.responder import Ask
from runtime.cli import _run as command

COMMANDS = (["ls"], ["tree"], ["show", "--raw"], ["explain"], ["cost"], ["diff"])
WRITE = {"tool": "write", "args": {"path": "a.txt", "content": "x"}}
VALUES = st.one_of(
    st.sampled_from([None, True, 0, -1, 10**30, 1.5, "", "x", "../../x", [], [None], [[]], {}, {"a": []}]),
    st.sampled_from(["1e999", "NaN", "[" * 5_000, "1" + "0" * 5_000]).map(lambda text: Raw(text)),
)


class Raw(str):
    """What stands in a document as it is."""


def answers(ask: Ask) -> Any:
    """A run three levels deep that writes a file, by turns in the deepest, and waits for an approval."""
    if ask.phase == "check":
        return ACCEPT
    if ask.document.meta.depth == 2:
        made = {"tool": "write", "args": {"path": "deep.txt", "content": "x"}}
        look = [] if ask.phase == "work" else [{"tool": "read", "args": {"path": "nowhere.txt"}}]
        sketch = {"tool": "plan", "args": {"approach": "write it", "checks": ["test -e deep.txt"]}}
        return {
            "text": "It is small.",
            "calls": [*([sketch] if look else []), made, *look],
            "done": "written",
        }
    if ask.document.meta.depth == 1:
        return plan({"subtask": "go deeper"}, WRITE)
    return plan({"subtask": "go deep"}, WRITE, {"tool": "bash", "args": {"command": "git push --force"}})


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of such a run, which is never changed."""
    work = tmp_path_factory.mktemp("edited") / "work"
    played = player(work)(answers, settings={"max_depth": 2})
    assert played.result.status == "waiting", played.result
    return work


@pytest.fixture
def work(pristine: Path, tmp_path: Path) -> Path:
    shutil.copytree(pristine, tmp_path / "work")
    return tmp_path / "work"


def places(text: str) -> list[tuple[int, int]]:
    """Where JSON values begin and end in a document, those within others included."""
    found: list[tuple[int, int]] = []
    for hit in re.finditer(r"(?m)^\w+: (?=\S)|`(?=\{)|(?<=[\[{,:])(?=[\"\[{\dtfn-])", text):
        try:
            found.append((hit.end(), json.JSONDecoder().raw_decode(text, hit.end())[1]))
        except ValueError:
            continue
    return found


def edited(work: Path, document: int, place: int, value: Any) -> Path:
    """The document that was changed at a place."""
    paths = sorted((work / ".fractal" / "state" / "runs").glob("*/*-*.md"))
    path = paths[document % len(paths)]
    text = path.read_text("utf-8")
    begin, end = (found := places(text))[place % len(found)]
    new = value if isinstance(value, Raw) else json.dumps(value)
    path.write_text(text[:begin] + new + text[end:], "utf-8")
    return path


def check(work: Path, capfd: pytest.CaptureFixture[str], words: list[str]) -> None:
    with chdir(work):
        code = command(words)
    captured = capfd.readouterr()
    assert "internal error" not in captured.err + captured.out, (words, captured.err)
    assert code in (0, 1, 2, 3, 4, 5, 6), words
    assert code == 0 or captured.err, words


SLOWLY = settings(deadline=None, suppress_health_check=list(HealthCheck))


def changes(count: int) -> Any:
    """Any value of any document of the run, replaced by one of another kind."""
    drawn = given(st.integers(0, 9), st.integers(0, 10_000), VALUES)
    return lambda test: settings(SLOWLY, max_examples=count)(drawn(test))


@changes(examples(120))
def test_what_reads_tells_the_place_of_a_value_of_another_kind(
    pristine: Path, capfd: pytest.CaptureFixture[str], document: int, place: int, value: Any
) -> None:
    _read(pristine, capfd, document, place, value)


@pytest.mark.night
@pytest.mark.timeout(7_200)
@changes(20_000)
def test_nothing_that_reads_fails_in_20000_edits(
    pristine: Path, capfd: pytest.CaptureFixture[str], document: int, place: int, value: Any
) -> None:
    _read(pristine, capfd, document, place, value)


def _read(pristine: Path, capfd: Any, document: int, place: int, value: Any) -> None:
    with _kept(pristine):
        edited(pristine, document, place, value)
        for words in COMMANDS:
            check(pristine, capfd, words)


@changes(examples(32))
def test_resume_goes_on_or_tells_the_place(
    pristine: Path, capfd: pytest.CaptureFixture[str], document: int, place: int, value: Any
) -> None:
    copy = pristine.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(pristine, copy)
    edited(copy, document, place, value)
    (copy / "model.json").write_text(json.dumps({"check": ACCEPT, "fused": plan(WRITE), "plan": plan(WRITE)}))
    for _ in range(2):
        check(copy, capfd, ["resume", "--model", "scripted:model.json", "--sandbox", "off"])


@contextmanager
def _kept(work: Path) -> Iterator[list[Path]]:
    """The documents of the runs, whose changes are taken back afterwards."""
    kept = {path: path.read_bytes() for path in (work / ".fractal" / "state" / "runs").glob("*/*-*.md")}
    try:
        yield [*kept]
    finally:
        for path, content in kept.items():
            path.write_bytes(content)


SLIPS = {
    'folder: "%s"' % ("x" * 5_000): "",
    "budget: {}": "",
    'budget: {"calls": 60}': "",
    'budget: {"calls": 60, "seconds": null}': "budget.seconds cannot be null",
    'spent: {"usd": null}': "spent.usd cannot be null",
    'space: "../../../elsewhere"': "space cannot be",
    'agent: ""': "agent cannot be",
    'run: "../../elsewhere"': "is no loop of the run",
    "undone: 5": "undone cannot be 5",
    'undone: [{"step": 1}]': "undone[0] has no before",
}


@pytest.mark.parametrize(("line", "message"), SLIPS.items(), ids=[each[:40] for each in SLIPS])
def test_a_slip_in_meta_is_reported_or_does_no_harm(
    work: Path, capfd: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    """Nothing fails for ever, and no name of a document leads out of the workspace."""
    (path,) = (work / ".fractal" / "state" / "runs").glob("*/system-*.md")
    key = line.partition(":")[0]
    kept = re.sub(rf"(?m)^{key}: .*\n", "", path.read_text("utf-8"))
    path.write_text(kept.replace("level:", f"{line}\nlevel:", 1), "utf-8")
    (work / "model.json").write_text(json.dumps({"check": ACCEPT}))
    with chdir(work):
        code = command(["resume", "--model", "scripted:model.json", "--sandbox", "off"])
    stderr = capfd.readouterr().err
    assert message in stderr
    assert code == (1 if message else 6), stderr
    for words in COMMANDS:
        check(work, capfd, words)
    assert not list(work.parent.rglob("elsewhere*"))


TIMES = ("", "1" + "0" * 5_000, "0001-01-01", "9999-12-31T23:59:59-23:59", "2026-13-45")


@pytest.mark.parametrize("time", TIMES, ids=[each[:24] or "empty" for each in TIMES])
@pytest.mark.parametrize("key", ["created", "updated"])
def test_a_time_that_is_none_keeps_no_command_from_its_work(
    pristine: Path, capfd: pytest.CaptureFixture[str], key: str, time: str
) -> None:
    with _kept(pristine) as paths:
        for path in paths:
            text = path.read_text("utf-8")
            path.write_text(re.sub(rf"(?m)^{key}: .*$", f'{key}: "{time}"', text), "utf-8")
        for words in (*COMMANDS, ["gc", "--dry-run"]):
            check(pristine, capfd, words)


@pytest.mark.parametrize("key", ["dangers", "approval", "needed"])
@pytest.mark.parametrize("value", ["null", "[null]", "5", "[[]]", '"x"'])
def test_evidence_of_another_kind_is_told_with_its_line(
    pristine: Path, capfd: pytest.CaptureFixture[str], key: str, value: str
) -> None:
    with _kept(pristine) as paths:
        for path in paths:
            text = re.sub(rf'"{key}": (\[.*?\]|\{{.*?\}}), ', "", path.read_text("utf-8"))
            path.write_text(text.replace("evidence: `{", f'evidence: `{{"{key}": {value}, '), "utf-8")
        with chdir(pristine):
            assert command(["explain"]) == 1
        assert re.search(rf"[\w-]+\.md:\d+: .*{key}", capfd.readouterr().err)
        for words in COMMANDS:
            check(pristine, capfd, words)


def test_the_tree_shows_all_levels(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with chdir(work):
        assert command(["tree"]) == 0
    shown = capfd.readouterr().out
    assert "deep.txt" in shown
    assert "not linked" not in shown
