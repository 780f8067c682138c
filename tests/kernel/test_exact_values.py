"""Exact values: text in the form of a secret is redacted only where it is shown; arguments stay whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from playing import ACCEPT, Play, doing, plan, write

from kernel.asking.messages import prompt_text
from kernel.asking.responder import Ask
from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section, Step
from kernel.document.parser import parse
from kernel.errors import DocumentError
from kernel.store.files import FileStore
from runtime.workspace.inbox import drop

FORMS = "postgres://app:password@db\nAuthorization: Bearer YOUR_ACCESS_TOKEN_HERE\n"
LONG = "".join(f"line {n} of a long text\n" for n in range(1_000))


def test_secret_form_is_written_exactly_and_shown_redacted(play: Play) -> None:
    played = play(doing(write("a", FORMS)))
    assert (played.fractal.workspace.folder / "a").read_text("utf-8") == FORMS
    for path in played.folder.glob("*.md"):
        assert "password@" not in path.read_text("utf-8") and "YOUR_ACCESS" not in path.read_text("utf-8")


def test_secret_form_in_a_result_reaches_files_exactly_and_no_prompt(play: Play, tmp_path: Path) -> None:
    prompts: list[str] = []
    copy = write("b", "{{ steps[1].result }}")

    def answer(ask: Ask) -> Any:
        prompts.append(prompt_text(ask))
        if ask.part == "do":
            return write("c", "{{ steps[1].result }}")
        asked = {"tool": "write", "what": "write c", "needs": [1]}
        if ask.phase == "check":
            return {**ACCEPT, "output": "{{ steps[1].result }}"}
        return plan({"tool": "read", "args": {"path": "a"}}, copy, asked)

    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work" / "a").write_text(FORMS, "utf-8")
    played = play(answer)
    for name in "bc":
        assert (tmp_path / "work" / name).read_text("utf-8").strip() == FORMS.strip()
    assert "[redacted password]" in played.result.output
    assert not any("password@" in each or "YOUR_ACCESS" in each for each in prompts)


def test_secret_form_in_a_result_is_redacted_in_later_turns(play: Play, tmp_path: Path) -> None:
    prompts: list[str] = []

    def answer(ask: Ask) -> Any:
        prompts.append(prompt_text(ask))
        if ask.phase == "check":
            return ACCEPT
        if ask.phase == "plan":
            return {"calls": [{"tool": "read", "args": {"path": "a"}}, write("c", FORMS)]}
        copy = write("b", "{{ steps[1].result }}")
        return {"calls": [copy, {"tool": "done", "args": {"answer": "copied"}}]}

    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work" / "a").write_text(FORMS, "utf-8")
    play(answer)
    for name in "bc":
        assert (tmp_path / "work" / name).read_text("utf-8").strip() == FORMS.strip()
    assert "[redacted password]" in prompts[1]
    assert not any("password@" in each or "YOUR_ACCESS" in each for each in prompts)


@pytest.mark.parametrize(
    "call",
    [
        {"tool": "calc", "args": {"expression": "3 + 4"}},
        {"tool": "csv", "args": {"path": "t.csv", "query": "sum n"}},
    ],
    ids=["calc", "csv"],
)
def test_exact_value_of_the_evidence_is_substituted(play: Play, tmp_path: Path, call: dict[str, Any]) -> None:
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work" / "t.csv").write_text("n\n3\n4\n", "utf-8")
    copy = write("b", "{{ steps[1].result }}")
    played = play(doing(call, copy))
    assert played.root.steps[1].evidence["exact"] == "7"
    assert (tmp_path / "work" / "b").read_text("utf-8") == "7"


def test_environment_secret_is_written_exactly_and_not_kept(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "the-value-of-the-key")
    played = play(doing(write("a", "it is the-value-of-the-key")))
    assert (tmp_path / "work" / "a").read_text("utf-8") == "it is the-value-of-the-key"
    kept = [path for path in played.folder.rglob("*") if path.is_file()]
    assert not any(b"the-value-of-the-key" in path.read_bytes() for path in kept)


@pytest.mark.parametrize("content", [FORMS, LONG], ids=["form", "long"])
def test_abbreviated_argument_is_executed_whole_after_a_restart(
    play: Play, tmp_path: Path, content: str
) -> None:
    first = write("a", content)
    played = play(doing(first), plan_only=True)
    raw = played.result.path.read_text("utf-8")
    assert len(raw) < 8_000 and "password@" not in raw and "YOUR_ACCESS" not in raw
    drop(played.folder, "approve")
    assert play(doing(), resume=played.result.run).root.meta.status == "complete"
    assert (tmp_path / "work" / "a").read_text("utf-8") == content


def documents(text: Any) -> Document:
    step = Step(1, "done", "write", {"path": "a", "content": text}, result="ok")
    sections = {
        1: Section(notes=(Note("task", "t"),)),
        2: Section(steps={1: Step(1, "planned", "write", step.args)}),
    }
    return Document(Meta("system-abcdef", "abcdef", phase="do"), {**sections, 3: Section(steps={1: step})})


ANY = st.text(max_size=60) | st.sampled_from([FORMS, LONG])


@given(
    st.recursive(
        ANY, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    )
)
@settings(max_examples=examples(60), deadline=None)
def test_store_round_trips_every_argument(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    folder = tmp_path_factory.mktemp("run")
    document = documents(value)
    store = FileStore(folder, fsync=False)
    store.save(document)
    store.append(document, (document.steps[1], Step(2, "running", "write", {"content": value})))
    loaded = FileStore(folder).load("system-abcdef")
    assert loaded.planned == document.planned
    assert loaded.steps[1] == document.steps[1]
    assert loaded.steps[2].args == {"content": value}
    assert (folder / "system-abcdef.md").stat().st_size < 40_000
    raw = (folder / "system-abcdef.md").read_bytes()
    shown = parse(raw, "x")
    assert parse(render(shown), "x") == shown


def test_edit_of_the_whole_argument_is_used_and_edit_of_the_excerpt_refused(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.save(documents(LONG))
    path = tmp_path / "system-abcdef.md"
    whole = next((tmp_path / "artifacts" / "args").iterdir())
    whole.write_text("short", "utf-8")
    assert FileStore(tmp_path).load("system-abcdef").planned[1].args == {"path": "a", "content": "short"}
    path.write_text(path.read_text("utf-8").replace("line 3 of", "line three of", 1), "utf-8")
    with pytest.raises(
        DocumentError, match="the excerpt of its argument content was changed; change artifacts/args"
    ):
        FileStore(tmp_path).load("system-abcdef")


def test_missing_argument_file_does_not_stop_loading(tmp_path: Path) -> None:
    FileStore(tmp_path).save(documents(LONG))
    next((tmp_path / "artifacts" / "args").iterdir()).unlink()
    loaded = FileStore(tmp_path).load("system-abcdef")
    assert loaded.planned[1].whole and "characters cut" in loaded.planned[1].args["content"]  # type: ignore[index]
