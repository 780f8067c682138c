"""What only has the form of a secret is shown redacted and reaches files as it is; arguments stay whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import ACCEPT, Played, plan

from kernel.asking.responder import Ask
from kernel.document.markdown import render
from kernel.document.model import Document, Meta, Note, Section, Step
from kernel.document.parser import parse
from kernel.errors import DocumentError
from kernel.store.files import FileStore
from runtime.workspace.inbox import drop

Play = Callable[..., Played]
FORMS = "postgres://app:password@db\nAuthorization: Bearer YOUR_ACCESS_TOKEN_HERE\n"
LONG = "".join(f"line {n} of a long text\n" for n in range(1_000))


def steps(*planned: dict[str, Any]) -> Callable[[Ask], Any]:
    return lambda ask: ACCEPT if ask.phase == "check" else plan(*planned)


def test_a_text_in_the_form_of_a_secret_is_written_as_it_is_and_shown_redacted(play: Play) -> None:
    played = play(steps({"tool": "write", "args": {"path": "a", "content": FORMS}}))
    assert (played.fractal.workspace.folder / "a").read_text("utf-8") == FORMS
    for path in played.folder.glob("*.md"):
        assert "password@" not in path.read_text("utf-8") and "YOUR_ACCESS" not in path.read_text("utf-8")


def test_a_result_in_the_form_of_a_secret_reaches_another_file_as_it_was_and_no_prompt(
    play: Play, tmp_path: Path
) -> None:
    prompts: list[str] = []
    copy = {"tool": "write", "args": {"path": "b", "content": "{{ steps[1].result }}"}}

    def answer(ask: Ask) -> Any:
        prompts.append(ask.user)
        if ask.phase == "do":
            return {"tool": "write", "args": {"path": "c", "content": "{{ steps[1].result }}"}}
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


@pytest.mark.parametrize(
    "call",
    [
        {"tool": "calc", "args": {"expression": "3 + 4"}},
        {"tool": "csv", "args": {"path": "t.csv", "query": "sum n"}},
    ],
    ids=["calc", "csv"],
)
def test_a_result_with_an_exact_value_in_its_evidence_is_written(
    play: Play, tmp_path: Path, call: dict[str, Any]
) -> None:
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "work" / "t.csv").write_text("n\n3\n4\n", "utf-8")
    copy = {"tool": "write", "args": {"path": "b", "content": "{{ steps[1].result }}"}}
    played = play(steps(call, copy))
    assert played.root.steps[1].evidence["exact"] == "7"
    assert (tmp_path / "work" / "b").read_text("utf-8") == "7"


def test_the_value_of_a_secret_of_the_environment_is_not_even_written(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "the-value-of-the-key")
    played = play(steps({"tool": "write", "args": {"path": "a", "content": "it is the-value-of-the-key"}}))
    assert (tmp_path / "work" / "a").read_text("utf-8") == "it is [redacted MY_API_KEY]"
    kept = [path for path in played.folder.rglob("*") if path.is_file()]
    assert not any(b"the-value-of-the-key" in path.read_bytes() for path in kept)


@pytest.mark.parametrize("content", [FORMS, LONG], ids=["form", "long"])
def test_an_argument_that_the_document_cuts_is_carried_out_whole_after_a_death(
    play: Play, tmp_path: Path, content: str
) -> None:
    first = {"tool": "write", "args": {"path": "a", "content": content}}
    played = play(steps(first), plan_only=True)
    raw = played.result.path.read_text("utf-8")
    assert "arg content → artifacts/args/" in raw and len(raw) < 8_000
    drop(played.folder, "approve")
    assert play(steps(), resume=played.result.run).root.meta.status == "complete"
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
@settings(max_examples=60, deadline=None)
def test_a_store_gives_back_every_argument(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
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


def test_a_persons_change_of_the_whole_is_taken_and_one_of_the_excerpt_is_refused(tmp_path: Path) -> None:
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


def test_a_whole_that_is_gone_stops_no_reading(tmp_path: Path) -> None:
    FileStore(tmp_path).save(documents(LONG))
    next((tmp_path / "artifacts" / "args").iterdir()).unlink()
    loaded = FileStore(tmp_path).load("system-abcdef")
    assert loaded.planned[1].whole and "characters cut" in loaded.planned[1].args["content"]  # type: ignore[index]
