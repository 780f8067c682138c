"""The file store: atomic documents, torn tails, and external edits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.document.model import Document, Meta, Note, Section, Step, child_id
from kernel.errors import DocumentError, ForeignEdit
from kernel.store.files import FileStore

ID = "system-7f3kq2"


def document() -> Document:
    notes = (Note("task", "count", "person"),)
    return Document(Meta(ID, "7f3kq2", phase="do", status="running"), {1: Section(notes=notes)})


def grown(store: FileStore, steps: int) -> list[Document]:
    """Save a document, append steps, and return each state."""
    now = document()
    store.save(now)
    states = [now]
    for n in range(1, steps + 1):
        step = Step(
            n, "done", "read", {"path": "a"}, result=f"text {n}\n<!-- rev 99 -->\n", origin="tool:read"
        )
        store.append(now, (step,))
        now = now.with_step(step)
        states.append(now)
    return states


@settings(max_examples=60, deadline=None)
@given(cut=st.floats(0, 1))
def test_truncated_file_reads_as_an_earlier_state(
    tmp_path_factory: pytest.TempPathFactory, cut: float
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    states = grown(FileStore(folder), 4)
    path = folder / f"{ID}.md"
    first = len(FileStore(folder).path(ID).read_bytes().split(b"<!-- rev 1 -->\n")[0]) + 15
    raw = path.read_bytes()
    path.write_bytes(raw[: first + int((len(raw) - first) * cut)])
    store = FileStore(folder)
    read = store.load(ID)
    assert read.having(rev=0) in states
    # the torn tail is moved aside and appending continues
    step = Step(9, "done", "read", {"path": "b"}, result="more", origin="tool:read")
    store.append(read, (step,))
    assert FileStore(folder).load(ID).steps[9].result == "more"


def test_torn_tail_is_moved_aside(tmp_path: Path) -> None:
    grown(FileStore(tmp_path), 2)
    path = tmp_path / f"{ID}.md"
    path.write_bytes(path.read_bytes()[:-30])
    FileStore(tmp_path).load(ID)
    (aside,) = (tmp_path / "artifacts").glob("*.txt")
    assert "torn" in aside.name and aside.read_text().lstrip().startswith("- [x] 2. done read")


def test_external_change_is_never_overwritten(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    now = grown(store, 1)[-1]
    path = tmp_path / f"{ID}.md"
    theirs = path.read_text() + "mine\n"
    path.write_text(theirs)
    with pytest.raises(ForeignEdit, match="kept the external version"):
        store.save(now)
    with pytest.raises(ForeignEdit, match="kept the external version"):
        store.append(now, [Step(2, "done", "read", {}, result="x")])
    assert path.read_text() == theirs
    assert len(list((tmp_path / "artifacts").glob("*ours*"))) == 2


def test_touched_file_is_not_an_external_change(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    now = grown(store, 1)[-1]
    os.utime(tmp_path / f"{ID}.md", (1, 1))
    store.save(now.having(status="complete"))
    assert FileStore(tmp_path).load(ID).meta.status == "complete"


def test_unread_document_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / f"{ID}.md").write_text("someone's notes")
    with pytest.raises(ForeignEdit):
        FileStore(tmp_path).save(document())
    assert (tmp_path / f"{ID}.md").read_text() == "someone's notes"


def test_parse_error_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / f"{ID}.md").write_text("---\nid 3\n---\n")
    with pytest.raises(DocumentError, match=rf"{ID}\.md:2"):
        FileStore(tmp_path).load(ID)


def test_revisions_increase_and_no_temporary_file_remains(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    now = grown(store, 3)[-1]
    store.save(now)
    assert FileStore(tmp_path).load(ID).meta.rev == 5
    assert sorted(each.name for each in tmp_path.glob("*")) == ["artifacts", f"{ID}.md"]
    assert not list(tmp_path.rglob("*.tmp"))


def test_loops_are_listed_parents_before_children(tmp_path: Path) -> None:
    names = [ID, "tool-task-7f3kq2-2", "op-read-7f3kq2-10", "op-read-7f3kq2-2.1", "tool-task-7f3kq2-1"]
    for name in names:
        (tmp_path / f"{name}.md").touch()
    (tmp_path / "notes.md").touch()
    found = ["tool-task-7f3kq2-1", "tool-task-7f3kq2-2", "op-read-7f3kq2-2.1", "op-read-7f3kq2-10"]
    assert FileStore(tmp_path).list() == [ID, *found]


def test_child_ids_show_the_tree() -> None:
    child = child_id(ID, "7f3kq2", "tool", "research", 1)
    assert child == "tool-research-7f3kq2-1"
    assert child_id(child, "7f3kq2", "operation", "fetch", 2) == "op-fetch-7f3kq2-1.2"
    assert child_id(ID, "7f3kq2", "tool", "../Evil name", 1) == "tool-evil-name-7f3kq2-1"
