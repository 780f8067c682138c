"""`fractal brain`: what is remembered is moved, checked and repaired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from command_line import Command

from kernel.errors import Exit
from runtime.memory.store import Record, Shelf, open_shelf, pack


class Note(Record):
    KIND: ClassVar[str] = "note"


class Task(Record):
    KIND: ClassVar[str] = "task"


def memory(fractal: Command) -> Path:
    return fractal.folder / ".fractal" / "state" / "memory"


@pytest.fixture
def shelf(fractal: Command) -> Shelf:
    opened = open_shelf("sqlite", memory(fractal))
    opened.put(
        *(Note(id=f"{n}", text=f"wörd{n}", vectors={"m": pack([1, n])}) for n in range(3)),
        Task(id="odd \ud800"),
    )
    return opened


def test_nothing_is_made_where_nothing_is_remembered(fractal: Command) -> None:
    for words in (["check"], ["rebuild"], ["export"]):
        ran = fractal("brain", *words)
        assert ran.exit == Exit.USAGE
        assert "nothing is remembered here yet" in ran.err
    assert not memory(fractal).exists()


def test_the_memory_of_a_space_is_the_one_of_its_settings(fractal: Command, shelf: Shelf) -> None:
    space = {"FRACTAL_SPACE": "kitchen", "FRACTAL_EMBEDDER": "lexical"}
    assert "there is no" in fractal("brain", "check", env=space).err
    fractal("remember", "the oven is new", env=space)
    kinds = json.loads(fractal("brain", "check", "--json", env=space).out)["records"]
    assert "note" not in kinds
    assert fractal("brain", "report", env=space).exit == 0
    assert json.loads(fractal("brain", "check", "--json").out)["records"]["note"] == 3


def test_an_export_is_one_record_a_line(fractal: Command, shelf: Shelf) -> None:
    ran = fractal("brain", "export")
    assert ran.exit == 0
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [(each["kind"], each["id"]) for each in records] == [
        *(("note", f"{n}") for n in range(3)),
        ("task", "odd \ud800"),
    ]
    assert records[1]["vectors"] == {"m": "AACAPwAAgD8="}
    only = fractal("brain", "export", "--kind", "task", "out.jsonl", "--json")
    assert json.loads(only.out)["records"] == {"task": 1}
    assert (fractal.folder / "out.jsonl").read_text().count("\n") == 1


@pytest.mark.parametrize("form", ["lines", "files"])
def test_what_was_exported_is_imported_once(fractal: Command, shelf: Shelf, form: str) -> None:
    words = ["out", "--files"] if form == "files" else ["out"]
    assert fractal("brain", "export", *words).exit == 0
    shelf.delete(Note, "1")
    shelf.put(Note(id="2", text="changed"))
    first = fractal("brain", "import", "out", "--json")
    assert json.loads(first.out) == {"new": 1, "changed": 1, "same": 2, "refused": []}
    assert fractal("brain", "import", "out").out == "0 new, 0 changed, 4 unchanged\n"
    assert shelf.get(Note, "1") == Note(id="1", text="wörd1", vectors={"m": pack([1, 1])})
    assert [hit.id for hit in shelf.search(Note, "word2")] == ["2"]
    assert fractal("brain", "check").exit == 0


def test_a_folder_of_an_export_becomes_as_the_store_is(fractal: Command, shelf: Shelf) -> None:
    fractal("brain", "export", "--files", "out")
    shelf.delete(Note, "1")
    assert fractal("brain", "export", "--files", "out").exit == 0
    assert sorted(path.name for path in (fractal.folder / "out/note").iterdir()) == ["0.json", "2.json"]


def test_refused_records_are_reported_with_their_lines_and_the_rest_is_imported(fractal: Command) -> None:
    lines = [
        '{"kind": "note", "id": "a"}',
        "not json",
        '{"kind": "No", "id": "b"}',
        "",
        '{"format": 9}',
        "[]",
    ]
    lines += [
        '{"kind": "note", "id": "c", "vectors": {"m": "AAAA"}}',
        '{"kind": "note", "id": "d", "text": 3}',
    ]
    (fractal.folder / "in.jsonl").write_text("\n".join(lines))
    ran = fractal("brain", "import", "in.jsonl", "--json")
    assert ran.exit == Exit.FAILED
    report = json.loads(ran.out)
    assert report["new"] == 1
    assert [each["where"].rpartition(":")[2] for each in report["refused"]] == ["2", "3", "5", "6", "7", "8"]
    assert "format 9; this Fractal reads 1" in report["refused"][2]["what"]


def test_what_is_broken_is_reported_and_repaired(fractal: Command, shelf: Shelf) -> None:
    path = memory(fractal) / "brain.sqlite3"
    shelf.close()
    path.write_bytes(b"no database at all")
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    ran = fractal("brain", "check")
    assert ran.exit != 0
    assert "brain.sqlite3: file is not a database" in ran.err
    assert json.loads(fractal("brain", "rebuild", "--json").out)["records"] == {}
    assert json.loads(fractal("brain", "check", "--json").out)["faults"] == []
    assert len(list(memory(fractal).glob("brain.sqlite3.broken-*"))) == 1


def test_the_setting_says_which_store(fractal: Command) -> None:
    (fractal.folder / "in.jsonl").write_text('{"kind": "note", "id": "a", "text": "x"}\n')
    (fractal.folder / ".fractal").mkdir(exist_ok=True)
    (fractal.folder / ".fractal" / "fractal.yaml").write_text("store: files\n")
    (fractal.folder / ".fractal" / "state").mkdir()
    assert fractal("brain", "import", "in.jsonl").exit == 0
    path = memory(fractal) / "brain" / "note" / "a.json"
    assert json.loads(path.read_text())["text"] == "x"
    path.write_text("{")
    ran = fractal("brain", "check", "--json")
    assert ran.exit == Exit.FAILED
    assert [each["where"] for each in json.loads(ran.out)["faults"]] == [str(path.resolve())]
    assert fractal("brain", "rebuild").exit == 0
    assert fractal("brain", "check").exit == 0


def test_doctor_tells_the_embedder_and_what_another_would_give(fractal: Command) -> None:
    checks = {each["name"]: each for each in json.loads(fractal("doctor", "--json").out)}
    assert checks["memory"]["found"] == "sqlite, nothing is remembered yet"
    assert checks["embedder"]["state"] in ("ok", "missing")
    assert "minilm" in checks["embedder"]["found"] and "lexical" in checks["embedder"]["found"]
